"""`read` is a boundary: who may not read a branch takes no rows from it, over HTTP, by tools or by the engine, and meets no name of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance import cleanup
from omnigraphdb.engine.maintenance.orphans import RemovedForks
from omnigraphdb.errors import PolicyDenied
from omnigraphdb.policy import PolicyEngine
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.agents import LocalBackend
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.tokens import read_tokens
from omnigraphdb.surfaces.mcp.session import Session

SCHEMA = "node Person { name: String @key  mail: String? @unique }"
RULES = """
version: 1
groups: { owners: [ada], team: [bob] }
protected_branches: [vault-zx9, vault-zx9-copy]
rules:
  - id: owners
    allow:
      actors: { group: owners }
      actions: [read, change, branch_create, branch_delete, branch_merge, schema_apply, policy_change]
  - id: team-reads
    allow: { actors: { group: team }, actions: [read, change, export], branch_scope: unprotected }
  - id: team-makes
    allow:
      actors: { group: team }
      actions: [branch_create, branch_merge, schema_apply]
      target_branch_scope: unprotected
  - id: team-deletes
    allow: { actors: { group: team }, actions: [branch_delete, maintain] }
"""
VAULT = "vault-zx9"
SECRET = "Secret-Q7"
ADD = "query add($n: String) { insert Person { name: $n } }"
LINE = '{"type": "Person", "data": {"name": "Cy"}}\n'
ACTORS = ("ada", "bob")

COPIES: dict[str, tuple[str, dict[str, str]]] = {
    "fork": ("/branches", {"name": "mine", "from": VAULT}),
    "load": ("/load", {"data": LINE, "branch": "mine", "from": VAULT}),
    "ingest": ("/ingest", {"data": LINE, "branch": "mine", "from": VAULT}),
    "merge": ("/branches/merge", {"source": VAULT, "target": "own"}),
}
TOOLS: dict[str, tuple[str, dict[str, str]]] = {
    "fork": ("branches_create", COPIES["fork"][1]),
    "load": ("load", COPIES["load"][1]),
    "merge": ("branches_merge", COPIES["merge"][1]),
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as made:
        made.mutate(ADD, {"n": "Ann"})
        made.branch_create(VAULT)
        made.branch_create("own")
        made.mutate(ADD, {"n": "Bea"}, branch="own")
        made.mutate(ADD, {"n": SECRET}, branch=VAULT, message="a secret message")
        yield made.with_policy(PolicyEngine.load_graph(RULES))


class Door:
    """A server in this process, asked over HTTP or by tools."""

    def __init__(self, graph: Graph) -> None:
        self.place = ServedGraph(id="default", graph=graph)
        tokens = json.dumps({one: f"t-{one}" for one in ACTORS})
        self.served = Served(
            graphs={"default": self.place},
            default="default",
            gate=Gate(has_tokens=True),
            tokens=read_tokens({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens}),
            admission=Admission(16, 1 << 30),
        )
        self.app = Application(self.served)

    def ask(self, actor: str | None, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {} if actor is None else {"authorization": f"Bearer t-{actor}"}

        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(method, path, json=body, headers=headers)

        return anyio.run(run)

    def call(self, actor: str, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether a tool did what it was asked, and everything that it answered."""
        session = Session(LocalBackend(self.served, self.place, actor), "s")
        tool = session.find_tool(name)
        if tool is None:
            return False, ""
        outcome = session.call(tool, arguments)
        return not outcome.is_error, json.dumps(outcome.body)


@pytest.fixture
def door(graph: Graph) -> Iterator[Door]:
    made = Door(graph)
    yield made
    made.app.close()


def branch_names(graph: Graph) -> set[str]:
    return {one.name for one in graph.branches()}


