"""Branches and merges as ratios to themselves on other sizes, or to raw Lance (B1 to B5).

Every arm works on a graph of its own that is made anew after a few dozen commits, so that none grows old. A sample is
one merge: a second one in it would no longer be a fast-forward. The raw arms are given their rows, and keep what a
merge keeps: stable row ids, and the versions in which a row was born and written.
"""

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from support.paired import REPEATS_MAX, Arm, compare

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.storage.lance.unofficial.sequences import versions_of

SCHEMA = "node P { name: String @key  age: I64?  city: String? }\nedge K: P -> P"
COMMITS_MAX = 60
FRAGMENT_ROWS = 65_536


def people(start: int, count: int, prefix: str = "p", age: int = 0) -> pa.Table:
    """Rows with consecutive names."""
    return pa.table(
        {
            "name": [f"{prefix}{n:08d}" for n in range(start, start + count)],
            "age": pa.array(np.arange(count) + age, pa.int64()),
            "city": pa.array([f"city {n % 97}" for n in range(count)]),
        }
    )


def loaded(path: Path, rows: int, tables: int = 0) -> Graph:
    """A graph with so many rows, and so many more tables."""
    more = "".join(f"\nnode T{n} {{ name: String @key }}" for n in range(tables))
    graph: Graph = omnigraphdb.init(path, SCHEMA + more)
    graph.load({"P": people(0, rows)}, mode="append")
    return graph


Work = Callable[[Graph, str, int], None]


class Merging:
    """Merges of prepared branches into main."""

    def __init__(self, home: Path, name: str, rows: int, work: Work) -> None:
        self._home, self._name, self._rows, self._work = home, name, rows, work
        self._graph: Graph | None = None
        self._made = self._commits = 0
        self._waiting: list[str] = []

    def ready(self, n: int) -> None:
        """Make branches with work on them."""
        if self._graph is None or self._commits + 3 * n > COMMITS_MAX:
            path = self._home / self._name
            shutil.rmtree(path, ignore_errors=True)
            self._graph, self._commits = loaded(path, self._rows), 0
        for _ in range(n):
            self._made += 1
            branch = f"b{self._made}"
            self._graph.branch_create(branch)
            self._work(self._graph, branch, self._made)
            self._waiting.append(branch)
            self._commits += 3

    def run(self, n: int) -> None:
        """Merge them."""
        assert self._graph is not None, "ready comes first"
        for _ in range(n):
            self._graph.merge(self._waiting.pop(0))


def new_rows(count: int) -> Work:
    """New rows on the branch."""
    return lambda graph, branch, n: _load(graph, branch, people(0, count, f"new{n} "))


def spread(rows: int, count: int) -> Work:
    """Changed rows from all over the table on the branch."""

    def work(graph: Graph, branch: str, n: int) -> None:
        _load(graph, branch, _changed(rows, count, n))

    return work


def both_sides(rows: int, count: int, changed: int) -> Work:
    """Rows on the branch and others on main, so many of them `changed`, the rest new."""

    def work(graph: Graph, branch: str, n: int) -> None:
        for side, number in ((branch, 2 * n), ("main", 2 * n + 1)):
            fresh = people(0, count - changed, f"{side} {n} ")
            known = _changed(rows, changed, number) if changed else fresh.slice(0, 0)
            _load(graph, side, pa.concat_tables([known, fresh]))

    return work


