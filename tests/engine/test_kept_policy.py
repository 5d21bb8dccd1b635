"""A policy that the graph keeps: asked by every handle, replaced whole, by those who may, and no part of any branch."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.policing import replace_policy
from omnigraphdb.errors import (
    ConflictError,
    FormatVersion,
    NotFoundError,
    PolicyConfigError,
    PolicyDenied,
    ReadOnlyError,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, parked
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest import stamp
from omnigraphdb.manifest.records import MANIFEST_SCHEMA, ObjectType, head_row
from omnigraphdb.policy import PolicyEngine
from tests.support.child import run_child
from tests.support.settled import assert_settled

SCHEMA = "node Port { code: String @key }"
ADD = "query add($c: String) { insert Port { code: $c } }"
LINES = [{"type": "Port", "data": {"code": "A"}}]
RULES = """
version: 1
groups: { owners: [ada], team: [ada, bob] }
protected_branches: [main]
rules:
  - id: drafts
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
  - id: owners
    allow: { actors: { group: owners }, actions: [read, change, branch_create, branch_merge, policy_change] }
"""
STRICT = RULES.replace("team: [ada, bob]", "team: [ada]")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraphdb.init(tmp_path / "g", SCHEMA)
    made.branch_create("draft")
    made.set_policy(RULES, actor="ada")
    return made


def add(graph: Graph, code: str, actor: str | None, branch: str = "main") -> None:
    graph.mutate(ADD, {"c": code}, actor=actor, branch=branch)


def test_every_handle_asks_it(graph: Graph, tmp_path: Path) -> None:
    with omnigraphdb.open(tmp_path / "g") as other:
        for handle in (graph, other, other.on("draft"), other.with_policy(None)):
            with pytest.raises(PolicyDenied, match="'bob' may not change branch 'main'"):
                add(handle, "A", "bob")
            with pytest.raises(PolicyDenied, match="no actor was given"):
                add(handle, "A", None)
        add(other, "B", "bob", "draft")
        add(other, "C", "ada")
    assert run_child(write_as_bob, str(tmp_path / "g")) != 0


def write_as_bob(place: str) -> None:
    with omnigraphdb.open(place) as graph:
        add(graph, "child", "bob")


def test_a_handle_that_is_open_sees_the_next_version(graph: Graph, tmp_path: Path) -> None:
    with omnigraphdb.open(tmp_path / "g") as other:
        add(other, "A", "bob", "draft")
        graph.set_policy(STRICT, actor="ada")
        with pytest.raises(PolicyDenied, match="not in any group"):
            add(other, "B", "bob", "draft")
        graph.set_policy(None, actor="ada")
        add(other, "C", None)


def test_a_handle_that_was_open_before_sees_the_first_version(tmp_path: Path) -> None:
    """Each writer comes from a handle that has not looked at main since the graph had no policy."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.branch_create("draft")
        others = [omnigraphdb.open(tmp_path / "g", actor="eve") for _ in WRITERS]
        graph.set_policy(RULES, actor="ada")
        for other, write in zip(others, WRITERS, strict=True):
            with pytest.raises(PolicyDenied, match="not in any group"):
                write(other)
            other.close()
        assert [one.name for one in graph.branches()] == ["main", "draft"]
        assert len(graph.commits(branch="draft")) == len(graph.commits()) == 1


WRITERS: tuple[Callable[[Graph], object], ...] = (
    lambda graph: add(graph, "A", None),
    lambda graph: add(graph, "A", None, "draft"),
    lambda graph: graph.load(LINES, mode="merge", branch="made", from_branch="main"),
    lambda graph: graph.branch_create("made"),
    lambda graph: graph.branch_delete("draft"),
    lambda graph: graph.merge("draft"),
    lambda graph: graph.schema_apply(SCHEMA + " node Ship { name: String @key }"),
    lambda graph: graph.tag("today"),
    lambda graph: graph.optimize(),
    lambda graph: graph.set_policy(None),
)


