"""The lowest common ancestors of two commits, and the short way to them."""

import networkx
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.ids import CommitId
from omnigraphdb.manifest.ancestry import CommitGraph, find_diverged, parents_of
from omnigraphdb.manifest.merged import (
    ancestor_rows,
    commit_rows,
    encode_merged_commits,
    find_merged_commits,
    lost_rows,
)
from omnigraphdb.manifest.records import MANIFEST_SCHEMA, GraphCommit, encode
from tests.unit.manifest.test_lineage import commit

Commits = dict[CommitId, GraphCommit]

GRAPHS: dict[str, tuple[list[GraphCommit], str, str, set[str]]] = {
    "same commit": ([commit("a", 1)], "a", "a", {"a"}),
    "fast forward": ([commit("a", 1), commit("b", 2, "a")], "b", "a", {"a"}),
    "fork": ([commit("a", 1), commit("b", 2, "a"), commit("c", 2, "a")], "b", "c", {"a"}),
    "unrelated": ([commit("a", 1), commit("b", 1)], "a", "b", set()),
    "after a merge": (
        [
            commit("a", 1),
            commit("s1", 2, "a"),
            commit("t1", 2, "a"),
            commit("m", 3, "t1", "s1"),
            commit("s2", 3, "s1"),
        ],
        "s2",
        "m",
        {"s1"},
    ),
    "through the parent branch": (
        [
            commit("a", 1),
            commit("p1", 2, "a"),
            commit("c1", 3, "p1"),
            commit("p2", 3, "p1", "c1"),
            commit("t1", 2, "a"),
        ],
        "p2",
        "t1",
        {"a"},
    ),
    "a criss-cross has two": (
        [
            commit("a", 1),
            commit("x1", 2, "a"),
            commit("y1", 3, "a"),
            commit("x2", 4, "x1", "y1"),
            commit("y2", 4, "y1", "x1"),
        ],
        "x2",
        "y2",
        {"x1", "y1"},
    ),
    # The short way over `a` would win by distance, but `a` is an ancestor of `b`, which both sides have.
    "a nearer ancestor of an ancestor is not chosen": (
        [
            commit("a", 1),
            commit("b", 2, "a"),
            commit("s1", 3, "b"),
            commit("s2", 4, "s1"),
            commit("s3", 5, "s2", "a"),
            commit("t1", 3, "b"),
            commit("t2", 4, "t1"),
            commit("t3", 5, "t2", "a"),
        ],
        "s3",
        "t3",
        {"b"},
    ),
    "a lost commit that both name": (
        [commit("a", 1), commit("s", 2, "a", "gone"), commit("t", 2, "a", "gone")],
        "s",
        "t",
        {"a", "gone"},
    ),
    "a parent nobody knows ends the walk": (
        [commit("a", 1), commit("s", 2, "a", "gone"), commit("t", 2, "a")],
        "s",
        "t",
        {"a"},
    ),
}


def lowest(commits: Commits, source: CommitId, target: CommitId) -> set[CommitId]:
    graph = CommitGraph(commits)
    return set(graph.lowest(graph.common([source], [target])))


@pytest.mark.parametrize("story", GRAPHS)
def test_the_lowest_common_ancestors_of(story: str) -> None:
    commits, source, target, expected = GRAPHS[story]
    known = {c.id: c for c in commits}
    assert lowest(known, CommitId(source), CommitId(target)) == expected
    assert lowest(known, CommitId(target), CommitId(source)) == expected


@st.composite
def histories(draw: st.DrawFn) -> Commits:
    count = draw(st.integers(1, 14))
    commits: list[GraphCommit] = []
    for number in range(count):
        known = [c.id for c in commits]
        parent = draw(st.sampled_from(known)) if known else None
        merged = draw(st.sampled_from(known)) if len(known) > 0 and draw(st.booleans()) else None
        commits.append(commit(f"c{number:02d}", number + 1, parent, merged))
    shuffled = draw(st.permutations(commits))
    return {c.id: c for c in shuffled}


