"""Streamable HTTP as it is on the wire: methods, statuses, headers, eras."""

import base64
import json
from typing import Any

import pytest

from tests.mcp.rpc import ALL, HANDSHAKE, STATELESS, Rpc, World, meta

pytestmark = pytest.mark.anyio

each_revision = pytest.mark.parametrize("revision", ALL)
each_handshake = pytest.mark.parametrize("revision", HANDSHAKE)


def message(method: str, params: Any = None, id_: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": {} if params is None else params}


async def post(world: World, body: Any, **headers: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.http.post("/mcp", content=content, headers=names)


@each_revision
async def test_the_catalog_is_public_in_every_revision(world: World, revision: str) -> None:
    result = await Rpc(world.http, revision=revision).result("tools/list")
    assert result["tools"][0]["name"] == "list_agents"


@each_revision
async def test_discovery_never_fails_because_of_a_bad_credential(world: World, revision: str) -> None:
    for key in ("cmcp_wrong", "x y", ""):
        assert (await Rpc(world.http, key, revision).result("tools/list"))["tools"]
    response = await world.nobody.send("tools/list", authorization="Basic abc")
    assert response.status_code == 200


@each_handshake
async def test_initialize_agrees_on_the_revision_asked_for(world: World, revision: str) -> None:
    result = await world.nobody.result("initialize", {"protocolVersion": revision, "capabilities": {}})
    assert result["protocolVersion"] == revision


@pytest.mark.parametrize("asked", ["2099-01-01", "2026-07-28", "", 5, None])
async def test_initialize_that_asks_for_anything_else_gets_the_newest_handshake(world: World, asked: object) -> None:
    result = await world.nobody.result("initialize", {"protocolVersion": asked})
    assert result["protocolVersion"] == "2025-11-25"


async def test_without_a_version_header_the_request_is_served(world: World) -> None:
    response = await post(world, message("tools/list"))
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_both_spellings_of_the_path_are_served_without_a_redirect(world: World, path: str) -> None:
    response = await world.http.post(path, json=message("ping"))
    assert (response.status_code, response.json()["result"]) == (200, {})
    response = await world.http.post(path, json=message("tools/call", {"name": "list_agents"}))
    assert response.status_code == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH"])
async def test_other_methods_are_answered_405_at_once_and_without_a_challenge(world: World, method: str) -> None:
    response = await world.http.request(method, "/mcp", headers={"accept": "text/event-stream"})
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]
    assert "www-authenticate" not in response.headers


async def test_no_session_is_issued_and_one_that_is_sent_is_ignored(world: World) -> None:
    response = await world.nobody.send("initialize", {}, **{"mcp-session-id": "dead"})
    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/event-stream", "text/html", ""])
async def test_accept_is_a_hint(world: World, accept: str) -> None:
    response = await world.nobody.send("tools/list", accept=accept)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("content_type", ["application/json; charset=UTF-8", "APPLICATION/JSON", "text/plain", ""])
async def test_content_type_is_a_hint(world: World, content_type: str) -> None:
    response = await world.http.post("/mcp", json=message("tools/list"), headers={"content-type": content_type})
    assert response.status_code == 200


@each_handshake
async def test_empty_lists_and_set_level_are_answered_whatever_was_declared(world: World, revision: str) -> None:
    rpc = Rpc(world.http, revision=revision)
    assert await rpc.result("resources/list") == {"resources": []}
    assert await rpc.result("resources/templates/list") == {"resourceTemplates": []}
    assert await rpc.result("prompts/list") == {"prompts": []}
    assert await rpc.result("logging/setLevel", {"level": "info"}) == {}
    assert await rpc.result("ping") == {}


@each_revision
@pytest.mark.parametrize("cursor", ["x", "", 5, [], {"a": 1}])
async def test_a_bad_cursor_is_invalid_params(world: World, revision: str, cursor: object) -> None:
    rpc = Rpc(world.http, revision=revision)
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert (await rpc.send(method, {"cursor": cursor})).json()["error"]["code"] == -32602


@each_revision
@pytest.mark.parametrize("method", ["no/such", "completion/complete", "subscriptions/listen", "tasks/get", ""])
async def test_an_unknown_method_is_200_with_a_handshake_and_404_without(
    world: World, revision: str, method: str
) -> None:
    response = await Rpc(world.http, revision=revision).send(method)
    assert response.status_code == (404 if revision == STATELESS else 200)
    assert response.json()["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
async def test_what_the_stateless_revision_removed_is_not_found_there(world: World, method: str) -> None:
    response = await Rpc(world.http, revision=STATELESS).send(method)
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


@each_handshake
async def test_discover_is_of_the_stateless_era_alone(world: World, revision: str) -> None:
    response = await Rpc(world.http, revision=revision).send("server/discover")
    assert (response.status_code, response.json()["error"]["code"]) == (200, -32601)


@each_revision
async def test_an_unknown_resource_has_the_code_of_its_revision(world: World, revision: str) -> None:
    error = (
        await Rpc(world.http, revision=revision).send("resources/read", {"uri": "a://b"}, **{"mcp-name": "a://b"})
    ).json()["error"]
    assert error["code"] == (-32602 if revision == STATELESS else -32002)
    assert error["data"] == {"uri": "a://b"}


async def test_a_stateless_result_says_its_type_its_server_and_how_long_it_may_be_cached(world: World) -> None:
    rpc = Rpc(world.http, world.alice.key, STATELESS)
    listed = await rpc.result("tools/list")
    assert listed["resultType"] == "complete"
    assert listed["ttlMs"] >= 0
    assert listed["cacheScope"] == "public"
    called = await rpc.call("list_agents")
    assert called["resultType"] == "complete"
    assert called["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "callmcp"


def stateless(**changes: str | None) -> dict[str, str]:
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list", **changes}
    return {name: value for name, value in headers.items() if value is not None}


@pytest.mark.parametrize(
    ("headers", "params", "status", "code"),
    [
        (stateless(), {"_meta": meta()}, 200, None),
        (stateless(**{"mcp-protocol-version": f" {STATELESS} "}), {"_meta": meta()}, 200, None),
        (stateless(), {}, 400, -32602),
        (stateless(), {"_meta": None}, 400, -32602),
        (stateless(), {"_meta": {**meta(), "io.modelcontextprotocol/clientCapabilities": None}}, 400, -32602),
        (stateless(), {"_meta": {**meta(), "io.modelcontextprotocol/protocolVersion": 5}}, 400, -32602),
        (stateless(**{"mcp-protocol-version": None}), {"_meta": meta()}, 400, -32020),
        (stateless(**{"mcp-protocol-version": "2025-11-25"}), {"_meta": meta()}, 400, -32020),
        (stateless(**{"mcp-method": None}), {"_meta": meta()}, 400, -32020),
        (stateless(**{"mcp-method": "tools/call"}), {"_meta": meta()}, 400, -32020),
        (stateless(), {"_meta": meta("v999.0.0")}, 400, -32020),
        (stateless(**{"mcp-protocol-version": "v999.0.0"}), {"_meta": meta("v999.0.0")}, 400, -32022),
        ({"mcp-protocol-version": "1900-01-01"}, {}, 400, -32022),
        ({"mcp-protocol-version": "banana"}, {}, 400, -32022),
    ],
)
async def test_a_request_that_contradicts_itself_or_its_headers_is_refused(
    world: World, headers: dict[str, str], params: dict[str, Any], status: int, code: int | None
) -> None:
    response = await world.http.post("/mcp", json=message("tools/list", params, 77), headers=headers)
    assert response.status_code == status
    assert response.json()["id"] == 77
    assert response.json().get("error", {}).get("code") == code


async def test_an_unsupported_version_is_told_which_are_supported(world: World) -> None:
    headers = stateless(**{"mcp-protocol-version": "v999.0.0"})
    response = await world.http.post("/mcp", json=message("tools/list", {"_meta": meta("v999.0.0")}), headers=headers)
    assert response.json()["error"]["data"] == {"supported": [STATELESS], "requested": "v999.0.0"}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("list_agents", 200),
        (" list_agents ", 200),
        (f"=?base64?{base64.b64encode(b'list_agents').decode()}?=", 200),
        ("get_call", 400),
        ("LIST_AGENTS", 400),
        ("=?base64?!!!?=", 400),
        ("=?base64?/w==?=", 400),
        (None, 400),
    ],
)
async def test_the_name_header_must_mirror_the_tool(world: World, name: str | None, status: int) -> None:
    headers = {
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "authorization": f"Bearer {world.alice.key}",
    }
    if name is not None:
        headers["mcp-name"] = name
    body = message("tools/call", {"name": "list_agents", "_meta": meta()})
    response = await world.http.post("/mcp", json=body, headers=headers)
    assert response.status_code == status
    if status == 400:
        assert response.json()["error"]["code"] == -32020


async def test_a_routing_header_that_is_there_twice_is_refused(world: World) -> None:
    headers = [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/list"), ("mcp-method", "tools/list")]
    response = await world.http.post("/mcp", json=message("tools/list", {"_meta": meta()}), headers=headers)
    assert response.json()["error"]["code"] == -32020


@each_revision
async def test_notifications_and_responses_are_accepted_with_an_empty_202(world: World, revision: str) -> None:
    for body in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        response = await post(world, body, mcp_protocol_version=revision)
        assert (response.status_code, response.content) == (202, b"")


async def test_a_call_without_an_id_is_never_placed(world: World) -> None:
    params = {"name": "make_call", "arguments": {"agent_id": world.agent_id, "to": "+15551234567"}}
    body = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
    assert (await post(world, body, authorization=f"Bearer {world.alice.key}")).status_code == 202
    assert (await world.alice.record("list_calls"))["calls"] == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", None])
async def test_the_oldest_revisions_take_batches_of_discovery(world: World, revision: str | None) -> None:
    headers = {} if revision is None else {"mcp_protocol_version": revision}
    batch = [message("tools/list"), {"jsonrpc": "2.0", "method": "notifications/initialized"}, message("ping", id_="b")]
    response = await post(world, batch, **headers)
    assert [answer["id"] for answer in response.json()] == [1, "b"]
    only_notifications = await post(world, [{"jsonrpc": "2.0", "method": "notifications/initialized"}], **headers)
    assert (only_notifications.status_code, only_notifications.content) == (202, b"")


async def test_a_tool_call_inside_a_batch_is_refused_and_the_rest_answered(world: World) -> None:
    params = {"name": "make_call", "arguments": {"agent_id": world.agent_id, "to": "+15551234567"}}
    batch = [message("tools/call", params, 1), message("ping", id_=2), 5]
    response = await post(world, batch, authorization=f"Bearer {world.alice.key}")
    refused, pong, junk = response.json()
    assert (refused["id"], refused["error"]["code"]) == (1, -32600)
    assert pong["result"] == {}
    assert junk["error"]["code"] == -32600
    assert (await world.alice.record("list_calls"))["calls"] == []


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", STATELESS])
async def test_later_revisions_refuse_batches(world: World, revision: str) -> None:
    response = await post(world, [message("ping")], mcp_protocol_version=revision)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("size", [0, 21])
async def test_a_batch_has_one_to_twenty_messages(world: World, size: int) -> None:
    response = await post(world, [message("ping")] * size)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"not json", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b"[" * 100_000, -32700),
        (b'"text"', -32600),
        (b"null", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    ],
)
async def test_a_body_that_is_no_message_is_400_with_a_jsonrpc_error(world: World, body: bytes, code: int) -> None:
    response = await post(world, body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code
    assert response.json()["id"] is None


async def test_a_body_over_the_limit_is_413_by_its_declared_or_its_real_size(world: World) -> None:
    limit = 1024 * 1024

    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * (limit // 16)

    for content in (b" " * (limit + 1), chunks()):
        response = await world.http.post("/mcp", content=content)
        assert response.status_code == 413
        assert str(limit) in response.json()["error"]["message"]


async def test_a_body_at_the_limit_is_read(world: World) -> None:
    body = json.dumps(message("ping")).encode()
    response = await post(world, body + b" " * (1024 * 1024 - len(body)))
    assert response.status_code == 200


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://", "file://"])
async def test_pages_of_unlisted_origins_are_refused_preflight_and_post_alike(world: World, origin: str) -> None:
    assert (await post(world, message("ping"), origin=origin)).status_code == 403
    assert (await world.http.options("/mcp", headers={"origin": origin})).status_code == 403


@pytest.mark.parametrize("origin", ["https://app.example.com", "http://localhost:6274"])
async def test_pages_of_allowed_origins_can_read_every_answer(world: World, origin: str) -> None:
    preflight = await world.http.options("/mcp", headers={"origin": origin, "access-control-request-method": "POST"})
    assert preflight.status_code == 204
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "mcp-protocol-version", "mcp-method", "mcp-name"))
    ok = await post(world, message("ping"), origin=origin)
    denied = await post(world, message("tools/call", {"name": "list_agents"}), origin=origin)
    wrong = await post(world, b"{", origin=origin)
    assert (ok.status_code, denied.status_code, wrong.status_code) == (200, 401, 400)
    for response in (preflight, ok, denied, wrong):
        assert response.headers["access-control-allow-origin"] == origin
        assert "WWW-Authenticate" in response.headers["access-control-expose-headers"]


async def test_a_host_that_is_not_ours_is_refused_on_loopback(world: World) -> None:
    assert (await post(world, message("ping"), host="evil.example")).status_code == 403
    assert (await post(world, message("ping"), host="localhost:1234")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/mcp.json",
        "/register",
        "/favicon.ico",
        "/sse",
    ],
)
async def test_paths_that_clients_probe_are_json_404s_without_a_challenge(world: World, path: str) -> None:
    response = await world.http.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"
    assert "www-authenticate" not in response.headers


async def test_health_and_readiness_are_told(world: World) -> None:
    assert (await world.http.get("/healthz")).json() == {"status": "alive"}
    assert (await world.http.get("/readyz")).json() == {"status": "ready"}
    assert (await world.http.get("/")).json()["mcp"].endswith("/mcp")
