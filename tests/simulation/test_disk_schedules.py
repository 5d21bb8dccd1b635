"""RC-9: random writes, a random fault each, a reopen after each: acknowledged writes show, the others wholly or not."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.simulation.disk_mutants import DISK_MUTANTS, DiskMutant
from tests.simulation.disk_schedules import Broken, main, simulate
from tests.support import plain_model

STEPS = 5
CHUNK = 20
MUTANT_SEEDS = range(10, 20)
"""Each mutant is noticed within these schedules."""


@pytest.mark.parametrize("first", range(0, 60, CHUNK))
def test_a_random_schedule_of_faults_leaves_whole_writes(first: int, tmp_path: Path) -> None:
    run_schedules(tmp_path, range(first, first + CHUNK))


@pytest.mark.parametrize("seed", range(100_000, 100_002))
def test_processes_that_are_killed_leave_whole_writes(seed: int, tmp_path: Path) -> None:
    simulate(tmp_path, seed, STEPS, kills=0.6)


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = simulate(tmp_path / "one", 4711, 8)
    two = simulate(tmp_path / "two", 4711, 8)
    assert one.lines == two.lines
    assert len(one.lines) == 8


def test_a_graph_that_lost_a_write_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model itself is wrong here: it forgets what an insert did."""
    monkeypatch.setattr(plain_model.Settle, "on", lambda self, plain: plain)
    with pytest.raises(Broken, match="seed 1 breaks at step 1"):
        simulate(tmp_path, 1, 1)


@pytest.mark.parametrize("mutant", DISK_MUTANTS.values(), ids=DISK_MUTANTS)
def test_a_guard_that_goes_is_missed_on_a_disk(
    mutant: DiskMutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant.owner, mutant.attribute, mutant.replacement)
    with pytest.raises(Broken):
        run_schedules(tmp_path, MUTANT_SEEDS)


def run_schedules(root: Path, seeds: Iterable[int]) -> None:
    for seed in seeds:
        simulate(root, seed, STEPS)


def test_the_command_says_what_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--steps", "2", "--schedules", "2", "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert "seed 4" in printed
    assert "2 schedules of 2 steps in" in printed


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000_000, 1_020_000, 500))
def test_twenty_thousand_schedules(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 500):
        simulate(tmp_path, seed, STEPS, kills=0.005)
        shutil.rmtree(tmp_path / f"graph-{seed}")
