"""Rows between operators: bindings or groups of bindings, and the values of expressions over them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.compile.checked import (
    Aggregate,
    Bm25,
    Const,
    EntityRef,
    ItemExpr,
    Nearest,
    Now,
    ParamRef,
    PropertyRef,
    Rrf,
    TextMatch,
)
from omnigraph.compile.plan.operators import Field
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.columns.compare import unify_zeros
from omnigraph.engine.read.columns.row_ids import Integers
from omnigraph.engine.read.operators.search import scores, text_truth
from omnigraph.engine.read.reader import Reader
from omnigraph.errors import InternalError
from omnigraph.values import dataclass


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
        chosen = pa.array(offsets)
        tallies = {name: values.take(chosen) for name, values in self.tallies.items()}
        return Groups(samples=self.samples.take(offsets), keys=self.keys, tallies=tallies)

    def slice(self, start: int, end: int) -> "Groups":
        """Select a range of groups."""
        return self.take(np.arange(start, min(end, self.rows), dtype=np.int64))


Rows = Bindings | Groups


def value_column(expr: ItemExpr | Field, rows: Rows, reader: Reader) -> pa.Array:
    """Compute the values of an expression, one per row."""
    if isinstance(rows, Groups):
        return _group_column(expr, rows, reader)
    match expr:
        case PropertyRef() | EntityRef() | Const() | ParamRef() | Now():
            return reader.column(expr, rows)
        case TextMatch():
            return text_truth(expr, rows, reader)
        case Nearest() | Bm25() | Rrf():
            return scores(expr, rows, reader)
        case Aggregate() | Field():
            raise InternalError(
                f"{type(expr).__name__} cannot be read from bindings; nothing was changed; "
                "please report the query"
            )


def _group_column(expr: ItemExpr | Field, groups: Groups, reader: Reader) -> pa.Array:
    if not isinstance(expr, Field):
        raise InternalError(
            f"{type(expr).__name__} is no column of a group; nothing was changed; please report the query"
        )
    if expr.name in groups.tallies:
        return groups.tallies[expr.name]
    return unify_zeros(value_column(groups.keys[expr.name], groups.samples, reader))


def value_columns(exprs: Sequence[ItemExpr | Field], rows: Rows, reader: Reader) -> list[pa.Array]:
    """Compute the values of several expressions; the properties of one variable are fetched together."""
    if isinstance(rows, Bindings):
        stored = [_find_stored(expr) for expr in exprs]
        fetched = _fetch_columns(stored, rows, reader)
        return [
            value_column(expr, rows, reader) if at is None else fetched[at]
            for expr, at in zip(exprs, stored, strict=True)
        ]
    stored = [_find_stored(rows.keys.get(e.name, e) if isinstance(e, Field) else e) for e in exprs]
    fetched = _fetch_columns(stored, rows.samples, reader)
    return [
        value_column(expr, rows, reader) if at is None else unify_zeros(fetched[at])
        for expr, at in zip(exprs, stored, strict=True)
    ]


_Stored = tuple[str, str]
"""A variable and a column of its table."""


def _find_stored(expr: ItemExpr | Field) -> _Stored | None:
    if isinstance(expr, PropertyRef):
        return expr.variable, expr.property
    return (expr.variable, "id") if isinstance(expr, EntityRef) else None


def _fetch_columns(
    stored: Sequence[_Stored | None], rows: Bindings, reader: Reader
) -> dict[_Stored, pa.Array]:
    wanted: dict[str, list[str]] = {}
    for at in stored:
        if at is not None:
            wanted.setdefault(at[0], []).append(at[1])
    found: dict[_Stored, pa.Array] = {}
    for variable, names in wanted.items():
        values = reader.entities(variable).columns(names, rows.columns[variable])
        found |= {(variable, name): values[name] for name in names}
    return found
