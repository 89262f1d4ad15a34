"""The page behind a link that is good for one call: who would be called, by whom and why, and a yes or a no.

Looking decides nothing: programs that preview links look at them too. The page is one form without scripts, may not be
framed, and tells no other site where it was (the link is its key). Whoever has the link may decide; that the call is
decided makes the link useless.
"""

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from callmcp.calls.approval import ApprovalState
from callmcp.calls.cost import decimal
from callmcp.calls.decisions import Decisions
from callmcp.calls.model import Call
from callmcp.errors import Conflict, NotFound, Unavailable
from callmcp.wire import rfc3339

MAX_FORM_BYTES = 1000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#222}"
    "dt{color:#666;margin-top:.8rem}dd{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.6rem 1.4rem;margin:1.5rem .8rem 0 0;border-radius:.4rem;border:1px solid #888;"
    "background:#fff;cursor:pointer}.yes{background:#0a6b3b;border-color:#0a6b3b;color:#fff}"
)


class ApprovalPage:
    """GET shows the call, POST with `decision=approve` or `decline` decides; both need the link's `token`."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def answer(self, request: Request) -> Response:
        call_id, token = request.path_params["call_id"], request.query_params.get("token", "")
        try:
            if request.method != "POST":
                call = await self._decisions.by_link(call_id, token)
                return _page(200, _decided(call) or _question(call))
            decision = await _decision(request)
            if decision not in {"approve", "decline"}:
                return _page(400, "<p>Choose approve or decline. Go back and try again; nothing was changed.</p>")
            call = await self._decisions.decide_by_link(call_id, token, yes=decision == "approve")
            return _page(200, _decided(call) or "")
        except NotFound:
            return _gone()
        except Conflict:
            call = await self._decisions.by_link(call_id, token)
            return _page(409, _decided(call) or _late(call))
        except Unavailable:
            return _page(503, "<p>This cannot be decided just now; nothing was changed. Try again in a moment.</p>")


async def _decision(request: Request) -> str:
    """What the form says; empty for what is no such form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return ""
    return {b"decision=approve": "approve", b"decision=decline": "decline"}.get(body, "")


def _question(call: Call) -> str:
    rows = {
        "Call to": call.to,
        "From": call.from_number,
        "Voice agent": f"{call.agent_id}, version {call.agent_version}",
        "What for": call.context or "(nothing was said)",
        "Asked for with the key": call.key_id,
        "May last": f"{call.max_duration_seconds} seconds",
        "May cost": f"{decimal(call.cost.reserved)} {call.cost.currency}" if call.cost else "",
        "Can be approved until": rfc3339(call.approval.expires_at) if call.approval else "",
    }
    listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in rows.items() if value)
    return (
        f"<p>An AI agent wants to place this call. Nothing has been dialled.</p><dl>{listed}</dl>"
        '<form method="post"><button class="yes" name="decision" value="approve">Approve</button>'
        '<button name="decision" value="decline">Decline</button></form>'
    )


def _decided(call: Call) -> str | None:
    """None while nobody has."""
    if call.approval is None or call.approval.state is ApprovalState.REQUESTED:
        return None
    at = rfc3339(call.approval.decided_at) if call.approval.decided_at else ""
    after = " The call is dialled now." if call.approval.state is ApprovalState.APPROVED else " It is not dialled."
    return f"<p>The call to {escape(call.to)} was {call.approval.state.value} at {at}.{after}</p>"


def _late(call: Call) -> str:
    return f"<p>It is too late to decide about the call to {escape(call.to)}; it is not dialled.</p>"


def _gone() -> Response:
    return _page(404, "<p>This link is not good for any call. It may have been cut off: copy all of it.</p>")


def _page(status: int, body: str) -> Response:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Approve a call</title><style>{_STYLE}</style><body><h1>Approve a call</h1>{body}</body></html>"
    )
    return HTMLResponse(page, status, HEADERS)
