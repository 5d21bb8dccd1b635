"""Combining tables of bindings: products, absence, and optional parts."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.compile.checked import Compare, EntityRef, Operand, PropertyRef
from omnigraph.compile.plan.operators import Anti, OptionalJoin, Product
from omnigraph.engine.read.bindings import Bindings, encode_together, weights_of
from omnigraph.engine.read.columns.row_ids import ABSENT, Numbers, count_up, no_numbers, spread
from omnigraph.engine.read.operators.filter import keep_all
from omnigraph.engine.read.reader import Reader
from omnigraph.errors import EngineError
from omnigraph.limits import MORSEL_ROWS, PRODUCT_ROWS_MAX


def product(
    operator: Product, left: Bindings, right: Bindings, reader: Reader
) -> Iterator[Bindings]:
    """Pair rows; equal values are met by a join, everything else by testing every pair."""
    equal = next((test for test in operator.on if test.op == "="), None)
    if equal is not None:
        rows, places = _equal_pairs(equal, left, right, reader)
        yield keep_all(operator.on, _pair(left, right, rows, places), reader)
        return
    _require_small(left, right)
    size = max(1, MORSEL_ROWS // max(right.rows, 1))
    for start in range(0, max(left.rows, 1), size):
        part = left.slice(start, start + size)
        rows = np.repeat(count_up(part.rows), right.rows)
        places = np.tile(count_up(right.rows), part.rows)
        yield keep_all(operator.on, _pair(part, right, rows, places), reader)


def _require_small(left: Bindings, right: Bindings) -> None:
    if left.rows * right.rows > PRODUCT_ROWS_MAX:
        raise EngineError(
            f"the query pairs {left.rows} with {right.rows} unconnected entities, which makes more than "
            f"{PRODUCT_ROWS_MAX} rows; the query was stopped, nothing was changed",
            hint="connect the two parts by a traversal or an equality",
        )


def _pair(left: Bindings, right: Bindings, rows: Numbers, places: Numbers) -> Bindings:
    columns = {name: numbers[rows] for name, numbers in left.columns.items()}
    columns |= {name: numbers[places] for name, numbers in right.columns.items()}
    paired = Bindings(columns, len(rows))
    for side, chosen in ((left, rows), (right, places)):
        if side.weights is not None:
            paired = paired.weighted(side.weights[chosen])
    return paired


def _equal_pairs(
    test: Compare, left: Bindings, right: Bindings, reader: Reader
) -> tuple[Numbers, Numbers]:
    """The pairs that agree on one equality, in the order of the left rows."""
    if not left.rows or not right.rows:
        return no_numbers(), no_numbers()
    mine, theirs = (test.left, test.right) if _is_of(test.left, left) else (test.right, test.left)
    ours, others = reader.column(mine, left), reader.column(theirs, right)
    known = pa.chunked_array([ours, others]).dictionary_encode().combine_chunks()
    codes = known.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
    ours_codes, other_codes = codes[: len(ours)], codes[len(ours) :]
    rows, places, _ = matches(ours_codes, other_codes)
    present = ours_codes[rows] != ABSENT
    return rows[present], places[present]


def _is_of(operand: Operand, side: Bindings) -> bool:
    return isinstance(operand, PropertyRef | EntityRef) and operand.variable in side.columns


def matches(ours: Numbers, theirs: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """All pairs of equal codes in the order of ours, and how many each of ours has."""
    order = np.argsort(theirs, kind="stable")
    ordered = theirs[order]
    low = np.searchsorted(ordered, ours, side="left")
    counts = np.searchsorted(ordered, ours, side="right") - low
    rows, places = spread(low.astype(np.int64), counts.astype(np.int64))
    return rows, order[places].astype(np.int64), counts.astype(np.int64)


def anti(operator: Anti, bindings: Bindings, inner: Bindings) -> Bindings:
    """Keep rows that the inner part does not know."""
    if not operator.on:
        return bindings if inner.rows == 0 else bindings.take(no_numbers())
    if not inner.rows or not bindings.rows:
        return bindings
    ours, theirs = encode_together(bindings, inner, operator.on)
    return bindings.keep(~np.isin(ours, theirs))


def optional(operator: OptionalJoin, bindings: Bindings, inner: Bindings) -> Bindings:
    """Join rows with what the inner part found for them, or with nothing."""
    if operator.on:
        ours, theirs = encode_together(bindings, inner, operator.on)
    else:
        ours, theirs = (np.zeros(side.rows, dtype=np.int64) for side in (bindings, inner))
    rows, places, counts = matches(ours, theirs)
    alone = np.flatnonzero(counts == 0)
    order = np.argsort(np.concatenate([rows, alone]), kind="stable")
    chosen = np.concatenate([rows, alone])[order]
    found = np.concatenate([places, np.full(len(alone), ABSENT, dtype=np.int64)])[order]
    joined = bindings.take(chosen)
    for name in operator.binds:
        joined = joined.with_column(name, _pick(inner.columns[name], found, ABSENT))
    if inner.weights is None:
        return joined
    return joined.weighted(_pick(weights_of(inner), found, 1))


def _pick(values: Numbers, places: Numbers, otherwise: int) -> Numbers:
    if not len(values):
        return np.full(len(places), otherwise, dtype=np.int64)
    return np.where(places == ABSENT, otherwise, values[np.maximum(places, 0)])
