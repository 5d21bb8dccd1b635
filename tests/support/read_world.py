"""A graph for reading: tables laid out as asked from plain rows, and queries run over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.catalog.types import Scalar
from omnigraphdb.catalog.values import to_arrow
from omnigraphdb.compile.check import check_read
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.rules import optimize
from omnigraphdb.embedding.services import Embedder, MockEmbedder
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.cached.traversal import Traversal
from omnigraphdb.engine.read.profile import Profile
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.engine.read.run import run
from omnigraphdb.engine.read.snapshot_tables import NO_NAMES, SnapshotTables
from omnigraphdb.ids import MAIN, OperationId, TableKey, Version
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import (
    MAIN_INCARNATION,
    Incarnation,
    IndexKind,
    IndexSpec,
    Staged,
    TableAt,
)

Row = Mapping[str, Any]

INSTANT = datetime(2026, 2, 1, tzinfo=UTC)
CACHE_BYTES = 64 * 1024 * 1024

_numbers = count()


@dataclass(repr=False)
class World:
    """Tables of one schema in memory, with the version of each that is read."""

    catalog: Catalog
    store: Store = field(
        default_factory=lambda: open_store(f"memory://read-world-{next(_numbers)}")
    )
    at: dict[TableKey, TableAt] = field(default_factory=dict)
    branch_incarnation: Incarnation = MAIN_INCARNATION
    before: list[dict[TableKey, TableAt]] = field(default_factory=list)
    """What was read before each change."""
    cache: ByteCache = field(default_factory=lambda: ByteCache(CACHE_BYTES))

    @classmethod
    def of(cls, schema: str | Catalog, uri: str | None = None) -> "World":
        """Create every table of a schema, empty."""
        catalog = compile_schema(schema) if isinstance(schema, str) else schema
        world = cls(catalog) if uri is None else cls(catalog, store=open_store(uri))
        for key, kind in catalog.tables.items():
            folder = "edges" if isinstance(kind, EdgeType) else "nodes"
            world.at[key] = world.store.tables.create(f"{folder}/{kind.name}", kind.schema)
        return world

    def __repr__(self) -> str:
        return f"World({', '.join(map(str, self.at.values()))})"

    def close(self) -> None:
        """Give back the memory of all tables."""
        for at in self.at.values():
            self.store.tables.delete_table(at.path)

    # ---- changes

    def land(self, key: TableKey, staged: Staged | None) -> None:
        """Commit a staged change and read its version from now on."""
        if staged is not None:
            operation = OperationId("01J0000000000000000000TEST")
            landed = self.store.tables.commit_staged(staged, operation_id=operation, lock=None)
            self.before.append(dict(self.at))
            self.at[key] = landed.at

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Add rows as a fragment of their own."""
        kind = self.catalog.table(name)
        if rows:
            data = arrow_rows(kind, rows)
            self.land(kind.table_key, self.store.tables.stage_append(self.at[kind.table_key], data))

    def merge(self, name: str, rows: Sequence[Row]) -> None:
        """Replace rows by id."""
        kind = self.catalog.table(name)
        data = arrow_rows(kind, rows)
        self.land(kind.table_key, self.store.tables.stage_merge(self.at[kind.table_key], data))

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        key = self.catalog.table(name).table_key
        found = self.store.tables.stage_delete(self.at[key], pa.array(ids, pa.string()))
        self.land(key, found)

    def index(self, name: str) -> None:
        """Build every index the type may have."""
        kind = self.catalog.table(name)
        table = self.store.tables.open(self.at[kind.table_key])
        specs = [one for one in specs_of(kind) if _is_buildable(table, one)]
        self.land(kind.table_key, self.store.tables.stage_indices(self.at[kind.table_key], specs))

    def btree(self, name: str, column: str) -> None:
        """Build a scalar index on one column."""
        key = self.catalog.table(name).table_key
        spec = IndexSpec(column=column, kind=IndexKind.BTREE)
        self.land(key, self.store.tables.stage_indices(self.at[key], [spec]))

    def fork(self, branch: str) -> None:
        """Go on with every table on a branch."""
        self.before.append(dict(self.at))
        self.at = {key: self.store.tables.fork(at, branch) for key, at in self.at.items()}
        self.branch_incarnation = ((1, branch),)

    def compact(self) -> None:
        """Rewrite every table that has something to gain."""
        for key in list(self.at):
            self.land(key, self.store.tables.stage_compaction(self.at[key]))

    def index_all(self) -> None:
        """Build every index of every table."""
        for kind in self.catalog.tables.values():
            self.index(kind.name)

    # ---- reading

    @property
    def snapshot(self) -> Snapshot:
        """The versions that are read."""
        entries = {key: self._entry(key, at) for key, at in sorted(self.at.items())}
        return Snapshot(
            branch=MAIN, version=Version(1), branch_incarnation=MAIN_INCARNATION, entries=entries
        )

    def _entry(self, key: TableKey, at: TableAt) -> Entry:
        rows = self.store.tables.open(at).count()
        return Entry(
            table_key=key, at=at, row_count=rows, branch_incarnation=self.branch_incarnation
        )

    def forget(self) -> None:
        """Forget everything that was read."""
        self.cache = ByteCache(self.cache.bytes_max)

    def reader(
        self,
        plan: Plan,
        params: Mapping[str, object] | None = None,
        *,
        traversal: Traversal | None = None,
        profile: Profile | None = None,
        embedder: Embedder | None = None,
    ) -> Reader:
        """What a query is run with."""
        found = Reader(
            plan=plan,
            snapshot=SnapshotTables(
                catalog=self.catalog,
                snapshot=self.snapshot,
                tables=self.store.tables,
                cache=self.cache,
                names=NO_NAMES,
            ),
            params=params or {},
            now=INSTANT,
            profile=profile,
            embedder=embedder or MockEmbedder(),
        )
        return found if traversal is None else replace(found, traversal=traversal)

    def rows(
        self, query: str, params: Mapping[str, object] | None = None, **reading: Any
    ) -> list[tuple[Any, ...]]:
        """The rows of a query as Python values."""
        return table_rows(self.table(query, params, **reading))

    def table(
        self, query: str, params: Mapping[str, object] | None = None, **reading: Any
    ) -> pa.Table:
        """The result of a query."""
        return run(self.reader(self.plan(query), params, **reading))

    def plan(self, query: str) -> Plan:
        """The plan of the only query of a text."""
        return plan_of(check_read(Source(query), self.catalog), self.catalog)


