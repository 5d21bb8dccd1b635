"""Queries of thousands of conditions: compiling costs by the condition, never by the pair of them."""

import time

from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.rules import optimize
from tests.support.compiling import harbour, read

FEW, MANY, TRIES = 500, 4000, 3
"""Eight times as many: linear work takes eight times as long, work by the pair sixty-four times."""


def measure_seconds(count: int) -> float:
    """The least processor time to plan a query with so many conditions on either end of a hop."""
    tests = " ".join(f"$v.dwt != {n} $p.lat != {n}.5" for n in range(count // 2))
    checked = read(f"match {{ $v: Vessel $p: Port $v callsAt $p {tests} }} return {{ $v.imo }}")
    times = []
    for _ in range(TRIES):
        began = time.process_time()
        optimize(lower(checked, harbour()))
        times.append(time.process_time() - began)
    return min(times)


def test_time_grows_with_the_conditions() -> None:
    assert measure_seconds(MANY) < 24 * measure_seconds(FEW)
