"""Rules about one value: required, enum, range, pattern."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Check, NodeType, Property, Range, TableType
from omnigraphdb.catalog.types import FLOATS
from omnigraphdb.commit.constraints.committed import RowsAfterWrite
from omnigraphdb.commit.constraints.report import Violations, cell, of_rows
from omnigraphdb.commit.delta import Deltas, TableDelta
from omnigraphdb.errors import shorten
from omnigraphdb.storage.arrow import column

_BEYOND = 10**30
"""A bound this far out is past every integer."""


def values(deltas: Deltas, _final: RowsAfterWrite) -> Violations:
    """Check every value rule of every incoming row."""
    violations = Violations()
    for delta in deltas:
        for name in sorted(delta.type.properties):
            violations = violations + value_violations(delta, delta.type.properties[name])
    return violations


def value_violations(delta: TableDelta, property_: Property) -> Violations:
    """Check the value rules of one property."""
    violations = Violations()
    for rule in value_rules(delta.type, property_):
        violations = violations + rule(delta)
    return violations


ValueRule = Callable[[TableDelta], Violations]


def value_rules(type_: TableType, property_: Property) -> Iterator[ValueRule]:
    """List the rules that each value of a property keeps, in the order they are reported."""
    yield lambda delta: check_required(delta, property_)
    if property_.type.is_enum:
        yield lambda delta: enum(delta, property_)
    if isinstance(type_, NodeType):
        for bounds in type_.ranges:
            if bounds.property == property_.name:
                yield partial(in_range, rule=bounds)
        for pattern in type_.checks:
            if pattern.property == property_.name:
                yield partial(matches, rule=pattern)


def check_required(delta: TableDelta, property_: Property) -> Violations:
    """Check that there is no NULL where the type has no `?`."""
    if property_.type.nullable or delta.nulls_reported:
        return Violations()
    name = f"{delta.type.name}.{property_.name}"
    mask = pc.is_null(column(delta.rows, property_.name))
    return of_rows(
        delta, mask, "W01", lambda _row: f"required property {name} has no value", property_.name
    )


def enum(delta: TableDelta, property_: Property) -> Violations:
    """Check that a value, or each item of a list, is in the set."""
    allowed = property_.type.enum_values
    texts = column(delta.rows, property_.name)
    bad = pc.and_(pc.is_valid(texts), pc.invert(pc.is_in(texts, value_set=pa.array(allowed))))

    def describe(row: int) -> str:
        value = str(cell(delta, property_.name, row))
        near = [candidate for candidate in allowed if candidate.lower() == value.lower()]
        case = f"; it differs only by case from '{near[0]}'" if near else ""
        return (
            f"invalid enum value '{shorten(value)}' for {delta.type.name}.{property_.name}: "
            f"allowed are {', '.join(allowed)}{case}"
        )

    return of_rows(delta, bad, "W12", describe, property_.name)


def in_range(delta: TableDelta, rule: Range) -> Violations:
    """Check inclusive bounds; NULL is exempt, NaN never fits."""
    numbers = column(delta.rows, rule.property)
    bad = pa.array(np.zeros(len(numbers), dtype=bool))
    if rule.low is not None:
        bad = pc.or_(bad, pc.fill_null(pc.less(*_comparable(numbers, rule.low, math.ceil)), False))
    if rule.high is not None:
        bad = pc.or_(
            bad, pc.fill_null(pc.greater(*_comparable(numbers, rule.high, math.floor)), False)
        )
    if delta.type.properties[rule.property].type.scalar in FLOATS:
        bad = pc.or_(bad, pc.fill_null(pc.is_nan(numbers), False))

    def describe(row: int) -> str:
        value = numbers[row].as_py()
        bound = _bound(rule, value)
        return f"@range violation on {delta.type.name}.{rule.property}: {shorten(value)} is {bound}"

    return of_rows(delta, bad, "W10", describe, rule.property)


def _comparable(
    numbers: pa.Array, bound: int | float, whole: Callable[[float], int]
) -> tuple[pa.Array, pa.Scalar]:
    """Convert column and bound to one type: floats at the precision of the column, integers exactly.

    Between two integers a bound moves to the next integer inside, which `whole` finds.
    """
    if pa.types.is_floating(numbers.type):
        return numbers, pa.scalar(float(bound), numbers.type)
    exact = whole(max(-_BEYOND, min(bound, _BEYOND)))
    if -(2**63) <= exact < 2**63 and numbers.type != pa.uint64():
        return numbers.cast(pa.int64()), pa.scalar(exact, pa.int64())
    digits = pa.decimal128(38, 0)
    return numbers.cast(digits), pa.scalar(Decimal(exact), digits)


def _bound(rule: Range, value: object) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "not a number"
    if rule.low is not None and isinstance(value, int | float) and value < rule.low:
        return f"below the minimum {rule.low}"
    return f"above the maximum {rule.high}"


def matches(delta: TableDelta, rule: Check) -> Violations:
    """Check that the pattern occurs somewhere in the text; NULL is exempt."""
    texts = column(delta.rows, rule.property)
    bad = pc.fill_null(pc.invert(pc.match_substring_regex(texts, rule.pattern)), False)

    def describe(row: int) -> str:
        value = shorten(cell(delta, rule.property, row))
        return (
            f"@check violation on {delta.type.name}.{rule.property}: '{value}' does not match "
            f"'{rule.pattern}'"
        )

    return of_rows(delta, bad, "W11", describe, rule.property)
