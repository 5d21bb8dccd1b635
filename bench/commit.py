"""Commits against the raw Lance calls they need: one row, a node with its edge, ten thousand rows upserted.

The raw arms stage and commit with Lance alone: no schema, no checks, no history, no sidecar, no locks. Their manifest
is written in one of two ways: as a plain append, the least a second commit can cost, or as the keyed merge that makes
the commit a compare-and-swap. Neither arm grows old: tables are made anew after a few dozen commits.
"""

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from support.paired import Arm, Comparison, compare

import omnigraphdb

COMMITS_MAX = 64
"""Commits on one set of tables before it is made anew."""
FOLD_EVERY = 32
"""Raw manifests are compacted as often as ours: without that every merge costs more than the one before."""
SCHEMA = """
node Note { text: String  n: I64? }
node Person { name: String @key  age: I64?  city: String? }
edge Knows: Person -> Person { since: I64? }
"""
MANIFEST = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("metadata", pa.string()),
        pa.field("version", pa.uint64()),
    ]
)  # fmt: skip
ROWS = {
    "note": pa.schema([("id", pa.string()), ("n", pa.int64()), ("text", pa.string())]),
    "person": pa.schema(
        [("id", pa.string()), ("age", pa.int64()), ("city", pa.string()), ("name", pa.string())]
    ),
    "knows": pa.schema(
        [("id", pa.string()), ("src", pa.string()), ("dst", pa.string()), ("since", pa.int64())]
    ),
}


class ScratchDirectory:
    """A directory that is emptied now and then, so that nothing in it grows old."""

    def __init__(self, home: Path, name: str) -> None:
        self._home, self._name = home, name
        self._directories = itertools.count()
        self._path: Path | None = None
        self._commits = COMMITS_MAX + 1

    def fresh(self, n: int) -> Path | None:
        """A new directory when the next n commits would be too many for the present one."""
        self._commits += n
        if self._commits <= COMMITS_MAX and self._path is not None:
            return None
        if self._path is not None:
            shutil.rmtree(self._path)
        self._path = self._home / f"{self._name}-{next(self._directories)}"
        self._commits = n
        return self._path


# ---- ours


class Ours:
    """A mutation through the public API."""

    def __init__(self, home: Path, name: str, query: str) -> None:
        self._directory = ScratchDirectory(home, name)
        self._query = query
        self._ids = itertools.count()

    def ready(self, n: int) -> None:
        """Make the graph anew when it is due."""
        path = self._directory.fresh(n)
        if path is not None:
            self.graph = omnigraphdb.init(path, SCHEMA)
            self.graph.mutate('query q() { insert Person { name: "root" } }')
            for _ in range(2):
                self._one()

    def run(self, n: int) -> None:
        """Write n times."""
        for _ in range(n):
            self._one()

    def _one(self) -> None:
        self.graph.mutate(self._query, {"k": f"k{next(self._ids)}"})


class OurUpsert:
    """A merge load of a frame."""

    def __init__(self, home: Path, rows: int, batch: int) -> None:
        self._directory = ScratchDirectory(home, "ours-upsert")
        self._rows, self._batch = rows, batch
        self._rounds = itertools.count()

    def ready(self, n: int) -> None:
        """Fill the graph anew when it is due."""
        path = self._directory.fresh(n * 8)
        if path is not None:
            self.graph = omnigraphdb.init(path, SCHEMA)
            self.graph.load(people(0, self._rows).drop(["id"]), type="Person", mode="append")

    def run(self, n: int) -> None:
        """Upsert n batches."""
        for _ in range(n):
            batch = upserted(next(self._rounds), self._rows, self._batch)
            self.graph.load(batch.drop(["id"]), type="Person", mode="merge")


class OurStatement:
    """A statement that writes ten thousand rows of a graph."""

    def __init__(self, home: Path, name: str, query: str, rows: int) -> None:
        self._directory = ScratchDirectory(home, name)
        self._query, self._rows = query, rows
        self._records = people(0, rows).drop(["id"]).to_pylist()

    def ready(self, n: int) -> None:
        """Fill the graph anew when it is due."""
        path = self._directory.fresh(n * 8)
        if path is not None:
            self.graph = omnigraphdb.init(path, SCHEMA)
            self.graph.load(people(0, self._rows).drop(["id"]), type="Person", mode="append")

    def run(self, n: int) -> None:
        """Write all rows n times."""
        for _ in range(n):
            given = {"rows": self._records} if "$rows" in self._query else None
            self.graph.mutate(self._query, params=given)


