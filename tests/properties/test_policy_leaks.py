"""Whatever an actor may not read is in no answer: under random policies, random actors call every route and every tool of a
server, and the secrets of branches that they may not read are looked for in every byte that comes back, and in every branch
that a call has changed."""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from omnigraphdb.ids import MAIN
from omnigraphdb.policy import PolicyEngine
from omnigraphdb.policy.actions import PolicyAction, PolicyKind
from omnigraphdb.surfaces.mcp.session import Session
from omnigraphdb.surfaces.mcp.tools import BUILT_IN, OF_SESSION, PROPOSE, Tool
from tests.properties.test_policy_parity import expect
from tests.support.boundary import (
    ACTORS,
    ROUTES,
    SECRET_QUERY,
    STORED_NAMES,
    Door,
    World,
    find_leaks,
    list_hidden,
    make_world,
    note_writes,
    open_door,
)
from tests.support.boundary_requests import Draws

ACTIONS = tuple(one for one in PolicyAction if one.resource_kind is PolicyKind.GRAPH)
CALLS = 24
"""Calls of one policy."""
MORE_POLICIES = 12
"""Policies at most under which what is left is asked."""
TOOL = "tool "
"""How an operation is spelled that is a tool."""
READ_RESOURCES = "resources"
OPERATIONS = (
    *(route.operation for route in ROUTES),
    *(TOOL + tool.name for tool in (*BUILT_IN, PROPOSE)),
    *(TOOL + name for name in STORED_NAMES),
    READ_RESOURCES,
)
CHANGES_OF_SCHEMA = ("planSchema", "applySchema", "applySchemaIfGraphCommit")
UNANSWERED = {
    "listGraphs": "it asks the policy of a server, and this one has none",
    f"{TOOL}graphs_list": "as listGraphs",
    "applySchema": "it is refused while there are branches; the graph without branches applies it",
    "applySchemaIfGraphCommit": "as applySchema",
}
"""Operations that the graph with branches never answers, and why."""


def make_policy(chance: random.Random, world: World) -> dict[str, Any]:
    """A policy that protects a few branches, and lets each actor do most things with the others."""
    rules = []
    for number, (actor, action) in enumerate(product(ACTORS, ACTIONS)):
        if chance.random() < 0.2:
            continue
        allow: dict[str, Any] = {"actors": {"group": actor}, "actions": [action.value]}
        scope = chance.choice(("any", "any", "protected", *("unprotected",) * 6))
        if action.uses_branch_scope:
            allow["branch_scope"] = scope
        elif action.uses_target_branch_scope:
            allow["target_branch_scope"] = chance.choice(("any", "unprotected"))
        elif action.uses_queries and chance.random() < 0.6:
            allow["queries"] = chance.sample(STORED_NAMES, chance.randint(1, 2))
        rules.append({"id": f"r{number}", "allow": allow})
    secret = [name for name in world.list_branches() if name != MAIN]
    protected = chance.sample(secret, min(len(secret), chance.randint(1, 3)))
    main_share = 0.2 if secret else 0.7
    return {
        "version": 1,
        "groups": {one: [one] for one in ACTORS},
        "protected_branches": [*protected, *([MAIN] if chance.random() < main_share else [])],
        "rules": rules,
    }


def list_allowed(policy: dict[str, Any], actor: str, action: str, names: list[str]) -> set[str]:
    return {name for name in names if expect(policy, actor, action, {"branch": name})}


