"""The operator Filter: evaluates conditions over bindings in three-valued logic, exactly as pushed-down filters do."""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Const,
    EntityRef,
    IsNull,
    Not,
    Now,
    ParamRef,
    TextMatch,
)
from omnigraph.compile.coerce import coerce
from omnigraph.compile.plan.algebra import FLIPPED, Always, Test
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.columns.compare import compare_columns, compare_value, is_among
from omnigraph.engine.read.columns.row_ids import ABSENT, Mask
from omnigraph.engine.read.operators.search import text_mask, text_truth
from omnigraph.engine.read.reader import Reader
from omnigraph.errors import InternalError

Fixed = Const | ParamRef | Now


def keep_all(tests: Sequence[Test], rows: Bindings, reader: Reader) -> Bindings:
    """Keep the rows for which every test is true; each test sees only the rows that passed the tests before."""
    for test in tests:
        if not rows.rows:
            break
        rows = rows.keep(holds(test, rows, reader))
    return rows


def holds(test: Test, bindings: Bindings, reader: Reader) -> Mask:
    """Mark the rows for which a test is true; unknown counts as not true."""
    if isinstance(test, TextMatch):
        return text_mask(test, bindings, reader)
    found = truth(test, bindings, reader)
    if found.null_count:
        found = pc.fill_null(found, False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def truth(test: Test, bindings: Bindings, reader: Reader) -> pa.Array:
    """True, false or NULL for every row."""
    match test:
        case Always(value=value):
            return pa.repeat(pa.scalar(value), bindings.rows)
        case Compare():
            return _compare(test, bindings, reader)
        case IsNull(operand=EntityRef(variable=variable), negated=negated):
            missing = bindings.columns[variable] == ABSENT
            return pa.array(~missing if negated else missing)
        case IsNull(operand=operand, negated=negated):
            column = reader.column(operand, bindings)
            return pc.is_valid(column) if negated else pc.is_null(column)
        case Among(operand=operand, choices=choices):
            column = reader.column(operand, bindings)
            return is_among(column, operand.type, _require_list(reader.value(choices)))
        case AllOf(parts=parts):
            return _combine_parts(pc.and_kleene, parts, bindings, reader)
        case AnyOf(parts=parts):
            return _combine_parts(pc.or_kleene, parts, bindings, reader)
        case Not(part=part):
            return pc.invert(truth(part, bindings, reader))
        case TextMatch():
            return text_truth(test, bindings, reader)
        case _:
            assert_never(test)


def _require_list(value: object) -> Sequence[object] | None:
    if value is None or isinstance(value, list | tuple):
        return value
    raise InternalError(
        f"'in' needs a list, not {type(value).__name__}; nothing was changed; please report the query"
    )


def _combine_parts(
    combine: Callable[[Any, Any], pa.Array],
    parts: Sequence[Test],
    bindings: Bindings,
    reader: Reader,
) -> pa.Array:
    found = truth(parts[0], bindings, reader)
    for part in parts[1:]:
        found = combine(found, truth(part, bindings, reader))
    return found


def _compare(test: Compare, bindings: Bindings, reader: Reader) -> pa.Array:
    left, op, right = test.left, test.op, test.right
    if isinstance(left, Fixed) and not isinstance(right, Fixed) and op in FLIPPED:
        left, op, right = right, FLIPPED[op], left
    column = reader.column(left, bindings)
    if isinstance(right, Fixed) and not isinstance(left, Fixed):
        return compare_value(column, left.type, coerce(op, reader.value(right), left.type))
    return compare_columns(column, left.type, op, reader.column(right, bindings), right.type)
