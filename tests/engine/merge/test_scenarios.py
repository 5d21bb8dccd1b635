"""Stories of branches and merges from beginning to end."""

import itertools
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    ConflictError,
    MergeConflicts,
    NotFound,
    UserInputError,
)
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from tests.engine.merge.conftest import assert_settled, content
from tests.support.writers import in_threads


def add(graph: Graph, name: str, branch: str = "main", **values: Any) -> str:
    """Insert or change a person; gives the commit."""
    record = {"type": "Person", "data": {"name": name, **values}}
    done = graph.load([record], mode="merge", branch=branch)
    assert done.commit is not None
    return done.commit.id


def names(graph: Graph, branch: str = "main", at: str | None = None) -> set[str]:
    return set(graph.table("Person", branch=branch, at=at)["id"].to_pylist())


def edges(graph: Graph, branch: str = "main") -> list[tuple[str, str]]:
    rows = graph.table("Knows", branch=branch).to_pylist()
    return sorted((row["src"], row["dst"]) for row in rows)


def know(graph: Graph, one: str, other: str, branch: str = "main") -> None:
    graph.mutate(f'query k() {{ insert Knows {{ from: "{one}", to: "{other}" }} }}', branch=branch)


def test_disjoint_edits_merge_and_every_commit_keeps_its_own_truth(graph: Graph) -> None:
    graph.branch_create("one")
    graph.branch_create("two")
    truth = {graph.commits()[0].id: content(graph)}
    add(graph, "Eve", "one")
    graph.mutate('query d() { delete Person where name = "Dan" }', branch="two")
    assert str(graph.merge("one").outcome) == "fast_forward"
    truth[graph.commits()[0].id] = content(graph)
    assert str(graph.merge("two").outcome) == "merged"
    truth[graph.commits()[0].id] = content(graph)
    assert names(graph) == {"Alice", "Bob", "Carol", "Eve"}
    for commit, rows in truth.items():
        assert content(graph, at=commit) == rows
    assert_settled(graph)


def test_three_branches_merged_in_turn_leave_one_chain_with_three_merge_parents(
    graph: Graph,
) -> None:
    tips = {}
    for name in ("one", "two", "three"):
        graph.branch_create(name)
        tips[name] = add(graph, f"from {name}", name)
    for name in tips:
        graph.merge(name, actor=f"by {name}")
        add(graph, f"after {name}")
    commits = graph.commits()
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(commits))
    merged = [commit for commit in commits if commit.merged_parent]
    assert [c.merged_parent for c in merged] == [tips[n] for n in ("three", "two", "one")]
    assert [c.actor for c in merged] == ["by three", "by two", "by one"]
    assert {str(commit.kind) for commit in merged} == {"branch_merge"}
    assert_settled(graph)


def test_a_child_merges_into_its_parent_and_the_parent_into_main(graph: Graph) -> None:
    graph.branch_create("parent")
    add(graph, "Pia", "parent")
    graph.branch_create("child", from_branch="parent")
    add(graph, "Kim", "child")
    graph.mutate('query d() { delete Person where name = "Bob" }', branch="child")
    assert str(graph.merge("child", into="parent").outcome) == "fast_forward"
    assert content(graph, "parent") == content(graph, "child")
    graph.merge("parent")
    assert content(graph) == content(graph, "child")
    assert str(graph.merge("child").outcome) == "already_up_to_date"
    assert_settled(graph)


def test_main_merged_twice_into_a_long_branch_and_back(graph: Graph) -> None:
    graph.branch_create("long")
    for n in range(2):
        add(graph, f"main {n}", age=n)
        add(graph, f"long {n}", "long", age=n)
        assert str(graph.merge("main", into="long").outcome) == "merged"
        assert str(graph.merge("main", into="long").outcome) == "already_up_to_date"
    add(graph, "Alice", age=77)
    assert str(graph.merge("long").outcome) == "merged"
    assert str(graph.merge("main", into="long").outcome) == "fast_forward"
    assert content(graph) == content(graph, "long")
    assert {"main 0", "main 1", "long 0", "long 1"} < names(graph)
    assert_settled(graph)