class Run:
    """Calls under many policies, and what they were."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        operations: tuple[str, ...] = OPERATIONS,
        has_branches: bool = True,
    ) -> None:
        self.chance = random.Random(seed)
        self.world = make_world(folder, has_branches=has_branches)
        self.draws = Draws(self.chance, self.world)
        self.every = self.operations = operations
        self.routes = {one.operation: one for one in ROUTES}
        self.turns: list[str] = []
        self.answered: Counter[str] = Counter()
        """Calls that did what they were asked, by the operation."""
        self.calls = 0

    def try_policy(self) -> None:
        policy = make_policy(self.chance, self.world)
        guarded = self.world.graph.with_policy(PolicyEngine.load_graph(_spell(policy)))
        with open_door(self.world, guarded) as door:
            for _ in range(CALLS):
                self.try_call(door, policy)

    def try_call(self, door: Door, policy: dict[str, Any]) -> None:
        operation = self.draw_operation()
        actor = self.draw_actor(door, operation)
        names = [*self.world.list_branches(), *self.world.secrets]
        readable = list_allowed(policy, actor, "read", names)
        hidden = list_hidden(self.world, readable, list_allowed(policy, actor, "export", names))
        if not expect(policy, actor, "invoke_query", {"query": SECRET_QUERY}):
            hidden.add(SECRET_QUERY)
        request, answer = self.make_call(door, actor, operation)
        leaks = find_leaks(answer, request, hidden)
        assert not leaks, (operation, actor, policy, request, leaks, answer[:3000])
        stolen = note_writes(self.world, readable, request)
        assert not stolen, (operation, actor, policy, request, stolen)
        self.calls += 1

    def draw_operation(self) -> str:
        """Draw in rounds of every operation."""
        if not self.turns:
            self.turns = list(self.operations)
            self.chance.shuffle(self.turns)
        return self.turns.pop()

    def list_unanswered(self) -> set[str]:
        """List the operations of which no call did what it was asked."""
        return {one for one in self.every if not self.answered[one]}

    def ask_unanswered(self, unanswered: Collection[str] = ()) -> None:
        """Ask what no call was let in to yet, but for what is never answered, under more policies."""
        for _ in range(MORE_POLICIES):
            self.operations = tuple(sorted(self.list_unanswered() - set(unanswered)))
            self.turns = []
            if not self.operations:
                return
            self.try_policy()

    def draw_actor(self, door: Door, operation: str) -> str:
        """Draw who calls; a tool is called by somebody who has it, if there is anybody."""
        actors = self.chance.sample(ACTORS, len(ACTORS))
        for actor in actors:
            if not operation.startswith(TOOL) or self.open_session(door, actor, operation)[1]:
                return actor
        return actors[0]

    def open_session(self, door: Door, actor: str, operation: str) -> tuple[Session, Tool | None]:
        """The session of an agent, and its tool."""
        name = operation.removeprefix(TOOL)
        has_branch = name == PROPOSE.name or (name not in OF_SESSION and self.chance.random() < 0.2)
        session = door.open_session(actor, own_branch=has_branch)
        return session, session.find_tool(name)

    def make_call(self, door: Door, actor: str, operation: str) -> tuple[str, bytes]:
        """Call an operation; give the request and the answer."""
        route = self.routes.get(operation)
        if route is not None:
            request, answer, status = door.ask(actor, route, self.draws.draw_route(route))
            assert status != 500, (route.path, request, answer)
            self.answered[operation] += status < 300
            return request, answer
        session, tool = self.open_session(door, actor, operation)
        listed = repr([(one.name, one.description) for one in session.list_tools()]).encode()
        if operation == READ_RESOURCES:
            self.answered[operation] += 1
            return "", door.read_resources(session) + listed
        if tool is None:
            return "", listed
        asked, answered = [], [listed]
        # A session has nothing to propose before it wrote.
        write = session.find_tool("mutate") if tool.name == PROPOSE.name else None
        for one in (tool,) if write is None else (write, tool):
            request, answer, is_error = door.call(session, one, self.draws.draw_arguments(one))
            asked.append(request)
            answered.append(answer)
        self.answered[operation] += not is_error
        return "\n".join(asked), b"\n".join(answered)

    def end(self) -> None:
        self.world.graph.close()


def _spell(policy: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(policy)


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    made = Run(tmp_path, getattr(request, "param", 1))
    yield made
    made.end()


@pytest.fixture
def run_alone(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Calls of a graph that has main and no branch, where the schema may change."""
    operations = (*CHANGES_OF_SCHEMA, "mutate", "query", "loadNdjson")
    made = Run(tmp_path, getattr(request, "param", 1), operations=operations, has_branches=False)
    yield made
    made.end()


def test_no_answer_holds_what_its_actor_may_not_read(run: Run) -> None:
    for _ in range(10):
        run.try_policy()
    run.ask_unanswered(UNANSWERED)
    # Every operation did what it was asked: reads showed secrets to those who may, and writers wrote.
    assert run.list_unanswered() == UNANSWERED.keys()


def test_no_change_of_the_schema_tells_rows_to_whom_may_not_read(run_alone: Run) -> None:
    for _ in range(3):
        run_alone.try_policy()
    run_alone.ask_unanswered()
    assert run_alone.list_unanswered() == set()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("run", range(2, 10), indirect=True)
def test_no_answer_of_thousands_holds_what_its_actor_may_not_read(run: Run) -> None:
    for _ in range(90):
        run.try_policy()
    assert run.list_unanswered() == UNANSWERED.keys()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("run_alone", range(2, 6), indirect=True)
def test_no_schema_change_of_thousands_tells_rows_to_whom_may_not_read(run_alone: Run) -> None:
    for _ in range(60):
        run_alone.try_policy()
    assert run_alone.list_unanswered() == set()