class OurMerge(OurStatement):
    """A keyed merge of the same rows."""

    def run(self, n: int) -> None:
        """Load all rows n times."""
        for _ in range(n):
            self.graph.load(self._records, type="Person", mode="merge")


# ---- raw


class Raw:
    """One-row appends to data tables, then one commit on a manifest."""

    def __init__(self, home: Path, name: str, tables: tuple[str, ...], keyed: bool) -> None:
        self._directory = ScratchDirectory(home, name)
        self._tables, self._keyed = tables, keyed
        self._ids = itertools.count()

    def ready(self, n: int) -> None:
        """Make the tables anew when it is due."""
        path = self._directory.fresh(n)
        if path is None:
            return
        self._data = {name: created(path / name, ROWS[name]) for name in self._tables}
        self._manifest = created(path / "manifest", MANIFEST)
        for _ in range(3):
            self._one()

    def run(self, n: int) -> None:
        """Write n times."""
        for _ in range(n):
            self._one()

    def _one(self) -> None:
        number = next(self._ids)
        for name in self._tables:
            self._data[name] = appended(self._data[name], row(name, number))
        self._manifest = published(self._manifest, number, keyed=self._keyed)


class RawUpsert:
    """A merge insert of a frame, then one commit on a manifest."""

    def __init__(self, home: Path, rows: int, batch: int) -> None:
        self._directory = ScratchDirectory(home, "raw-upsert")
        self._rows, self._batch = rows, batch
        self._rounds = itertools.count()

    def ready(self, n: int) -> None:
        """Fill the table anew when it is due."""
        path = self._directory.fresh(n * 8)
        if path is not None:
            table = appended(created(path / "person", ROWS["person"]), people(0, self._rows))
            table.create_scalar_index("id", "BTREE")
            self._table = table
            self._manifest = created(path / "manifest", MANIFEST)

    def run(self, n: int) -> None:
        """Upsert n batches."""
        for _ in range(n):
            round_ = next(self._rounds)
            batch = upserted(round_, self._rows, self._batch)
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(batch)
            self._manifest = published(self._manifest, round_, keyed=False)


def created(path: Path, schema: pa.Schema) -> LanceDataset:
    operation = LanceOperation.Overwrite(schema, [])
    return LanceDataset.commit(str(path), operation, enable_stable_row_ids=True)


def appended(table: LanceDataset, rows: pa.Table) -> LanceDataset:
    fragments = write_fragments(rows, table, data_storage_version="2.2")
    operation = LanceOperation.Append(fragments)
    return LanceDataset.commit(table, operation, read_version=table.version)


def published(manifest: LanceDataset, number: int, *, keyed: bool) -> LanceDataset:
    rows = pa.table(
        {
            "object_id": [f"node:Person${number:020}", f"commit-{number}", "graph_head:main"],
            "metadata": ["{}", '{"parent": null}', "{}"],
            "version": pa.array([number, number, None], pa.uint64()),
        },
        schema=MANIFEST,
    )
    if not keyed:
        return appended(manifest, rows)
    merge = manifest.merge_insert("object_id").when_matched_update_all()
    merge.when_not_matched_insert_all().conflict_retries(0).execute(rows)
    if number % FOLD_EVERY == 0:
        manifest.optimize.compact_files()
    return manifest


# ---- data


def row(table: str, number: int) -> pa.Table:
    values = {
        "note": {"id": f"i{number}", "n": None, "text": "x"},
        "person": {"id": f"k{number}", "age": None, "city": None, "name": f"k{number}"},
        "knows": {"id": f"e{number}", "src": f"k{number}", "dst": "root", "since": None},
    }
    return pa.Table.from_pylist([values[table]], schema=ROWS[table])


def people(start: int, n: int, age: int = 30) -> pa.Table:
    ids = pa.array([f"p{i:09}" for i in range(start, start + n)])
    ages = pa.array([age] * n, pa.int64())
    cities = pa.array(["Ghent"] * n)
    return pa.Table.from_arrays([ids, ages, cities, ids], schema=ROWS["person"])


