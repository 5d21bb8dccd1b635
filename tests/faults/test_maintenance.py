"""Index builds and optimising that fail or die anywhere: no row changes, and the next run succeeds."""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ManifestConflict, OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.recovery.audit import RecoveryKind
from tests.support.child import KILLED, run_child
from tests.support.maintenance import (
    ADD,
    KNOWS,
    PERSON,
    content,
    entry,
    fragments,
    heads,
    made,
    scattered,
    states,
    tend,
)

FORWARD, BACK = RecoveryKind.ROLLED_FORWARD, RecoveryKind.ROLLED_BACK


def ensure_indices(graph: Graph) -> None:
    graph.ensure_indices()


def optimize(graph: Graph) -> None:
    graph.optimize()


def died(root: Path, work: str, at: Failpoint, how: str, branch: str = "main") -> None:
    """Do the work in a process that is killed at a failpoint."""
    failpoints = f"{at}={how.replace('error', 'exit')}"
    assert run_child(tend, str(root), work, branch, failpoints=failpoints) == KILLED


def failed(graph: Graph, work: Callable[[Graph], None], at: Failpoint, how: str) -> None:
    with armed(at, how), pytest.raises(OmniError):
        work(graph)


def single(root: Path) -> Graph:
    """A graph in which one table only has something to be optimised."""
    graph = scattered(root)
    graph.optimize()
    for number in range(3):
        graph.mutate(ADD, {"name": f"late {number}"})
    return graph


def double(root: Path) -> Graph:
    """A graph in which two tables have something to be optimised."""
    graph = single(root)
    for number in range(3):
        graph.load([{"type": "City", "data": {"name": f"c{number}"}}], mode="append")
    return graph


CASES = [
    pytest.param(made, ensure_indices, Failpoint.INDICES_ARMED, "error", BACK, True, id="E1"),
    pytest.param(
        made, ensure_indices, Failpoint.INDICES_TABLE_COMMITTED, "error", BACK, False, id="E2"
    ),
    pytest.param(
        made, ensure_indices, Failpoint.INDICES_COMMITTED, "error", FORWARD, True, id="E3"
    ),
    pytest.param(single, optimize, Failpoint.OPTIMIZE_ARMED, "error", BACK, True, id="O1"),
    pytest.param(single, optimize, Failpoint.OPTIMIZE_COMPACTED, "error", FORWARD, True, id="O2"),
    pytest.param(single, optimize, Failpoint.OPTIMIZE_COMMITTED, "error", FORWARD, True, id="O4"),
    pytest.param(
        double, optimize, Failpoint.OPTIMIZE_TABLE_COMMITTED, "error", BACK, False, id="O5"
    ),
]


def assert_whole(graph: Graph, rows: dict[str, list[dict[str, object]]]) -> None:
    """The same rows, nothing pending, and the work can be done."""
    assert content(graph) == rows
    assert graph.pending_recoveries() == []
    assert graph.doctor() == []
    graph.optimize()
    assert set(states(graph).values()) == {"ready"}
    assert content(graph) == rows
    assert graph.doctor() == []


def kinds(graph: Graph) -> list[str]:
    return [str(row.recovery_kind) for row in graph.recoveries()]


@pytest.mark.parametrize(("make", "work", "at", "how", "outcome", "heals"), CASES)
def test_an_interrupted_run_is_settled_by_the_next_open(
    tmp_path: Path,
    make: Callable[[Path], Graph],
    work: Callable[[Graph], None],
    at: Failpoint,
    how: str,
    outcome: RecoveryKind,
    heals: bool,
) -> None:
    with make(tmp_path / "g") as graph:
        rows = content(graph)
        failed(graph, work, at, how)
        assert content(graph) == rows
    with omnigraphdb.open(tmp_path / "g") as again:
        assert kinds(again) == [str(outcome)]
        assert_whole(again, rows)


@pytest.mark.parametrize(("make", "work", "at", "how", "outcome", "heals"), CASES)
def test_a_killed_run_is_settled_by_the_next_open(
    tmp_path: Path,
    make: Callable[[Path], Graph],
    work: Callable[[Graph], None],
    at: Failpoint,
    how: str,
    outcome: RecoveryKind,
    heals: bool,
) -> None:
    with make(tmp_path / "g") as graph:
        rows = content(graph)
    died(tmp_path / "g", work.__name__, at, how)
    with omnigraphdb.open(tmp_path / "g") as again:
        assert kinds(again) == [str(outcome)]
        assert_whole(again, rows)


