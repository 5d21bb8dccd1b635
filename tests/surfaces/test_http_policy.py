"""A policy in a server: every route asks it, the engine decides the same again, and a denied request changes no byte."""

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraphdb
from omnigraphdb.errors import PolicyDenied, UserInputError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.policy import PolicyAction, PolicyEngine
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.surfaces.http.hiding import hide_addresses
from tests.support.reference import OPENAPI
from tests.support.served import ADD, NAMES, SCHEMA, ServerProcess, make_graph, serving
from tests.surfaces.test_http_writes import locked

pytestmark = pytest.mark.xdist_group("http_policy")  # Its tests write to one graph, in their order.

RULES = """
version: 1
groups:
  all: [may]
  team: [may, bob]
  readers: [reads, bob]
  callers: [calls]
protected_branches: [main]
rules:
  - id: all
    allow:
      actors: { group: all }
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge, invoke_query]
  - id: reads-drafts
    allow: { actors: { group: readers }, actions: [read, export], branch_scope: unprotected }
  - id: writes-drafts
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
  - id: merges
    allow: { actors: { group: team }, actions: [branch_merge], target_branch_scope: any }
  - id: merges-show-main
    allow: { actors: { group: team }, actions: [read], branch_scope: protected }
  - id: calls-two
    allow: { actors: { group: callers }, actions: [invoke_query], queries: [names, grow] }
  - id: calls-read
    allow: { actors: { group: callers }, actions: [read], branch_scope: protected }
"""
SERVER_RULES = """
version: 1
kind: server
groups: { operators: [may] }
rules:
  - id: lists
    allow: { actors: { group: operators }, actions: [graph_list] }
"""
ACTORS = ("may", "bob", "reads", "calls", "stranger")
STORED = f"""{NAMES}
query grow($n: String) {{ insert Person {{ name: $n }} }}
query secret() {{ match {{ $p: Person }} return {{ count($p) as people }} }}
"""
GROWN = SCHEMA + "\nnode Port { code: String @key }"
LINE = '{"type": "Person", "data": {"name": "Loaded"}}\n'
ADDS = {"query": ADD, "params": {"n": "X"}}

Send = Callable[[httpx.Client], httpx.Response]


def post(path: str, body: Any = None) -> Send:
    return lambda http: http.post(path, json=body)


WRITES: dict[str, tuple[Send, str, dict[str, str]]] = {
    "mutate": (post("/mutate", ADDS), "change", {"branch": "main"}),
    "mutate with blanks": (
        post("/mutate", ADDS | {"branch": " main "}),
        "change",
        {"branch": "main"},
    ),
    "mutate a draft": (post("/mutate", ADDS | {"branch": "draft"}), "change", {"branch": "draft"}),
    "change": (post("/change", ADDS), "change", {"branch": "main"}),
    "load": (post("/load", {"data": LINE}), "change", {"branch": "main"}),
    "load that forks": (
        post("/load", {"data": LINE, "branch": "new", "from": "main"}),
        "branch_create",
        {"branch": "main", "target_branch": "new"},
    ),
    "ingest that forks": (
        post("/ingest", {"data": LINE, "branch": "newer"}),
        "branch_create",
        {"branch": "main", "target_branch": "newer"},
    ),
    "load of lines": (
        lambda http: http.post(
            "/load/ndjson?branch=draft",
            content=LINE,
            headers={"content-type": "application/x-ndjson"},
        ),
        "change",
        {"branch": "draft"},
    ),
    "create": (
        post("/branches", {"name": "more", "from": "draft"}),
        "branch_create",
        {"branch": "draft", "target_branch": "more"},
    ),
    "merge": (
        post("/branches/merge", {"source": "draft"}),
        "branch_merge",
        {"branch": "draft", "target_branch": "main"},
    ),
    "delete": (
        lambda http: http.delete("/branches/gone"),
        "branch_delete",
        {"target_branch": "gone"},
    ),
    "schema": (
        post("/schema/apply", {"schema_source": GROWN}),
        "schema_apply",
        {"target_branch": "main"},
    ),
}