def ancestors(commits: Commits, start: CommitId) -> set[CommitId]:
    graph = networkx.DiGraph((p, c.id) for c in commits.values() for p in parents_of(c))
    graph.add_nodes_from(commits)
    return {start, *networkx.ancestors(graph, start)}


@given(histories(), st.data())
def test_the_lowest_are_common_and_no_ancestors_of_another_common_commit(
    commits: Commits, data: st.DataObject
) -> None:
    source, target = (data.draw(st.sampled_from(sorted(commits))) for _ in range(2))
    common = ancestors(commits, source) & ancestors(commits, target)
    covered = {a for c in common for a in ancestors(commits, c) - {c}}
    assert lowest(commits, source, target) == common - covered


# ---- without decoding what is shared


def known_by(commits: Commits, head: CommitId) -> pa.Table:
    """The rows that a branch knows: every ancestor of its head."""
    return commit_rows(commits[one] for one in sorted(ancestors(commits, head)))


@given(histories(), st.data())
def test_what_is_found_plainly_is_what_a_walk_over_everything_finds(
    commits: Commits, data: st.DataObject
) -> None:
    source, target = (data.draw(st.sampled_from(sorted(commits))) for _ in range(2))
    parted = find_diverged(known_by(commits, source), known_by(commits, target))
    assert not parted.missing
    plain = parted.find_plain(source, target)
    if plain is not None:
        assert set(plain) == lowest(commits, source, target)
    assert (plain is None) == all(
        any(c.merged_parent for c in side.values()) for side in (parted.own, parted.other)
    )


def test_what_both_know_is_not_decoded() -> None:
    story = {c.id: c for c in (commit("a", 1), commit("b", 2, "a"), commit("c", 3, "b"))}
    rows = known_by(story, CommitId("c"))
    broken = pa.array(["not a commit" if key == "a" else None for key in rows[0].to_pylist()])
    column = rows.schema.get_field_index("metadata")
    damaged = rows.set_column(column, "metadata", pc.coalesce(broken, rows["metadata"]))
    parted = find_diverged(damaged, damaged.slice(0, 2))
    assert parted.find_plain(CommitId("c"), CommitId("b")) == ("b",)


def test_a_parent_that_its_own_side_does_not_know_is_missing() -> None:
    """Graphs of earlier releases: a merge did not bring the commits of its source."""
    ours = commit_rows([commit("a", 1), commit("s", 2, "a")])
    theirs = commit_rows([commit("a", 1), commit("t", 2, "a", "s")])
    assert find_diverged(ours, theirs).missing == {"s"}
    noted = pa.concat_tables([theirs, lost_rows([CommitId("s")])])
    assert not find_diverged(ours, noted).missing


# ---- what a merge brings


def test_only_commits_that_the_target_lacks_are_brought() -> None:
    ours = [commit("a", 1), commit("b", 2, "a"), commit("c", 3, "b", "gone")]
    target = encode([commit("a", 1), commit("t", 2, "a")])
    source = pa.concat_tables([commit_rows(ours), lost_rows([CommitId("gone")])])
    rows = encode_merged_commits(source, ancestor_rows(target))
    assert rows.schema == MANIFEST_SCHEMA
    assert rows["object_id"].to_pylist() == [
        "merged_commit:b",
        "merged_commit:c",
        "lost_commit:gone",
    ]
    after = ancestor_rows(pa.concat_tables([target, rows]))
    assert encode_merged_commits(source, after).num_rows == 0


def test_a_commit_that_was_lost_is_brought_by_who_knows_it() -> None:
    known = commit_rows([commit("a", 1), commit("b", 2, "a")])
    assert find_merged_commits(known, lost_rows([CommitId("b")]))[0].to_pylist() == ["a", "b"]
