"""A mutation while its statements run: the rows that they read, the pending rows, and the rows that they return."""

from collections.abc import Callable, Sequence
from dataclasses import field

import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.catalog.values import item_type, to_arrow
from omnigraphdb.commit.delta import Accumulator, require_mutation_bytes
from omnigraphdb.compile.checked import (
    ITEM,
    CheckedRead,
    CheckedStatement,
    Column,
    Operand,
    Origin,
    ParamRef,
    VariableKind,
)
from omnigraphdb.engine.read.evaluate import evaluate
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.engine.write.matching import Matching
from omnigraphdb.engine.write.table_source import StatementValues, TableSource
from omnigraphdb.runtime import Runtime
from omnigraphdb.values import dataclass

ONE_ROW = pa.table({"#row": pa.nulls(1)})
"""The row that a statement without an origin takes its values from."""


@dataclass(slots=True)
class Counts:
    """The number of entities that the statements touched, and the rows that they return."""

    nodes: int = 0
    edges: int = 0
    returned: list[pa.Table] = field(default_factory=list)

    def add(self, type_: TableType, rows: int) -> None:
        """Count entities of a type."""
        if isinstance(type_, EdgeType):
            self.edges += rows
        else:
            self.nodes += rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutating:
    """One mutation while its statements run."""

    catalog: Catalog
    committed: SnapshotRows
    given: StatementValues
    runtime: Runtime
    run_match: Callable[[CheckedRead], pa.Table]
    """Runs a match on the snapshot, and notes the tables that it reads."""
    pending: Accumulator = field(default_factory=Accumulator)
    counts: Counts = field(default_factory=Counts)

    @property
    def matching(self) -> Matching:
        """The rows that conditions search."""
        return Matching(self.committed, self.pending, self.given)

    def find_type(self, statement: CheckedStatement) -> TableType:
        """Return the type that a statement writes."""
        if statement.kind is VariableKind.NODE:
            return self.catalog.nodes[statement.type_name]
        return self.catalog.edges[statement.type_name]

    def open_origin(self, origin: Origin | None) -> TableSource:
        """Return the rows that a statement takes its values from: of a match, of a list, or a single row."""
        if origin is None:
            rows = ONE_ROW
        elif isinstance(origin, CheckedRead):
            rows = self.run_match(origin)
            require_mutation_bytes(rows.nbytes)
        else:
            rows = self._list_items(origin)
        return TableSource(table=rows, given=self.given)

    def _list_items(self, origin: ParamRef) -> pa.Table:
        """Return the items of a list parameter, under the names that the checker gave them."""
        argument = self.given.params.get(origin.name)
        if isinstance(argument, pa.Table):
            return argument.rename_columns([f"#{name}" for name in argument.column_names])
        items = argument if isinstance(argument, tuple) else ()
        return pa.table({ITEM: to_arrow(items, item_type(origin.type))})

    def give_back(self, columns: Sequence[Column], rows: pa.Table) -> None:
        """Return the requested columns of written rows, in their order."""
        if not columns:
            return
        source = TableSource(table=rows, given=self.given)
        arrays = []
        for column in columns:
            assert isinstance(column.expr, Operand), "the checker lets no ranking pass"
            arrays.append(evaluate(column.expr, source).cast(column.type.arrow))
        self.counts.returned.append(pa.table(arrays, names=[column.name for column in columns]))
