"""The Model Context Protocol through the SDK's own client: over HTTP behind tokens and a policy, and over stdio."""

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import omnigraphdb
from omnigraphdb.surfaces.mcp.tools import BUILT_IN
from tests.support.lying_server import lying, spell
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving
from tests.surfaces.test_http_writes import locked

RULES = """
version: 1
groups: { all: [may], readers: [reads], drafters: [drafts], owners: [may] }
protected_branches: [main]
rules:
  - id: all
    allow: { actors: { group: all }, actions: [read, change, branch_create, branch_delete, branch_merge, invoke_query] }
  - id: reads
    allow: { actors: { group: readers }, actions: [read] }
  - id: drafts
    allow: { actors: { group: drafters }, actions: [read, change], branch_scope: any }
  - id: drafts-make
    allow: { actors: { group: drafters }, actions: [branch_create] }
  - id: drafts-call
    allow: { actors: { group: drafters }, actions: [invoke_query], queries: [names] }
"""
ACTORS = ("may", "reads", "drafts", "stranger")
STORED = f"""{NAMES}
query older($least: I32, $limit: I32?) @description("People of an age.") {{
  match {{ $p: Person  $p.age >= $least }} return {{ $p.name as name }}
}}
query grow($n: String) {{ insert Person {{ name: $n }} }}
"""
OF_SESSION = {"branches_create", "branches_delete", "branches_merge", "tags_create", "tags_delete"}
WRITERS = {"mutate", "load", *OF_SESSION}
MAKERS = {"branches_create", "tags_create"}
"""Writers that destroy nothing."""
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MAY = JSON | {"authorization": "Bearer t-may"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp")
    make_graph(made / "g")
    (made / "queries").mkdir()
    (made / "queries" / "stored.gq").write_text(STORED)
    (made / "policy.yaml").write_text(RULES)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    tokens = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({one: f"t-{one}" for one in ACTORS})
    }
    words = ("--policy", str(folder / "policy.yaml"), "--queries", str(folder / "queries"))
    bounds = ("--max-load-bytes", "200000")
    with serving(
        str(folder / "g"), *words, *bounds, log=folder / "log", environment=tokens
    ) as found:
        yield found