READS: dict[str, tuple[Send, str, dict[str, str]]] = {
    "snapshot": (lambda http: http.get("/snapshot"), "read", {"branch": "main"}),
    "history of an entity": (
        lambda http: http.get("/entity/history?type=Person&id=Ada&branch=draft"),
        "read",
        {"branch": "draft"},
    ),
    "entity": (lambda http: http.get("/entity?type=Person&id=Ada"), "read", {"branch": "main"}),
    "neighbours": (
        lambda http: http.get("/neighbours?type=Person&id=Ada&branch=draft"),
        "read",
        {"branch": "draft"},
    ),
    "paths": (
        lambda http: http.get("/paths?type=Person&from=Ada&to=Ada&branch=draft"),
        "read",
        {"branch": "draft"},
    ),
    "types": (lambda http: http.get("/schema/graph"), "read", {"branch": "main"}),
    "log": (lambda http: http.get("/log/graph?branch=draft"), "read", {"branch": "draft"}),
    "drawn diff": (
        lambda http: http.get("/diff/graph?base=main&head=main"),
        "read",
        {"branch": "main"},
    ),
    "doctor": (lambda http: http.get("/doctor"), "read", {"branch": "main"}),
    "cleanup preview": (
        lambda http: http.get("/cleanup/preview"),
        "read",
        {"branch": "main"},
    ),
    "snapshot of a draft": (
        lambda http: http.get("/snapshot?branch=draft"),
        "read",
        {"branch": "draft"},
    ),
    "query": (post("/query", {"query": NAMES}), "read", {"branch": "main"}),
    "query of a draft": (
        post("/query", {"query": NAMES, "branch": "draft"}),
        "read",
        {"branch": "draft"},
    ),
    "read": (post("/read", {"query_source": NAMES}), "read", {"branch": "main"}),
    "schema": (lambda http: http.get("/schema"), "read", {"branch": "main"}),
    "branches": (lambda http: http.get("/branches"), "read", {"branch": "main"}),
    "commits": (lambda http: http.get("/commits?branch=draft"), "read", {"branch": "draft"}),
    "changes": (lambda http: http.get("/changes"), "read", {"branch": "main"}),
    "export": (post("/export", {"branch": "draft"}), "export", {"branch": "draft"}),
    "export of main": (post("/export"), "export", {"branch": "main"}),
    "queries": (lambda http: http.get("/queries"), "read", {"branch": "main"}),
    "preview": (
        post("/branches/merge/preview", {"source": "draft"}),
        "read",
        {"branch": "draft"},
    ),
    "schema plan": (
        post("/schema/plan", {"schema_source": GROWN}),
        "read",
        {"branch": "main"},
    ),
    "blob": (
        lambda http: http.get("/blob?entity=node&type=Person&id=Ada&property=photo"),
        "read",
        {"branch": "main"},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("policy")
    make_graph(made / "g")
    with omnigraphdb.open(made / "g") as graph:
        graph.branch_create("draft")
        graph.branch_create("gone")
        graph.mutate(ADD, {"n": "Drafted"}, branch="draft")
    (made / "queries").mkdir()
    (made / "queries" / "stored.gq").write_text(STORED)
    (made / "policy.yaml").write_text(RULES)
    (made / "server.yaml").write_text(SERVER_RULES)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    tokens = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({one: f"t-{one}" for one in ACTORS})
    }
    words = (
        "--policy",
        str(folder / "policy.yaml"),
        "--server-policy",
        str(folder / "server.yaml"),
    )
    stored = ("--queries", str(folder / "queries"))
    with serving(
        str(folder / "g"), *words, *stored, log=folder / "log", environment=tokens
    ) as found:
        yield found


@pytest.fixture(scope="module")
def clients(server: ServerProcess) -> Iterator[dict[str, httpx.Client]]:
    made = {one: server.client(f"t-{one}") for one in ACTORS}
    yield made
    for one in made.values():
        one.close()


def digest(folder: Path) -> dict[str, str]:
    """Every file with its content; locks are taken and left empty."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__locks" not in path.parts
    }


def decide(actor: str, action: str, asked: dict[str, str]) -> bool:
    policy = PolicyEngine.load_graph(RULES)
    return policy.authorize(actor, PolicyAction(action), **asked).allowed


@pytest.mark.parametrize("name", WRITES)
def test_a_denied_write_is_403_and_changes_no_byte(
    folder: Path, clients: dict[str, httpx.Client], name: str
) -> None:
    send, action, asked = WRITES[name]
    before = digest(folder / "g")
    for actor in ACTORS:
        if decide(actor, action, asked):
            continue
        found = send(clients[actor])
        assert found.status_code == 403, found.text
        body = found.json()
        assert body["kind"] == "forbidden"
        assert body["denied"]["action"] in (action, "change")
        assert body["outcome"] == {"execution": "not_started", "effects": "none", "action": "fix"}
        assert "team" not in found.text
        assert "drafts" not in found.text
    assert digest(folder / "g") == before


@pytest.mark.parametrize("name", READS)
def test_reads_ask_for_their_branch(clients: dict[str, httpx.Client], name: str) -> None:
    send, action, asked = READS[name]
    for actor in ACTORS:
        found = send(clients[actor])
        allowed = decide(actor, action, asked)
        if name == "preview":
            allowed = allowed and decide(actor, "read", {"branch": "main"})
        assert found.status_code == (200 if allowed else 403), (actor, found.text)
        if not allowed:
            assert found.json()["denied"]["action"] == action


@pytest.mark.parametrize("name", WRITES)
def test_who_may_writes(folder: Path, clients: dict[str, httpx.Client], name: str) -> None:
    """After the denials: the one actor who may do everything does each of them, on a graph that it makes ready."""
    send, _, _ = WRITES[name]
    if name == "schema":
        with omnigraphdb.open(folder / "g", policy=RULES, actor="may") as graph:
            there = {branch.name for branch in graph.branches()} - {"main", "draft"}
            # A branch that others were made from goes after them.
            for branch in (*sorted(there), "draft"):
                graph.branch_delete(branch)
    found = send(clients["may"])
    # A person who is there already is no error of the policy.
    assert found.status_code in (200, 409), found.text


def test_the_engine_denies_the_same_again(folder: Path) -> None:
    """What slipped past the server would be refused by the handle that it holds."""
    with omnigraphdb.open(folder / "g", policy=folder / "policy.yaml") as graph:
        for actor in ("bob", "reads", "stranger", None):
            with pytest.raises(PolicyDenied):
                graph.mutate(ADD, {"n": "never"}, actor=actor)


def test_no_token_is_401_before_any_decision(server: ServerProcess) -> None:
    with server.client() as nobody:
        assert nobody.post("/mutate", json=ADDS).status_code == 401
        assert nobody.get("/snapshot").status_code == 401


def test_a_merge_lands_and_its_branch_stays_without_the_right_to_delete(
    folder: Path, clients: dict[str, httpx.Client]
) -> None:
    may = clients["may"]
    assert may.post("/branches", json={"name": "kept"}).status_code == 200
    added = clients["bob"].post(
        "/mutate", json={"query": ADD, "params": {"n": "K"}, "branch": "kept"}
    )
    assert added.status_code == 200
    body = {"source": "kept", "delete_branch": True}
    merged = clients["bob"].post("/branches/merge", json=body)
    assert merged.status_code == 200, merged.text
    assert merged.json()["branch_deleted"] is False
    assert "may not branch_delete" in merged.json()["branch_delete_error"]
    assert "kept" in may.get("/branches").json()["branches"]


def test_stored_queries_have_two_gates(clients: dict[str, httpx.Client]) -> None:
    calls, may = clients["calls"], clients["may"]
    assert calls.post("/queries/names").status_code == 200
    inner = calls.post("/queries/grow", json={"params": {"n": "Y"}})
    assert inner.status_code == 403
    assert inner.json()["denied"] == {"action": "change", "branch": "main"}
    elsewhere = calls.post("/queries/names", json={"branch": "draft"})
    assert elsewhere.status_code in (403, 404)
    assert may.post("/queries/secret").status_code == 200


def test_stored_queries_that_may_not_be_run_are_not_listed(
    clients: dict[str, httpx.Client],
) -> None:
    def names(actor: str) -> list[str]:
        return [one["name"] for one in clients[actor].get("/queries").json()["queries"]]

    assert names("may") == ["grow", "names", "secret"]
    # It may invoke `grow`, whose change it may make on no branch.
    assert names("calls") == ["names"]
    assert names("bob") == []


def test_where_a_graph_is_kept_is_told_to_those_who_may_list_graphs(
    folder: Path, clients: dict[str, httpx.Client]
) -> None:
    def load(actor: str) -> Any:
        return clients[actor].post("/load", json={"data": LINE, "branch": "shown"}).json()["uri"]

    made = clients["may"].post("/branches", json={"name": "shown"}).json()["uri"]
    assert load("may") == str(folder / "g")
    assert load("bob") == "default"
    gone = clients["may"].delete("/branches/shown").json()["uri"]
    assert (made, gone) == (str(folder / "g"),) * 2
    paths = json.loads(OPENAPI.read_text())["paths"]
    plain = [path for path, methods in paths.items() if "get" in methods and "{" not in path]
    for path in (*plain, "/commits/nowhere"):
        assert str(folder) not in clients["bob"].get(path).text, path


def test_a_refusal_names_a_graph_by_its_id_for_those_who_may_not_list_graphs() -> None:
    error = UserInputError(
        "'/data/g/__manifest' is damaged", hint="copy '/data/g' first", details={"at": ["/data/g"]}
    )
    shown = hide_addresses(error, ("/data/g",), "sales")
    assert type(shown) is UserInputError
    assert str(shown) == "'sales/__manifest' is damaged"
    assert (shown.hint, shown.details) == ("copy 'sales' first", {"at": ["sales"]})
    assert str(error) == "'/data/g/__manifest' is damaged"
    assert hide_addresses(shown, ("/data/g",), "sales") is shown


def test_a_denied_query_looks_like_an_unknown_one(clients: dict[str, httpx.Client]) -> None:
    for actor in ("calls", "bob", "stranger"):
        denied = clients[actor].post("/queries/secret")
        unknown = clients[actor].post("/queries/nowhere")
        assert denied.status_code == unknown.status_code == 404
        same = [
            {k: v for k, v in one.json().items() if k != "request_id"} for one in (denied, unknown)
        ]
        assert same[0] == same[1]


def test_commits_of_a_branch_that_may_not_be_read_are_unknown(
    clients: dict[str, httpx.Client],
) -> None:
    head = clients["may"].get("/snapshot").json()
    commit = clients["may"].get("/commits?limit=1").json()["commits"][0]["graph_commit_id"]
    assert head["branch"] == "main"
    unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

    def blind(found: httpx.Response, name: str) -> str:
        body = {k: v for k, v in found.json().items() if k != "request_id"}
        return json.dumps([found.status_code, body]).replace(name, "?")

    for path in ("/commits/{}", "/commits/{}/changes", "/diff?from={}&to={}"):
        seen = clients["may"].get(path.format(commit, commit))
        assert seen.status_code in (200, 409)
        denied = clients["reads"].get(path.format(commit, commit))
        missing = clients["reads"].get(path.format(unknown, unknown))
        assert blind(denied, commit) == blind(missing, unknown)
        assert denied.status_code == 404


READS_MAIN = """
version: 1
groups: { all: [may], some: [reads] }
protected_branches: [main]
rules:
  - { id: a, allow: { actors: { group: all }, actions: [read, export] } }
  - { id: s, allow: { actors: { group: some }, actions: [read, export], branch_scope: protected } }
"""


@pytest.fixture(scope="module")
def sided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A graph whose branch `side` was merged, recovered, and interrupted again; `reads` may read main alone."""
    folder = tmp_path_factory.mktemp("sided")
    with omnigraphdb.open(make_graph(folder / "g")) as graph:
        graph.branch_create("side")
        for age in (40, 41):
            update = f'query u() {{ update Person set {{ age: {age} }} where name = "Ada" }}'
            graph.mutate(update, branch="side")
        graph.mutate(ADD, {"n": "Cy"})
        graph.merge("side")
    for name in ("recovered", "interrupted"):
        with (
            omnigraphdb.open(folder / "g") as graph,
            armed(Failpoint.TABLES_COMMITTED),
            pytest.raises(omnigraphdb.OmniError),
        ):
            graph.mutate(ADD, {"n": name}, branch="side")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"may": "m", "reads": "r"})}
    (folder / "policy.yaml").write_text(READS_MAIN)
    words = (str(folder / "g"), "--policy", str(folder / "policy.yaml"), "--read-only")
    with serving(*words, log=folder / "log", environment=tokens) as found:
        yield found