@pytest.mark.parametrize("name", COPIES)
def test_rows_of_a_branch_are_copied_over_http_by_its_readers_only(
    door: Door, graph: Graph, name: str
) -> None:
    path, body = COPIES[name]
    before = branch_names(graph), graph.snapshot(branch="own").commit
    denied = door.ask("bob", "POST", path, body)
    assert denied.status_code == 403, denied.text
    assert SECRET not in denied.text
    assert (branch_names(graph), graph.snapshot(branch="own").commit) == before
    assert door.ask("ada", "POST", path, body).status_code == 200


@pytest.mark.parametrize("name", TOOLS)
def test_rows_of_a_branch_are_copied_by_tools_of_its_readers_only(
    door: Door, graph: Graph, name: str
) -> None:
    before = branch_names(graph), graph.snapshot(branch="own").commit
    is_done, answer = door.call("bob", *TOOLS[name])
    assert not is_done
    assert SECRET not in answer
    assert (branch_names(graph), graph.snapshot(branch="own").commit) == before
    assert door.call("ada", *TOOLS[name])[0]


def test_the_engine_asks_whoever_copies_rows_for_read(graph: Graph) -> None:
    commit = graph.commits(branch=VAULT)[0]
    for copy in (
        lambda who: graph.branch_create("mine", from_branch=VAULT, actor=who),
        lambda who: graph.branch_create("other", from_branch=VAULT, at=commit.id, actor=who),
        lambda who: graph.load(
            [{"type": "Person", "data": {"name": "Cy"}}],
            mode="merge",
            branch="third",
            from_branch=VAULT,
            actor=who,
        ),
        lambda who: graph.merge(VAULT, into="own", actor=who),
    ):
        with pytest.raises(PolicyDenied, match=f"may not read branch '{VAULT}'"):
            copy("bob")
        copy("ada")


def test_a_fork_at_a_commit_asks_the_branch_that_made_it(graph: Graph) -> None:
    graph.branch_create("open", from_branch=VAULT, actor="ada")
    made_by_vault = graph.commits(branch=VAULT)[0]
    with pytest.raises(PolicyDenied, match=f"may not read branch '{VAULT}'"):
        graph.branch_create("mine", from_branch="open", at=made_by_vault.id, actor="bob")
    made_by_main = graph.commits(branch=VAULT)[1]
    assert made_by_main.branch == "main"
    graph.branch_create("mine", from_branch="open", at=made_by_main.id, actor="bob")


def test_a_load_into_a_branch_that_exists_reads_the_branch_that_it_names(graph: Graph) -> None:
    # Whoever deletes the branch at the same time would make the load fork.
    with pytest.raises(PolicyDenied, match="may not read"):
        graph.load([], mode="merge", branch="own", from_branch=VAULT, actor="bob", allow_empty=True)


# ---- names


UNKNOWN_NAMES = (VAULT.upper(), "vault-zx", "vault-zx8")
"""Names that are near to one that bob may not read."""


@pytest.mark.parametrize("name", UNKNOWN_NAMES)
def test_suggestions_name_branches_that_the_actor_may_read(door: Door, name: str) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"/snapshot?branch={name}", None),
        ("GET", f"/commits?branch={name}", None),
        ("GET", f"/changes?branch={name}", None),
        ("GET", f"/log/graph?branch={name}", None),
        ("GET", f"/diff?from={name}&to=own", None),
        ("GET", f"/diff/graph?base=own&head={name}", None),
        ("POST", "/query", {"query": "query q() { match { $p: Person } }", "branch": name}),
        ("POST", "/mutate", {"query": ADD, "params": {"n": "x"}, "branch": name}),
        ("POST", "/load", {"data": LINE, "branch": name}),
        ("POST", "/branches", {"name": "mine", "from": name}),
        ("DELETE", f"/branches/{name}", None),
        ("POST", "/branches/merge", {"source": name, "target": "own"}),
        ("POST", "/branches/merge/preview", {"source": "own", "target": name}),
        ("POST", "/export", {"branch": name}),
    ]
    for method, path, body in asked:
        answer = door.ask("bob", method, path, body)
        assert answer.status_code >= 400
        assert VAULT not in answer.text.replace(name, ""), (path, answer.text)
    misspelt = door.ask("bob", "GET", "/snapshot?branch=owm")
    assert "did you mean 'own'?" in misspelt.json()["error"]
    assert VAULT in door.ask("ada", "GET", f"/snapshot?branch={name}").text


