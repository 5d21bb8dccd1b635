"""The base of a merge comes from the commit graph alone, whatever branches are called and whether they still are."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import HistoryReclaimed, MergeBaseUnavailable, MergeConflicts, NotFoundError
from omnigraphdb.limits import AGREED_ROWS_MAX

SCHEMA = "node P { name: String @key  a: I32?  b: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made: Graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    write_row(made, "main", "a")
    return made


def write_row(
    graph: Graph, branch: str, name: str, a: int | None = 1, b: int | None = None
) -> None:
    row = {"name": name, "a": a, "b": b}
    graph.load([{"type": "P", "data": row}], mode="merge", branch=branch)


def drop(graph: Graph, branch: str, name: str) -> None:
    text = "query d($n: String) { delete P where name = $n }"
    graph.mutate(text, {"n": name}, branch=branch)


def rows(graph: Graph, branch: str) -> dict[str, int | None]:
    found = graph.table("node:P", branch=branch).to_pylist()
    return {row["name"]: row["a"] for row in found}


def is_sound(graph: Graph) -> bool:
    return graph.doctor() == []


# ---- the reproductions


def through_main(graph: Graph, r: str, x: str) -> str:
    """Work of `r` reaches `x` through main; `x` takes it back; that is merged into `r`."""
    graph.branch_create(r)
    graph.branch_create(x)
    write_row(graph, r, "new")
    write_row(graph, x, "own")
    write_row(graph, "main", "m")
    graph.merge(r)
    graph.merge("main", into=x)
    drop(graph, x, "new")
    return str(graph.merge(x, into=r).outcome)


@pytest.mark.parametrize(("r", "x"), [("r", "x"), ("z", "b"), ("b", "z"), ("a1", "a0")])
def test_work_that_came_through_main_is_shared_whatever_the_names(
    graph: Graph, r: str, x: str
) -> None:
    assert through_main(graph, r, x) == "fast_forward"
    assert rows(graph, r) == {"a": 1, "m": 1, "own": 1}
    assert is_sound(graph)


def test_unrelated_branches_do_not_change_a_merge(graph: Graph) -> None:
    for number in range(40):
        graph.branch_create(f"f{number:02d}")
    assert through_main(graph, "r", "x") == "fast_forward"
    assert rows(graph, "r") == {"a": 1, "m": 1, "own": 1}


def through_a_feature(graph: Graph, delete: Callable[[Graph], None]) -> None:
    """A feature is merged into two branches with work of their own; one of them takes a part of it back."""
    graph.branch_create("f")
    graph.branch_create("x")
    write_row(graph, "f", "new")
    write_row(graph, "f", "kept")
    write_row(graph, "f", "a", 7)
    write_row(graph, "x", "own")
    write_row(graph, "main", "m")
    graph.merge("f")
    graph.merge("f", into="x")
    delete(graph)
    drop(graph, "x", "new")
    write_row(graph, "main", "m2")


@pytest.mark.parametrize("deleted", [False, True])
def test_deleting_a_merged_branch_does_not_change_a_merge(graph: Graph, deleted: bool) -> None:
    through_a_feature(graph, lambda g: g.branch_delete("f") if deleted else None)
    result = graph.merge("x")
    assert result.outcome == "merged"
    assert rows(graph, "main") == {"a": 7, "kept": 1, "m": 1, "m2": 1, "own": 1}
    assert is_sound(graph)


# ---- several lowest common ancestors


def two_features(graph: Graph) -> None:
    """Two features, each merged into two branches that have work of their own."""
    for name in ("f", "g", "x"):
        graph.branch_create(name)
    write_row(graph, "f", "from_f")
    write_row(graph, "g", "from_g")
    write_row(graph, "x", "own")
    write_row(graph, "main", "m")
    for source, into in (("f", "main"), ("g", "main"), ("g", "x"), ("f", "x")):
        graph.merge(source, into=into)


@pytest.mark.parametrize("deleted", [(), ("f",), ("f", "g")])
def test_two_lowest_ancestors_are_one_base(graph: Graph, deleted: tuple[str, ...]) -> None:
    two_features(graph)
    for name in deleted:
        graph.branch_delete(name)
    drop(graph, "x", "from_f")
    drop(graph, "main", "from_g")
    assert graph.merge("x").outcome == "merged"
    assert rows(graph, "main") == {"a": 1, "m": 1, "own": 1}
    assert is_sound(graph)


def test_a_row_on_which_the_lowest_ancestors_disagree_is_taken_if_equal(graph: Graph) -> None:
    for name in ("f", "g", "x"):
        graph.branch_create(name)
    write_row(graph, "f", "a", 5, 1)
    write_row(graph, "g", "b", 5)
    write_row(graph, "main", "m")
    write_row(graph, "x", "own")
    for source, into in (("f", "main"), ("g", "main"), ("g", "x"), ("f", "x")):
        graph.merge(source, into=into)
    write_row(graph, "x", "a", 5, 2)
    write_row(graph, "main", "a", 5, 2)
    graph.merge("x")
    assert rows(graph, "main") == {"a": 5, "b": 5, "m": 1, "own": 1}


def test_a_row_changed_on_both_sides_is_a_conflict_over_a_virtual_base(graph: Graph) -> None:
    two_features(graph)
    write_row(graph, "x", "from_f", 8)
    write_row(graph, "main", "from_f", 9)
    drop(graph, "x", "from_g")
    write_row(graph, "main", "from_g", 9)
    write_row(graph, "x", "fresh", 8)
    write_row(graph, "main", "fresh", 9)
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("x")
    found = {(c.row_id, str(c.kind)) for c in caught.value.conflicts}
    assert {kind for _, kind in found} == {
        "divergent_update",
        "delete_vs_update",
        "divergent_insert",
    }
    preview = graph.merge("x", dry_run=True)
    assert {(c.row_id, str(c.kind)) for c in preview.conflicts} == found


def test_properties_are_mixed_over_a_virtual_base(graph: Graph) -> None:
    two_features(graph)
    write_row(graph, "x", "from_f", 1, 2)
    write_row(graph, "main", "from_f", 3, None)
    with pytest.raises(MergeConflicts):
        graph.merge("x")
    graph.merge("x", granularity="property")
    found = graph.table("node:P").to_pylist()
    assert [(r["a"], r["b"]) for r in found if r["name"] == "from_f"] == [(3, 2)]


def test_a_handle_that_only_reads_sees_the_same_merge(graph: Graph) -> None:
    two_features(graph)
    drop(graph, "x", "from_f")
    graph.branch_delete("f")
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        preview = reader.merge("x", dry_run=True)
    assert preview.tables == graph.merge("x").tables


# ---- a state that is gone


def test_a_state_that_is_gone_is_told_by_the_merge_that_brought_it(graph: Graph) -> None:
    """What the first parent had done by itself is not taken for the work of the branch that is gone."""
    graph.branch_create("f")
    graph.branch_create("x")
    write_row(graph, "f", "new")
    write_row(graph, "main", "a", 2)
    write_row(graph, "x", "own")
    graph.merge("f")
    graph.merge("f", into="x")
    graph.branch_delete("f")
    write_row(graph, "x", "a", 1)
    graph.merge("x")
    assert rows(graph, "main") == {"a": 2, "new": 1, "own": 1}


@pytest.mark.parametrize("count", [1, AGREED_ROWS_MAX + 1])
def test_a_same_change_of_both_sides_is_noted_or_not_guessed(graph: Graph, count: int) -> None:
    """The merge alone does not tell it from a row that only the target had changed."""
    names = [f"n{number}" for number in range(count)]
    put_all(graph, "main", names, 1)
    for branch in ("f", "x"):
        graph.branch_create(branch)
    for branch in ("f", "main", "x"):
        put_all(graph, branch, names, 2)
    graph.merge("f")
    graph.merge("f", into="x")
    graph.branch_delete("f")
    write_row(graph, "x", "n0", 1)
    if count > AGREED_ROWS_MAX:
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("x")
        assert [c.row_id for c in caught.value.conflicts] == [_id(graph, "n0")]
        return
    graph.merge("x")
    assert rows(graph, "main") == {"a": 1, "n0": 1}


def put_all(graph: Graph, branch: str, names: list[str], a: int) -> None:
    records = [{"type": "P", "data": {"name": name, "a": a}} for name in names]
    graph.load(records, mode="merge", branch=branch)


def _id(graph: Graph, name: str) -> str:
    found = graph.table("node:P").to_pylist()
    return str(next(row["id"] for row in found if row["name"] == name))


def stacked(graph: Graph) -> None:
    """Two branches of a third, each merged elsewhere; what they share was never merged by itself."""
    graph.branch_create("x")
    write_row(graph, "x", "own")
    write_row(graph, "main", "m")
    graph.branch_create("f")
    write_row(graph, "f", "shared")
    graph.branch_create("g", from_branch="f")
    write_row(graph, "f", "of_f")
    write_row(graph, "g", "of_g")
    graph.merge("f")
    graph.merge("g", into="x")
    drop(graph, "x", "shared")
    write_row(graph, "main", "m2")


def test_a_base_that_cannot_be_had_refuses_the_merge(graph: Graph) -> None:
    stacked(graph)
    expected = graph.merge("x", dry_run=True)
    assert expected.tables["node:P"] == (2, 0, 1)
    graph.branch_delete("g")
    graph.branch_delete("f")
    before = rows(graph, "main")
    for dry_run in (True, False):
        with pytest.raises(MergeBaseUnavailable) as caught:
            graph.merge("x", dry_run=dry_run)
    [shared] = caught.value.details["merge_base"]["commits"]
    assert graph.commit(shared).branch == "f"
    assert caught.value.to_dict()["kind"] == "merge_base_unavailable"
    assert rows(graph, "main") == before
    preview = graph.merge("x", allow_older_base=True, dry_run=True)
    result = graph.merge("x", allow_older_base=True)
    assert preview.tables == result.tables
    assert rows(graph, "main") == {
        **before,
        "own": 1,
        "of_g": 1,
    }
    assert is_sound(graph)


# ---- what a branch knows of commits that merges brought


def test_commits_that_a_merge_brought_outlive_their_branch(graph: Graph) -> None:
    graph.branch_create("f")
    write_row(graph, "f", "one")
    write_row(graph, "f", "two")
    made = graph.commits(branch="f", limit=2)
    write_row(graph, "main", "m")
    graph.merge("f")
    graph.branch_delete("f")
    history = graph.commits()
    assert not {c.id for c in made} & {c.id for c in history}
    known = graph.commits(all=True)
    assert {c.id for c in known} == {c.id for c in made} | {c.id for c in history}
    assert [c.created_at for c in known] == sorted((c.created_at for c in known), reverse=True)
    assert graph.commit(history[0].merged_parent or "") == made[0]
    assert graph.commit(made[1].id[:12]) == made[1]
    assert history[0].kind == "branch_merge"
    assert graph.commits(since=history[1]) == history[:1]
    with pytest.raises(HistoryReclaimed):
        graph.diff(made[0].id, "main")
    with pytest.raises(NotFoundError):
        graph.snapshot(at=made[0].id)
    assert is_sound(graph)


def test_a_commit_with_a_greater_number_does_not_become_the_head(graph: Graph) -> None:
    graph.branch_create("f")
    for number in range(5):
        write_row(graph, "f", f"f{number}")
    merge = graph.merge("f").commit
    assert merge is not None
    assert graph.commits()[0] == merge
    write_row(graph, "main", "later")
    assert graph.commits()[0].parent == merge.id
    with omnigraphdb.open(graph.uri) as again:
        assert again.commits() == graph.commits()
        assert again.commits(all=True) == graph.commits(all=True)


def test_what_belongs_to_one_branch_is_not_brought(graph: Graph) -> None:
    graph.branch_create("f")
    row = {"type": "P", "data": {"name": "one"}}
    graph.load([row], mode="append", branch="f")
    graph.merge("f")
    graph.branch_delete("f")
    rows_ = graph._engine.manifest.current("main").image.rows  # type: ignore[arg-type]
    texts = [
        text
        for kind, text in zip(
            rows_["object_type"].to_pylist(), rows_["metadata"].to_pylist(), strict=True
        )
        if kind == "merged_commit"
    ]
    assert texts
    assert not [text for text in texts if "operation_id" in text or "batch_id" in text]


# ---- cleanup keeps what merges need


def churn(graph: Graph, branch: str) -> None:
    """Leave versions behind that nothing shows any more."""
    for number in range(3):
        write_row(graph, branch, f"churn_{branch}", number)


@pytest.mark.parametrize("early", [True, False])
def test_cleanup_keeps_what_tells_a_state_that_goes_later(graph: Graph, early: bool) -> None:
    through_a_feature(graph, lambda _: None)
    if not early:
        graph.branch_delete("f")
    for branch in ("main", "x"):
        churn(graph, branch)
    graph.cleanup(keep=1, confirm=True)
    if early:
        graph.branch_delete("f")
        graph.cleanup(keep=1, confirm=True)
    graph.merge("x")
    expected = {"a": 7, "kept": 1, "m": 1, "m2": 1, "own": 1, "churn_main": 2, "churn_x": 2}
    assert rows(graph, "main") == expected
    assert is_sound(graph)


def test_cleanup_keeps_what_is_needed_when_a_branch_goes_that_was_merged_twice(
    graph: Graph,
) -> None:
    """What main and the feature share lies on the feature, which goes after it was merged once more."""
    graph.branch_create("f")
    write_row(graph, "f", "first")
    write_row(graph, "main", "m")
    graph.merge("f")
    graph.branch_create("x")
    for branch in ("main", "x", "f"):
        churn(graph, branch)
    graph.cleanup(keep=1, confirm=True)
    write_row(graph, "f", "second")
    graph.merge("f")
    graph.merge("f", into="x")
    graph.branch_delete("f")
    drop(graph, "x", "second")
    graph.merge("x", granularity="property")
    assert "second" not in rows(graph, "main")
    assert "first" in rows(graph, "main")
    assert is_sound(graph)