@pytest.mark.parametrize(("make", "work", "at", "how", "outcome", "heals"), CASES)
def test_the_next_write_heals_what_needs_no_undoing(
    tmp_path: Path,
    make: Callable[[Path], Graph],
    work: Callable[[Graph], None],
    at: Failpoint,
    how: str,
    outcome: RecoveryKind,
    heals: bool,
) -> None:
    with make(tmp_path / "g") as graph:
        failed(graph, work, at, how)
        graph.refresh()
        assert (graph.pending_recoveries() == []) is heals
        assert kinds(graph) == ([str(outcome)] if heals else [])
        graph.refresh(roll_back=True)
        assert_whole(graph, content(graph))


def test_other_tables_can_be_written_while_a_build_is_undecided(tmp_path: Path) -> None:
    with made(tmp_path / "g") as graph:
        failed(graph, ensure_indices, Failpoint.INDICES_TABLE_COMMITTED, "error")
        assert heads(graph)[KNOWS] > entry(graph, KNOWS).version
        assert graph.mutate(ADD, {"name": "free"}).commit is not None
        graph.refresh(roll_back=True)
        assert graph.entity("Person", "free") is not None
        assert graph.doctor() == []


@pytest.mark.parametrize("killed", [False, True])
def test_an_interrupted_build_on_a_branch_leaves_main_alone(tmp_path: Path, killed: bool) -> None:
    with made(tmp_path / "g") as graph:
        graph.branch_create("review")
        graph.mutate(ADD, {"name": "Zoe"}, branch="review")
        before, rows = heads(graph), content(graph, "review")
        if not killed:
            with armed(Failpoint.INDICES_COMMITTED), pytest.raises(OmniError):
                graph.ensure_indices(branch="review")
    if killed:
        died(tmp_path / "g", "ensure_indices", Failpoint.INDICES_COMMITTED, "error", "review")
    with omnigraphdb.open(tmp_path / "g") as again:
        assert heads(again) == before
        assert content(again, "review") == rows
        assert kinds(again) == [str(FORWARD)]
        assert states(again, "review")[f"{PERSON}.age"] == "ready"
        assert again.doctor() == []


def intruder(graph: Graph, times: int) -> Callable[[], None]:
    """A program that takes no turns and commits to a table in the middle of our work."""
    dataset = lance.dataset(str(Path(graph.uri) / entry(graph).at.path))
    left = [times]

    def intrude() -> None:
        if left[0]:
            left[0] -= 1
            dataset.checkout_version(dataset.latest_version).update_config({"who": "me"})

    return intrude


def test_a_foreign_commit_between_two_of_ours_is_taken_back_and_the_run_succeeds(
    tmp_path: Path,
) -> None:
    with single(tmp_path / "g") as graph:
        rows = content(graph)
        with armed(Failpoint.OPTIMIZE_COMPACTED, intruder(graph, 1)):
            report = {one.table_key: one for one in graph.optimize().tables}
        assert (report[PERSON].committed, report[PERSON].skipped) == (True, None)
        assert len(fragments(graph)) == 1
        assert_whole(graph, rows)


def test_a_foreign_program_that_never_rests_makes_it_give_up_without_a_trace(
    tmp_path: Path,
) -> None:
    with single(tmp_path / "g") as graph:
        rows = content(graph)
        with (
            armed(Failpoint.OPTIMIZE_COMPACTED, intruder(graph, 100)),
            pytest.raises(ManifestConflict),
        ):
            graph.optimize()
        assert_whole(graph, rows)


def test_nothing_to_do_leaves_no_intent_behind(tmp_path: Path) -> None:
    with made(tmp_path / "g") as graph:
        graph.optimize()
        with armed(Failpoint.SIDECAR_WRITE):
            graph.optimize()
            graph.ensure_indices()


def test_an_intent_that_cannot_be_written_stops_the_run_before_anything_moved(
    tmp_path: Path,
) -> None:
    with made(tmp_path / "g") as graph:
        before = heads(graph)
        for work in (optimize, ensure_indices):
            failed(graph, work, Failpoint.SIDECAR_WRITE, "error")
        assert heads(graph) == before
        assert graph.pending_recoveries() == []


@pytest.mark.parametrize("at", [Failpoint.CLEANUP_TABLE, Failpoint.CLEANUP_FORK])
def test_a_killed_cleanup_is_simply_run_again(tmp_path: Path, at: Failpoint) -> None:
    with scattered(tmp_path / "g") as graph:
        graph.branch_create("gone")
        graph.mutate(ADD, {"name": "Zoe"}, branch="gone")
        with armed(Failpoint.BRANCH_DROP_FORKS):
            graph.branch_delete("gone")
        rows = content(graph)
    died(tmp_path / "g", "cleanup", at, "error")
    with omnigraphdb.open(tmp_path / "g") as again:
        assert content(again) == rows
        report = again.cleanup(keep=1, confirm=True)
        assert all(one.error is None for one in report.tables)
        assert content(again) == rows
        assert again.doctor() == []
        assert len(fragments(again, KNOWS)) == 1
