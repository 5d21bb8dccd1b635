"""A migration that is killed anywhere is completed by the next open, and everything reads as before."""

from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.failpoints import Failpoint
from omnigraphdb.manifest.stamp import CURRENT
from tests.support.child import run_child
from tests.support.releases import Release, describe
from tests.support.settled import assert_settled
from tests.support.store_roots import race_processes
from tests.support.story import reopen

STAMP_4 = Release("0.1.0-stamp4")


def stamp_of(graph: omnigraphdb.Graph) -> int:
    return graph._engine.manifest.current("main").stamp  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [Failpoint.MIGRATE_FOLD, Failpoint.MIGRATE_STAMP])
def test_a_killed_migration_is_completed_by_the_next_open(tmp_path: Path, at: Failpoint) -> None:
    root = STAMP_4.unpack(tmp_path)
    omnigraphdb.relocate(root)
    with omnigraphdb.open(root, read_only=True) as graph:
        assert stamp_of(graph) == 4
        before = describe(graph)
    assert run_child(reopen, str(root), failpoints=f"{at}=exit") != 0
    with omnigraphdb.open(root, read_only=True) as graph:
        assert stamp_of(graph) == 4
    with omnigraphdb.open(root) as graph:
        assert stamp_of(graph) == CURRENT
        assert describe(graph) == before
        graph.load([], mode="append")
        assert_settled(graph)


def open_and_write(barrier: Any, uri: str, name: str) -> int:
    """What each process does: open read-write at the same moment as the others."""
    barrier.wait()
    with omnigraphdb.open(uri) as graph:
        graph.tag(name)
        return stamp_of(graph)


def test_two_processes_that_migrate_at_once_converge(tmp_path: Path) -> None:
    root = STAMP_4.unpack(tmp_path)
    omnigraphdb.relocate(root)
    with omnigraphdb.open(root, read_only=True) as graph:
        before = describe(graph)
    calls = [(str(root), f"by-{number}") for number in range(3)]
    assert race_processes(open_and_write, calls) == [CURRENT] * 3
    with omnigraphdb.open(root) as graph:
        assert [tag.name for tag in graph.tags()] == ["by-0", "by-1", "by-2"]
        assert describe(graph) == before
        graph.cleanup(keep=1, confirm=True)
        assert_settled(graph)
