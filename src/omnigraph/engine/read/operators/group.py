"""The operator Group: groups rows by keys and computes counts, sums and extremes."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compile.checked import EntityRef, PropertyRef
from omnigraph.compile.plan.operators import Group, Output, Tally
from omnigraph.compile.plan.visit import variables_of
from omnigraph.engine.read.bindings import Bindings, concat
from omnigraph.engine.read.columns.compare import codes_of
from omnigraph.engine.read.columns.row_ids import Integers, count_up, no_row_ids
from omnigraph.engine.read.operators.rows import Groups, value_column
from omnigraph.engine.read.reader import Reader
from omnigraph.values import dataclass

_INTEGER_SUM_MAX = 2.0**62
"""Sums of integers that stay below this are exact; larger ones are added as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """Groups of some rows: one sample binding of each group, and per tally a count and a value so far."""

    samples: Bindings
    counts: dict[str, Integers]
    values: dict[str, pa.Array]


def group(operator: Group, tables: Iterable[Bindings], reader: Reader) -> Groups:
    """Group the rows of all tables; each table is reduced to its groups before the next one is read."""
    partials = [_group_table(operator, rows, reader) for rows in tables]
    whole = partials[0] if len(partials) == 1 else _combine_partials(operator, partials, reader)
    return Groups(
        samples=whole.samples,
        keys={key.name: key.expr for key in operator.keys},  # type: ignore[misc]
        tallies={tally.name: _finish_tally(tally, whole) for tally in operator.tallies},
    )


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
            counts[tally.name] = _sum_weights(codes, weights, samples.rows)
            continue
        found = value_column(tally.argument, rows, reader)
        state = _tally_values(tally, found, codes, weights, samples.rows)
        counts[tally.name], values[tally.name] = state
    return Partial(samples=samples, counts=counts, values=values)


# ---- group keys


def _assign_groups(
    keys: Sequence[Output], rows: Bindings, reader: Reader
) -> tuple[Integers | None, Bindings]:
    """Assign every row to a group and pick one row of every group; None if each row is a group of its own."""
    if not keys:
        return np.zeros(rows.rows, dtype=np.int64), Bindings({}, 1)
    wanted = frozenset[str]().union(*(variables_of(key.expr) for key in keys))
    narrow = Bindings({name: rows.columns[name] for name in sorted(wanted)}, rows.rows)
    columns = list(_encode_keys(keys, rows, reader))
    if len(columns) == 1 and bool((columns[0][1:] > columns[0][:-1]).all()):
        return None, narrow
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
    found = _renumber(columns[0])
    for column in columns[1:]:
        more = _renumber(column)
        width = int(more.max()) + 1 if rows else 1
        found = _renumber(found * width + more)
    firsts = np.full(int(found.max()) + 1 if rows else 0, rows, dtype=np.int64)
    # NumPy keeps the last write; written backwards, that is the first row of each code.
    firsts[found[::-1]] = count_up(rows)[::-1]
    return found, firsts


def _renumber(codes: Integers) -> Integers:
    """Renumber codes without gaps, in the same order."""
    if not len(codes):
        return codes
    low, high = int(codes.min()), int(codes.max())
    if high - low > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(high - low + 1, dtype=np.int64)
    used[codes - low] = 1
    return np.asarray((np.cumsum(used) - 1)[codes - low])


# ---- tallies


def _sum_weights(codes: Integers | None, weights: Integers | None, groups: int) -> Integers:
    """Sum the weights of every group."""
    if codes is None:
        return np.ones(groups, dtype=np.int64) if weights is None else weights
    if weights is None:
        return np.bincount(codes, minlength=groups).astype(np.int64)
    found = np.zeros(groups, dtype=np.int64)
    np.add.at(found, codes, weights)
    return found


