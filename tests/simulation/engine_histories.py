"""Histories of two branches as scripts, without faults: writes, deletions and merges in an order that a wrong base shows."""

from collections.abc import Iterator, Mapping
from typing import Final

from omnigraphdb.ids import MAIN
from tests.simulation.engine_operations import Close, Join, Open, Operation
from tests.simulation.engine_workloads import (
    FORKED,
    EngineCrew,
    EngineScript,
    EngineWeather,
    Work,
)

_TO_MAIN: Final = Join(MAIN, source=FORKED)
_TO_BRANCH: Final = Join(FORKED, source=MAIN)


def _open(branch: str, name: str) -> Operation:
    return Open(branch, name=name)


def _close(branch: str, name: str) -> Operation:
    return Close(branch, type_name="Account", node=name)


HISTORIES: Final[Mapping[str, tuple[Operation, ...]]] = {
    "what the branch took over and deleted is gone": (
        _open(FORKED, "own"),
        _open(MAIN, "gone"),
        _TO_BRANCH,
        _close(FORKED, "gone"),
        _open(MAIN, "more"),
        _TO_MAIN,
    ),
    "what main took over and deleted stays gone": (
        _open(FORKED, "gone"),
        _TO_MAIN,
        _close(MAIN, "gone"),
        _open(FORKED, "more"),
        _TO_MAIN,
    ),
    "both took over, and each deleted what the other brought": (
        _open(FORKED, "own"),
        _open(MAIN, "gone"),
        _TO_BRANCH,
        _TO_MAIN,
        _close(FORKED, "gone"),
        _close(MAIN, "own"),
        _TO_BRANCH,
        _open(MAIN, "more"),
        _TO_MAIN,
    ),
    "what was deleted and made again is there": (
        _open(FORKED, "own"),
        _open(MAIN, "back"),
        _TO_BRANCH,
        _close(FORKED, "back"),
        _TO_MAIN,
        _open(MAIN, "back"),
        _open(FORKED, "more"),
        _TO_BRANCH,
    ),
}


def list_histories() -> Iterator[EngineWeather]:
    """List a universe for each history."""
    for operations in HISTORIES.values():
        crew = EngineCrew("w0", (operations,))
        yield EngineWeather(EngineScript(0, Work.BRANCHES, (crew,), faults={}))
