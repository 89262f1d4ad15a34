"""What is seen of an endpoint before anybody talks: against the model server, and against what is none."""

import json
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callmcp.llm.endpoint import Readiness, look
from tests.acceptance.model import ModelProcess, model_server
from tests.telephony.twilio.serving import served

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server() -> Iterator[ModelProcess]:
    with model_server("--key", "secret") as server:
        yield server


async def test_an_endpoint_that_has_the_model_is_ready(server: ModelProcess) -> None:
    looked = await look(server.named("instant"), api_key="secret")

    assert looked.readiness is Readiness.READY
    assert server.requests() == []  # no word was asked for


async def test_an_endpoint_without_the_model_says_what_it_has(server: ModelProcess) -> None:
    looked = await look(server.named("gpt-9"), api_key="secret")

    assert looked.readiness is Readiness.UNTOLD
    assert "instant, " in looked.seen


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_a_key_that_is_not_taken_is_told_and_not_shown(server: ModelProcess, key: str | None) -> None:
    looked = await look(server.named("instant"), api_key=key)

    assert looked.readiness is Readiness.NOT_READY
    assert "401" in looked.seen
    assert "wrong" not in looked.seen


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/v1#x", "http://nowhere.invalid/v1#x"])
async def test_where_nothing_answers_that_is_told(reference: str) -> None:
    looked = await look(reference, api_key=None)

    assert looked.readiness is Readiness.NOT_READY
    assert "nothing answers" in looked.seen


@pytest.mark.parametrize(
    ("status", "body", "readiness"),
    [
        (200, json.dumps({"data": [{"id": "llama3.2:latest"}]}), Readiness.READY),
        (200, json.dumps({"data": [{"id": "other"}]}), Readiness.UNTOLD),
        (200, json.dumps({"data": []}), Readiness.UNTOLD),
        (200, json.dumps({"data": [7]}), Readiness.UNTOLD),
        (200, json.dumps([]), Readiness.UNTOLD),
        (200, "<html>", Readiness.UNTOLD),
        (404, json.dumps({"detail": "Not Found"}), Readiness.UNTOLD),
        (500, json.dumps({"data": [{"id": "llama3.2"}]}), Readiness.UNTOLD),
        (403, "", Readiness.NOT_READY),
    ],
)
async def test_whatever_a_server_answers_is_a_finding(status: int, body: str, readiness: Readiness) -> None:
    async def models(_: Request) -> Response:
        return Response(body, status)

    async with served(lambda _: Starlette(routes=[Route("/v1/models", models)])) as base:
        assert (await look(f"{base}/v1#llama3.2", api_key=None)).readiness is readiness
