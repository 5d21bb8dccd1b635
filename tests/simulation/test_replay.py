"""A seed gives the same history, request by request, in every process."""

from pathlib import Path

import pytest

from tests.simulation.children import simulate

SEEDS = "--plan weather --seeds 0:5"
DIGESTS = Path(__file__).parent / "digests.txt"


def test_a_seed_gives_the_same_history_whatever_the_hashes_are() -> None:
    first, second, other = (simulate(SEEDS, hash_seed=seed) for seed in (1, 1, 2))
    assert first.digest == second.digest == other.digest


def test_another_seed_gives_another_history() -> None:
    assert simulate("--seeds 0:1").digest != simulate("--seeds 1:2").digest


def test_one_universe_is_printed_request_by_request() -> None:
    verdict = simulate("--level protocol --plan weather --seed 7")
    lines = verdict.printed.splitlines()
    assert len(lines) > 100
    assert any("PUT-IF __manifest/" in line for line in lines)
    assert lines[-1].startswith("1 universes, 0 broken, ")


@pytest.mark.parametrize("plan", ["pairs", "trios"])
def test_an_enumeration_is_the_same_twice(plan: str) -> None:
    arguments = f"--plan {plan} --line main --step 17"
    assert simulate(arguments, hash_seed=1).digest == simulate(arguments, hash_seed=3).digest


@pytest.mark.parametrize("work", ["inserts", "all"])
def test_five_seeds_give_the_history_that_is_written_down(work: str) -> None:
    """A change of the protocol, or of what a seed means, is a diff of the golden file."""
    known = dict(line.split() for line in DIGESTS.read_text().splitlines())
    verdict = simulate(f"{SEEDS} --work {work}", hash_seed=4)
    assert verdict.digest == known[work], f"write '{work} {verdict.digest}' if that is right"