def test_a_history_does_not_show_branches_that_may_not_be_read(sided: ServerProcess) -> None:
    def list_branches(token: str) -> list[str | None]:
        with sided.client(token) as http:
            shown = http.get("/entity/history?type=Person&id=Ada").json()["changes"]
        return [one["commit"]["manifest_branch"] for one in shown]

    def list_logged(token: str) -> set[str]:
        with sided.client(token) as http:
            shown = http.get("/log/graph").json()["commits"]
        return {one["manifest_branch"] or "main" for one in shown} | {
            name for one in shown for name in one["branches"]
        }

    assert list_logged("m") == {"main", "side"}
    assert list_logged("r") == {"main"}

    assert list_branches("m") == [None, "side", "side", None]
    assert list_branches("r") == [None, None]


def test_health_does_not_show_branches_that_may_not_be_read(sided: ServerProcess) -> None:
    with sided.client("m") as may, sided.client("r") as reads:
        shown = may.get("/recoveries").json()
        assert [one["branch"] for one in shown["pending"]] == ["side"]
        assert len(shown["settled"]) == 1
        assert reads.get("/recoveries").json() == {"pending": [], "settled": []}
        issues = may.get("/doctor").json()
        assert {one["branch"] for one in issues["findings"]} == {"side"}
        assert reads.get("/doctor").json() == {"settled": True, "findings": []}


