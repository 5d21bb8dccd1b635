"""History: listing, finding, and the merge base of two commits."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.ids import MAIN, CommitId, Version
from omnigraphdb.manifest.lineage import Lineage, find_batch
from omnigraphdb.manifest.records import CommitKind, GraphCommit, encode


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


def test_a_batch_is_found_by_its_exact_name() -> None:
    names_of_batches = ["s#1", "s#11", 'say "s#1"', "straße#1", None]
    commits = [
        replace(one, batch_id=name)
        for one, name in zip(HISTORY.commits, names_of_batches, strict=True)
    ]
    rows = encode(commits)
    for one in commits[:-1]:
        assert one.batch_id is not None
        assert find_batch(rows, one.batch_id) == one
    assert find_batch(rows, "s#") is None
    assert find_batch(rows, "mutation") is None


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
