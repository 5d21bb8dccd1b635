"""SQL over a snapshot: a DuckDB connection with one view for each type; Lance evaluates columns and filters."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from omnigraphdb.catalog.border import public_reader, public_schema
from omnigraphdb.errors import EngineError, StorageError
from omnigraphdb.ids import TableKey, is_node, type_name
from omnigraphdb.packages import load_package
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table

if TYPE_CHECKING:
    import duckdb

Translate = Callable[[pa.RecordBatchReader], pa.RecordBatchReader]


class TypeDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """One type as DuckDB scans it: DuckDB asks for columns and a filter, and the table evaluates both."""

    def __init__(self, table: Table, columns: Sequence[str], translate: Translate) -> None:
        # Not the constructor of pyarrow, which is for datasets of files.
        self._table = table
        self._columns = columns
        self._translate = translate

    @property
    def schema(self) -> pa.Schema:
        """The columns, in their public form."""
        stored = self._table.schema
        return public_schema(pa.schema([stored.field(name) for name in self._columns]))

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any
    ) -> "TypeScanner":
        """Read some columns of the rows that pass an Arrow expression."""
        names = self._columns if columns is None else columns
        return TypeScanner(self._translate(self._read(names, filter)))

    def _read(self, columns: Sequence[str], filter: Any) -> pa.RecordBatchReader:
        try:
            found = self._table.scan(columns, filter, blobs=BlobForm.BYTES)
        except (EngineError, StorageError):
            if filter is None:
                raise
            # Lance has no form for some filters: those on a U64 or a DateTime, for example.
            return self._read_filtered(columns, filter)
        return public_reader(found)

    def _read_filtered(self, columns: Sequence[str], filter: Any) -> pa.RecordBatchReader:
        """Read every row and filter them here."""
        names = list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        rows = public_reader(self._table.scan(blobs=BlobForm.BYTES))

        def passing() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                kept = pa.Table.from_batches([batch]).filter(filter).select(names)
                yield from kept.cast(schema).to_batches()

        return pa.RecordBatchReader.from_batches(schema, passing())


class TypeScanner:
    """What DuckDB reads: one stream of batches."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the stream."""
        return self._reader.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream."""
        return self._reader


def connect_views(
    tables: Mapping[TableKey, tuple[Table, Sequence[str]]], translate: Translate
) -> "duckdb.DuckDBPyConnection":
    """Open a connection in memory with the views of some columns of some tables: `node.Person`, `edge.Knows`, and `Person` and `Knows`.

    A name that several types have has no view outside the schemas `node` and `edge`.
    """
    connection: duckdb.DuckDBPyConnection = load_package("duckdb", "SQL over a graph").connect()
    connection.execute("create schema node; create schema edge")
    # DuckDB does not tell names apart by case.
    folded = [type_name(key).casefold() for key in tables]
    for at, (key, (table, columns)) in enumerate(tables.items()):
        scanned = f"omnigraph_{at}"
        connection.register(scanned, TypeDataset(table, columns, translate))
        kind, name = "node" if is_node(key) else "edge", _quote(type_name(key))
        places = [f"{kind}.{name}"]
        if folded.count(type_name(key).casefold()) == 1:
            places.append(f"main.{name}")
        for place in places:
            connection.execute(f"create view {place} as select * from {scanned}")
    # A connection that is open when the interpreter ends prints what it leaks; one that nobody holds needs no close.
    weakref.finalize(connection, close_connection, weakref.ref(connection))
    return connection


def close_connection(reference: "weakref.ref[duckdb.DuckDBPyConnection]") -> None:
    """Close a connection if it still exists."""
    connection = reference()
    if connection is not None:
        connection.close()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
