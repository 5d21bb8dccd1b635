"""Loads against Ladybug's COPY: the same Parquet files, keys and ends checked on both sides.

Ours also builds its B-trees and writes a commit; a text index, which the other side has not, is left out. `L1` loads Parquet, `L2` the same rows as
JSON lines against COPY from Parquet, `L4` compares disk and prints the peak memory of a process that does nothing else.
Scales are those of `social.py`. `--steps` takes the way of large inputs, whatever the size.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from social import EDGES, NODES, schema, social_graph
from support.paired import Arm, compare

import omnigraphdb

NEVER = 1 << 60
SCHEMA = schema().replace("content: String @index", "content: String")
TYPES = {"int32": "INT32", "string": "STRING", "date32[day]": "DATE"}


def keyed(name: str, table: pa.Table) -> pa.Table:
    """A table as both sides load it: nodes by their key, edges with their ends first."""
    if name in NODES:
        return table.rename_columns(["key" if c == "id" else c for c in table.column_names])
    rest = [c for c in table.column_names if c not in ("src", "dst")]
    return table.select(["src", "dst", *rest])


def write_inputs(home: Path, scale: str) -> Mapping[str, Path]:
    """Write the Parquet files of a graph; its record file too while it is small."""
    paths = {}
    with open(home / "all.jsonl", "w") as records:
        for name, table in social_graph(scale).items():
            paths[name] = home / f"{name}.parquet"
            pyarrow.parquet.write_table(keyed(name, table), paths[name])
            if scale != "m":
                for row in keyed(name, table).to_pylist():
                    records.write(json.dumps(_record(name, row), default=str) + "\n")
    return paths


def _record(name: str, row: dict[str, object]) -> dict[str, object]:
    if name in NODES:
        return {"type": name, "data": row}
    return {"edge": name, "from": row.pop("src"), "to": row.pop("dst"), "data": row}


class Ours:
    """Load everything into a new graph, in this process."""

    def __init__(self, home: Path, source: object, *, steps: bool) -> None:
        self.place, self._source = home / "ours", source
        bound = 0 if steps else NEVER
        self._config = {"small_work_bytes": bound, "small_work_rows": bound}
        self._graph: omnigraphdb.Graph | None = None

    def ready(self, n: int) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self._graph = omnigraphdb.init(self.place, SCHEMA, config=self._config)

    def run(self, n: int) -> None:
        assert self._graph is not None
        self._graph.load(self._source, mode="append", spark=False)


class Ladybug:
    """COPY everything into a new database and settle it."""

    def __init__(self, home: Path, paths: Mapping[str, Path]) -> None:
        self.place, self._paths = home / "ladybug", paths

    def ready(self, n: int) -> None:
        import ladybug

        if self.place.is_dir():
            shutil.rmtree(self.place)
        for one in self.place.parent.glob("ladybug*"):
            one.unlink()
        self._database = ladybug.Database(str(self.place))
        self._connection = ladybug.Connection(self._database)
        for name, path in self._paths.items():
            self._connection.execute(_table(name, pyarrow.parquet.read_schema(path)))

    def run(self, n: int) -> None:
        for name, path in self._paths.items():
            self._connection.execute(f"COPY {name} FROM '{path}'")
        self._connection.execute("CHECKPOINT")


def _table(name: str, columns: pa.Schema) -> str:
    spelled = [f"{f.name} {TYPES[str(f.type)]}" for f in columns if f.name not in ("src", "dst")]
    if name in NODES:
        return f"CREATE NODE TABLE {name}({', '.join(spelled)}, PRIMARY KEY(key))"
    near, far = EDGES[name]
    return f"CREATE REL TABLE {name}(FROM {near} TO {far}, {', '.join(spelled)})"


def disk(place: Path) -> int:
    """Bytes of a directory, or of files that begin with a name."""
    every = place.rglob("*") if place.is_dir() else place.parent.glob(f"{place.name}*")
    return sum(one.stat().st_size for one in every if one.is_file())


def peak_mib(arguments: argparse.Namespace, home: Path) -> float:
    """Peak memory of a process that loads the Parquet files and does nothing else."""
    command = [sys.executable, __file__, "--alone", str(home)]
    if arguments.steps:
        command.append("--steps")
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def alone(home: Path, *, steps: bool) -> None:
    """Load the Parquet files of a directory and print the peak memory in MiB."""
    paths = {name: home / f"{name}.parquet" for name in (*NODES, *EDGES)}
    arm = Ours(home, paths, steps=steps)
    arm.ready(1)
    arm.run(1)
    # What the system counts as a process's own includes the one that started it; this begins anew.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def main() -> None:
    """Compare, and print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=("xs", "s", "m"), default="s")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="count what all threads worked")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone is not None:
        alone(given.alone, steps=given.steps)
        return
    clock = time.process_time if given.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        paths = write_inputs(home, given.scale)
        theirs: Arm = Ladybug(home, paths)
        cases = {f"L1 {given.scale}: Parquet / COPY": paths}
        if given.scale != "m":
            cases[f"L2 {given.scale}: JSON lines / COPY"] = home / "all.jsonl"  # type: ignore[assignment]
        for name, source in cases.items():
            ours = Ours(home, source, steps=given.steps)
            print(compare(name, ours, theirs, pairs=given.pairs, clock=clock), flush=True)
        ratio = disk(home / "ours") / disk(home / "ladybug")
        print(f"L4 {given.scale}: disk ratio {ratio:.2f}, peak {peak_mib(given, home):.0f} MiB")


if __name__ == "__main__":
    main()