def upserted(round_: int, rows: int, batch: int) -> pa.Table:
    """Half of the rows are there, half are new."""
    old = people(round_ * 977 % (rows - batch), batch // 2, age=round_)
    new = people(rows + round_ * batch, batch - batch // 2, age=round_)
    return pa.concat_tables([old, new]).combine_chunks()


# ---- cases

INSERT_NOTE = "query q($k: String) { insert Note { text: $k } }"
INSERT_PERSON = "query q($k: String) { insert Person { name: $k } }"
INSERT_BOTH = (
    'query q($k: String) { insert Person { name: $k } insert Knows { from: $k, to: "root" } }'
)

UPDATE = "query q() { update Person set { age: $.age + 1 } where age >= 0 }"
MATCHED = "query q() { match { $p: Person $p.age >= 0 } update $p set { age: $p.age + 1 } }"
UNNEST = """query q($rows: [{ name: String, age: I64?, city: String? }]) {
  unnest $rows as $r insert Person { name: $r.name, age: $r.age, city: $r.city } }"""


def agree(home: Path) -> None:
    """Both arms end with the same rows, before anything is timed."""
    ours = Ours(home, "agree", INSERT_BOTH)
    ours.ready(3)
    ours.run(3)
    raw = Raw(home, "agree-raw", ("person", "knows"), keyed=True)
    raw.ready(3)
    raw.run(3)
    found = ours.graph.table("Person").filter(pc.field("name") != "root").drop(["id"])
    expected = raw._data["person"].to_table().drop(["id"])
    assert found.num_rows - 2 == expected.num_rows - 3
    assert sorted(found.schema.names) == sorted(expected.schema.names)


def cases(home: Path, large: bool) -> list[tuple[str, Callable[[], tuple[Arm, Arm]], int]]:
    def one(query: str, tables: tuple[str, ...], keyed: bool) -> Callable[[], tuple[Arm, Arm]]:
        name = f"{'-'.join(tables)}-{'keyed' if keyed else 'plain'}"
        return lambda: (Ours(home, f"ours-{name}", query), Raw(home, f"raw-{name}", tables, keyed))

    def written(name: str, query: str) -> Callable[[], tuple[Arm, Arm]]:
        return lambda: (
            OurStatement(home, f"ours-{name}", query, 10_000),
            OurMerge(home, f"merge-{name}", query, 10_000),
        )

    rows = 700_000 if large else 100_000
    return [
        ("update 10k by expression / keyed merge", written("update", UPDATE), 12),
        ("update 10k by match / keyed merge", written("matched", MATCHED), 12),
        ("unnest 10k / keyed merge", written("unnest", UNNEST), 12),
        ("insert a node / append + append", one(INSERT_NOTE, ("note",), False), 40),
        ("insert a node / append + keyed merge", one(INSERT_NOTE, ("note",), True), 40),
        ("insert a keyed node / append + append", one(INSERT_PERSON, ("person",), False), 40),
        ("insert a keyed node / append + keyed merge", one(INSERT_PERSON, ("person",), True), 40),
        ("insert node + edge / 3 appends", one(INSERT_BOTH, ("person", "knows"), False), 40),
        (
            "insert node + edge / 2 appends + keyed merge",
            one(INSERT_BOTH, ("person", "knows"), True),
            40,
        ),
        (
            f"upsert 10k into {rows // 1000}k / merge_insert + append",
            lambda: (OurUpsert(home, rows, 10_000), RawUpsert(home, rows, 10_000)),
            12,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="upsert into 700,000 rows")
    parser.add_argument("--pairs", type=int, help="pairs of samples per case")
    parser.add_argument("--cpu", action="store_true", help="count processor time instead of time")
    parser.add_argument("--only", help="cases whose name holds this")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    home = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    found: list[Comparison] = []
    try:
        agree(home)
        print(f"{'case: ours / raw':44} {'ours':>11} {'raw':>11}")
        for name, arms, pairs in cases(home, given.large):
            if given.only is None or given.only in name:
                found.append(compare(name, *arms(), pairs=given.pairs or pairs, clock=clock))
                print(found[-1], flush=True)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
