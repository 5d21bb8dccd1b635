"""Rows between operators: bindings or groups of bindings, and the values of expressions over them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    Bm25,
    Call,
    EntityRef,
    Field,
    ItemExpr,
    Nearest,
    PathValue,
    PropertyRef,
    Rrf,
    TextMatch,
    Truth,
)
from omnigraphdb.compile.plan.operators import Tally
from omnigraphdb.compile.plan.visit import walk_rows
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.compare import unify_zeros
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers
from omnigraphdb.engine.read.evaluate import Fixed, Leaf, evaluate
from omnigraphdb.engine.read.operators.search import scores, text_truth
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import InternalError
from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.engine.read.operators import path_values
else:
    # Most queries bind no path.
    path_values = Later("omnigraphdb.engine.read.operators.path_values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups: one sample binding of each, which determines its keys, and its tallies by name."""

    samples: Bindings
    keys: Mapping[str, ItemExpr]
    tallies: Mapping[str, pa.Array]

    @property
    def rows(self) -> int:
        """The number of groups."""
        return self.samples.rows

    def take(self, offsets: Integers) -> "Groups":
        """Select groups by offset, in the given order."""
        indices = pa.array(offsets)
        tallies = {name: values.take(indices) for name, values in self.tallies.items()}
        return Groups(samples=self.samples.take(offsets), keys=self.keys, tallies=tallies)

    def slice(self, start: int, end: int) -> "Groups":
        """Select a range of groups."""
        return self.take(np.arange(start, min(end, self.rows), dtype=np.int64))


Rows = Bindings | Groups

