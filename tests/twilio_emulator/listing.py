"""GET Calls.json: filters, dates and pages."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from tests.twilio_emulator.model import Call
from tests.twilio_emulator.refusals import Refused
from tests.twilio_emulator.world import World

PAGE_SIZE = 50
PAGE_SIZE_MOST = 1000
FILTERS = {"To", "From", "ParentCallSid", "Status", "PageSize", "Page", "PageToken"}
DATES = {f"{name}{operator}" for name in ("StartTime", "EndTime") for operator in ("", "<", ">")}


def calls_page(world: World, request: Request) -> dict[str, Any]:
    """Newest first. Raises Refused."""
    given = dict(request.query_params)
    for name in given.keys() - FILTERS - DATES:
        world.journal.violation(f"{name} is no filter of the list of calls: Twilio ignores it")
    found = [call for call in reversed(world.calls.values()) if _matches(call, given)]
    try:
        size, page = int(given.get("PageSize", PAGE_SIZE)), int(given.get("Page", 0))
    except ValueError:
        raise Refused(20001, "PageSize or Page") from None
    size = min(max(size, 1), PAGE_SIZE_MOST)
    start = page * size
    shown = found[start : start + size]
    filters = {name: value for name, value in given.items() if name not in ("Page", "PageSize", "PageToken")}

    def at(number: int, token: str = "") -> str:
        query = filters | {"PageSize": str(size), "Page": str(number)} | ({"PageToken": token} if token else {})
        return f"{request.url.path}?{urlencode(query)}"

    more = len(found) > start + size
    return {
        "calls": [call.resource() for call in shown],
        "page": page,
        "page_size": size,
        "start": start,
        "end": start + len(shown) - 1 if shown else start,
        "uri": at(page),
        "first_page_uri": at(0),
        "next_page_uri": at(page + 1, "PA" + shown[-1].sid) if more else None,
        "previous_page_uri": at(page - 1) if page else None,
    }


def _matches(call: Call, given: dict[str, str]) -> bool:
    order = call.order
    exact = {"To": order.to, "From": order.from_, "Status": call.status.value, "ParentCallSid": ""}
    if any(name in given and given[name] != value for name, value in exact.items()):
        return False
    # A queued call has no start time; Twilio finds it by the day it was made.
    moments = {"StartTime": call.started or call.created, "EndTime": call.ended}
    return all(_in_time(moments[name.rstrip("<>")], name, given[name]) for name in DATES & given.keys())


def _in_time(moment: datetime | None, name: str, value: str) -> bool:
    try:
        day = date.fromisoformat(value[:10])
    except ValueError:
        raise Refused(20001, f"{name}={value}") from None
    if moment is None:
        return False
    midnight = datetime.combine(day, time(), UTC)
    if name.endswith(">"):
        return moment >= midnight
    if name.endswith("<"):
        return moment < midnight + timedelta(days=1)
    return midnight <= moment < midnight + timedelta(days=1)