def test_merges_back_and_forth_converge(graph: Graph) -> None:
    graph.branch_create("one")
    graph.branch_create("two")
    add(graph, "Eve", "one")
    add(graph, "Finn", "two")
    graph.merge("one", into="two")
    add(graph, "Alice", "one", age=31)
    graph.merge("two", into="one")
    graph.merge("one", into="two")
    assert content(graph, "one") == content(graph, "two")
    assert str(graph.merge("two", into="one").outcome) in ("fast_forward", "already_up_to_date")
    assert content(graph, "one") == content(graph, "two")
    assert_settled(graph)


def test_a_conflict_moves_nothing_and_can_be_resolved_on_the_branch(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Alice", "side", note="side")
    add(graph, "Eve", "side")
    add(graph, "Alice", note="main")
    before = (content(graph), graph.commits(), graph.snapshot().to_dict())
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("side")
    [conflict] = caught.value.conflicts
    assert "note" in conflict.properties
    assert "'side'" in conflict.message
    assert "'main'" in conflict.message
    assert before == (content(graph), graph.commits(), graph.snapshot().to_dict())
    add(graph, "Alice", "side", note="main")
    assert str(graph.merge("side").outcome) == "merged"
    assert "Eve" in names(graph)
    assert_settled(graph)


def test_what_was_merged_outlives_the_branch(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side", note="kept")
    know(graph, "Eve", "Alice", "side")
    graph.merge("side")
    graph.branch_delete("side")
    assert ("Eve", "Alice") in edges(graph)
    assert_settled(graph)
    graph.branch_create("side")
    assert names(graph, "side") == names(graph)
    add(graph, "Fay", "side")
    graph.merge("side")
    assert "Fay" in names(graph)
    assert_settled(graph)


def test_what_was_merged_into_a_branch_outlives_the_source(graph: Graph) -> None:
    graph.branch_create("one")
    graph.branch_create("two")
    add(graph, "Eve", "one")
    graph.merge("one", into="two")
    graph.branch_delete("one")
    with omnigraphdb.open(graph.uri) as again:
        assert "Eve" in names(again, "two")
    assert_settled(graph)


def test_work_that_cancels_out_is_recorded_without_moving_a_table(graph: Graph) -> None:
    graph.branch_create("side")
    know(graph, "Alice", "Dan", "side")
    graph.mutate('query d() { delete Knows where from = "Alice" }', branch="side")
    pins = graph.snapshot().to_dict()["tables"]
    result = graph.merge("side")
    assert (str(result.outcome), result.tables) == ("fast_forward", {})
    assert result.commit is not None
    assert result.commit.tables == ()
    assert graph.snapshot().to_dict()["tables"] == pins
    assert str(graph.merge("side").outcome) == "already_up_to_date"
    assert_settled(graph)


def test_equal_values_do_not_conflict_and_null_is_not_the_empty_text(graph: Graph) -> None:
    odd = "a\x1f\x00 b\n"
    graph.branch_create("side")
    for branch in ("side", "main"):
        add(graph, "Alice", branch, age=30, note=odd, tags=["x", ""])
    add(graph, "Bob", "side", age=25, note="")
    add(graph, "Dan", age=51)
    assert str(graph.merge("side").outcome) == "merged"
    rows = {row["id"]: row for row in graph.table("Person").to_pylist()}
    assert (rows["Alice"]["note"], rows["Bob"]["note"], rows["Dan"]["age"]) == (odd, "", 51)
    assert rows["Carol"]["note"] is None
    assert_settled(graph)


def test_the_same_logical_edge_added_on_both_sides_is_two_edges(graph: Graph) -> None:
    graph.branch_create("side")
    know(graph, "Alice", "Dan", "side")
    know(graph, "Alice", "Dan")
    graph.merge("side")
    assert edges(graph).count(("Alice", "Dan")) == 2
    assert_settled(graph)


def test_rules_broken_by_combining_name_table_and_rows(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side", email="e@x")
    add(graph, "Finn", email="e@x")
    graph.mutate('query l() { insert LivesIn { from: "Alice", to: "Oslo" } }', branch="side")
    graph.mutate('query l() { insert LivesIn { from: "Alice", to: "Rome" } }')
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("side")
    found = {(str(c.kind), c.table_key, c.row_id) for c in caught.value.conflicts}
    assert found == {
        ("unique_violation", "node:Person", "Eve"),
        ("cardinality_violation", "edge:LivesIn", "Alice"),
    }
    [clash] = [c for c in caught.value.conflicts if c.kind == "unique_violation"]
    assert "Finn" in clash.message
    assert clash.source is not None
    assert clash.target is None
    assert_settled(graph)


@pytest.mark.parametrize("source", ["side", "main"])
def test_an_edge_to_a_node_the_other_side_removed_is_an_orphan(graph: Graph, source: str) -> None:
    graph.branch_create("side")
    graph.mutate('query d() { delete Person where name = "Dan" }', branch="side")
    know(graph, "Alice", "Dan")
    target = "main" if source == "side" else "side"
    with pytest.raises(MergeConflicts) as caught:
        graph.merge(source, into=target)
    assert {str(c.kind) for c in caught.value.conflicts} == {"orphan_edge"}
    assert {c.table_key for c in caught.value.conflicts} == {"edge:Knows"}
    assert_settled(graph)


def test_an_edge_only_branch_forks_only_the_edge_table(graph: Graph) -> None:
    graph.branch_create("side")
    know(graph, "Alice", "Dan", "side")
    owned = {
        t["table_key"]
        for t in graph.snapshot(branch="side").to_dict()["tables"]
        if t["table_branch"]
    }
    assert owned == {"edge:Knows"}
    add(graph, "Alice", age=99)
    assert str(graph.merge("side").outcome) == "merged"
    found = graph.query(
        "query q() { match { $a: Person  $a knows $b } return { $a.age, $b } }"
    ).rows
    assert {tuple(row.values()) for row in found} == {(99, "Dan"), (25, "Carol")}
    assert_settled(graph)


def test_main_merged_into_a_branch_moves_pins_of_tables_it_never_wrote(graph: Graph) -> None:
    graph.branch_create("side")
    know(graph, "Alice", "Dan", "side")
    add(graph, "Eve")
    graph.merge("main", into="side")
    tables = {t["table_key"]: t for t in graph.snapshot(branch="side").to_dict()["tables"]}
    now = {t["table_key"]: t for t in graph.snapshot().to_dict()["tables"]}
    assert tables["node:Person"] == now["node:Person"]
    assert tables["edge:Knows"]["table_branch"] == "side"
    assert "Eve" in names(graph, "side")
    assert_settled(graph)


def test_a_branch_made_again_between_two_reads_shows_its_new_life_only(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Old", "side")
    with omnigraphdb.open(graph.uri) as reader:
        assert "Old" in names(reader, "side")
        graph.branch_delete("side")
        graph.branch_create("side")
        add(graph, "New", "side")
        assert "Old" not in names(reader, "side")
        assert "New" in names(reader, "side")
        reader.merge("side")
        assert "Old" not in names(reader)
        assert "New" in names(reader)
    assert_settled(graph)


def test_the_diff_before_a_merge_is_the_diff_it_makes(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")
    add(graph, "Alice", "side", age=31)
    graph.mutate('query d() { delete Person where name = "Bob" }', branch="side")
    expected = [(c.op, c.table_key, c.id) for c in graph.diff("main", "side")]
    before = graph.commits()[0]
    graph.merge("side")
    found = [(c.op, c.table_key, c.id) for c in graph.diff(before, graph.commits()[0])]
    assert found == expected
    assert [str(op) for op, *_ in found] == ["delete", "update", "delete", "insert"]
    assert_settled(graph)


def test_a_preview_writes_nothing_and_needs_no_right_to_write(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        preview = reader.merge("side", dry_run=True)
        assert (str(preview.outcome), preview.commit) == ("fast_forward", None)
        assert preview.tables == {"node:Person": (1, 0, 0)}
        with pytest.raises(UserInputError):
            reader.merge("side")
    assert "Eve" not in names(graph)
    assert_settled(graph)


@pytest.mark.parametrize(("source", "into"), [("main", "main"), ("side", "side")])
def test_a_branch_does_not_merge_into_itself(graph: Graph, source: str, into: str) -> None:
    graph.branch_create("side")
    with pytest.raises(UserInputError, match="same branch"):
        graph.merge(source, into=into)


def test_unknown_branches_and_granularities_are_refused(graph: Graph) -> None:
    graph.branch_create("side")
    for source, into in (("ghost", "main"), ("side", "ghost")):
        with pytest.raises(NotFound, match="ghost"):
            graph.merge(source, into=into)
    with pytest.raises(UserInputError, match="granularity"):
        graph.merge("side", granularity="cell")  # type: ignore[arg-type]


def test_the_source_advancing_during_a_merge_is_not_included(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")
    with parked(Failpoint.MERGE_ARMED) as park:

        def merge() -> None:
            graph.merge("side")

        def advance() -> None:
            assert park.reached.wait(PARK_SECONDS_MAX)
            add(graph, "Fay", "side")
            park.release()

        results = in_threads([merge, advance])
    assert not [r for r in results if isinstance(r, BaseException)]
    assert "Eve" in names(graph)
    assert "Fay" not in names(graph)
    assert str(graph.merge("side").outcome) == "merged"
    assert "Fay" in names(graph)
    assert_settled(graph)


def test_a_merge_is_prepared_again_when_its_target_advances(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")

    def main_moves() -> None:
        add(graph, "Main moved")

    with armed(Failpoint.MERGE_PLANNED, once(main_moves)):
        assert str(graph.merge("side").outcome) == "merged"
    assert {"Eve", "Main moved"} <= set(names(graph))
    assert_settled(graph)


def test_a_merge_whose_target_changes_the_same_row_meanwhile_is_in_conflict(graph: Graph) -> None:
    graph.branch_create("side")
    set_age = 'query s($n: I32) { update Person set { age: $n } where name = "Dan" }'
    graph.on("side").mutate(set_age, {"n": 70})

    def main_moves() -> None:
        graph.mutate(set_age, {"n": 71})

    with armed(Failpoint.MERGE_PLANNED, once(main_moves)), pytest.raises(MergeConflicts):
        graph.merge("side")
    assert_settled(graph)


def test_the_target_losing_the_end_of_a_merged_edge_is_a_conflict_at_the_latest_at_the_publish(
    graph: Graph,
) -> None:
    graph.branch_create("side")
    know(graph, "Alice", "Dan", "side")

    def dan_goes() -> None:
        graph.mutate('query d() { delete Person where name = "Dan" }')

    with armed(Failpoint.MERGE_PLANNED, once(dan_goes)), pytest.raises(ConflictError):
        graph.merge("side")
    assert ("Alice", "Dan") not in edges(graph)
    assert_settled(graph)


def once(work: Any) -> Any:
    """Run something at the first arrival only."""
    done: list[bool] = []

    def act() -> None:
        if not done:
            done.append(True)
            work()

    return act


def test_the_handle_keeps_its_branch_through_a_merge(graph: Graph) -> None:
    graph.branch_create("one")
    graph.branch_create("two")
    add(graph, "Eve", "one")
    handle = graph.on("two")
    before = content(handle, "two")
    handle.merge("one")
    assert content(handle, "two") == before
    assert "on two" in repr(handle)
    assert_settled(graph)
