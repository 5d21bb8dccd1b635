"""One decision, wherever it is asked: the engine's gate, the routes of a server, the tools of agents, `policy explain`, and an
oracle that reads the rules one by one agree about generated policies."""

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, PolicyDenied
from omnigraphdb.policy import PolicyAction, PolicyEngine
from omnigraphdb.surfaces.cli.policies import explain
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.agents import LocalBackend
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.tokens import read_tokens
from omnigraphdb.surfaces.mcp.session import Session
from omnigraphdb.values import dataclass

SCHEMA = "node Port { code: String @key }"
ACTORS = ("ann", "bob", 'o"brien', "új", "nobody")
GROUPS = ("readers", "writers", "others")
BRANCHES = ("main", "draft", "new", "nowhere")
ACTIONS = (
    "read",
    "export",
    "change",
    "schema_apply",
    "branch_create",
    "branch_delete",
    "branch_merge",
    "invoke_query",
)
BAD = "query q() {"
"""A text that fails after the gate: who may ask gets another error than who may not."""

Asked = tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request as each surface spells it; `asks` is what a policy must allow, all of it."""

    asks: tuple[Asked, ...]
    served: tuple[Asked, ...] = ()
    """What only doors that serve others ask for besides."""
    route: tuple[str, str, Any]
    tool: tuple[str, dict[str, Any]] | None = None
    engine: Callable[[Graph, str], Any] | None = None


CASES = (
    Case(
        asks=(("change", {"branch": "main"}),),
        route=("POST", "/mutate", {"query": BAD}),
        tool=("mutate", {"query": BAD}),
        engine=lambda graph, actor: graph.mutate(BAD, actor=actor),
    ),
    Case(
        asks=(("change", {"branch": "draft"}),),
        route=("POST", "/mutate", {"query": BAD, "branch": " draft"}),
        tool=("mutate", {"query": BAD, "branch": "draft "}),
        engine=lambda graph, actor: graph.mutate(BAD, actor=actor, branch="draft"),
    ),
    Case(
        asks=(("change", {"branch": "draft"}),),
        route=("POST", "/load", {"data": "no json", "branch": "draft"}),
        tool=("load", {"data": "no json", "branch": "draft"}),
        engine=lambda graph, actor: graph.load(
            io.BytesIO(b"no json"), mode="merge", branch="draft", actor=actor
        ),
    ),
    Case(
        asks=(
            ("branch_create", {"branch": "draft", "target_branch": "new"}),
            ("read", {"branch": "draft"}),
            ("change", {"branch": "new"}),
        ),
        route=("POST", "/load", {"data": "no json", "branch": "new", "from": "draft"}),
        tool=("load", {"data": "no json", "branch": "new", "from": "draft"}),
        engine=lambda graph, actor: graph.load(
            io.BytesIO(b"no json"), mode="merge", branch="new", from_branch="draft", actor=actor
        ),
    ),
    Case(
        asks=(
            ("branch_create", {"branch": "nowhere", "target_branch": "new"}),
            ("read", {"branch": "nowhere"}),
        ),
        route=("POST", "/branches", {"name": "new", "from": "nowhere"}),
        tool=("branches_create", {"name": "new", "from": "nowhere"}),
        engine=lambda graph, actor: graph.branch_create("new", from_branch="nowhere", actor=actor),
    ),
    Case(
        asks=(("branch_delete", {"target_branch": "nowhere"}),),
        route=("DELETE", "/branches/nowhere", None),
        tool=("branches_delete", {"name": "nowhere"}),
        engine=lambda graph, actor: graph.branch_delete("nowhere", actor=actor),
    ),
    Case(
        asks=(
            ("branch_merge", {"branch": "nowhere", "target_branch": "main"}),
            ("read", {"branch": "nowhere"}),
        ),
        served=(("read", {"branch": "main"}),),
        route=("POST", "/branches/merge", {"source": "nowhere"}),
        tool=("branches_merge", {"source": "nowhere"}),
        engine=lambda graph, actor: graph.merge("nowhere", actor=actor),
    ),
    Case(
        asks=(("schema_apply", {"target_branch": "main"}),),
        route=("POST", "/schema/apply", {"schema_source": "node"}),
        engine=lambda graph, actor: graph.schema_apply("node", actor=actor),
    ),
    Case(
        asks=(("read", {"branch": "main"}),),
        route=("POST", "/query", {"query": BAD}),
        tool=("query", {"query": BAD}),
    ),
    Case(
        asks=(("read", {"branch": "draft"}),),
        route=("POST", "/query", {"query": BAD, "branch": "draft"}),
        tool=("query", {"query": BAD, "branch": "draft"}),
    ),
    Case(
        asks=(("export", {"branch": "draft"}),),
        route=("POST", "/export", {"branch": "draft", "type_names": ["Nothing"]}),
    ),
    Case(
        asks=(("invoke_query", {"query": "codes"}), ("read", {"branch": "draft"})),
        route=("POST", "/queries/codes", {"branch": "draft", "params": {"least": []}}),
        tool=("codes", {"branch": "draft", "least": "x"}),
    ),
    Case(
        asks=(("invoke_query", {"query": "grow"}), ("change", {"branch": "main"})),
        route=("POST", "/queries/grow", {"params": {"c": []}}),
        tool=("grow", {"c": "\ud800"}),
    ),
)


def make_policy(chance: random.Random) -> dict[str, Any]:
    """A policy of a few rules, some of them narrow."""
    rules = []
    for number in range(chance.randint(0, 9)):
        actions = chance.sample(ACTIONS, chance.randint(1, 4))
        found = [PolicyAction(one) for one in actions]
        allow: dict[str, Any] = {"actors": {"group": chance.choice(GROUPS)}, "actions": actions}
        scope = chance.choice(("any", "protected", "unprotected"))
        if all(one.uses_branch_scope for one in found):
            allow["branch_scope"] = scope
        elif all(one.uses_target_branch_scope for one in found):
            allow["target_branch_scope"] = scope
        elif actions == ["invoke_query"] and chance.random() < 0.7:
            allow["queries"] = [chance.choice(("codes", "grow", "other"))]
        rules.append({"id": f"r{number}", "allow": allow})
    return {
        "version": 1,
        "groups": {
            one: chance.sample(ACTORS[:-1], chance.randint(1, len(ACTORS) - 1)) for one in GROUPS
        },
        "protected_branches": chance.sample(BRANCHES, chance.randint(0, 3)),
        "rules": rules,
    }


def expect(policy: Mapping[str, Any], actor: str, action: str, asked: Mapping[str, str]) -> bool:
    """Read the rules one by one."""

    def covers(scope: str, name: str | None) -> bool:
        is_protected = name in policy["protected_branches"]
        return scope == "any" or (name is not None and is_protected == (scope == "protected"))

    return any(
        actor in policy["groups"][allow["actors"]["group"]]
        and action in allow["actions"]
        and covers(allow.get("branch_scope", "any"), asked.get("branch"))
        and covers(allow.get("target_branch_scope", "any"), asked.get("target_branch"))
        and ("queries" not in allow or asked.get("query") in allow["queries"])
        for allow in (one["allow"] for one in policy["rules"])
    )


# ---- what each surface decides


def ask_engine(graph: Graph, case: Case, actor: str) -> bool | None:
    if case.engine is None:
        return None
    try:
        case.engine(graph, actor)
    except PolicyDenied:
        return False
    except OmniError:
        return True
    raise AssertionError("the request was to fail after the gate")


async def ask_route(http: httpx.AsyncClient, case: Case, actor: str) -> bool:
    method, path, body = case.route
    found = await http.request(
        method, path, json=body, headers={"authorization": f"Bearer t{ACTORS.index(actor)}"}
    )
    said = found.json()
    assert found.status_code >= 400
    if said["error"] == "stored query not found":
        return False
    return bool(said["kind"] != "forbidden")


def ask_tool(session: Session, case: Case) -> bool | None:
    if case.tool is None:
        return None
    name, given = case.tool
    tool = session.find_tool(name)
    if tool is None:
        return False
    found = session.call(tool, given)
    return not found.is_error or bool(found.body["kind"] != "forbidden")


def ask_command(path: Path, actor: str, action: str, asked: Mapping[str, str]) -> bool:
    printed = io.StringIO()
    with redirect_stdout(printed):
        explain(
            actor,
            action,
            policy=path,
            branch=asked.get("branch"),
            target_branch=asked.get("target_branch"),
            query=asked.get("query"),
            json=True,
        )
    return bool(json.loads(printed.getvalue())["decision"] == "allow")


@contextmanager
def serve(graph: Graph, queries: Path) -> Iterator[tuple[Served, ServedGraph, Application]]:
    place = ServedGraph(id="default", graph=graph, queries=graph.stored_queries(queries))
    tokens = {one: f"t{number}" for number, one in enumerate(ACTORS)}
    served = Served(
        graphs={"default": place},
        default="default",
        gate=Gate(has_tokens=True),
        tokens=read_tokens({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens)}),
        admission=Admission(16, 1 << 30),
    )
    app = Application(served)
    try:
        yield served, place, app
    finally:
        app.close()


def compare(graph: Graph, folder: Path, chance: random.Random) -> int:
    """Ask everyone about one policy; give how many requests were allowed."""
    policy = make_policy(chance)
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(policy, allow_unicode=True), "utf-8")
    guarded = graph.with_policy(PolicyEngine.load_graph(path))
    allowed = 0

    async def ask_all(served: Served, place: ServedGraph, app: Application) -> int:
        count = 0
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for case in CASES:
                actor = chance.choice(ACTORS)
                wanted = [expect(policy, actor, *one) for one in case.asks]
                served_too = [expect(policy, actor, *one) for one in case.served]
                shown = [ask_command(path, actor, *one) for one in (*case.asks, *case.served)]
                assert shown == wanted + served_too, (policy, actor, case.asks)
                session = Session(LocalBackend(served, place, actor), "s")
                assert ask_engine(guarded, case, actor) in (None, all(wanted)), (policy, actor)
                doors = {
                    "route": await ask_route(http, case, actor),
                    "tool": ask_tool(session, case),
                }
                same = {one for one in doors.values() if one is not None}
                assert same == {all(wanted + served_too)}, (policy, actor, case.asks, doors)
                count += all(wanted + served_too)
        return count

    with serve(guarded, folder / "queries") as (served, place, app):
        allowed += anyio.run(ask_all, served, place, app)
    return allowed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("parity")
    with omnigraphdb.init(made / "g", SCHEMA) as graph:
        graph.branch_create("draft")
    (made / "queries").mkdir()
    (made / "queries" / "stored.gq").write_text(
        "query codes($least: String) { match { $p: Port  $p.code >= $least } return { $p.code } }\n"
        "query grow($c: String) { insert Port { code: $c } }"
    )
    return made


def run(folder: Path, seed: int, policies: int) -> None:
    chance = random.Random(seed)
    with omnigraphdb.open(folder / "g") as graph:
        allowed = sum(compare(graph, folder, chance) for _ in range(policies))
        assert 0 < allowed < policies * len(CASES)
        assert [one.name for one in graph.branches()] == ["main", "draft"]
        assert len(graph.commits()) == 1


def test_every_gate_decides_the_same(folder: Path) -> None:
    run(folder, 1, 8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_every_gate_decides_the_same_about_thousands_of_policies(folder: Path, seed: int) -> None:
    run(folder, seed, 300)
