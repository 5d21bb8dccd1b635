"""Rows on their way to the result: bindings, or groups of them; and the values that are read from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
from omnigraph.compile.operators import Field
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.encode import one_zero
from omnigraph.engine.read.numbers import Numbers
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.search import scores, text_truth
from omnigraph.errors import InternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Rows of groups: one binding of each, which tells its keys, and its tallies by name."""

    samples: Bindings
    keys: Mapping[str, ItemExpr]
    tallies: Mapping[str, pa.Array]

    @property
    def rows(self) -> int:
        """How many groups there are."""
        return self.samples.rows

    def take(self, places: Numbers) -> "Groups":
        """Groups by place, in the order asked."""
        chosen = pa.array(places)
        tallies = {name: values.take(chosen) for name, values in self.tallies.items()}
        return Groups(samples=self.samples.take(places), keys=self.keys, tallies=tallies)

    def slice(self, start: int, end: int) -> "Groups":
        """Groups from one place to another."""
        return self.take(np.arange(start, min(end, self.rows), dtype=np.int64))


Rows = Bindings | Groups


def value_column(expr: ItemExpr | Field, rows: Rows, reader: Reader) -> pa.Array:
    """The values of an expression, one per row."""
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
    return one_zero(value_column(groups.keys[expr.name], groups.samples, reader))


def value_columns(exprs: Iterable[ItemExpr | Field], rows: Rows, reader: Reader) -> list[pa.Array]:
    """The values of several expressions; the properties of one variable are fetched together."""
    exprs = list(exprs)
    samples, resolved = rows, exprs
    if isinstance(rows, Groups):
        samples = rows.samples
        resolved = [rows.keys.get(e.name, e) if isinstance(e, Field) else e for e in exprs]
    assert isinstance(samples, Bindings)
    names: dict[str, list[str]] = {}
    for expr in resolved:
        if isinstance(expr, PropertyRef):
            names.setdefault(expr.variable, []).append(expr.property)
        elif isinstance(expr, EntityRef):
            names.setdefault(expr.variable, []).append("id")
    fetched = {
        variable: reader.entities(variable).columns(wanted, samples.columns[variable])
        for variable, wanted in names.items()
        if len(wanted) > 1
    }

    def column(expr: ItemExpr | Field, asked: ItemExpr | Field) -> pa.Array:
        match expr:
            case PropertyRef(variable=variable, property=name) if variable in fetched:
                found = fetched[variable][name]
            case EntityRef(variable=variable) if variable in fetched:
                found = fetched[variable]["id"]
            case _:
                return value_column(asked, rows, reader)
        return one_zero(found) if isinstance(rows, Groups) else found

    return [column(expr, asked) for expr, asked in zip(resolved, exprs, strict=True)]
