"""/_control: what a test or a person arranges beforehand and asks afterwards."""

from dataclasses import asdict, fields
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.twilio_emulator.callee import BY_DIGITS, NAMED, Callee, act, check
from tests.twilio_emulator.chaos import Chaos, Switch
from tests.twilio_emulator.model import Call
from tests.twilio_emulator.world import Plan, Settings, World

WAIT_MOST = 60.0


def routes(world: World) -> list[Route]:
    edges = Control(world)
    return [
        Route("/_control", edges.summary, methods=["GET"]),
        Route("/_control/settings", edges.change_settings, methods=["POST"]),
        Route("/_control/plans", edges.add_plan, methods=["POST"]),
        Route("/_control/plans", edges.list_plans, methods=["GET"]),
        Route("/_control/plans", edges.clear_plans, methods=["DELETE"]),
        Route("/_control/calls", edges.list_calls, methods=["GET"]),
        Route("/_control/calls/{sid}", edges.fetch_call, methods=["GET"]),
        Route("/_control/calls/{sid}", edges.act_now, methods=["POST"]),
        Route("/_control/events", edges.events, methods=["GET"]),
        Route("/_control/idle", edges.idle, methods=["GET"]),
        Route("/_control/reset", edges.reset, methods=["POST"]),
    ]


def wrong(why: str) -> Response:
    return JSONResponse({"error": why}, 400)


def _wait(request: Request) -> float:
    return min(float(request.query_params.get("wait", 0)), WAIT_MOST)


class Control:
    def __init__(self, world: World) -> None:
        self._world = world

    async def summary(self, request: Request) -> Response:  # noqa: ARG002
        """Counts of accepted calls a number, what was objected to, and the emulator's own faults (there are none)."""
        world = self._world
        of = world.journal.of
        return JSONResponse(
            {
                "dials": world.dials(),
                "live": sum(not call.settled for call in world.calls.values()),
                "violations": of("violation"),
                "alerts": of("alert"),
                "faults": of("fault"),
                "callees": sorted(NAMED),
                "by_digits": BY_DIGITS,
                "chaos": [switch.value for switch in Switch],
            }
        )

    async def change_settings(self, request: Request) -> Response:
        given = await request.json()
        known = {field.name for field in fields(Settings)}
        if not isinstance(given, dict) or given.keys() - known:
            return wrong(f"settings are {', '.join(sorted(known))}")
        for name, value in given.items():
            setattr(self._world.settings, name, value)
        self._world.pace.speed = self._world.settings.speed
        return JSONResponse(asdict(self._world.settings))

    async def add_plan(self, request: Request) -> Response:
        given: Any = await request.json()
        try:
            plan = Plan(
                to=given.pop("to", None),
                callee=Callee.parse(given.pop("callee")) if "callee" in given else None,
                chaos=[Chaos.parse(one) for one in given.pop("chaos", [])],
                calls=given.pop("calls", 1),
            )
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            return wrong(str(error))
        if given:
            return wrong(f"a plan has no {', '.join(given)}")
        self._world.plans.append(plan)
        return JSONResponse(asdict(plan), 201)

    async def list_plans(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse([asdict(plan) for plan in self._world.plans])

    async def clear_plans(self, request: Request) -> Response:  # noqa: ARG002
        self._world.plans.clear()
        return Response(status_code=204)

    async def list_calls(self, request: Request) -> Response:
        """All, or those to a number (`to`). Waits up to `wait` real seconds for the first one."""
        to = request.query_params.get("to", "")

        def found() -> list[Call]:
            return [call for call in self._world.calls.values() if to in ("", call.order.to)]

        await self._world.journal.until(lambda: bool(found()), _wait(request))
        return JSONResponse([_shown(call) for call in found()])

    async def fetch_call(self, request: Request) -> Response:
        """Waits up to `wait` real seconds until it is over and everybody was told (or for `until` = a status)."""
        call = self._world.calls.get(request.path_params["sid"])
        if call is None:
            return JSONResponse({"error": "no such call"}, 404)
        until = request.query_params.get("until", "")
        if wait := _wait(request):
            await self._world.journal.until(lambda: call.settled or call.status.value == until, wait)
        return JSONResponse(_shown(call))

    async def act_now(self, request: Request) -> Response:
        """The callee does these `steps` now, beside whatever its script does. Answers when they are done."""
        call = self._world.calls.get(request.path_params["sid"])
        if call is None:
            return JSONResponse({"error": "no such call"}, 404)
        steps = (await request.json()).get("steps", [])
        try:
            for step in steps:
                check(step)
        except ValueError as error:
            return wrong(str(error))
        await act(steps, call, self._world.pace)
        return JSONResponse(_shown(call))

    async def events(self, request: Request) -> Response:
        """The journal, by `kind`, by `call`, `after` an entry's number; waits up to `wait` for at least one."""
        query = request.query_params
        wanted = (query.get("kind", ""), query.get("call", ""), int(query.get("after", 0)))
        await self._world.journal.until(lambda: bool(self._world.journal.of(*wanted)), _wait(request))
        return JSONResponse(self._world.journal.of(*wanted))

    async def idle(self, request: Request) -> Response:
        """Waits up to `wait` real seconds until no call is live and every callback was delivered or given up."""
        idle = await self._world.journal.until(lambda: not self._world.busy(), _wait(request))
        return JSONResponse({"idle": idle})

    async def reset(self, request: Request) -> Response:  # noqa: ARG002
        self._world.reset()
        return Response(status_code=204)


def _shown(call: Call) -> dict[str, Any]:
    """The resource, and what only the callee knows."""
    return call.resource() | {
        "transcript": call.line.transcript(),
        "settled": call.settled,
        "ended_by": call.ended_by,
        "relays": call.relays,
        "recordings": [recording.sid for recording in call.recordings],
    }