@asynccontextmanager
async def connect(server: ServerProcess, actor: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer t-{actor}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def speak(
    server: ServerProcess,
    actor: str,
    talk: Callable[[Client], Awaitable[Any]],
    mode: str = "auto",
) -> Any:
    async def main() -> Any:
        async with connect(server, actor, mode) as client:
            return await talk(client)

    return anyio.run(main)


# ---- over HTTP


def test_an_actor_sees_the_tools_that_it_may_use(server: ServerProcess) -> None:
    def names(actor: str, mode: str = "auto") -> set[str]:
        async def talk(client: Client) -> set[str]:
            found = (await client.list_tools()).tools
            for one in found:
                assert one.annotations is not None
                is_writer = one.name in WRITERS | {"grow"}
                assert one.annotations.read_only_hint is not is_writer
                assert one.annotations.destructive_hint is (is_writer and one.name not in MAKERS)
            return {one.name for one in found}

        found: set[str] = speak(server, actor, talk, mode)
        return found

    every = {one.name for one in BUILT_IN} - {"graphs_list"}
    assert names("may") == names("may", "legacy") == every | {"names", "older", "grow"}
    assert names("reads") == every - WRITERS
    assert names("drafts") == every - {"branches_delete", "branches_merge"} | {"names"}
    assert names("stranger") == {"health"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_answers_as_the_route_does(server: ServerProcess, mode: str) -> None:
    async def talk(client: Client) -> None:
        found = await client.call_tool("query", {"query": NAMES})
        assert not found.is_error
        with server.client("t-may") as http:
            route = http.post("/query", json={"query": NAMES}).json()
        body = dict(found.structured_content)
        page = body.pop("page")
        assert body == route
        assert page == {"first": 0, "rows": len(route["rows"]), "total": len(route["rows"])}
        first, notice = found.content
        assert json.loads(first.text) == found.structured_content  # type: ignore[union-attr]
        assert "do not follow" in notice.text  # type: ignore[union-attr]
        stored = await client.call_tool("older", {"least": 30})
        assert stored.structured_content["rows"] == [{"name": "Ada"}]
        schema = await client.read_resource("omnigraph://schema")
        assert "node Person" in schema.contents[0].text  # type: ignore[union-attr]
        names = [str(one.uri) for one in (await client.list_resources()).resources]
        assert names == ["omnigraph://schema", "omnigraph://branches", "omnigraph://examples"]

    speak(server, "may", talk, mode)


def test_the_commit_of_a_tool_names_actor_and_session(server: ServerProcess) -> None:
    async def talk(client: Client) -> Any:
        given = {"query": ADD, "params": {"n": "By agent"}, "message": "a new person"}
        return (await client.call_tool("mutate", given)).structured_content

    done = speak(server, "may", talk)
    assert done["actor_id"] == "may"
    assert done["commit"]["message"].startswith("agent session ")
    assert done["commit"]["message"].endswith(": a new person")


def test_what_may_not_be_used_is_not_there(server: ServerProcess) -> None:
    async def talk(client: Client) -> list[tuple[int, str]]:
        said = []
        for name in ("grow", "branches_merge", "nothing"):
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, {"n": "X"})
            said.append((caught.value.code, caught.value.message.replace(name, "?")))
        for uri in ("omnigraph://nothing", "omnigraph://../g/_schema.pg", "file:///etc/passwd"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32602
        return said

    said = speak(server, "reads", talk)
    assert said == [(-32602, "Unknown tool: ?")] * 3


def test_what_is_no_protocol_is_refused_by_its_codes(server: ServerProcess) -> None:
    with httpx.Client(base_url=server.url, headers=MAY, timeout=60) as http:

        def post(content: bytes | str, **headers: str) -> httpx.Response:
            return http.post("/mcp", content=content, headers=headers)

        call: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
        assert post(json.dumps(call)).json()["result"]["tools"]
        broken = post("{")
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)
        unknown = post(json.dumps(call | {"method": "tools/destroy"}))
        assert unknown.json()["error"]["code"] == -32601
        for wrong in ("[]", "1", '{"jsonrpc": "1.0", "id": 1, "method": "ping"}', '{"id": 1}'):
            assert post(wrong).status_code == 400, wrong
        version = post(json.dumps(call), **{"mcp-protocol-version": "1999-01-01"})
        assert version.status_code == 400
        params = {"name": "query", "arguments": "no object"}
        assert "error" in post(json.dumps(call | {"method": "tools/call", "params": params})).json()
        huge = {"name": "query", "arguments": {"query": "x" * 300_000}}
        too_much = post(json.dumps(call | {"method": "tools/call", "params": huge}))
        assert too_much.status_code == 413
        ping = post(json.dumps(call | {"method": "ping"}))
        assert ping.json()["result"] == {} or "result" in ping.json()
        told = post('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        assert (told.status_code, told.content) == (202, b"")
        for method in ("GET", "DELETE", "PUT"):
            refused = http.request(method, "/mcp")
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert http.post("/graphs/default/mcp", json=call).json()["result"]["tools"]
        assert http.post("/graphs/other/mcp", json=call).status_code == 404


def test_the_gates_come_before_the_protocol(server: ServerProcess) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with httpx.Client(base_url=server.url, headers=JSON) as nobody:
        assert nobody.post("/mcp", json=call).status_code == 401
        assert nobody.get("/mcp").status_code in (401, 405)
    with httpx.Client(base_url=server.url, headers=MAY, timeout=60) as http:
        for headers in (
            {"host": "evil.example"},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://localhost:3000"},
            {"origin": server.url, "sec-fetch-site": "same-site"},
        ):
            refused = http.post("/mcp", json=call, headers=headers)
            assert refused.status_code == 403, headers
            assert refused.json()["request_id"]
        own = {"origin": server.url}
        assert http.post("/mcp", json=call, headers=own).is_success


# ---- over stdio


def stdio(*words: str, **environment: str) -> StdioServerParameters:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OMNIGRAPH_")}
    arguments = ["-m", "omnigraphdb", "mcp", *words]
    return StdioServerParameters(command=sys.executable, args=arguments, env=kept | environment)


def test_an_agent_writes_to_its_branch_and_a_person_merges_it(folder: Path) -> None:
    place = make_graph(folder / "own")
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def main() -> Any:
        words = (str(place), "--branch-per-session", "--as", "ada bot", "--session", "s1")
        async with Client(stdio(*words)) as client:
            tools = {one.name for one in (await client.list_tools()).tools}
            assert "propose" in tools
            assert not tools & OF_SESSION
            assert "tags_list" in tools
            early = await client.call_tool("propose", {})
            assert early.is_error
            given = {"query": ADD, "params": {"n": "Eve"}}
            elsewhere = await client.call_tool("mutate", given | {"branch": "main"})
            assert elsewhere.is_error
            assert "leave branch out" in elsewhere.structured_content["hint"]
            done = await client.call_tool("mutate", given, progress_callback=note)
            assert done.structured_content["branch"] == "agent/ada.20bot/s1"
            seen = await client.call_tool("query", {"query": NAMES})
            assert {"p.name": "Eve"} in seen.structured_content["rows"]
            await cancel_a_write(client, place)
            return (await client.call_tool("propose", {})).structured_content

    proposed = anyio.run(main)
    assert told
    assert [one["id"] for one in proposed["diff"]["changes"]][:2] == ["Eve", "Late"]
    assert proposed["merge"]["outcome"] in ("fast_forward", "merged")
    assert not proposed["merge"]["conflicts"]
    with omnigraphdb.open(place) as graph:
        assert "Eve" not in str(graph.query(NAMES).rows)
        graph.merge(proposed["branch"], actor="a person")
        head = graph.commits(branch=proposed["branch"])[0]
        assert (head.actor, head.message) == ("ada bot", "agent session s1: mutate")
        assert {"p.name": "Eve"} in graph.query(NAMES).rows


async def cancel_a_write(client: Client, place: Path) -> None:
    """A call that is cancelled leaves the session usable, and a write that was begun is done whole."""
    with locked(place, "agent/ada.20bot/s1"):
        with anyio.move_on_after(1) as scope:
            await client.call_tool("mutate", {"query": ADD, "params": {"n": "Late"}})
        assert scope.cancelled_caught
        assert not (await client.call_tool("schema_get", {})).is_error
    for _ in range(200):
        found = await client.call_tool("query", {"query": NAMES})
        if {"p.name": "Late"} in found.structured_content["rows"]:
            return
        await anyio.sleep(0.1)
    raise AssertionError("a write that was begun did not end")


def test_a_server_that_answers_pages_is_an_error_of_each_call_over_stdio() -> None:
    """The session lives on, the address and the beginning of the page are told, and a write may have been done."""
    page = spell(b"<html>\x1b[31mSign in</html>", media="text/html")

    async def main(url: str) -> None:
        async with Client(stdio("--server", url)) as client:
            calls = {"query": (NAMES, "nothing was changed"), "mutate": (ADD, "is unknown")}
            for tool, (query, effects) in calls.items():
                answer = await client.call_tool(tool, {"query": query})
                assert answer.is_error
                text = answer.structured_content["error"]
                assert f"'{url}' got the answer 200 with 'text/html'" in text
                assert "\\u001b[31mSign in" in text
                assert "\x1b" not in str(answer.content)
                assert answer.structured_content["hint"]
                assert text.endswith(effects)

    with lying(lambda _: page) as liar:
        anyio.run(main, liar.url)


async def tag_and_branch(client: Client, head: str) -> None:
    """Call tools of verbs that a server answers; their answers are those of its routes."""

    async def call(name: str, /, **arguments: Any) -> Any:
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, answer.structured_content
        return answer.structured_content

    assert (await call("tags_create", name="a/b", at=head))["graph_commit_id"] == head
    assert [one["name"] for one in (await call("tags_list"))["tags"]] == ["a/b"]
    assert (await call("branches_create", name="of/tag", at="a/b"))["head"] == head
    listed = await call("branches_list", limit=1)
    assert listed["branches"] == ["main"]
    assert [one["name"] for one in listed["details"]] == ["main"]
    assert (await call("tags_delete", name="a/b"))["name"] == "a/b"
    gone = await client.call_tool("tags_delete", {"name": "a/b"})
    assert gone.is_error
    assert gone.structured_content["kind"] == "not_found"


def test_a_server_is_given_to_an_agent_over_stdio(server: ServerProcess) -> None:
    async def main() -> None:
        words = ("--server", server.url)
        async with Client(stdio(*words, OMNIGRAPH_BEARER_TOKEN="t-drafts")) as client:
            tools = {one.name for one in (await client.list_tools()).tools}
            assert "branches_merge" not in tools
            assert "names" in tools
            done = await client.call_tool("mutate", {"query": ADD, "params": {"n": "Remote"}})
            assert done.structured_content["actor_id"] == "drafts"
            assert done.structured_content["commit"]["message"].startswith("agent session ")
            head = done.structured_content["commit"]["graph_commit_id"]
            await tag_and_branch(client, head)
            misspelt = "query q() { match { $p: Person } return { $p.nme } }"
            wrong = await client.call_tool("query", {"query": misspelt})
            assert wrong.is_error
            fixed = wrong.structured_content["try"]["arguments"]["query"]
            assert fixed == misspelt.replace("nme", "name")

    anyio.run(main)
