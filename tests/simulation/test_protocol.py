"""The commit protocol under every order of two and three clients, one fault at each request, and random weather."""

import pytest

from tests.simulation.children import simulate

WORKS = ("keys", "groups", "branches", "lists", "upkeep", "all", "reads")
LINES = ("main", "own", "fork")


@pytest.mark.parametrize(
    "arguments",
    [
        "--plan weather --seeds 0:150",
        *(f"--plan weather --work {work} --seeds 0:50" for work in WORKS),
        "--plan single --line main",
        "--plan pairs --line main --step 2",
        "--plan pairs --line own --step 12",
        "--plan pairs --line fork --step 12",
        "--plan trios --line main --step 3",
        "--plan orphans --line main --step 8",
        "--plan orphans-again --line own --step 13",
        "--plan remade --line own --step 13",
        "--plan deleted --line own --step 13",
        "--plan recoverers --line main --step 8",
        "--plan passed --line main --step 2",
        "--plan cleaned --line fork --step 4",
        "--plan adopted --line fork",
        "--plan adoptions --line fork --step 2",
        "--plan lone --seeds 0:30",
        "--plan refused",
        "--plan expecting reading --line main",
        "--plan folding same-key grouped reclaiming --line main --step 9",
        "--plan dropping --line fork --step 3",
    ],
)
def test_the_judge_is_silent(arguments: str) -> None:
    verdict = simulate(arguments)
    assert verdict.is_silent, verdict.printed


@pytest.mark.soak
@pytest.mark.parametrize(
    "arguments",
    [
        *(f"--plan weather --seeds 150:30000 --part {part}/8" for part in range(1, 9)),
        *(f"--plan weather --work {work} --seeds 50:6000" for work in WORKS),
        *(f"--plan single --line {line}" for line in LINES),
        "--plan pairs --line main",
        "--plan pairs --line own --step 2",
        *(f"--plan trios --line {line}" for line in LINES),
        *(f"--plan orphans --line {line}" for line in LINES),
        *(f"--plan orphans-again --line {line} --step 2" for line in LINES[1:]),
        *(f"--plan remade --line {line} --step 2" for line in LINES[1:]),
        "--plan deleted --line own --step 2",
        *(f"--plan recoverers --line {line}" for line in LINES),
        *(f"--plan passed --line {line}" for line in LINES),
        *(f"--plan cleaned --line {line}" for line in LINES),
        "--plan adoptions --line fork",
        *(f"--plan lone --line {line} --seeds 30:1000" for line in LINES),
        *(f"--plan reading expecting same-key --line {line}" for line in LINES),
        *(f"--plan reclaiming --line {line} --step 2" for line in LINES),
        "--plan folding grouped --line main",
        *(f"--plan dropping --line {line}" for line in LINES[1:]),
    ],
)
def test_the_judge_is_silent_all_night(arguments: str) -> None:
    verdict = simulate(arguments)
    assert verdict.is_silent, verdict.printed


@pytest.mark.soak
def test_every_pair_of_a_first_write_of_a_branch() -> None:
    verdict = simulate("--plan pairs --line fork --step 2")
    assert verdict.is_silent, verdict.printed


def test_a_ref_that_arrives_when_its_files_were_cleared_keeps_nobody_out() -> None:
    """A recoverer clears the files of a fork that has no ref; the PUT of its ref was on its way."""
    verdict = simulate("--plan pair --line fork --places 25:34")
    assert verdict.is_silent, verdict.printed


def test_writers_of_one_process_form_groups() -> None:
    """What a run of groups says is worth nothing when none form."""
    verdict = simulate("--plan weather --work groups --seeds 0:30")
    groups = int(verdict.printed.splitlines()[-1].split(" groups, ")[0].rpartition(", ")[2])
    assert groups > 5, verdict.printed
