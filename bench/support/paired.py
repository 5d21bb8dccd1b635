"""Paired timing: two arms take turns in one process, their ratios are what counts; a third sample of one arm
shows how much of a difference is noise."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

SAMPLE_SECONDS_MIN = 0.025
REPEATS_MAX = 50


class Arm(Protocol):
    """One way to do the work."""

    def ready(self, n: int) -> None:
        """Get ready for n operations; not timed."""
        ...

    def run(self, n: int) -> None:
        """Do n operations."""
        ...


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}–{self.high:.2f}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What pairs of samples showed: milliseconds of each arm, their ratio, and the ratio of an arm to itself."""

    name: str
    ours_ms: float
    raw_ms: float
    ratio: Spread
    noise: Spread
    repeats: int

    def __str__(self) -> str:
        return (
            f"{self.name:44} {self.ours_ms:8.2f} ms {self.raw_ms:8.2f} ms   ratio {self.ratio}   "
            f"A/A {self.noise}   ×{self.repeats}"
        )


Clock = Callable[[], float]


def compare(
    name: str,
    ours: Arm,
    raw: Arm,
    *,
    pairs: int,
    clock: Clock = time.perf_counter,
    apart: bool = False,
    repeats_max: int = REPEATS_MAX,
) -> Comparison:
    """Time both arms in alternating order, and the raw one twice per pair.

    `time.process_time` as the clock counts what all threads of the process worked: on a busy machine that is what
    can be compared. Arms whose speeds are far `apart` repeat their work each as often as its own needs: for reads,
    which leave nothing behind. Work that is another the second time is repeated `repeats_max` times at most.
    """
    own_repeats, raw_repeats = (min(repeats_max, _repeats(arm)) for arm in (ours, raw))
    if not apart:
        own_repeats = raw_repeats = max(own_repeats, raw_repeats)
    ratios, noise, own, other = [], [], [], []
    for pair in range(pairs):
        if pair % 2:
            b = _sample(raw, raw_repeats, clock) / raw_repeats
            a = _sample(ours, own_repeats, clock) / own_repeats
        else:
            a = _sample(ours, own_repeats, clock) / own_repeats
            b = _sample(raw, raw_repeats, clock) / raw_repeats
        again = _sample(raw, raw_repeats, clock) / raw_repeats
        ratios.append(a / b)
        noise.append(again / b)
        own.append(a)
        other.append(b)
    return Comparison(
        name=name,
        ours_ms=1000 * statistics.median(own),
        raw_ms=1000 * statistics.median(other),
        ratio=_spread(ratios),
        noise=_spread(noise),
        repeats=own_repeats,
    )


def _repeats(arm: Arm) -> int:
    """Operations that take long enough for a clock to be trusted."""
    _sample(arm, 1)
    once = min(_sample(arm, 1) for _ in range(3))
    return max(1, min(REPEATS_MAX, round(SAMPLE_SECONDS_MIN / once)))


def _sample(arm: Arm, repeats: int, clock: Clock = time.perf_counter) -> float:
    arm.ready(repeats)
    start = clock()
    arm.run(repeats)
    return clock() - start


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = statistics.quantiles(values, n=4)
    return Spread(low, median, high)
