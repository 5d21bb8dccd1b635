"""A merge of wide rows and the telling of a large commit stay within bounded memory."""

import subprocess
import sys
import tracemalloc
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.limits import COMPARE_ROWS_MAX
from tests.support.two_cores import two_cores

ROWS, DIMENSION = 8_000, 3_072
DELTA_MIB = ROWS * DIMENSION * 4 // 2**20
EXTRA_MIB_MAX = DELTA_MIB * 5 // 2
"""What a merge may take beyond what a process takes that has merged before; measured twice the delta, either way."""

PREPARE = f"""
import sys, numpy as np, pyarrow as pa, omnigraphdb
graph = omnigraphdb.init(sys.argv[1], "node Doc {{ name: String @key  vec: Vector({DIMENSION}) }}")
def frame(tag, seed, count):
    values = np.random.default_rng(seed).random(count * {DIMENSION}, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(values, {DIMENSION})
    return pa.table({{"name": [f"{{tag}} {{n}}" for n in range(count)], "vec": vectors}})
graph.load({{"Doc": frame("old", 0, 2_000)}}, mode="append")
graph.branch_create("side")
graph.load({{"Doc": frame("new", 1, {ROWS} - 2_000)}}, mode="append", branch="side")
graph.load({{"Doc": frame("old", 2, 2_000)}}, mode="merge", branch="side")
if sys.argv[2] == "three_way":
    graph.load({{"Doc": frame("mine", 3, 10)}}, mode="append")
"""

MERGE = """
import resource, sys, omnigraphdb
def warm(place):
    # What the first merge of a process takes is not counted.
    small = omnigraphdb.init(place, "node Doc { name: String @key  size: I64? }")
    rows = [{"type": "Doc", "data": {"name": str(n), "size": n}} for n in range(100)]
    small.load(rows[:60], mode="append")
    small.branch_create("side")
    small.load(rows[40:], mode="merge", branch="side")
    small.merge("side")
warm(sys.argv[1] + "-small")
graph = omnigraphdb.open(sys.argv[1])
graph.entity("Doc", "old 1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = graph.merge("side")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(result.outcome, result.tables["node:Doc"], (after - before) // 1024)
assert graph.doctor() == []
"""


def run(program: str, place: str, kind: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, place, kind],
        env=two_cores(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "expected"), [("three_way", "merged"), ("fast_forward", "fast_forward")]
)
def test_eight_thousand_wide_vectors_merge_in_bounded_memory(
    tmp_path: Path, kind: str, expected: str
) -> None:
    place = str(tmp_path / "g")
    read_changes = [run(program, place, kind) for program in (PREPARE, MERGE)]
    outcome, *counts, extra = read_changes[-1].split()
    assert (outcome, " ".join(counts)) == (expected, f"({ROWS - 2_000}, 2000, 0)")
    assert int(extra) < EXTRA_MIB_MAX


# ---- the feed


def with_one_commit(place: Path, rows: int) -> Graph:
    graph: Graph = omnigraphdb.init(place, "node P { name: String @key  city: String? }")
    names = [f"p{number:07d}" for number in range(rows)]
    graph.load({"P": pa.table({"name": names, "city": ["somewhere"] * rows})}, mode="append")
    return graph


def peak(work: Callable[[], Any]) -> int:
    """The most that values took at one time while something was done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_changes(graph: Graph) -> None:
    [one] = graph.changes_stream(images=True)
    deque(one.changes, maxlen=0)


def test_a_stream_of_changes_holds_no_more_of_a_large_commit_than_of_a_small_one(
    tmp_path: Path,
) -> None:
    small = with_one_commit(tmp_path / "small", COMPARE_ROWS_MAX)
    large = with_one_commit(tmp_path / "large", 5 * COMPARE_ROWS_MAX)
    read_changes(small)
    few, many = peak(lambda: read_changes(small)), peak(lambda: read_changes(large))
    assert many < 1.5 * few
    assert many < peak(lambda: large.changes(images=True)) / 2
