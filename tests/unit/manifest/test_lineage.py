"""History: listing, finding, and the merge base of two commits."""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import NotFound, UserInputError
from omnigraph.ids import MAIN, CommitId, Version
from omnigraph.manifest.lineage import Lineage, merge_base, plain_base
from omnigraph.manifest.records import CommitKind, GraphCommit, encode


def commit(
    name: str,
    at: int,
    parent: str | None = None,
    merged: str | None = None,
    actor: str | None = None,
) -> GraphCommit:
    return GraphCommit(
        id=CommitId(name),
        branch=MAIN,
        manifest_version=Version(at),
        created_at=at * 1_000_000,
        kind=CommitKind.MUTATION,
        parent=CommitId(parent) if parent else None,
        merged_parent=CommitId(merged) if merged else None,
        actor=actor,
    )


HISTORY = Lineage(
    tuple(
        commit(f"01HISTORY{number:017d}", number, actor="ann" if number % 2 else "bob")
        for number in range(1, 6)
    )
)


def names(commits: tuple[GraphCommit, ...]) -> list[int]:
    return [c.manifest_version for c in commits]


def test_commits_are_listed_newest_first_up_to_the_limit() -> None:
    assert names(HISTORY.listed()) == [5, 4, 3, 2, 1]
    assert names(HISTORY.listed(limit=2)) == [5, 4]
    assert names(HISTORY.listed(limit=0)) == []
    assert names(HISTORY.listed(actor="bob", limit=1)) == [4]


def test_since_leaves_a_commit_out_and_keeps_a_moment() -> None:
    assert names(HISTORY.listed(since=HISTORY.commits[2].id)) == [5, 4]
    assert names(HISTORY.listed(since=datetime.fromtimestamp(3, UTC))) == [5, 4, 3]
    with pytest.raises(NotFound, match="01NOSUCH"):
        HISTORY.listed(since=CommitId("01NOSUCH"))


def test_a_moment_names_the_newest_commit_made_by_then() -> None:
    found = HISTORY.at_moment(datetime.fromtimestamp(3.5, UTC))
    assert found is not None
    assert found.manifest_version == 3
    assert HISTORY.at_moment(datetime.fromtimestamp(0.5, UTC)) is None


def test_a_commit_is_found_by_id_or_unique_prefix_of_eight() -> None:
    lineage = Lineage(
        (commit("01AAAAAAAA0000000000000001", 1), commit("01AAAAAABB0000000000000002", 2))
    )
    assert lineage.find("01AAAAAAAA0000000000000001") == lineage.commits[0]
    assert lineage.find("01aaaaaabb") == lineage.commits[1]
    assert lineage.find("01AAAAA") is None
    assert lineage.find("01ZZZZZZ") is None
    with pytest.raises(UserInputError, match="not unique"):
        lineage.find("01AAAAAA")


# ---- merge base

GRAPHS: dict[str, tuple[list[GraphCommit], str, str, str | None]] = {
    "same commit": ([commit("a", 1)], "a", "a", "a"),
    "fast forward": ([commit("a", 1), commit("b", 2, "a")], "b", "a", "a"),
    "fork": ([commit("a", 1), commit("b", 2, "a"), commit("c", 2, "a")], "b", "c", "a"),
    "unrelated": ([commit("a", 1), commit("b", 1)], "a", "b", None),
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
        "s1",
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
        "a",
    ),
    "criss-cross prefers the greater version": (
        [
            commit("a", 1),
            commit("x1", 2, "a"),
            commit("y1", 3, "a"),
            commit("x2", 4, "x1", "y1"),
            commit("y2", 4, "y1", "x1"),
        ],
        "x2",
        "y2",
        "y1",
    ),
    "criss-cross at equal version prefers the greater id": (
        [
            commit("a", 1),
            commit("x1", 2, "a"),
            commit("y1", 2, "a"),
            commit("x2", 3, "x1", "y1"),
            commit("y2", 3, "y1", "x1"),
        ],
        "x2",
        "y2",
        "y1",
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
        "b",
    ),
    "a parent nobody shows ends the walk": (
        [commit("a", 1), commit("s", 2, "a", "gone"), commit("t", 2, "a")],
        "s",
        "t",
        "a",
    ),
}


