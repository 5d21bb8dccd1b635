"""The gate: every writer asks the policy first, and a denied write leaves every byte as it was."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import PolicyConfigError, PolicyDenied, UserInputError
from omnigraphdb.policy import PolicyAction, PolicyEngine, ResourceScope

SCHEMA = "node Port { code: String @key  rank: F64? }\nedge Feeds: Port -> Port"
ADD = 'query add() { insert Port { code: "B" } }'
RECORD = [{"type": "Port", "data": {"code": "A"}}]

POLICY = """
version: 1
groups:
  may: [act-may]
  reads: [act-reads]
protected_branches: [main]
rules:
  - id: all
    allow: { actors: { group: may }, actions: [read, change, schema_apply, branch_create, branch_delete, branch_merge, maintain] }
  - id: reads
    allow: { actors: { group: reads }, actions: [read] }
"""

WRITERS: dict[str, tuple[Callable[[Graph, str | None], Any], str, dict[str, str]]] = {
    "mutate": (lambda g, a: g.mutate(ADD, actor=a), "change", {"branch": "main"}),
    "mutate by a branch with blanks": (
        lambda g, a: g.mutate(ADD, actor=a, branch=" main"),
        "change",
        {"branch": "main"},
    ),
    "load": (
        lambda g, a: g.load(RECORD, mode="merge", branch="draft", actor=a),
        "change",
        {"branch": "draft"},
    ),
    "load that forks": (
        lambda g, a: g.load(RECORD, mode="merge", branch="new", from_branch="main", actor=a),
        "branch_create",
        {"branch": "main", "target_branch": "new"},
    ),
    "assign": (
        lambda g, a: g.assign("Port.rank", ["X"], [1.0], actor=a),
        "change",
        {"branch": "main"},
    ),
    "write of scores": (
        lambda g, a: g.project(edges=["Feeds"]).pagerank().write("Port.rank", actor=a),
        "change",
        {"branch": "main"},
    ),
    "schema_apply": (
        lambda g, a: g.schema_apply(SCHEMA + "\nnode Berth { n: I32 @key }", actor=a),
        "schema_apply",
        {"target_branch": "main"},
    ),
    "branch_create": (
        lambda g, a: g.branch_create("more", from_branch="draft", actor=a),
        "branch_create",
        {"branch": "draft", "target_branch": "more"},
    ),
    "branch_delete": (
        lambda g, a: g.branch_delete("draft", actor=a),
        "branch_delete",
        {"target_branch": "draft"},
    ),
    "merge": (
        lambda g, a: g.merge("draft", actor=a),
        "branch_merge",
        {"branch": "draft", "target_branch": "main"},
    ),
    "tag": (lambda g, a: g.tag("v1", actor=a), "change", {"branch": "main"}),
    "optimize": (lambda g, a: g.optimize(actor=a), "maintain", {}),
    "ensure_indices": (lambda g, a: g.ensure_indices(actor=a), "maintain", {}),
    "cleanup": (lambda g, a: g.cleanup(keep=1, confirm=True, actor=a), "maintain", {}),
    "repair": (lambda g, a: g.repair(confirm=True, actor=a), "maintain", {}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with omnigraphdb.init(str(tmp_path / "g"), SCHEMA) as graph:
        graph.load([{"type": "Port", "data": {"code": "X"}}], mode="append")
        graph.branch_create("draft")
        graph.load([{"type": "Port", "data": {"code": "Y"}}], mode="append", branch="draft")
    return tmp_path / "g"


def _digest(folder: Path) -> dict[str, str]:
    """Every file with its content; locks are taken and left empty."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__locks" not in path.parts
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_asks_before_it_writes(folder: Path, name: str) -> None:
    write, action, asked = WRITERS[name]
    with omnigraphdb.open(folder, policy=POLICY) as graph:
        before = _digest(folder)
        for actor, fact in (
            ("act-reads", f"'act-reads' may not {action}"),
            ("act-nobody", "not in any group"),
            (None, "no actor was given"),
        ):
            with pytest.raises(PolicyDenied) as caught:
                write(graph, actor)
            assert fact in str(caught.value)
            assert caught.value.details["denied"] == {"action": action} | asked
        assert _digest(folder) == before
        assert [one.name for one in graph.branches()] == ["main", "draft"]
    if name == "schema_apply":
        with omnigraphdb.open(folder) as graph:
            graph.branch_delete("draft")
    with omnigraphdb.open(folder, policy=POLICY, actor="act-may") as graph:
        write(graph, None)


def test_the_right_to_fork_is_asked_only_when_a_branch_is_made(folder: Path) -> None:
    only_change = POLICY.replace("branch_create, branch_delete, ", "")
    with omnigraphdb.open(folder, policy=only_change, actor="act-may") as graph:
        graph.load(RECORD, mode="merge", branch="draft", from_branch="main")
        with pytest.raises(PolicyDenied, match="branch_create 'main' to 'new'"):
            graph.load(RECORD, mode="merge", branch="new", from_branch="main")
        assert [one.name for one in graph.branches()] == ["main", "draft"]


def test_reads_and_previews_need_no_right(folder: Path) -> None:
    with omnigraphdb.open(folder, policy="version: 1") as graph:
        assert graph.query("query q() { match { $p: Port } return { $p.code } }").rows
        assert graph.merge("draft", dry_run=True).outcome
        assert graph.on("draft").entity("Port", "Y") is not None
        with pytest.raises(PolicyDenied):
            graph.on("draft").mutate(ADD)


class _Checker:
    def __init__(self, error: Exception | None) -> None:
        self.asked: list[tuple[str, ResourceScope, str | None]] = []
        self.error = error

    def check(self, action: PolicyAction, scope: ResourceScope, actor: str | None) -> None:
        self.asked.append((action.value, scope, actor))
        if self.error is not None:
            raise self.error


def test_any_checker_guards_and_a_broken_one_lets_nothing_through(folder: Path) -> None:
    with omnigraphdb.open(folder) as graph:
        head = graph.commits()[0].id
        with pytest.raises(ZeroDivisionError):
            graph.with_policy(_Checker(ZeroDivisionError())).mutate(ADD, actor="ann")
        assert graph.commits()[0].id == head
        lenient = _Checker(None)
        graph.with_policy(lenient).mutate(ADD, actor="ann")
        assert lenient.asked == [("change", ResourceScope.branch("main"), "ann")]
        graph.with_policy(None).mutate(ADD.replace("B", "C"))


def test_policies_that_are_none_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyConfigError):
        omnigraphdb.open(folder, policy="version: 2")
    with pytest.raises(PolicyConfigError, match="cannot be read"):
        omnigraphdb.open(folder, policy=tmp_path / "nowhere.yaml")
    with pytest.raises(UserInputError, match="a path or a checker"):
        omnigraphdb.open(folder, policy=7)  # type: ignore[arg-type]
    assert PolicyEngine.load_graph(POLICY).authorize("act-may", "change", "main").allowed
