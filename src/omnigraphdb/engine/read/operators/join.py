"""The operators Product, Anti, Semi, Attach and OptionalJoin: combine two tables of bindings."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.cancellation import check_between
from omnigraphdb.compile.checked import Compare, EntityRef, Operand, PropertyRef
from omnigraphdb.compile.plan.operators import Anti, Attach, OptionalJoin, Product, Semi, Tally
from omnigraphdb.engine.read.bindings import Bindings, encode_together, weights_of
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    RowIds,
    count_up,
    lay_out_runs,
    no_row_ids,
)
from omnigraphdb.engine.read.evaluate import repeat_value
from omnigraphdb.engine.read.operators.filter import keep_all
from omnigraphdb.engine.read.operators.rows import tallied_column, value_column
from omnigraphdb.engine.read.operators.tally import (
    Tallied,
    compute_tally,
    finish_tally,
    sum_weights,
)
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.limits import MORSEL_ROWS, PRODUCT_ROWS_MAX


def product(
    operator: Product, left: Bindings, right: Bindings, reader: Reader
) -> Iterator[Bindings]:
    """Pair rows: by a hash join if there is an equality, else by testing every pair."""
    equal = next((test for test in operator.on if test.op == "="), None)
    if equal is not None:
        rows, offsets = _equal_pairs(equal, left, right, reader)
        yield keep_all(operator.on, _pair(left, right, rows, offsets), reader)
        return
    _require_small(left, right)
    size = max(1, MORSEL_ROWS // max(right.rows, 1))
    for start in check_between(range(0, max(left.rows, 1), size)):
        part = left.slice(start, start + size)
        rows = np.repeat(count_up(part.rows), right.rows)
        offsets = np.tile(count_up(right.rows), part.rows)
        yield keep_all(operator.on, _pair(part, right, rows, offsets), reader)


def _require_small(left: Bindings, right: Bindings) -> None:
    if left.rows * right.rows > PRODUCT_ROWS_MAX:
        raise ResourceLimit(
            "pairs of unconnected entities",
            PRODUCT_ROWS_MAX,
            left.rows * right.rows,
            hint="connect the two parts of the pattern by a traversal or an equality",
        )


def _pair(left: Bindings, right: Bindings, rows: Integers, offsets: Integers) -> Bindings:
    columns = {name: row_ids[rows] for name, row_ids in left.columns.items()}
    columns |= {name: row_ids[offsets] for name, row_ids in right.columns.items()}
    values = {name: column.take(pa.array(rows)) for name, column in left.values.items()}
    values |= {name: column.take(pa.array(offsets)) for name, column in right.values.items()}
    paired = Bindings(columns, len(rows), None, values)
    for side, indices in ((left, rows), (right, offsets)):
        if side.weights is not None:
            paired = paired.weighted(side.weights[indices])
    return paired


def _equal_pairs(
    test: Compare, left: Bindings, right: Bindings, reader: Reader
) -> tuple[Integers, Integers]:
    """Find the pairs that satisfy one equality, in the order of the left rows."""
    if not left.rows or not right.rows:
        return no_row_ids(), no_row_ids()
    left_key, right_key = (
        (test.left, test.right) if _is_of(test.left, left) else (test.right, test.left)
    )
    left_values, right_values = (
        value_column(left_key, left, reader),
        value_column(right_key, right, reader),
    )
    encoded = pa.chunked_array([left_values, right_values]).dictionary_encode().combine_chunks()
    codes = encoded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
    left_codes, right_codes = codes[: len(left_values)], codes[len(left_values) :]
    rows, offsets, _ = match_codes(left_codes, right_codes)
    present = left_codes[rows] != ABSENT
    return rows[present], offsets[present]


def _is_of(operand: Operand, side: Bindings) -> bool:
    return isinstance(operand, PropertyRef | EntityRef) and operand.variable in side.columns


def match_codes(left_values: Integers, right_keys: Integers) -> tuple[Integers, Integers, Integers]:
    """Find all pairs of equal codes in the order of the left codes, and the number of pairs of each left code."""
    order = np.argsort(right_keys, kind="stable")
    ordered = right_keys[order]
    low = np.searchsorted(ordered, left_values, side="left")
    counts = np.searchsorted(ordered, left_values, side="right") - low
    rows, offsets = lay_out_runs(low.astype(np.int64), counts.astype(np.int64))
    return rows, order[offsets].astype(np.int64), counts.astype(np.int64)


def anti(operator: Anti, bindings: Bindings, inner: Bindings) -> Bindings:
    """Keep the rows that have no match in the inner block."""
    if not operator.on:
        return bindings if inner.rows == 0 else bindings.take(no_row_ids())
    if not inner.rows or not bindings.rows:
        return bindings
    left_values, right_keys = encode_together(bindings, inner, operator.on)
    return bindings.keep(~np.isin(left_values, right_keys))


def semi(operator: Semi, bindings: Bindings, inner: Bindings) -> Bindings:
    """Keep the rows that have a match in the inner block."""
    if not operator.on:
        return bindings if inner.rows else bindings.take(no_row_ids())
    left_values, right_keys = encode_together(bindings, inner, operator.on)
    return bindings.keep(np.isin(left_values, right_keys))


def attach(operator: Attach, bindings: Bindings, inner: Bindings, reader: Reader) -> Bindings:
    """Add to every row a value of its matches in the inner block: a tally, or whether there are any."""
    counts = _count_by_row_id(operator, bindings, inner)
    if counts is not None:
        return bindings.with_value(operator.name, pa.array(counts))
    left, right = _encode(operator.on, bindings, inner)
    if operator.tally is None:
        return bindings.with_value(operator.name, pa.array(np.isin(left, right)))
    keys, codes = np.unique(right, return_inverse=True)
    tallies = _tally_matches(operator.tally, inner, codes.astype(np.int64), len(keys), reader)
    positions = np.searchsorted(keys, left)
    missing = positions == len(keys)
    missing[~missing] = keys[positions[~missing]] != left[~missing]
    values = tallies.take(pa.array(positions, mask=missing))
    if operator.tally.function == "count":
        values = pc.fill_null(values, 0)
    elif operator.tally.function == "collect":
        nothing = repeat_value((), operator.tally.type, len(values))
        values = pc.if_else(pc.is_valid(values), values, nothing.cast(values.type))
    return bindings.with_value(operator.name, values)


def _count_by_row_id(operator: Attach, bindings: Bindings, inner: Bindings) -> Integers | None:
    """Count the matches of one variable in an array by row id.

    None for another value, or if such an array would be large.
    """
    tally = operator.tally
    if tally is None or tally.function != "count" or tally.argument is not None:
        return None
    if len(operator.on) != 1 or not bindings.rows:
        return None
    left, right = (rows.columns[operator.on[0]] for rows in (bindings, inner))
    highest = int(max(left.max(), right.max(initial=ABSENT)))
    if highest > _ROOM * (len(left) + len(right)) + 1024:
        return None
    # An outer variable without an entity has row id -1, and so the first cell.
    counts = sum_weights(right + 1, inner.weights, highest + 2)
    return counts[left + 1]


_ROOM = 4
"""An array by row id has at most so many cells for each row."""


def _encode(on: tuple[str, ...], bindings: Bindings, inner: Bindings) -> tuple[Integers, Integers]:
    if on:
        return encode_together(bindings, inner, on)
    return np.zeros(bindings.rows, dtype=np.int64), np.zeros(inner.rows, dtype=np.int64)


def _tally_matches(
    tally: Tally, rows: Bindings, codes: Integers, groups: int, reader: Reader
) -> pa.Array:
    if tally.argument is None:
        return pa.array(sum_weights(codes, rows.weights, groups))
    tallied = Tallied(
        tally=tally,
        values=tallied_column(tally, rows, reader),
        codes=codes,
        weights=rows.weights,
        groups=groups,
        fraction=reader.fraction(tally.fraction),
    )
    return finish_tally(tally, *compute_tally(tallied, rows, reader))


def optional(operator: OptionalJoin, bindings: Bindings, inner: Bindings) -> Bindings:
    """Join rows with their matches in the inner block, or with no entity."""
    left_values, right_keys = _encode(operator.on, bindings, inner)
    rows, offsets, counts = match_codes(left_values, right_keys)
    unmatched = np.flatnonzero(counts == 0)
    order = np.argsort(np.concatenate([rows, unmatched]), kind="stable")
    left_offsets = np.concatenate([rows, unmatched])[order]
    inner_offsets = np.concatenate([offsets, np.full(len(unmatched), ABSENT, dtype=np.int64)])[
        order
    ]
    joined = bindings.take(left_offsets)
    for name in operator.binds:
        joined = joined.with_column(name, _pick(inner.columns[name], inner_offsets, ABSENT))
    if inner.weights is None:
        return joined
    return joined.weighted(_pick(weights_of(inner), inner_offsets, 1))


def _pick(values: RowIds, offsets: Integers, otherwise: int) -> Integers:
    if not len(values):
        return np.full(len(offsets), otherwise, dtype=np.int64)
    return np.where(offsets == ABSENT, otherwise, values[np.maximum(offsets, 0)])
