"""Universes of the whole engine: real Lance and obstore on a bucket whose requests the scheduler owns."""

import pytest

from tests.simulation.children import simulate

WORKS = ("story", "bank", "appends", "branches", "keys", "read_set", "upkeep")


def test_the_judge_is_silent_about_the_engine() -> None:
    verdict = simulate("--level engine --seeds 0:20")
    assert verdict.is_silent, verdict.printed


def test_merges_have_the_base_that_the_commit_graph_says() -> None:
    verdict = simulate("--level engine --plan histories")
    assert verdict.is_silent, verdict.printed


def test_a_seed_gives_the_same_requests_whatever_the_hashes_are() -> None:
    first, second = (simulate("--level engine --seeds 0:2 --work story", seed) for seed in (1, 2))
    assert first.digest == second.digest


def test_an_intent_that_is_not_written_down_is_missed() -> None:
    verdict = simulate("--level engine --seeds 0:20 --work bank --stop --mutant no_sidecar")
    assert not verdict.is_silent, verdict.printed


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("work", WORKS)
def test_the_judge_is_silent_about_the_engine_all_night(work: str, part: int) -> None:
    first = 1000 + 43 * part
    verdict = simulate(f"--level engine --work {work} --seeds {first}:{first + 43}")
    assert verdict.is_silent, verdict.printed


@pytest.mark.soak
@pytest.mark.parametrize("branch", ["main", "b"])
def test_pairs_of_the_engine(branch: str) -> None:
    verdict = simulate(f"--level engine --plan pairs --line {branch} --step 29")
    assert verdict.is_silent, verdict.printed
