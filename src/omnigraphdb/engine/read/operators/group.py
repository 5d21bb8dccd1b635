"""The operator Group: groups rows by keys and computes counts, sums and extremes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraphdb.compile.checked import EntityRef, PropertyRef
from omnigraphdb.compile.plan.operators import Group, Output
from omnigraphdb.compile.plan.visit import fields_of, variables_of
from omnigraphdb.engine.read.bindings import Bindings, concat, gather
from omnigraphdb.engine.read.columns.compare import codes_of
from omnigraphdb.engine.read.columns.row_ids import Integers, count_up, no_row_ids
from omnigraphdb.engine.read.operators.rows import Groups, tallied_column, value_column
from omnigraphdb.engine.read.operators.tally import (
    Tallied,
    compute_tally,
    finish_tally,
    is_mergeable,
    renumber,
    sum_weights,
    tally_values,
)
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.memory import count_columns, counted_bytes
from omnigraphdb.values import dataclass

_INTEGER_BYTES: Final = 8
_CODED_BYTES: Final = 6 * _INTEGER_BYTES
"""The columns of a row while codes are combined: two codes, their product, the sorted codes, their order, positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """Groups of some rows: one sample binding of each group, and per tally a count and a value so far."""

    samples: Bindings
    counts: dict[str, Integers]
    values: dict[str, pa.Array]

    def count(self) -> "Partial":
        """Count the columns as memory of the read, until they are freed."""
        count_columns((*self.samples.arrays, *self.counts.values(), *self.values.values()))
        return self


def group(operator: Group, tables: Iterable[Bindings], reader: Reader) -> Groups:
    """Group the rows of all tables; each table is reduced to its groups before the next one is read."""
    if not all(map(is_mergeable, operator.tallies)):
        tables = [gather(tables)]
    partials = [_group_table(operator, rows, reader).count() for rows in tables]
    combined = partials[0] if len(partials) == 1 else _combine_partials(operator, partials, reader)
    tallies = {
        tally.name: finish_tally(
            tally, combined.counts[tally.name], combined.values.get(tally.name)
        )
        for tally in operator.tallies
    }
    count_columns(tallies.values())
    keys = {key.name: key.expr for key in operator.keys}
    return Groups(samples=combined.samples, keys=keys, tallies=tallies)


def _group_table(operator: Group, rows: Bindings, reader: Reader) -> Partial:
    codes, samples = _assign_groups(operator.keys, rows, reader)
    counts: dict[str, Integers] = {}
    values: dict[str, pa.Array] = {}
    weights = rows.weights
    for tally in operator.tallies:
        if tally.argument is None and not operator.keys:
            counts[tally.name] = np.array([rows.total], dtype=np.int64)
            continue
        if tally.argument is None:
            counts[tally.name] = sum_weights(codes, weights, samples.rows)
            continue
        tallied = Tallied(
            tally=tally,
            values=tallied_column(tally, rows, reader),
            codes=count_up(samples.rows) if codes is None else codes,
            weights=weights,
            groups=samples.rows,
            fraction=reader.fraction(tally.fraction),
        )
        counts[tally.name], values[tally.name] = compute_tally(tallied, rows, reader)
    return Partial(samples=samples, counts=counts, values=values)


# ---- group keys


def _assign_groups(
    keys: Sequence[Output], rows: Bindings, reader: Reader
) -> tuple[Integers | None, Bindings]:
    """Assign every row to a group and pick one row of every group; None if each row is its own group."""
    if not keys:
        return np.zeros(rows.rows, dtype=np.int64), Bindings({}, 1)
    variables = frozenset[str]().union(*(variables_of(key.expr) for key in keys))
    fields = frozenset[str]().union(*(fields_of(key.expr) for key in keys))
    narrow = Bindings(
        {name: rows.columns[name] for name in sorted(variables)},
        rows.rows,
        None,
        {name: rows.values[name] for name in sorted(fields)},
    )
    with counted_bytes(_INTEGER_BYTES * len(keys) * rows.rows):
        columns = list(_encode_keys(keys, rows, reader))
        if len(columns) == 1 and bool((columns[0][1:] > columns[0][:-1]).all()):
            return None, narrow
        with counted_bytes(_CODED_BYTES * rows.rows):
            codes, firsts = _combine_codes(columns, rows.rows)
    return codes, narrow.take(firsts)


def _encode_keys(keys: Sequence[Output], rows: Bindings, reader: Reader) -> Iterator[Integers]:
    """Encode each key as integers; an entity key determines all its properties, which are left out."""
    entities = {key.expr.variable for key in keys if isinstance(key.expr, EntityRef)}
    for name in sorted(entities):
        yield rows.columns[name]
    for key in keys:
        match key.expr:
            case EntityRef():
                continue
            case PropertyRef(variable=variable, property=name):
                if variable not in entities:
                    yield reader.entities(variable).codes(name, rows.columns[variable])
            case _:
                yield codes_of(value_column(key.expr, rows, reader))


def _combine_codes(columns: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    """Combine codes to one dense code per row, and find the first row of every code."""
    codes = renumber(columns[0])
    for column in columns[1:]:
        column_codes = renumber(column)
        width = int(column_codes.max()) + 1 if rows else 1
        codes = renumber(codes * width + column_codes)
    firsts = np.full(int(codes.max()) + 1 if rows else 0, rows, dtype=np.int64)
    # NumPy keeps the last write; written backwards, that is the first row of each code.
    firsts[codes[::-1]] = count_up(rows)[::-1]
    return codes, firsts


# ---- several tables


def _combine_partials(operator: Group, partials: Sequence[Partial], reader: Reader) -> Partial:
    """Combine the groups of several tables: add counts and sums, compare extremes."""
    if not partials:
        return _group_table(operator, _empty_bindings(operator), reader)
    samples = concat([partial.samples for partial in partials])
    count_columns(samples.arrays)
    codes, firsts = _assign_groups(operator.keys, samples, reader)
    counts: dict[str, Integers] = {}
    values: dict[str, pa.Array] = {}
    for tally in operator.tallies:
        name = tally.name
        with counted_bytes(_INTEGER_BYTES * samples.rows):
            counts[name] = sum_weights(
                codes, np.concatenate([partial.counts[name] for partial in partials]), firsts.rows
            )
        if tally.argument is not None:
            parts = _unify_types([partial.values[name] for partial in partials])
            merged = Tallied(
                tally=tally,
                values=pa.concat_arrays(parts),
                codes=count_up(firsts.rows) if codes is None else codes,
                weights=None,
                groups=firsts.rows,
            )
            count_columns((merged.values,))
            values[name] = tally_values(merged.present())[1]
    return Partial(samples=firsts, counts=counts, values=values).count()


def _empty_bindings(operator: Group) -> Bindings:
    read = (variables_of(key.expr) for key in operator.keys)
    more = (
        variables_of(tally.argument) for tally in operator.tallies if tally.argument is not None
    )
    names = frozenset[str]().union(*read, *more)
    return Bindings({name: no_row_ids() for name in sorted(names)}, 0)


def _unify_types(parts: list[pa.Array]) -> list[pa.Array]:
    if len({part.type for part in parts}) == 1:
        return parts
    return [part.cast(pa.float64(), safe=False) for part in parts]
