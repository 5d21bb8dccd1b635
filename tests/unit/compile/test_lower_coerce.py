"""Literal coercion: every operator, every numeric type, every awkward value, against exact arithmetic."""

import math
import operator
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.types import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraphdb.compile.coerce import Coerced, ConstantTruth, Either, Exact, coerce, coerce_choices
from omnigraphdb.errors import InternalError
from omnigraphdb.language.query.tree import Comparison

OPERATORS: dict[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
F32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
VALUES: tuple[int | float, ...] = (
    0, 1, -1, 2, 120, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 2**53, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 3_000_000_000, 10**30, -(10**400), 10**400,
    0.0, -0.0, 0.1, 0.25, 2.0, 2.7, -2.7, 0.5, -0.5, 2147483646.5, 2147483647.5, -2147483648.5,
    4294967294.5, 4294967295.5, 9.3e18, -9.3e18, 1.9e19, 1e300, -1e300, 3.5e38, -3.5e38, F32_MAX, -F32_MAX,
    5e-324, 1e-50, math.inf, -math.inf, math.nan,
)  # fmt: skip


def column(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar=scalar, nullable=True)


def verdict(coerced: Coerced, stored: object) -> bool | None:
    """What a coerced comparison says of a stored value that is not NULL; None is unknown."""
    match coerced:
        case Exact(op=op, value=value):
            assert type(value) is type(stored), "an exact value has the type of the column"
            return OPERATORS[op](stored, value)
        case ConstantTruth.TRUE | ConstantTruth.FALSE:
            return coerced is ConstantTruth.TRUE
        case ConstantTruth.UNKNOWN:
            return None
        case Either():
            pytest.fail("a scalar column needs no alternatives")


def single(value: float) -> float:
    """Round to F32; past its range, to the infinity of that side."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def stored_integers(scalar: Scalar) -> tuple[int, ...]:
    low, high = INTEGER_BOUNDS[scalar]
    near = (low, low + 1, -3, -2, -1, 0, 1, 2, 3, 120, 2**31 - 1, 2**31, 2**53, high - 1, high)
    return tuple(value for value in near if low <= value <= high)


STORED_DOUBLES = (
    0.0,
    -0.0,
    0.1,
    -0.1,
    2.0,
    2.7,
    5e-324,
    1e300,
    -1e300,
    2.0**53,
    2.0**63,
    1e38,
    -3.0,
)
STORED_SINGLES = tuple(
    dict.fromkeys(
        single(x) for x in (0.0, 0.1, 0.25, -0.1, 2.0, 2.7, 1e-50, 2.0**63, F32_MAX, -F32_MAX)
    )
)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("scalar", INTEGER_BOUNDS)
def test_a_number_meets_an_integer_column_as_mathematics_has_it(
    scalar: Scalar, value: int | float, op: Comparison
) -> None:
    coerced = coerce(op, value, column(scalar))
    for stored in stored_integers(scalar):
        assert verdict(coerced, stored) is OPERATORS[op](stored, value)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_number_meets_a_double_column_at_its_precision(
    value: int | float, op: Comparison
) -> None:
    coerced = coerce(op, value, column(Scalar.F64))
    for stored in STORED_DOUBLES:
        assert verdict(coerced, stored) is OPERATORS[op](stored, double(value))


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_number_meets_a_single_column_at_its_precision(
    value: int | float, op: Comparison
) -> None:
    coerced = coerce(op, value, column(Scalar.F32))
    for stored in STORED_SINGLES:
        assert verdict(coerced, stored) is OPERATORS[op](stored, single(double(value)))


@pytest.mark.parametrize(
    ("scalar", "op", "value", "expected"),
    [
        (Scalar.I32, "=", 120, Exact("=", 120)),
        (Scalar.I32, "=", 2.0, Exact("=", 2)),
        (Scalar.I32, "=", -0.0, Exact("=", 0)),
        (Scalar.I32, "=", 2.7, ConstantTruth.FALSE),
        (Scalar.I32, "!=", 2.7, ConstantTruth.TRUE),
        (Scalar.I32, "<", 2.7, Exact("<=", 2)),
        (Scalar.I32, "<=", 2.7, Exact("<=", 2)),
        (Scalar.I32, ">", 2.7, Exact(">=", 3)),
        (Scalar.I32, ">=", -2.7, Exact(">=", -2)),
        (Scalar.I32, "<", 3_000_000_000, ConstantTruth.TRUE),
        (Scalar.I32, "=", 3_000_000_000, ConstantTruth.FALSE),
        (Scalar.I32, "!=", 3_000_000_000, ConstantTruth.TRUE),
        (Scalar.I32, ">", 2147483646.5, Exact(">=", 2147483647)),
        (Scalar.I32, ">", 2147483647.5, ConstantTruth.FALSE),
        (Scalar.U32, ">=", -1, ConstantTruth.TRUE),
        (Scalar.U64, "=", 2**64 - 1, Exact("=", 2**64 - 1)),
        (Scalar.U64, "=", 2**64, ConstantTruth.FALSE),
        (Scalar.I64, "<", 2**63, ConstantTruth.TRUE),
        (Scalar.I64, "=", 2**63 - 1, Exact("=", 2**63 - 1)),
        (Scalar.I64, "<", math.inf, ConstantTruth.TRUE),
        (Scalar.I64, ">", math.nan, ConstantTruth.FALSE),
        (Scalar.F64, "=", 3, Exact("=", 3.0)),
        (Scalar.F32, "=", 0.1, Exact("=", 0.10000000149011612)),
        (Scalar.F32, "<", 1e300, Exact("<=", F32_MAX)),
        (Scalar.F32, ">=", 1e300, Exact(">", F32_MAX)),
        (Scalar.F32, ">", -1e300, Exact(">=", -F32_MAX)),
        (Scalar.F32, "=", 1e300, ConstantTruth.FALSE),
        (Scalar.F64, "!=", math.nan, ConstantTruth.TRUE),
        (Scalar.F64, "<=", math.nan, ConstantTruth.FALSE),
    ],
)
def test_the_comparison_stays_one_an_index_can_answer(
    scalar: Scalar, op: Comparison, value: int | float, expected: Coerced
) -> None:
    assert coerce(op, value, column(scalar)) == expected


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F64])
def test_a_negative_zero_is_written_as_zero(scalar: Scalar) -> None:
    match coerce("=", -0.0, column(scalar)):
        case Exact(value=float() as value):
            assert math.copysign(1.0, value) == 1.0
        case other:
            pytest.fail(f"not exact: {other}")


@given(st.sampled_from(sorted(INTEGER_BOUNDS)), st.sampled_from(list(OPERATORS)), st.data())
def test_any_two_numbers_compare_as_mathematics_has_it(
    scalar: Scalar, op: Comparison, data: st.DataObject
) -> None:
    stored = data.draw(st.integers(*INTEGER_BOUNDS[scalar]))
    value = data.draw(st.one_of(st.integers(), st.floats(), st.just(stored + 0.5), st.just(stored)))
    assert verdict(coerce(op, value, column(scalar)), stored) is OPERATORS[op](stored, value)


@pytest.mark.parametrize("op", [*OPERATORS, "contains", "starts_with"])
@pytest.mark.parametrize("scalar", [one for one in Scalar if one is not Scalar.BLOB])
def test_null_is_unknown_for_every_operator(scalar: Scalar, op: Comparison) -> None:
    assert coerce(op, None, column(scalar)) is ConstantTruth.UNKNOWN


@pytest.mark.parametrize(
    ("scalar", "op", "value"),
    [
        (Scalar.STRING, "starts_with", "Al%"),
        (Scalar.STRING, "contains", ""),
        (Scalar.BOOL, "=", True),
        (Scalar.DATE, "<", date(2026, 2, 14)),
        (Scalar.DATETIME, ">=", datetime(2026, 1, 10, 8, tzinfo=UTC)),
    ],
)
def test_values_of_the_column_type_pass_unchanged(
    scalar: Scalar, op: Comparison, value: object
) -> None:
    assert coerce(op, value, column(scalar)) == Exact(op, value)


def test_an_instant_has_the_millisecond_precision_of_its_column() -> None:
    given_instant = datetime(2026, 1, 10, 8, 0, 0, 123456, tzinfo=UTC)
    stored = datetime(2026, 1, 10, 8, 0, 0, 123000, tzinfo=UTC)
    assert coerce("=", given_instant, column(Scalar.DATETIME)) == Exact("=", stored)


LISTS: Sequence[tuple[Scalar, object, Coerced]] = [
    (Scalar.I32, 2.0, Exact("contains", 2)),
    (Scalar.I32, 2.7, ConstantTruth.FALSE),
    (Scalar.U32, -1, ConstantTruth.FALSE),
    (Scalar.F32, 0.1, Exact("contains", 0.10000000149011612)),
    (Scalar.F64, -0.0, Either(Exact("contains", 0.0), Exact("contains", -0.0))),
    (Scalar.STRING, "ice", Exact("contains", "ice")),
]


@pytest.mark.parametrize(("scalar", "value", "expected"), LISTS)
def test_a_member_of_a_list_is_looked_for_in_the_item_type(
    scalar: Scalar, value: object, expected: Coerced
) -> None:
    items = PropertyType(scalar=scalar, is_list=True)
    assert coerce("contains", value, items) == expected


def test_the_choices_of_an_in_list_are_typed_possible_and_distinct() -> None:
    assert coerce_choices((1, 2.0, 2, 2.7, None, 2**40), column(Scalar.I32)) == (1, 2)
    assert [math.copysign(1.0, x) for x in coerce_choices((0,), column(Scalar.F64))] == [1.0, -1.0]  # type: ignore[arg-type]
    assert coerce_choices((), column(Scalar.STRING)) == ()


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (Scalar.I32, True),
        (Scalar.F64, "1"),
        (Scalar.BOOL, 1),
        (Scalar.DATE, datetime(2026, 1, 1, tzinfo=UTC)),
        (Scalar.DATETIME, date(2026, 1, 1)),
        (Scalar.STRING, 5),
    ],
)
def test_a_value_the_checker_should_have_refused_is_a_bug(scalar: Scalar, value: object) -> None:
    with pytest.raises(InternalError, match=str(scalar)):
        coerce("=", value, column(scalar))
