"""Lookups that the loop of a server answers at once: the same answers as from a thread, and never stale ones."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.lookups import answer_from_memory
from omnigraphdb.engine.read.lookup import SMALL_BYTES_MAX, SMALL_ROWS_MAX
from omnigraphdb.policy import PolicyEngine
from tests.support.served import ADD, ServerProcess, make_graph, serving

FIND = "query find($n: String) { match { $p: Person { name: $n } } return { $p.name as name, $p.age as age } }"
FRIENDS = "query friends($n: String) { match { $p: Person { name: $n }  $p knows $q } return { $q.name as name } }"
MANY = "query many($n: String) { match { $p: Person { name: $n }  $p knows $q } return { count($q) as friends } }"
SLOW = {"x-timeout-ms": "60000"}
"""A header that only the threads heed, so that a request with it goes there."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("at-once")
    make_graph(folder / "g")
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.open(make_graph(tmp_path / "g")) as found:
        yield found


def ask(http: httpx.Client, name: str, text: str = FIND, **headers: str) -> httpx.Response:
    return http.post("/query", json={"query": text, "params": {"n": name}}, headers=headers)


def warm(graph: Graph, *texts: str) -> None:
    """Ask so often that what the lookups need is in memory."""
    for text in texts:
        for _ in range(4):
            graph.query(text, {"n": "Ada"})


# ---- what is answered at once


@pytest.mark.parametrize("text", [FIND, FRIENDS, MANY])
@pytest.mark.parametrize("name", ["Ada", "Bo", "Nobody", ""])
def test_an_answer_from_memory_is_the_answer_of_the_query(
    graph: Graph, text: str, name: str
) -> None:
    warm(graph, text)
    expected = graph.query(text, {"n": name}).to_dict()
    found = answer_from_memory(graph, text, None, {"n": name})
    assert found is not None
    assert found.to_dict() == expected


def test_what_is_not_prepared_is_not_answered_at_once(graph: Graph) -> None:
    assert answer_from_memory(graph, FIND, None, {"n": "Ada"}) is None
    warm(graph, FIND)
    assert answer_from_memory(graph, FIND, None, {"n": "Ada"}) is not None
    assert answer_from_memory(graph, FIND, None, {"n": "Adä"}) is None
    assert answer_from_memory(graph, FIND, None, {"n": 7}) is None
    assert answer_from_memory(graph, FIND, None, {}) is None
    assert answer_from_memory(graph, FIND, "other", {"n": "Ada"}) is None
    assert answer_from_memory(graph.on("main"), FIND, None, {"n": "Ada"}) is not None


def test_a_write_by_anyone_is_seen(graph: Graph) -> None:
    warm(graph, FIND)
    graph.mutate(ADD, {"n": "Cy"})
    assert answer_from_memory(graph, FIND, None, {"n": "Cy"}) is None
    warm(graph, FIND)
    found = answer_from_memory(graph, FIND, None, {"n": "Cy"})
    assert found is not None
    assert len(found) == 1
    with omnigraphdb.open(graph.uri) as other:
        other.mutate(ADD, {"n": "Di"})
    assert answer_from_memory(graph, FIND, None, {"n": "Di"}) is None
    assert len(graph.query(FIND, {"n": "Di"})) == 1
    graph.schema_apply(graph.schema_source.replace("age: I32?", "age: I32?  size: I32?"))
    assert answer_from_memory(graph, FIND, None, {"n": "Di"}) is None


def test_long_answers_and_graphs_with_a_policy_take_a_thread(graph: Graph) -> None:
    hub, long = "hub", "x" * (SMALL_BYTES_MAX + 1)
    people = [{"type": "Person", "data": {"name": name}} for name in (hub, long)]
    friends = [f"f{number}" for number in range(SMALL_ROWS_MAX + 1)]
    rows: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name}} for name in friends]
    rows += [{"edge": "Knows", "from": hub, "to": name} for name in friends]
    graph.load([*people, *rows], mode="append")
    warm(graph, FIND, FRIENDS, MANY)
    assert answer_from_memory(graph, FRIENDS, None, {"n": hub}) is None
    assert answer_from_memory(graph, FRIENDS, None, {"n": "Ada"}) is not None
    assert answer_from_memory(graph, MANY, None, {"n": hub}) is not None
    assert answer_from_memory(graph, FIND, None, {"n": long}) is None
    warm(graph, FIND)
    guarded = graph.with_policy(PolicyEngine.load_graph("version: 1"))
    assert answer_from_memory(guarded, FIND, None, {"n": hub}) is None
    rules = "[{id: all, allow: {actors: {group: all}, actions: [policy_change]}}]"
    graph.set_policy(f"version: 1\ngroups: {{all: [ann]}}\nrules: {rules}", actor="ann")
    warm(graph, FIND)
    assert answer_from_memory(graph, FIND, None, {"n": hub}) is None