def plan_of(read: CheckedRead, catalog: Catalog) -> Plan:
    """The plan a graph would run for a checked query."""
    return optimize(lower(read, catalog))


def arrow_rows(kind: TableType, rows: Sequence[Row]) -> pa.Table:
    """Plain rows as the table of a type; a vector or list may be a tuple."""
    columns = [
        to_arrow([row.get(field.name) for row in rows], kind.properties[field.name].type)
        if field.name in kind.properties
        else pa.array([row[field.name] for row in rows], pa.string())
        for field in kind.schema
    ]
    return pa.Table.from_arrays(columns, schema=kind.schema)


def specs_of(kind: TableType) -> list[IndexSpec]:
    """Every index a type may carry: on ids and ends, on each scalar, text and vector."""
    ends = ["id", "src", "dst"] if isinstance(kind, EdgeType) else ["id"]
    specs = [IndexSpec(column=name, kind=IndexKind.BTREE) for name in ends]
    if isinstance(kind, EdgeType):
        return specs
    for name, one in kind.properties.items():
        if one.type.is_vector:
            specs.append(IndexSpec(column=name, kind=IndexKind.VECTOR))
        elif one.type.is_text and not one.type.is_enum:
            specs.append(IndexSpec(column=name, kind=IndexKind.TEXT))
        elif one.type.is_plain and one.type.scalar is not Scalar.BLOB:
            specs.append(IndexSpec(column=name, kind=IndexKind.BTREE))
    return specs


def _is_buildable(table: Table, spec: IndexSpec) -> bool:
    """Whether there is anything to index; a vector index cannot be trained on nothing."""
    missing = table.uncovered(spec.column, spec.kind)
    if not missing or spec.kind is not IndexKind.VECTOR:
        return bool(missing)
    some = f"`{spec.column}` is not null"
    return bool(table.read((), some, row_id=True, fragments=missing, limit=1).num_rows)


def table_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a result as Python values."""
    columns = [_python(column.combine_chunks()) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _python(column: pa.Array) -> list[Any]:
    if pa.types.is_struct(column.type):
        names = [one.name for one in column.type]
        rows = zip(*map(_python, column.flatten()), strict=True)
        records = [dict(zip(names, row, strict=True)) for row in rows]
        return [
            one if there.as_py() else None
            for one, there in zip(records, column.is_valid(), strict=True)
        ]
    if pa.types.is_list(column.type):
        items = iter(_python(column.flatten()))
        counts = pc.list_value_length(column).to_pylist()
        return [None if count is None else tuple(islice(items, count)) for count in counts]
    if pa.types.is_date64(column.type):
        whole = column.cast(pa.timestamp("ms", tz="UTC")).to_pylist()
        return [None if value is None else value.replace(tzinfo=UTC) for value in whole]
    return [tuple(value) if isinstance(value, list) else value for value in column.to_pylist()]
