"""Processes of two releases write one graph on a failing store, and die: nothing is lost, nothing is written twice."""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.release_storm import run_release_storm
from tests.simulation.releases import ROOT, name_release, unpack_release
from tests.support.s3 import S3Server

SOAK_SECONDS: Final = float(os.environ.get("RELEASE_STORM_SECONDS", "1200"))


@pytest.mark.s3
@pytest.mark.timeout(SOAK_SECONDS + 900)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no history to take a release from")
@pytest.mark.parametrize(
    ("seed", "seconds"),
    [(1, 1.0), pytest.param(2, SOAK_SECONDS, marks=pytest.mark.soak)],
    ids=["one generation", "long"],
)
def test_a_storm_of_two_releases_loses_nothing_and_writes_nothing_twice(
    seed: int, seconds: float, tmp_path: Path, counting_server: S3Server
) -> None:
    print(f"again: python -m tests.simulation.release_storm --seed {seed} --seconds {seconds}")
    other = unpack_release(name_release(), tmp_path / "release")
    storm = run_release_storm(counting_server.new_bucket(), tmp_path, seed, seconds, other)
    assert storm.acknowledged
    if seconds == SOAK_SECONDS:
        assert storm.deaths > 0