def test_branches_that_may_not_be_read_are_not_listed(door: Door, graph: Graph) -> None:
    graph.branch_create("open", from_branch=VAULT, actor="ada")
    for answer in (
        door.ask("bob", "GET", "/branches").text,
        door.ask("bob", "GET", "/commits?branch=open").text,
        door.ask("bob", "GET", "/snapshot?branch=open").text,
        door.ask("bob", "GET", "/log/graph").text,
        door.ask("bob", "GET", "/metrics").text,
        door.call("bob", "branches_list", {})[1],
    ):
        assert VAULT not in answer
        assert "secret" not in answer.lower()
    listed = door.ask("bob", "GET", "/branches").json()
    assert listed["branches"] == ["main", "open", "own"]
    parents = {one["name"]: one["parent"] for one in listed["details"]}
    assert parents == {"main": None, "open": None, "own": "main"}
    assert VAULT in door.ask("ada", "GET", "/branches").json()["branches"]
    assert VAULT in door.ask("ada", "GET", "/metrics").text


def test_maintenance_names_no_branch_that_may_not_be_read(door: Door, graph: Graph) -> None:
    secret = graph.commits(branch=VAULT)[0].id
    described = door.ask("bob", "GET", "/describe").json()
    assert [branch["name"] for branch in described["branches"]] == ["main", "own"]
    for method, path, body in (
        ("GET", "/describe", None),
        ("GET", "/describe?branch=own", None),
        ("POST", "/indexes", {"branch": "own"}),
        ("POST", "/optimize", {}),
        ("POST", "/cleanup", {"keep": 1, "confirm": True}),
        ("POST", "/repair", {"confirm": True}),
    ):
        answer = door.ask("bob", method, path, body)
        assert answer.status_code == 200, answer.text
        for hidden in (VAULT, "secret", secret, graph.uri):
            assert hidden not in answer.text, (path, answer.text)
    assert door.ask("bob", "POST", "/indexes", {"branch": VAULT}).status_code == 403
    assert door.ask("bob", "GET", f"/operation/k?branch={VAULT}").status_code == 403
    assert door.ask("bob", "GET", f"/describe?branch={VAULT}").status_code == 403
    assert door.ask("bob", "GET", f"/describe?at={secret}").status_code == 404
    assert VAULT in door.ask("ada", "GET", "/describe").text


def test_maintenance_needs_its_right_and_that_to_read(door: Door) -> None:
    for path in ("/indexes", "/optimize", "/cleanup", "/repair"):
        answer = door.ask("ada", "POST", path, {})
        assert answer.status_code == 403
        assert answer.json()["denied"]["action"] == "maintain"


