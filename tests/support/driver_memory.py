"""A Spark driver in a process of its own that does one verb after the other and tells how much memory each took."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb.pipeline.memory import release_freed

SCHEMA = """
node P { name: String @key  age: I32?  note: String? }
edge E: P -> P
"""
SAMPLE_SECONDS = 0.05
MIB = 1 << 20


def own_bytes() -> int:
    """The memory that only this process has."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


@contextmanager
def watch_peak(found: dict[str, int], name: str) -> Iterator[None]:
    """Note by how many MiB the memory of this process grew inside the block, and how much it was at most so far."""
    release_freed()
    start, stop = own_bytes(), threading.Event()
    peak = [start]

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], own_bytes())

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    most = max(peak[0], own_bytes())
    found[name] = (most - start) // MIB
    found["all"] = max(found.get("all", 0), most // MIB)
    # A run that is stopped has told how far it came.
    print(name, found[name], file=sys.stderr, flush=True)


def main(home: Path, master: str) -> dict[str, int]:
    """Load, change a branch, compare it, merge it and export it, all on Spark; rows are in files of `home`."""
    from omnigraphdb.spark import session

    spark = session(master, quick=True, memory="1g")
    found: dict[str, int] = {}
    with omnigraphdb.init(home / "g", SCHEMA) as graph:
        load: Callable[..., Any] = graph.load
        # Classes and connections that a first job makes stay, however much it does.
        load({"P": str(home / "few.parquet")}, mode="append", spark=spark)
        graph.export_files(home / "few", spark=spark)
        with watch_peak(found, "load"):
            load({"P": str(home / "rows.parquet")}, mode="append", spark=spark)
        with watch_peak(found, "edges"):
            load({"E": str(home / "edges.parquet")}, mode="append", spark=spark)
        start = graph.branch_create("side").head
        with watch_peak(found, "upsert"):
            load({"P": str(home / "rows2.parquet")}, mode="merge", branch="side", spark=spark)
        with watch_peak(found, "diff"):
            told = graph.diff("main", "side", spark=spark, out=home / "changes.jsonl")
            assert told.engine == "spark"
        with watch_peak(found, "feed"):
            blocks = graph.changes_stream(branch="side", since=start, spark=spark)
            assert [sum(1 for _ in block.changes) for block in blocks] == [told.stats.updates]
        with watch_peak(found, "merge"):
            assert graph.merge("side", spark=spark).engine == "spark"
        with watch_peak(found, "export"):
            graph.export_files(home / "out", spark=spark)
    spark.stop()
    return found


if __name__ == "__main__":
    print("\n" + json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