def _changed(rows: int, count: int, number: int) -> pa.Table:
    """Rows spread over the table; no two numbers choose the same ones."""
    chosen = (np.arange(count) * (rows // count) + number) % rows
    table = people(0, count, age=number * 1_000_003)
    return table.set_column(0, "name", pa.array([f"p{n:08d}" for n in chosen]))


def _load(graph: Graph, branch: str, rows: pa.Table) -> None:
    graph.load({"P": rows}, mode="merge", branch=branch)


class Branching:
    """Branch creation."""

    def __init__(self, home: Path, name: str, rows: int, tables: int) -> None:
        self._graph = loaded(home / name, rows, tables)
        self._made = 0

    def ready(self, n: int) -> None:
        """Remove what earlier rounds made."""
        for branch in self._graph.branches()[1:]:
            self._graph.branch_delete(branch.name)

    def run(self, n: int) -> None:
        """Create branches."""
        for _ in range(n):
            self._made += 1
            self._graph.branch_create(f"b{self._made}")


class Raw:
    """A table of Lance alone."""

    def __init__(self, home: Path, name: str, rows: int, count: int) -> None:
        self._home, self._rows, self._count, self._made = home / name, rows, count, 0
        self._dataset: LanceDataset | None = None
        self._waiting: list[pa.Table] = []

    def ready(self, n: int) -> None:
        """Have a table that is not too old, and rows for it."""
        if self._dataset is None or self._made + n > COMMITS_MAX:
            shutil.rmtree(self._home, ignore_errors=True)
            self._made = 0
            table = _with_ids(people(0, self._rows))
            written = write_fragments(table, str(self._home), max_rows_per_file=FRAGMENT_ROWS)
            self._dataset = LanceDataset.commit(
                str(self._home),
                LanceOperation.Overwrite(table.schema, written),
                enable_stable_row_ids=True,
            )
        for _ in range(n):
            self._made += 1
            self._waiting.append(_with_ids(self._next(self._made)))

    def run(self, n: int) -> None:
        """Commit them."""
        assert self._dataset is not None, "ready comes first"
        for _ in range(n):
            rows = self._waiting.pop(0)
            change = Transaction(self._dataset.version, self._change(self._dataset, rows))
            self._dataset = LanceDataset.commit(self._dataset, change, max_retries=0)

    def _next(self, number: int) -> pa.Table:
        raise NotImplementedError

    def _change(self, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.BaseOperation:
        raise NotImplementedError


class RawAppend(Raw):
    """New rows."""

    def _next(self, number: int) -> pa.Table:
        return people(0, self._count, f"new{number} ")

    def _change(self, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.BaseOperation:
        return LanceOperation.Append(write_fragments(rows, dataset))


class RawUpdate(Raw):
    """Changed rows from all over the table, whose places are known: rows in order have their numbers as row ids."""

    def _next(self, number: int) -> pa.Table:
        return _changed(self._rows, self._count, number)

    def _change(self, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.BaseOperation:
        numbers = _numbers(rows)
        [fragment] = write_fragments(rows, dataset)
        fragment.row_id_meta = RowIdSequence(pa.array(numbers, pa.uint64())).to_inline_metadata()
        return LanceOperation.Update(
            updated_fragments=_marked(dataset, numbers),
            new_fragments=[fragment],
            update_mode="rewrite_rows",
        )


def _numbers(rows: pa.Table) -> "np.ndarray":
    return np.array([int(name[1:]) for name in rows["name"].to_pylist()])


def _marked(dataset: LanceDataset, numbers: "np.ndarray") -> list[FragmentMetadata]:
    """The fragments without the rows of these numbers."""
    marked = []
    for part in np.unique(numbers // FRAGMENT_ROWS).tolist():
        fragment = dataset.get_fragment(part)
        assert fragment is not None
        rest = fragment.delete_rows(
            (numbers[numbers // FRAGMENT_ROWS == part] % FRAGMENT_ROWS).tolist()
        )
        assert rest is not None
        marked.append(rest)
    return marked


class RawRead(RawUpdate):
    """Reading the rows, which a merge compares with the changed ones."""

    def run(self, n: int) -> None:
        """Read them where they lie."""
        assert self._dataset is not None, "ready comes first"
        for _ in range(n):
            numbers = _numbers(self._waiting.pop(0))
            places = (numbers // FRAGMENT_ROWS << 32) + numbers % FRAGMENT_ROWS
            listed = ", ".join(map(str, places.tolist()))
            found = self._dataset.to_table(["age", "city"], filter=f"_rowaddr IN ({listed})")
            assert found.num_rows == self._count


class RawTakeover(RawUpdate):
    """The same in two commits: the rows are appended, and take over from the others in the next one."""

    def run(self, n: int) -> None:
        """Commit them."""
        assert self._dataset is not None, "ready comes first"
        for _ in range(n):
            rows = self._waiting.pop(0)
            [fresh] = write_fragments(rows, self._dataset)
            self._commit(LanceOperation.Append([fresh]))
            self._commit(self._taken(self._dataset, rows))

    def _commit(self, operation: LanceOperation.BaseOperation) -> None:
        assert self._dataset is not None
        change = Transaction(self._dataset.version, operation)
        self._dataset = LanceDataset.commit(self._dataset, change, max_retries=0)

    def _taken(self, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.BaseOperation:
        numbers = _numbers(rows)
        successors = dataset.get_fragments()[-1].metadata
        successors.row_id_meta = RowIdSequence(pa.array(numbers, pa.uint64())).to_inline_metadata()
        successors.created_at_version_meta = versions_of(np.full(len(numbers), 1, np.uint64))
        now = np.full(len(numbers), dataset.version + 1, np.uint64)
        successors.last_updated_at_version_meta = versions_of(now)
        marked = _marked(dataset, numbers)
        return LanceOperation.Update(
            updated_fragments=[*marked, successors], update_mode="rewrite_rows"
        )


def _with_ids(table: pa.Table) -> pa.Table:
    return table.append_column("id", table["name"])


class Travelling:
    """Point reads at one commit."""

    def __init__(self, graph: Graph, at: str | None) -> None:
        self._graph, self._at = graph, at

    def ready(self, n: int) -> None:
        """Nothing has to be made."""

    def run(self, n: int) -> None:
        """Read one entity."""
        for _ in range(n):
            assert self._graph.entity("P", "p00000007", at=self._at) is not None


def grown(home: Path) -> str:
    """How much the process grows while 10k rows are merged, after it has merged some before."""
    merging = Merging(home, "memory", 100_000, new_rows(10_000))
    merging.ready(3)
    merging.run(2)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident("VmHWM")
        merging.run(1)
        return f"{(_resident('VmHWM') - before) / 1024:.0f} MiB"
    except OSError:
        return "cannot be told on this machine"


def _resident(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0])


def main() -> None:
    """Run the cases that were asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="B1 B2 B3 B4 B5; all when none is named")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--large", type=int, default=700_000)
    parser.add_argument("--depth", type=int, default=500)
    parser.add_argument("--cpu", action="store_true", help="count processor time, not the clock")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        for case in given.cases or ["B1", "B2", "B3", "B4", "B5"]:
            home = Path(folder) / case
            home.mkdir()
            for name, ours, other in ARMS[case](home, given):
                once = 1 if isinstance(ours, Merging | Raw) else REPEATS_MAX
                measured = compare(
                    name, ours, other, pairs=given.pairs, clock=clock, repeats_max=once
                )
                print(measured, flush=True)
            if case == "B4":
                print(f"B4 memory of one such merge, above what is held: {grown(home)}", flush=True)
            shutil.rmtree(home)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def _b1(home: Path, given: argparse.Namespace) -> list[tuple[str, Arm, Arm]]:
    large = Branching(home, "large", given.large, 62)
    return [("B1 branch create, many tables / few", large, Branching(home, "small", 10_000, 2))]


def _b2(home: Path, given: argparse.Namespace) -> list[tuple[str, Arm, Arm]]:
    n = given.large
    return [
        (
            "B2 fast-forward, 100 new rows, large / 10k",
            Merging(home, "new-l", n, new_rows(100)),
            Merging(home, "new-s", 10_000, new_rows(100)),
        ),
        (
            "B2 fast-forward, 100 spread updates, large / 10k",
            Merging(home, "up-l", n, spread(n, 100)),
            Merging(home, "up-s", 10_000, spread(10_000, 100)),
        ),
        *(
            (
                f"B2 the same at {rows} rows / raw update",
                Merging(home, f"ours-{rows}", rows, spread(rows, 100)),
                RawUpdate(home, f"raw-{rows}", rows, 100),
            )
            for rows in (10_000, n)
        ),
        (
            "B2 what of it is Lance: raw update, large / 10k",
            RawUpdate(home, "raw-l", n, 100),
            RawUpdate(home, "raw-s", 10_000, 100),
        ),
        (
            "B2 the way around: raw update in two commits / in one, large",
            RawTakeover(home, "two-l", n, 100),
            RawUpdate(home, "one-l", n, 100),
        ),
        (
            "B2 what is left: raw read of the old values, large / 10k",
            RawRead(home, "read-l", n, 100),
            RawRead(home, "read-s", 10_000, 100),
        ),
    ]


def _b3(home: Path, given: argparse.Namespace) -> list[tuple[str, Arm, Arm]]:
    n = given.large
    return [
        (
            f"B3 three-way, 100 rows each side, {changed} spread updates, large / 10k",
            Merging(home, f"large-{changed}", n, both_sides(n, 100, changed)),
            Merging(home, f"small-{changed}", 10_000, both_sides(10_000, 100, changed)),
        )
        for changed in (0, 50)
    ]


def _b4(home: Path, given: argparse.Namespace) -> list[tuple[str, Arm, Arm]]:
    return [
        (
            "B4 fast-forward of 10k rows / raw append",
            Merging(home, "ours", 100_000, new_rows(10_000)),
            RawAppend(home, "raw", 100_000, 10_000),
        )
    ]


def _b5(home: Path, given: argparse.Namespace) -> list[tuple[str, Arm, Arm]]:
    graph = loaded(home / "g", 10_000)
    for n in range(given.depth + 1):
        graph.mutate(
            'query m($n: I64) { update P set { age: $n } where name = "p00000009" }', {"n": n}
        )
    # The second oldest write: the state of the load itself is older than its indexes.
    old = graph.commits()[-3].id
    return [
        ("B5 read at an old commit / at the head", Travelling(graph, old), Travelling(graph, None))
    ]


ARMS = {"B1": _b1, "B2": _b2, "B3": _b3, "B4": _b4, "B5": _b5}

if __name__ == "__main__":
    main()