@pytest.mark.parametrize("story", GRAPHS)
def test_the_merge_base_of(story: str) -> None:
    commits, source, target, base = GRAPHS[story]
    found = merge_base({c.id: c for c in commits}, CommitId(source), CommitId(target))
    assert (found.id if found else None) == base


@st.composite
def histories(draw: st.DrawFn) -> list[GraphCommit]:
    count = draw(st.integers(1, 14))
    commits: list[GraphCommit] = []
    for number in range(count):
        known = [c.id for c in commits]
        parent = draw(st.sampled_from(known)) if known and draw(st.integers(0, 5)) else None
        merged = draw(st.sampled_from(known)) if known and draw(st.booleans()) else None
        commits.append(commit(f"c{number:02d}", number + 1, parent, merged))
    return commits


def ancestors(commits: dict[CommitId, GraphCommit], start: CommitId) -> set[CommitId]:
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [p for p in (commits[name].parent, commits[name].merged_parent) if p]
    return found


@given(histories(), st.data())
def test_a_merge_base_is_common_and_no_ancestor_of_another_common_commit(
    history: list[GraphCommit], data: st.DataObject
) -> None:
    commits = {c.id: c for c in history}
    source, target = (data.draw(st.sampled_from(list(commits))) for _ in range(2))
    common = ancestors(commits, source) & ancestors(commits, target)
    base = merge_base(commits, source, target)
    assert (base is None) == (not common)
    if base is not None:
        assert base.id in common
        assert all(base.id not in ancestors(commits, c) for c in common - {base.id})
        again = merge_base(commits, target, source)
        assert again is not None
        assert again.id == base.id


# ---- without decoding what is shared


def shown(commits: dict[CommitId, GraphCommit], head: CommitId) -> pa.Table:
    """The rows a branch shows: the commits that led to its head along first parents."""
    found: list[GraphCommit] = []
    name: CommitId | None = head
    while name is not None:
        found.append(commits[name])
        name = commits[name].parent
    return encode(tuple(found))


@given(histories(), st.data())
def test_a_plain_merge_base_is_the_one_a_walk_over_everything_finds(
    history: list[GraphCommit], data: st.DataObject
) -> None:
    commits = {c.id: c for c in history}
    source, target = (data.draw(st.sampled_from(list(commits))) for _ in range(2))
    ours, theirs = shown(commits, source), shown(commits, target)
    plain = plain_base(ours, source, theirs, target)
    if plain is not None:
        assert plain == merge_base(commits, source, target)


@pytest.mark.parametrize(
    ("source", "target", "base"),
    [("s2", "b", "b"), ("s2", "t1", "b"), ("b", "t2", "b"), ("s2", "s2", "s2"), ("s2", "t2", None)],
    ids=["forward", "parted", "behind", "the same", "parted and merged"],
)
def test_a_base_is_plain_unless_both_went_on_and_one_merged(
    source: str, target: str, base: str | None
) -> None:
    story = [
        commit("a", 1),
        commit("x", 2, "a"),
        commit("b", 2, "a"),
        commit("s1", 3, "b"),
        commit("s2", 4, "s1"),
        commit("t1", 3, "b"),
        commit("t2", 4, "t1", "x"),
    ]
    commits = {c.id: c for c in story}
    ours, theirs = (shown(commits, CommitId(name)) for name in (source, target))
    found = plain_base(ours, CommitId(source), theirs, CommitId(target))
    assert (found.id if found else None) == base


def test_what_both_show_is_not_decoded() -> None:
    story = {c.id: c for c in (commit("a", 1), commit("b", 2, "a"), commit("c", 3, "b"))}
    rows = shown(story, CommitId("c"))
    broken = pa.array(
        ["not a commit" if key == "a" else None for key in rows["object_id"].to_pylist()]
    )
    column = rows.schema.get_field_index("metadata")
    damaged = rows.set_column(column, "metadata", pc.coalesce(broken, rows["metadata"]))
    found = plain_base(damaged, CommitId("c"), damaged.slice(1), CommitId("b"))
    assert found == story[CommitId("b")]
