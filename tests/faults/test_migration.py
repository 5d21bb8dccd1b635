"""A migration that is killed anywhere is completed by the next open, and everything reads as before."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.failpoints import Failpoint
from tests.support.child import run_child
from tests.support.releases import Release, describe
from tests.support.settled import assert_settled
from tests.support.story import reopen

STAMP_4 = Release("0.1.0-stamp4")


def stamp_of(graph: omnigraph.Graph) -> int:
    return graph._engine.manifest.current("main").stamp  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [Failpoint.MIGRATE_FOLD, Failpoint.MIGRATE_STAMP])
def test_a_killed_migration_is_completed_by_the_next_open(tmp_path: Path, at: Failpoint) -> None:
    root = STAMP_4.unpack(tmp_path)
    omnigraph.relocate(root)
    with omnigraph.open(root, read_only=True) as graph:
        assert stamp_of(graph) == 4
        before = describe(graph)
    assert run_child(reopen, str(root), failpoints=f"{at}=exit") != 0
    with omnigraph.open(root, read_only=True) as graph:
        assert stamp_of(graph) == 4
    with omnigraph.open(root) as graph:
        assert stamp_of(graph) == 5
        assert describe(graph) == before
        graph.load([], mode="append")
        assert_settled(graph)
