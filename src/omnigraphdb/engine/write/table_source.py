"""Rows of an Arrow table, as expressions see them."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from omnigraphdb.compile.checked import Const, EntityRef, Field, Now, ParamRef, PathValue, TextMatch
from omnigraphdb.engine.read.columns.row_ids import Integers
from omnigraphdb.engine.read.evaluate import Fixed, Leaf
from omnigraphdb.errors import InternalError
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class StatementValues:
    """The values that are the same for all rows of a mutation: its parameters and its instant."""

    params: Mapping[str, object]
    now: datetime

    def of(self, fixed: Fixed) -> object:
        """Return the value of a constant, a parameter or `now()`."""
        match fixed:
            case Const(value=value):
                return value
            case ParamRef(name=name):
                return self.params.get(name)
            case Now():
                return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """The rows of a table: a property is its column, an entity its `id`, a field a column of that name."""

    table: pa.Table
    given: StatementValues

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def leaf(self, reference: Leaf) -> pa.Array:
        """Return the column behind a reference."""
        match reference:
            case EntityRef():
                return column(self.table, "id")
            case Field(name=name):
                return column(self.table, name)
            case _:
                return column(self.table, reference.property)

    def path(self, reference: PathValue) -> pa.Array:
        """Refuse: a row of a table is not a path."""
        raise InternalError(f"${reference.variable} is not a row of a table; nothing was changed")

    def identity(self, entity: EntityRef) -> pa.Array:
        """Return the ids: they are equal exactly for equal entities of a type."""
        return self.leaf(entity)

    def value(self, fixed: Fixed) -> object:
        """Return a value that is the same for every row."""
        return self.given.of(fixed)

    def text(self, test: TextMatch) -> pa.Array:
        """Refuse: a table does not know the terms of its texts."""
        raise InternalError(
            f"{test.function} cannot search rows of a statement; nothing was changed"
        )

    def take(self, offsets: Integers) -> "TableSource":
        """Return some of the rows."""
        if len(offsets) == self.rows:
            return self
        return TableSource(table=self.table.take(pa.array(offsets)), given=self.given)

    def describe(self, offset: int) -> str:
        """Name a row by its id, or by its number in the list that it comes from."""
        if "id" in self.table.column_names:
            row_id = column(self.table, "id")[offset].as_py()
            if row_id is not None:
                return str(row_id)
        return f"number {offset + 1}"
