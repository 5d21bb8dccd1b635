"""Processes whose wall clocks are minutes apart, in Python and in Rust alike, on one object store: no clock costs a write."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.shifted_clocks import build_clock
from tests.support.skewed_storm import THREE, TWO, run_skewed_storm
from tests.support.storm import make_place

LONG = [
    pytest.param(7, 200, TWO, marks=pytest.mark.soak, id="200-rounds"),
    pytest.param(9, 60, THREE, marks=pytest.mark.soak, id="three-processes"),
]


def run(
    seed: int, rounds: int, clocks: Sequence[int], home: Path, server: S3Server
) -> Counter[str]:
    more = " --three" if len(clocks) > 2 else ""
    print(f"again: python -m tests.support.skewed_storm --seed {seed} --rounds {rounds}{more}")
    bucket = server.new_bucket()
    place = make_place(f"{bucket.uri}/g", bucket.storage_options)
    return run_skewed_storm(place, home, build_clock(home), seed, rounds, clocks)


@pytest.mark.s3
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("seed", "rounds", "clocks"), [pytest.param(8, 6, TWO, id="short"), *LONG])
def test_clocks_that_are_minutes_apart_refuse_no_write_and_block_no_table(
    seed: int, rounds: int, clocks: Sequence[int], tmp_path: Path, s3_server: S3Server
) -> None:
    counts = run(seed, rounds, clocks, tmp_path, s3_server)
    print(dict(counts))
    assert counts["kills"] + counts["stops"] == rounds
    assert counts["kills"] > 0
    assert counts["stopped amid"] > 0
    assert counts["landed"] > rounds
