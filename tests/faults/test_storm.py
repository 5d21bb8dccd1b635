"""Storms of writers, deaths and a failing store: each key at most once, each acknowledged one exactly once, history one line."""

from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.storm import failing_store, make_place, run_storm

LONG = [pytest.param(seed, 500, marks=pytest.mark.soak) for seed in range(10)]
"""With both stores 10,000 rounds."""


def replay(seed: int, rounds: int, more: str = "") -> str:
    return f"again: python -m tests.support.storm --seed {seed} --rounds {rounds}{more}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("seed", "rounds"), [(1, 40), *LONG])
def test_a_storm_of_writers_and_deaths_loses_nothing_and_writes_nothing_twice(
    seed: int, rounds: int, tmp_path: Path
) -> None:
    print(replay(seed, rounds))
    storm = run_storm(make_place(str(tmp_path / "g")), tmp_path, seed, rounds)
    storm.check(storm.settle())
    assert storm.deaths > 0


@pytest.mark.s3
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("seed", "rounds"), [(2, 24), *LONG])
def test_a_storm_on_a_store_that_fails_at_random_loses_nothing_and_writes_nothing_twice(
    seed: int, rounds: int, tmp_path: Path, counting_server: S3Server
) -> None:
    print(replay(seed, rounds, " --s3"))
    bucket = counting_server.new_bucket()
    place = make_place(f"{bucket.uri}/g", bucket.storage_options)
    with failing_store(counting_server, seed):
        storm = run_storm(place, tmp_path, seed, rounds)
    storm.check(storm.settle())
    assert storm.deaths > 0
