"""A disk that is full for exactly one write: every writer is refused by name or done, and everything stays readable."""

import os
from pathlib import Path

import pytest

import omnigraphdb
from tests.faults.matrix import WRITERS
from tests.support.child import run_child
from tests.support.full_kinds import KINDS, make, people
from tests.support.full_writes import build_library, read_rows, run_counted
from tests.support.settled import assert_settled

STEP = int(os.environ.get("FULL_WRITE_STEP", "1"))
"""Every how many writes the soak fails one."""
QUICK = {"insert": (2, 4), "load_merge": (2, 3)}
"""The kinds of the default run, the first write that fails, and the step to the next."""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return build_library(tmp_path)


@pytest.mark.parametrize("kind", QUICK)
def test_some_writes_fail(kind: str, library: Path, tmp_path: Path) -> None:
    cases = run_counted(library, kind, tmp_path / kind, *QUICK[kind])
    assert len(cases) > 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_each_write_fails(kind: str, library: Path, tmp_path: Path) -> None:
    cases = run_counted(library, kind, tmp_path / kind, 1, STEP)
    assert cases
    if KINDS[kind].writes_tables and STEP == 1:
        assert any("/data/" in case.failed or "/_indices/" in case.failed for case in cases)


def test_every_way_to_write_has_a_kind() -> None:
    assert {method for kind in KINDS.values() for method in kind.methods} == WRITERS.keys()


# ---- a writer that died, and the end of its file with it


def load(home: str) -> None:
    """Load rows, and die where the process is told to."""
    with omnigraphdb.open(home) as graph:
        graph.load(people(40, 60), mode="append")


def test_recovery_takes_back_what_the_disk_does_not_hold_whole(tmp_path: Path) -> None:
    """As after a power failure, which may take the end of a file that nobody synced."""
    home = tmp_path / "g"
    make(home)
    with omnigraphdb.open(home) as graph:
        before = read_rows(graph)
    files = set(home.glob("nodes/*/data/*"))
    assert run_child(load, str(home), failpoints="mutation.post_finalize_pre_publisher=exit") != 0
    (new,) = set(home.glob("nodes/*/data/*")) - files
    new.write_bytes(new.read_bytes()[:128])
    with omnigraphdb.open(home) as graph:
        assert [row.recovery_kind for row in graph.recoveries()] == ["RolledBack"]
        assert read_rows(graph) == before
        graph.load(people(40, 60), mode="append")
        assert_settled(graph)
