"""One mutation while its statements run: what they read, what is pending, and what they report."""

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
"""What a statement without an origin takes its values from."""


@dataclass(slots=True)
class Counts:
    """How many entities the statements touched, and the rows that they return."""

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
        """Where conditions look for rows."""
        return Matching(self.committed, self.pending, self.given)

    def find_type(self, statement: CheckedStatement) -> TableType:
        """The type that a statement writes."""
        if statement.kind is VariableKind.NODE:
            return self.catalog.nodes[statement.type_name]
        return self.catalog.edges[statement.type_name]

    def open_origin(self, origin: Origin | None) -> TableSource:
        """The rows that a statement takes its values from: of a match, of a list, or one."""
        if origin is None:
            rows = ONE_ROW
        elif isinstance(origin, CheckedRead):
            rows = self.run_match(origin)
            require_mutation_bytes(rows.nbytes)
        else:
            rows = self._list_items(origin)
        return TableSource(table=rows, given=self.given)

    def _list_items(self, origin: ParamRef) -> pa.Table:
        """The items of a list parameter, under the names that the checker gave them."""
        found = self.given.params.get(origin.name)
        if isinstance(found, pa.Table):
            return found.rename_columns([f"#{name}" for name in found.column_names])
        items = found if isinstance(found, tuple) else ()
        return pa.table({ITEM: to_arrow(items, item_type(origin.type))})

    def give_back(self, columns: Sequence[Column], rows: pa.Table) -> None:
        """Return what was asked for of written rows, in their order."""
        if not columns:
            return
        source = TableSource(table=rows, given=self.given)
        arrays = []
        for one in columns:
            assert isinstance(one.expr, Operand), "the checker lets no ranking pass"
            arrays.append(evaluate(one.expr, source).cast(one.type.arrow))
        self.counts.returned.append(pa.table(arrays, names=[one.name for one in columns]))
