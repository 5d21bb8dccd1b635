"""The models of the protocol: every invariant holds in each instance, and each guard that is taken away breaks one.

Random traces are no proof; they break a model without a guard within seconds. Quint comes by npm, so that these tests are a
soak (`make model`).
"""

from pathlib import Path
from typing import Final

import pytest

from tests.simulation.models import (
    AGAIN,
    APART,
    COMMIT,
    DEATHS,
    FORKED,
    FORKS,
    LONE_TABLE,
    NAMES,
    SLEEPERS,
    SMALL,
    TRIO,
    WHOLE,
    Instance,
    find_broken,
    install_quint,
)

BROKEN: Final = (
    (SMALL.lacking("CAREFUL", "BRINGS"), "free"),
    # A recoverer that goes on puts the sidecar back; one that stops then does not.
    (SLEEPERS.lacking("CAREFUL"), "free"),
    (SMALL.lacking("CONDITIONAL"), "atomic"),
    # A writer that does not look at its leases loses nothing that it was told: a recoverer publishes only over the pins that
    # it saw, so that one of the two swaps is refused. But a swap that lands amid a roll-back leaves tables past their pins.
    (SMALL.lacking("LOOKS"), "free"),
    (SMALL.lacking("OCCUPIES"), "free"),
    (APART.lacking("SWAP"), "free"),
    (DEATHS.lacking("ARMS"), "free"),
    (LONE_TABLE.lacking("RECORDS"), "honest"),
    (TRIO.lacking("PLACED"), "free"),
    (TRIO.lacking("PLACED", "CURRENT"), "kept"),
    (FORKED.lacking("LEAVES"), "kept"),
    (AGAIN.lacking("CARRIES"), "own_rows"),
    (AGAIN.lacking("RETRIES"), "free"),
)


@pytest.fixture(scope="session")
def quint() -> Path:
    """The program that runs models, as npm installs it."""
    installed = install_quint()
    if installed is None:
        pytest.skip("npm is not installed")
    return installed


@pytest.mark.soak
@pytest.mark.parametrize("instance", WHOLE, ids=str)
def test_what_must_hold_holds(quint: Path, tmp_path: Path, instance: Instance) -> None:
    assert find_broken(quint, tmp_path, instance, *instance.model.invariants) == []


@pytest.mark.soak
@pytest.mark.parametrize(("instance", "invariant"), BROKEN, ids=str)
def test_a_guard_that_is_taken_away_breaks_what_it_guards(
    quint: Path, tmp_path: Path, instance: Instance, invariant: str
) -> None:
    assert find_broken(quint, tmp_path, instance, invariant) == [invariant]


def test_every_guard_of_a_model_is_taken_away_somewhere() -> None:
    for model in (COMMIT, FORKS, NAMES):
        taken = {guard for one, _ in BROKEN if one.model is model for guard in one.without}
        assert set(model.guards) == taken