def _tally_values(
    tally: Tally, values: pa.Array, codes: Integers | None, weights: Integers | None, groups: int
) -> tuple[Integers, pa.Array]:
    """Count the values of each group, and compute their sum or extreme."""
    if codes is None:
        codes = count_up(groups)
    if values.null_count:
        present = pc.is_valid(values).to_numpy(zero_copy_only=False)
        codes, values = codes[present], values.drop_null()
        weights = None if weights is None else weights[present]
    counts = _sum_weights(codes, weights, groups)
    match tally.function:
        case "count":
            return counts, pa.nulls(groups)
        case "sum" | "avg":
            return counts, _sum_values(values, codes, weights, groups)
        case "min" | "max":
            return counts, _find_extremes(tally.function, values, codes, groups)


def _sum_values(
    values: pa.Array, codes: Integers, weights: Integers | None, groups: int
) -> pa.Array:
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(values.type) and _is_small(numbers, weights):
        exact = numbers.astype(np.int64) * (1 if weights is None else weights)
        totals = np.zeros(groups, dtype=np.int64)
        np.add.at(totals, codes, exact)
        return pa.array(totals)
    floats = numbers.astype(np.float64) * (1 if weights is None else weights)
    return pa.array(np.bincount(codes, floats, minlength=groups))


def _is_small(numbers: np.ndarray, weights: Integers | None) -> bool:
    if not len(numbers):
        return True
    largest = max(abs(int(numbers.max())), abs(int(numbers.min())))
    total = len(numbers) if weights is None else int(weights.sum())
    return float(largest) * total < _INTEGER_SUM_MAX


def _find_extremes(function: str, values: pa.Array, codes: Integers, groups: int) -> pa.Array:
    grouped = pa.table({"g": pa.array(codes), "v": values}).group_by("g")
    found = grouped.aggregate([("v", function)]).combine_chunks()
    positions = np.full(groups, -1, dtype=np.int64)
    positions[found["g"].to_numpy()] = count_up(found.num_rows)
    column = found[f"v_{function}"]
    best = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], values.type)
    return best.take(pa.array(positions, mask=positions < 0))


# ---- several tables


def _combine_partials(operator: Group, partials: Sequence[Partial], reader: Reader) -> Partial:
    """Combine the groups of several tables: add counts and sums, compare extremes."""
    if not partials:
        return _group_table(operator, _empty_bindings(operator), reader)
    samples = concat([one.samples for one in partials])
    codes, firsts = _assign_groups(operator.keys, samples, reader)
    counts: dict[str, Integers] = {}
    values: dict[str, pa.Array] = {}
    for tally in operator.tallies:
        name = tally.name
        counts[name] = _sum_weights(
            codes, np.concatenate([one.counts[name] for one in partials]), firsts.rows
        )
        if tally.argument is not None:
            parts = _unify_types([one.values[name] for one in partials])
            values[name] = _tally_values(tally, pa.concat_arrays(parts), codes, None, firsts.rows)[
                1
            ]
    return Partial(samples=firsts, counts=counts, values=values)


def _empty_bindings(operator: Group) -> Bindings:
    read = (variables_of(key.expr) for key in operator.keys)
    more = (variables_of(one.argument) for one in operator.tallies if one.argument is not None)
    names = frozenset[str]().union(*read, *more)
    return Bindings({name: no_row_ids() for name in names}, 0)


def _unify_types(parts: list[pa.Array]) -> list[pa.Array]:
    if len({part.type for part in parts}) == 1:
        return parts
    return [part.cast(pa.float64(), safe=False) for part in parts]


def _finish_tally(tally: Tally, whole: Partial) -> pa.Array:
    counts = whole.counts[tally.name]
    if tally.function == "count":
        return pa.array(counts)
    values = whole.values[tally.name]
    if tally.function in ("min", "max"):
        return values.cast(tally.type.arrow)
    totals = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if tally.function == "avg":
        totals = np.divide(totals, counts, out=np.zeros(len(counts)), where=counts > 0)
    return pa.array(totals, pa.float64(), mask=counts == 0)