# ---- over the wire


def test_the_answer_on_the_wire_is_that_of_a_thread(server: ServerProcess) -> None:
    with server.client() as http:
        for _ in range(4):
            ask(http, "Ada")
        at_once, by_thread = ask(http, "Ada"), ask(http, "Ada", **SLOW)
    assert at_once.status_code == by_thread.status_code == 200
    assert at_once.content == by_thread.content
    assert set(at_once.headers) == set(by_thread.headers)
    assert at_once.headers["content-type"] == "application/json"
    assert len({at_once.headers["x-request-id"], by_thread.headers["x-request-id"]}) == 2


def test_a_read_follows_the_write_before_it(server: ServerProcess) -> None:
    with server.client() as http:
        for number in range(10):
            name = f"next {number}"
            assert ask(http, name).json()["row_count"] == 0
            http.post("/mutate", json={"query": ADD, "params": {"n": name}}).raise_for_status()
            for _ in range(3):
                assert ask(http, name).json()["row_count"] == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"params": {"n": 7}}, 400),
        ({"params": {}}, 400),
        ({"branch": "none"}, 404),
        ({"nmae": "x"}, 400),
        ({"query": "query q("}, 400),
    ],
)
def test_what_is_refused_is_refused_as_ever(
    server: ServerProcess, change: dict[str, Any], status: int
) -> None:
    with server.client() as http:
        for _ in range(4):
            ask(http, "Ada")
        body = {"query": FIND, "params": {"n": "Ada"}} | change
        answers = [http.post("/query", json=body, headers=one) for one in ({}, SLOW)]
    bodies = [one.json() for one in answers]
    assert [one.status_code for one in answers] == [status, status]
    for one in bodies:
        del one["request_id"]
    assert bodies[0] == bodies[1]


def test_requests_in_pieces_and_in_a_row_are_answered_in_order(server: ServerProcess) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with server.client() as http:
        for _ in range(4):
            ask(http, "Ada")

    def spell(name: str, *more: str) -> bytes:
        body = json.dumps({"query": FIND, "params": {"n": name}}).encode()
        media = "content-type: application/json"
        length = f"content-length: {len(body)}"
        lines = ["POST /query HTTP/1.1", "host: localhost", media, length, *more, "", ""]
        return "\r\n".join(lines).encode() + body

    row = b"".join((spell("Ada"), spell("Bo", "x-timeout-ms: 60000"), spell("Bo"), spell("Ada")))
    with socket.create_connection((host, int(port)), timeout=20) as line:
        for start in range(0, len(row), 37):
            line.sendall(row[start : start + 37])
        line.sendall(row + spell("Nobody", "connection: close"))
        got = b""
        while chunk := line.recv(65536):
            got += chunk
    bodies = [one.partition(b"\r\n\r\n")[2] for one in got.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    names = [[row["name"] for row in json.loads(one)["rows"]] for one in bodies]
    assert names == [["Ada"], ["Bo"], ["Bo"], ["Ada"]] * 2 + [[]]


def test_who_has_no_token_gets_no_answer_from_memory(tmp_path: Path) -> None:
    make_graph(tmp_path / "g")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "secret"}'}
    with serving(str(tmp_path / "g"), log=tmp_path / "log", environment=tokens) as server:
        with server.client("secret") as http:
            assert {ask(http, "Ada").status_code for _ in range(6)} == {200}
        with server.client("wrong") as http:
            assert ask(http, "Ada").status_code == 401
        with server.client() as http:
            assert ask(http, "Ada").status_code == 401
            assert http.get("/metrics").status_code == 401
        log = server.log.read_text()
    assert log.count("decision='allow'") == 6
    assert log.count("route='/query'") == 8
