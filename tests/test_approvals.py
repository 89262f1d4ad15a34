"""The page behind a link that is good for one call."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from callmcp.approvals import HEADERS, MAX_FORM_BYTES, ApprovalPage
from callmcp.calls.approval import ApprovalState
from callmcp.calls.decisions import link_token
from callmcp.calls.model import Call, EndReason
from callmcp.calls.policy.limits import Level, Limits
from callmcp.wire import APPROVAL_PATH
from tests import world as worlds
from tests.world import World

pytestmark = pytest.mark.anyio
HOSTILE = '<script>alert(1)</script> & "so on"'


@dataclass(frozen=True, kw_only=True)
class Page:
    world: World
    call: Call
    http: httpx.AsyncClient

    @property
    def url(self) -> str:
        return APPROVAL_PATH.format(call_id=self.call.id)

    async def look(self, token: str | None = None) -> httpx.Response:
        return await self.http.get(self.url, params={"token": link_token(self.call) if token is None else token})

    async def post(self, body: bytes, token: str | None = None) -> httpx.Response:
        params = {"token": link_token(self.call) if token is None else token}
        return await self.http.post(self.url, params=params, content=body)

    async def now(self) -> Call:
        return (await self.world.record(self.call))[0]


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    world = await worlds.build()
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, Limits(approval=True))
    call = await world.place("+14155550100", context=HOSTILE)
    app = Starlette(routes=[Route(APPROVAL_PATH, ApprovalPage(world.decisions).answer, methods=["GET", "POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://inside", trust_env=False) as http:
        yield Page(world=world, call=call, http=http)
    await world.simulator.close()


async def test_looking_shows_the_call_and_decides_nothing(page: Page) -> None:
    await page.look()
    seen = await page.look()

    assert seen.status_code == 200
    assert "+14155550100" in seen.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;so on&quot;" in seen.text
    assert "<script" not in seen.text
    assert seen.text.count("<button") == 2
    assert (await page.now()).waits


async def test_every_answer_of_the_page_is_kept_out_of_frames_caches_and_referrers(page: Page) -> None:
    answers = [await page.look(), await page.look("wrong"), await page.post(b""), await page.post(b"decision=decline")]

    assert [answer.status_code for answer in answers] == [200, 404, 400, 200]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(("word", "state"), [("approve", ApprovalState.APPROVED), ("decline", ApprovalState.DECLINED)])
async def test_a_decision_is_made_once(page: Page, word: str, state: ApprovalState) -> None:
    first = await page.post(f"decision={word}".encode())
    assert (first.status_code, state.value in first.text) == (200, True)
    decided = await page.now()
    assert decided.approval is not None
    assert (decided.approval.state, decided.approval.decided_by) == (state, "link")

    again = [await page.post(b"decision=decline"), await page.post(b"decision=approve"), await page.look()]

    assert all(state.value in answer.text and "<button" not in answer.text for answer in again)
    assert (await page.now()) == decided


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"decision=maybe",
        b"decision=approve&decision=decline",
        b"decision=approve" * MAX_FORM_BYTES,
        b'{"decision": "approve"}',
        b"\xff\x00",
    ],
)
async def test_what_is_no_decision_changes_nothing(page: Page, body: bytes) -> None:
    assert (await page.post(body)).status_code == 400
    assert (await page.now()).waits


@pytest.mark.parametrize("token", ["", "x", "\u2603", "A" * 5000])
async def test_without_the_link_nobody_learns_that_there_is_a_call(page: Page, token: str) -> None:
    nobody = await page.http.get(APPROVAL_PATH.format(call_id="call_none"), params={"token": token})

    for answer in (await page.look(token), await page.post(b"decision=approve", token)):
        assert (answer.status_code, answer.text) == (404, nobody.text)
    assert (await page.now()).waits


async def test_when_the_time_is_up_the_page_says_so(page: Page) -> None:
    await page.world.clock.advance(3600)
    late = await page.post(b"decision=approve")
    assert (late.status_code, "too late" in late.text) == (409, True)

    await page.world.calls.dial_approved()
    assert "expired" in (await page.look()).text
    assert (await page.now()).end_reason is EndReason.EXPIRED
