"""The contents of a type of a graph: rows, files, bytes, and the coverage of its indexes."""

from collections.abc import Iterator
from dataclasses import field

from omnigraphdb.engine.maintenance.indexes import IndexStatus, list_statuses
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import TableKey, is_node, type_name
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, derived, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDescription(Value):
    """One type: its rows, the size of its data files, and its indexes."""

    table_key: TableKey
    rows: int
    bytes: int
    fragments: int
    version: int = field(metadata=wire("table_version"))
    indexes: tuple[IndexStatus, ...] = ()

    @property
    def name(self) -> str:
        """The name of the type."""
        return type_name(self.table_key)

    @derived
    def type_name(self) -> str:
        """The name of the type, under its name in JSON."""
        return self.name

    @derived
    def kind(self) -> str:
        """`node` or `edge`."""
        return "node" if is_node(self.table_key) else "edge"

    @property
    def coverage(self) -> float:
        """The part of its rows that its indexes cover, from 0 to 1; 1 for a type without rows or without indexes."""
        total_rows = sum(index.rows for index in self.indexes)
        return sum(index.rows_indexed for index in self.indexes) / total_rows if total_rows else 1.0


def describe_types(engine: Engine, view: View) -> tuple[TypeDescription, ...]:
    """Describe the types of a view; open each of its tables once and read no rows."""
    return tuple(_describe(engine, view))


def _describe(engine: Engine, view: View) -> Iterator[TypeDescription]:
    indexes: dict[TableKey, list[IndexStatus]] = {}
    for status in list_statuses(engine, view):
        indexes.setdefault(status.table_key, []).append(status)
    for key, entry in view.snapshot.entries.items():
        fragments = engine.store.tables.open(entry.at).fragments()
        yield TypeDescription(
            table_key=key,
            rows=entry.row_count,
            bytes=sum(fragment.bytes for fragment in fragments),
            fragments=len(fragments),
            version=entry.version,
            indexes=tuple(indexes.get(key, ())),
        )
