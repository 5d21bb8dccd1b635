"""A merge of wide rows stays within bounded memory."""

import subprocess
import sys
from pathlib import Path

ROWS, DIMENSION = 8_000, 3_072
DELTA_MIB = ROWS * DIMENSION * 4 // 2**20
EXTRA_MIB_MAX = 1_024

PREPARE = f"""
import sys, numpy as np, pyarrow as pa, omnigraph
graph = omnigraph.init(sys.argv[1], "node Doc {{ name: String @key  vec: Vector({DIMENSION}) }}")
def frame(tag, seed, count):
    values = np.random.default_rng(seed).random(count * {DIMENSION}, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(values, {DIMENSION})
    return pa.table({{"name": [f"{{tag}} {{n}}" for n in range(count)], "vec": vectors}})
graph.load({{"Doc": frame("old", 0, 2_000)}}, mode="append")
graph.branch_create("side")
graph.load({{"Doc": frame("new", 1, {ROWS} - 2_000)}}, mode="append", branch="side")
graph.load({{"Doc": frame("old", 2, 2_000)}}, mode="merge", branch="side")
graph.load({{"Doc": frame("mine", 3, 10)}}, mode="append")
"""

MERGE = """
import resource, sys, omnigraph
graph = omnigraph.open(sys.argv[1])
graph.entity("Doc", "old 1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = graph.merge("side")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(result.outcome, result.tables["node:Doc"], (after - before) // 1024)
assert graph.doctor() == []
"""


def run(program: str, place: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, place], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_eight_thousand_wide_vectors_merge_in_bounded_memory(tmp_path: Path) -> None:
    place = str(tmp_path / "g")
    told = [run(program, place) for program in (PREPARE, MERGE)]
    outcome, *counts, extra = told[-1].split()
    assert (outcome, " ".join(counts)) == ("merged", f"({ROWS - 2_000}, 2000, 0)")
    assert int(extra) < EXTRA_MIB_MAX