def test_cleanup_names_forks_to_the_readers_of_their_branches(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork stays behind when its branch was deleted and the process died before the fork was removed."""
    forks = RemovedForks(forks=(VAULT, "own"), errors=(f"fork '{VAULT}': it was kept",))
    monkeypatch.setattr(cleanup, "sweep_forks", lambda *_, **__: forks)
    answer = door.ask("bob", "POST", "/cleanup", {"keep": 1})
    assert VAULT not in answer.text
    (table,) = answer.json()["tables"]
    assert table["forks_removed"] == ["own"]
    assert table["error"] == "branches that you may not read could not be cleaned"


def test_what_depends_on_a_branch_is_named_to_its_readers(door: Door, graph: Graph) -> None:
    graph.branch_create("vault-zx9-copy", from_branch="own", actor="ada")
    denied = door.ask("bob", "DELETE", "/branches/own")
    assert denied.status_code == 409
    assert denied.json()["branch"] == {"name": "own", "dependants": []}
    assert VAULT not in denied.text
    assert "vault-zx9-copy" in door.ask("ada", "DELETE", "/branches/own").text


def test_a_name_that_overlaps_a_hidden_branch_is_refused_without_it(
    door: Door, graph: Graph
) -> None:
    denied = door.ask("bob", "POST", "/branches", {"name": f"{VAULT}/x"})
    assert denied.status_code == 409
    assert "overlaps a live branch that you may not read" in denied.json()["error"]


def test_a_schema_change_names_the_branches_that_the_actor_may_read(door: Door) -> None:
    body = {"schema_source": SCHEMA + "\nnode Port { code: String @key }"}
    denied = door.ask("bob", "POST", "/schema/apply", body)
    assert denied.status_code == 409
    assert denied.json()["branches"] == ["own"]
    assert VAULT not in denied.text


@pytest.mark.parametrize("path", ["/commits/01", "/commits/01/changes"])
def test_a_beginning_that_commits_share_names_none_of_them(door: Door, path: str) -> None:
    answer = door.ask("bob", "GET", path)
    assert answer.status_code == 404
    assert answer.json()["error"] == "commit '01' not found"


def test_a_feed_does_not_show_what_a_hidden_branch_changed(door: Door, graph: Graph) -> None:
    graph.mutate(
        f'query q() {{ delete Person where name = "{SECRET}" }}', branch=VAULT, actor="ada"
    )
    graph.branch_create("open", from_branch=VAULT, actor="ada")
    head = graph.commits(branch="open")[0].id
    graph.mutate(ADD, {"n": "Dee"}, branch="open", actor="ada")
    gap = door.ask("bob", "GET", "/changes?branch=open&start=beginning")
    assert gap.status_code == 410
    assert gap.json()["kind"] == "change_feed_gap"
    assert SECRET not in gap.text
    later = door.ask("bob", "GET", f"/changes?branch=open&start=after:{head}")
    assert later.status_code == 200
    assert "Dee" in later.text
    assert SECRET in door.ask("ada", "GET", "/changes?branch=open&start=beginning").text


def test_a_tag_of_a_hidden_commit_is_unknown(door: Door, graph: Graph) -> None:
    graph.tag("tagged", branch=VAULT, actor="ada")
    commit = graph.commits(branch=VAULT)[0].id
    for path in (
        "/commits/{}",
        "/commits?since={}",
        "/snapshot?at={}",
        "/diff?from={}&to=own",
        "/entity?type=Person&id=Ann&branch=own&at={}",
    ):
        hidden, unknown = (door.ask("bob", "GET", path.format(one)) for one in ("tagged", "nosuch"))
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.json()["error"] == unknown.json()["error"].replace("nosuch", "tagged")
        assert commit not in hidden.text
        assert VAULT not in hidden.text


def test_metrics_need_a_token_once_there_are_tokens(door: Door) -> None:
    assert door.ask(None, "GET", "/metrics").status_code == 401
    assert door.ask("bob", "GET", "/metrics").status_code == 200
    assert "omnigraph_http_requests" in door.ask("bob", "GET", "/metrics").text


def test_rows_that_a_mutation_returns_are_read(door: Door, graph: Graph) -> None:
    rules = RULES.replace("actions: [read, change, export]", "actions: [change]")
    blind = Door(graph.with_policy(PolicyEngine.load_graph(rules)))
    text = "query add($n: String) { insert Person { name: $n }%s }"
    plain, returning = (text % one for one in ("", " returning { name }"))
    try:
        for name, query, status in (("Fay", plain, 200), ("Gil", returning, 403)):
            body = {"query": query, "params": {"n": name}, "branch": "own"}
            assert blind.ask("bob", "POST", "/mutate", body).status_code == status
    finally:
        blind.app.close()
    body = {"query": returning, "params": {"n": "Hal"}, "branch": "own"}
    assert door.ask("bob", "POST", "/mutate", body).json()["rows"] == [{"name": "Hal"}]