_Stored = tuple[str, str]
"""A variable and a column of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSource:
    """Bindings, as expressions see them; `fetched` are columns that were read together."""

    bindings: Bindings
    reader: Reader
    fetched: Mapping[_Stored, pa.Array] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.bindings.rows

    def leaf(self, reference: Leaf) -> pa.Array:
        """Return the values of a property, an id or a carried value."""
        stored = _find_stored(reference)
        if stored is not None and stored in self.fetched:
            return self.fetched[stored]
        return self.reader.column(reference, self.bindings)

    def path(self, path_value: PathValue) -> pa.Array:
        """Compute a value of the path of each row."""

        def evaluate_edges(edges: Bindings) -> pa.Array:
            assert path_value.argument is not None, (
                "a value of the edges of a path has an expression"
            )
            return evaluate(path_value.argument, BindingSource(bindings=edges, reader=self.reader))

        return path_values.path_column(
            path_value, self.bindings.columns[path_value.variable], self.reader, evaluate_edges
        )

    def identity(self, entity: EntityRef) -> pa.Array:
        """Return the row ids of a variable."""
        row_ids = self.bindings.columns[entity.variable]
        return pa.array(self.reader.identities(entity.variable, row_ids), mask=row_ids == ABSENT)

    def value(self, fixed: Fixed) -> object:
        """Return a value that is the same for every row."""
        return self.reader.value(fixed)

    def text(self, test: TextMatch) -> pa.Array:
        """Mark the rows that a text search finds."""
        return text_truth(test, self.bindings, self.reader)

    def take(self, offsets: Integers) -> "BindingSource":
        """Select some of the rows."""
        if len(offsets) == self.rows:
            return self
        indices = pa.array(offsets)
        return BindingSource(
            bindings=self.bindings.take(offsets),
            reader=self.reader,
            fetched={name: column.take(indices) for name, column in self.fetched.items()},
        )

    def describe(self, offset: int) -> str:
        """Name a row by the ids of its entities."""
        row = self.bindings.slice(offset, offset + 1)
        labels = (
            f"${name} = {self.reader.entities(name).id_texts(row_ids)[0].as_py()}"
            for name, row_ids in sorted(row.columns.items())
            if not self.reader.plan.by_name[name].is_hidden
        )
        return ", ".join(labels) or "of the result"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSource:
    """Groups, as expressions see them: their columns are fields."""

    groups: Groups
    reader: Reader

    @property
    def rows(self) -> int:
        """The number of groups."""
        return self.groups.rows

    def leaf(self, reference: Leaf) -> pa.Array:
        """Return a column of the groups."""
        if isinstance(reference, Field) and reference.name in self.groups.tallies:
            return self.groups.tallies[reference.name]
        if not isinstance(reference, Field):
            raise InternalError(
                f"{type(reference).__name__} is not a column of a group; nothing was changed; please report the query"
            )
        key = self.groups.keys[reference.name]
        return unify_zeros(value_column(key, self.groups.samples, self.reader))

    def path(self, path_value: PathValue) -> pa.Array:
        """No path belongs to a group as such; its key is a field."""
        raise InternalError(
            f"${path_value.variable} is not a column of a group; nothing was changed"
        )

    def identity(self, entity: EntityRef) -> pa.Array:
        """No entity belongs to a group as such; its key is a field."""
        raise InternalError(f"${entity.variable} is not a column of a group; nothing was changed")

    def value(self, fixed: Fixed) -> object:
        """Return a value that is the same for every group."""
        return self.reader.value(fixed)

    def text(self, test: TextMatch) -> pa.Array:
        """No text belongs to a group."""
        raise InternalError(f"{test.function} cannot search groups; nothing was changed")

    def take(self, offsets: Integers) -> "GroupSource":
        """Select some of the groups."""
        return GroupSource(groups=self.groups.take(offsets), reader=self.reader)

    def describe(self, offset: int) -> str:
        """Name a group by its keys."""
        row = self.take(np.array([offset], dtype=np.int64))
        labels = (
            f"{name} = {row.leaf(Field(name, _UNTYPED))[0].as_py()}" for name in self.groups.keys
        )
        return ", ".join(labels) or "of the result"


_UNTYPED = PropertyType(scalar=Scalar.STRING)


def make_source(rows: Rows, reader: Reader) -> BindingSource | GroupSource:
    """Show rows to expressions."""
    if isinstance(rows, Bindings):
        return BindingSource(bindings=rows, reader=reader)
    return GroupSource(groups=rows, reader=reader)


def value_column(expr: ItemExpr, rows: Rows, reader: Reader) -> pa.Array:
    """Compute the values of an expression, one per row."""
    return _value(expr, rows, make_source(rows, reader), reader)


def tallied_column(tally: Tally, rows: Bindings, reader: Reader) -> pa.Array:
    """Compute the argument of a tally; entities that are only counted need no ids."""
    match tally:
        case Tally(function="count", argument=EntityRef() as entity):
            return BindingSource(bindings=rows, reader=reader).identity(entity)
        case Tally(argument=argument):
            assert argument is not None, "rows are counted without an argument"
            return value_column(argument, rows, reader)


def _value(
    expr: ItemExpr, rows: Rows, source: BindingSource | GroupSource, reader: Reader
) -> pa.Array:
    match expr:
        case TextMatch():
            return source.text(expr)
        case Nearest() | Bm25() | Rrf():
            if isinstance(rows, Groups):
                raise InternalError("groups have no scores; nothing was changed")
            return scores(expr, rows, reader)
        case _:
            return evaluate(expr, source)


def value_columns(exprs: Sequence[ItemExpr], rows: Rows, reader: Reader) -> list[pa.Array]:
    """Compute the values of several expressions; the properties of one variable are fetched together."""
    if isinstance(rows, Bindings):
        source = BindingSource(
            bindings=rows, reader=reader, fetched=_fetch_columns(exprs, rows, reader)
        )
        return [_value(expr, rows, source, reader) for expr in exprs]
    keys = [rows.keys[e.name] for e in exprs if isinstance(e, Field) and e.name in rows.keys]
    fetched = _fetch_columns(keys, rows.samples, reader)
    groups = GroupSource(groups=rows, reader=reader)
    return [_group_value(expr, rows, fetched, groups, reader) for expr in exprs]


def _group_value(
    expr: ItemExpr,
    rows: Groups,
    fetched: Mapping[_Stored, pa.Array],
    groups: GroupSource,
    reader: Reader,
) -> pa.Array:
    key = rows.keys.get(expr.name) if isinstance(expr, Field) else None
    stored = None if key is None else _find_stored(key)
    if stored is not None:
        return unify_zeros(fetched[stored])
    return _value(expr, rows, groups, reader)


def _find_stored(expr: ItemExpr) -> _Stored | None:
    if isinstance(expr, PropertyRef):
        return expr.variable, expr.property
    return (expr.variable, "id") if isinstance(expr, EntityRef) else None


def _fetch_columns(
    exprs: Sequence[ItemExpr], rows: Bindings, reader: Reader
) -> dict[_Stored, pa.Array]:
    names_by_variable: dict[str, list[str]] = {}
    for expr in exprs:
        for at in _list_stored(expr):
            names_by_variable.setdefault(at[0], []).append(at[1])
    columns: dict[_Stored, pa.Array] = {}
    for variable, names in names_by_variable.items():
        values = reader.entities(variable).columns(names, rows.columns[variable])
        columns |= {(variable, name): values[name] for name in names}
    return columns


def _list_stored(expr: ItemExpr) -> Iterator[_Stored]:
    match expr:
        case PropertyRef() | EntityRef():
            parts: Iterable[ItemExpr] = (expr,)
        case Call() | Truth():
            parts = walk_rows(expr)
        case _:
            parts = ()
    for part in parts:
        stored = _find_stored(part)
        if stored is not None:
            yield stored
