"""Combining tables of bindings: products, absence, and optional parts."""

import numpy as np
import pyarrow as pa

from omnigraph.compile.operators import Anti, OptionalJoin, Product
from omnigraph.engine.read.bindings import Bindings, shared_codes
from omnigraph.engine.read.entities import ABSENT, Numbers
from omnigraph.engine.read.evaluate import holds
from omnigraph.engine.read.reader import Reader
from omnigraph.errors import EngineError
from omnigraph.limits import PRODUCT_ROWS_MAX


def product(operator: Product, left: Bindings, right: Bindings, reader: Reader) -> Bindings:
    """Pair rows; equal values are met by a join, everything else by testing every pair."""
    left, right = left.unweighted(), right.unweighted()
    equal = [test for test in operator.on if test.op == "="]
    if equal:
        rows, places = _equal_pairs(operator, left, right, reader)
    else:
        if left.rows * right.rows > PRODUCT_ROWS_MAX:
            raise EngineError(
                f"the query pairs {left.rows} with {right.rows} unconnected entities, more than "
                f"{PRODUCT_ROWS_MAX} rows; nothing was read further",
                hint="connect the two parts by a traversal or an equality",
            )
        rows = np.repeat(np.arange(left.rows, dtype=np.int64), right.rows)
        places = np.tile(np.arange(right.rows, dtype=np.int64), left.rows)
    paired = _pair(left, right, rows, places)
    for test in operator.on:
        paired = paired.keep(holds(test, paired, reader))
    return paired


def _pair(left: Bindings, right: Bindings, rows: Numbers, places: Numbers) -> Bindings:
    columns = {name: numbers[rows] for name, numbers in left.columns.items()}
    columns |= {name: numbers[places] for name, numbers in right.columns.items()}
    return Bindings(columns, len(rows))


def _equal_pairs(
    operator: Product, left: Bindings, right: Bindings, reader: Reader
) -> tuple[Numbers, Numbers]:
    """Candidates that agree on one equality; the caller tests all conditions again."""
    test = next(one for one in operator.on if one.op == "=")
    on_left = getattr(test.left, "variable", None) in left.columns
    mine, theirs = (test.left, test.right) if on_left else (test.right, test.left)
    ours = _joinable(reader.column(mine, left))
    others = _joinable(reader.column(theirs, right))
    joined = pa.table({"k": ours, "l": pa.array(np.arange(left.rows))}).join(
        pa.table({"k": others, "r": pa.array(np.arange(right.rows))}), "k", join_type="inner"
    )
    joined = joined.sort_by([("l", "ascending"), ("r", "ascending")])
    return joined["l"].to_numpy().astype(np.int64), joined["r"].to_numpy().astype(np.int64)


def _joinable(values: pa.Array) -> pa.Array:
    """Numbers of all kinds meet as floats: close enough for candidates."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return pa.compute.add(values.cast(pa.float64(), safe=False), 0.0)
    return values


def anti(operator: Anti, bindings: Bindings, inner: Bindings) -> Bindings:
    """Keep rows that the inner part does not know."""
    if not operator.on:
        return bindings if inner.rows == 0 else bindings.take(np.empty(0, dtype=np.int64))
    ours, theirs = shared_codes(bindings, inner, operator.on)
    return bindings.keep(~np.isin(ours, theirs))


def optional(operator: OptionalJoin, bindings: Bindings, inner: Bindings) -> Bindings:
    """Join rows with what the inner part found for them, or with nothing."""
    bindings, inner = bindings.unweighted(), inner.unweighted()
    ours, theirs = (
        shared_codes(bindings, inner, operator.on)
        if operator.on
        else (np.zeros(bindings.rows, np.int64), np.zeros(inner.rows, np.int64))
    )
    order = np.argsort(theirs, kind="stable")
    low = np.searchsorted(theirs[order], ours, side="left")
    high = np.searchsorted(theirs[order], ours, side="right")
    counts = np.maximum(high - low, 1)
    rows = np.repeat(np.arange(bindings.rows, dtype=np.int64), counts)
    step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    matched = np.repeat(high > low, counts)
    places = np.where(matched, np.repeat(low, counts) + step, 0)
    joined = bindings.take(rows)
    for name in operator.binds:
        numbers = inner.columns[name][order]
        found = numbers[places] if len(numbers) else np.full(len(rows), ABSENT, dtype=np.int64)
        joined = joined.with_column(name, np.where(matched, found, ABSENT))
    return joined