@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize("at", [Failpoint.STAGED, Failpoint.TABLES_COMMITTED])
def test_a_write_under_way_is_refused_when_the_policy_changes(
    tmp_path: Path, branch: str, at: Failpoint
) -> None:
    told: list[Exception] = []

    def write(graph: Graph) -> None:
        try:
            add(graph, "A", "eve", branch)
        except ConflictError as error:
            told.append(error)

    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.branch_create("draft")
        with parked(at) as park, omnigraphdb.open(tmp_path / "g") as other:
            thread = threading.Thread(target=write, args=(graph,))
            thread.start()
            assert park.reached.wait(30)
            other.set_policy(RULES, actor="ada")
            park.release()
            thread.join()
        assert ["replaced while this write ran" in str(one) for one in told] == [True]
        assert "eve" not in {one.actor for one in graph.commits(branch=branch)}
        assert graph.table("Port", branch=branch).num_rows == 0
        with pytest.raises(PolicyDenied):
            add(graph, "A", "eve", branch)
        graph.mutate(ADD, {"c": "A"}, actor="ada", branch=branch)
        assert_settled(graph)


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_release_that_knows_no_policies_cannot_write_beside_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    """The graph of an earlier release, with a handle of it, gets its first policy by this one."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.branch_create("draft")
    rows = graph._opened.manifest.rows
    for name in (None, "draft"):
        rows.set_metadata(rows.load(name), stamp.STAMP, "5")
    with monkeypatch.context() as earlier:
        earlier.setattr(stamp, "CURRENT", 5)
        before = omnigraphdb.open(tmp_path / "g", read_only=True)
    with omnigraphdb.open(tmp_path / "g") as graph:
        graph.set_policy(RULES, actor="ada")
    monkeypatch.setattr(stamp, "CURRENT", 5)
    with pytest.raises(FormatVersion, match="upgrade omnigraphdb"):
        omnigraphdb.open(tmp_path / "g")
    with pytest.raises(FormatVersion, match="upgrade omnigraphdb"):
        before._engine.view(BranchName(branch))


def test_versions_stay_and_say_who_set_them(graph: Graph) -> None:
    first = graph.policy()
    assert first is not None
    assert (first.version, first.text, first.actor) == (1, RULES, "ada")
    graph.set_policy(STRICT, actor="ada")
    removed = graph.set_policy(None, actor="ada")
    assert removed.version == 3
    assert graph.policy() is None
    assert [str(graph.policy(n)) for n in (1, 2, 3)] == [RULES, STRICT, ""]
    with pytest.raises(NotFoundError):
        graph.policy(4)
    again = graph.set_policy(RULES)
    assert (again.version, again.actor) == (4, None)


def test_only_who_may_changes_it(graph: Graph) -> None:
    for actor in ("bob", "eve", None):
        for text in (STRICT, None):
            with pytest.raises(PolicyDenied):
                graph.set_policy(text, actor=actor)
    kept = graph.policy()
    assert kept is not None
    assert kept.version == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 1", "nobody could ever change"),
        (RULES.replace(", policy_change", ""), "nobody could ever change"),
        (RULES.replace("branch_scope", "branch_scpoe"), "unknown key"),
        (RULES + "#" * 5_000_000, "more than"),
        ("version: 1\nkind: server", "kind 'server'"),
    ],
)
def test_what_could_lock_everyone_out_is_refused(graph: Graph, text: str, reason: str) -> None:
    with pytest.raises(PolicyConfigError, match=reason):
        graph.set_policy(text, actor="ada")
    kept = graph.policy()
    assert kept is not None
    assert kept.version == 1


@pytest.mark.parametrize("given", [3, b"version: 1", ["version: 1"]])
def test_what_is_no_policy_is_refused(graph: Graph, given: Any) -> None:
    with pytest.raises(UserInputError, match="text or a path"):
        graph.set_policy(given, actor="ada")


def test_a_policy_of_the_handle_is_asked_as_well(graph: Graph) -> None:
    narrow = PolicyEngine.load_graph(RULES.replace("team: [ada, bob]", "team: [bob]"))
    guarded = graph.with_policy(narrow)
    add(guarded, "A", "bob", "draft")
    add(guarded, "B", "ada")
    nothing = graph.with_policy(PolicyEngine.load_graph("version: 1"))
    for actor in ("ada", "bob"):
        with pytest.raises(PolicyDenied):
            add(nothing, "C", actor, "draft")
    with pytest.raises(PolicyDenied):
        nothing.set_policy(None, actor="ada")


def test_branches_and_merges_have_no_part_in_it(graph: Graph) -> None:
    graph.branch_create("later", from_branch="draft", actor="ada")
    graph.set_policy(STRICT, actor="ada")
    add(graph, "A", "ada", "later")
    graph.merge("later", actor="ada")
    kept = graph.policy()
    assert kept is not None
    assert kept.version == 2
    with pytest.raises(PolicyDenied, match="not in any group"):
        add(graph, "B", "bob", "draft")
    assert not any("policy" in (one.message or "") for one in graph.commits())


def test_of_two_changes_one_is_refused(graph: Graph) -> None:
    errors: list[Exception] = []

    def change(n: int) -> None:
        try:
            graph.set_policy(RULES + f"# {n}\n", actor="ada")
        except ConflictError as error:
            errors.append(error)

    threads = [threading.Thread(target=change, args=(n,)) for n in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    kept = graph.policy()
    assert kept is not None
    assert kept.version == 1 + 6 - len(errors)
    with pytest.raises(ConflictError, match="replaced meanwhile"):
        replace_policy(graph._engine, RULES, 0, "ada")


def test_a_reader_does_not_change_it(graph: Graph, tmp_path: Path) -> None:
    with (
        omnigraphdb.open(tmp_path / "g", read_only=True) as reader,
        pytest.raises(ReadOnlyError),
    ):
        reader.set_policy(STRICT, actor="ada")


@pytest.mark.parametrize("metadata", ["no json", "{}", '{"created_at": 1, "text": "version: 9"}'])
def test_one_that_cannot_be_read_allows_nothing(
    graph: Graph, tmp_path: Path, metadata: str
) -> None:
    rows = graph._engine.manifest.rows
    image = graph._engine.manifest.current("main").image  # type: ignore[arg-type]
    head = image.rows.filter(pa.compute.equal(image.rows["object_id"], head_row("main")))  # type: ignore[arg-type]
    damaged = {
        "object_id": "policy:00000002",
        "object_type": ObjectType.POLICY.value,
        "metadata": metadata,
        "table_key": "",
    }
    added = pa.Table.from_pylist([damaged], schema=MANIFEST_SCHEMA)
    rows.swap(image, pa.concat_tables([added, head]), head_row("main"))  # type: ignore[arg-type]
    with omnigraphdb.open(tmp_path / "g") as again:
        for actor in ("ada", "bob", None):
            with pytest.raises(PolicyDenied, match="cannot be read"):
                add(again, "A", actor, "draft")
            with pytest.raises(PolicyDenied, match="cannot be read"):
                again.with_policy(None).merge("draft", actor=actor)
        assert again.query("query q() { match { $p: Port } return { $p.code } }").rows == []