def test_a_snapshot_is_read_on_the_branch_that_made_it(sided: ServerProcess) -> None:
    with sided.client("m") as may, sided.client("r") as reads:
        head = may.get("/snapshot?branch=side").json()["graph_commit_id"]
        body = {"query": NAMES, "snapshot": head}
        found = may.post("/query", json=body).json()
        assert (found["graph_commit_id"], found["row_count"]) == (head, 3)
        assert may.post("/export", json={"snapshot": head}).status_code == 200
        for path, asked in (("/query", body), ("/export", {"snapshot": head})):
            unknown = {**asked, "snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
            denied, missing = (reads.post(path, json=one) for one in (asked, unknown))
            assert (denied.status_code, missing.status_code) == (404, 404)
            assert denied.json()["error"] == missing.json()["error"].replace(
                unknown["snapshot"], head
            )


def test_a_forged_page_token_opens_no_other_branch(clients: dict[str, httpx.Client]) -> None:
    from omnigraphdb.engine.history.feed import decode_token, encode_token

    may, reads = clients["may"], clients["reads"]
    for name in ("one", "two"):
        assert may.post("/branches", json={"name": name}).status_code == 200
        data = "".join(
            f'{{"type": "Person", "data": {{"name": "{name} {n}"}}}}\n' for n in range(3)
        )
        assert may.post("/load", json={"data": data, "branch": name}).status_code == 200
    first = reads.get("/diff?from=one&to=two&limit=1")
    token = first.json()["next_page_token"]
    assert reads.get(f"/diff?from=one&to=two&limit=1&page_token={token}").status_code == 200
    prefix = token[: token.index(".") + 1]
    body = decode_token(prefix, token, {"ends", "states", "wanted", "after", "stats"})
    assert may.post("/mutate", json={"query": ADD, "params": {"n": "hidden"}}).status_code == 200
    newest = may.get("/commits?limit=1").json()["commits"][0]["graph_commit_id"]
    forged = encode_token(prefix, body | {"states": [body["states"][0], newest]})
    assert reads.get(f"/diff?from=one&to=two&limit=1&page_token={forged}").status_code == 404


def test_graphs_are_listed_by_the_policy_of_the_server(clients: dict[str, httpx.Client]) -> None:
    assert clients["may"].get("/graphs").json()["graphs"][0]["graph_id"] == "default"
    for actor in ("bob", "stranger"):
        denied = clients[actor].get("/graphs")
        assert denied.status_code == 403
        assert denied.json()["denied"] == {"action": "graph_list"}


def test_every_decision_is_logged_for_who_sent_the_token(
    server: ServerProcess, clients: dict[str, httpx.Client]
) -> None:
    headers = {"x-actor-id": "may"}
    assert clients["reads"].post("/mutate", json=ADDS, headers=headers).status_code == 403
    assert clients["bob"].post("/mutate", json=ADDS, headers=headers).status_code == 403
    clients["reads"].post("/query", json={"query": NAMES, "branch": "one"})
    lines = [one for one in server.log.read_text().splitlines() if "policy.decision" in one]
    assert any("actor='reads' action='change'" in one and "'deny'" in one for one in lines)
    refused = next(
        one for one in reversed(lines) if "actor='bob' action='change' branch='main'" in one
    )
    assert "decision='deny'" in refused
    allowed = next(one for one in reversed(lines) if "actor='reads' action='read'" in one)
    assert "decision='allow' rule='reads-drafts'" in allowed


def test_seventeen_writes_of_one_actor_leave_room_for_another(
    folder: Path, clients: dict[str, httpx.Client]
) -> None:
    """Sixteen writes wait, the next one of the same actor is refused, and another actor is served meanwhile."""
    may, bob = clients["may"], clients["bob"]
    assert may.post("/branches", json={"name": "one"}).status_code in (200, 409)

    def add(http: httpx.Client, name: str, branch: str) -> httpx.Response:
        return http.post("/mutate", json={"query": ADD, "params": {"n": name}, "branch": branch})

    with ThreadPoolExecutor(17) as pool:
        with locked(folder / "g"):
            waiting = [pool.submit(add, may, f"slow {n}", "main") for n in range(17)]
            refused = wait_for_one(waiting)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert add(bob, "meanwhile", "one").status_code == 200
        statuses = sorted(one.result().status_code for one in waiting)
    assert statuses == [200] * 16 + [429]


def wait_for_one(waiting: list[Any]) -> httpx.Response:
    for _ in range(600):
        done = [one for one in waiting if one.done()]
        if done:
            found: httpx.Response = done[0].result()
            return found
        SYSTEM.wait(0.05)
    raise AssertionError("no write was refused")
