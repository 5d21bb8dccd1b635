"""What a property can store."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.catalog.values import Misfit, fit


def scalar(name: str, **facts: Any) -> PropertyType:
    return PropertyType(scalar=Scalar(name), **facts)


VECTOR = PropertyType(scalar=Scalar.F32, dimension=2)
TAGS = PropertyType(scalar=Scalar.STRING, is_list=True)
MARKS = PropertyType(scalar=Scalar.I32, is_list=True)


@pytest.mark.parametrize(
    ("value", "target", "stored"),
    [
        (7.0, scalar("I64"), 7),
        (51, scalar("F64"), 51.0),
        (2**31 - 1, scalar("I32"), 2**31 - 1),
        (2**64 - 1, scalar("U64"), 2**64 - 1),
        (None, scalar("I32", nullable=True), None),
        ("base64:AA==", scalar("Blob"), "base64:AA=="),
        ((1, 2), VECTOR, (1.0, 2.0)),
        (["a"], TAGS, ("a",)),
        ((1.0,), MARKS, (1,)),
        ((), TAGS, ()),
        (date(2024, 1, 1), scalar("Date"), date(2024, 1, 1)),
        (
            datetime(2024, 1, 1, 1, 2, 3, 4567),
            scalar("DateTime"),
            datetime(2024, 1, 1, 1, 2, 3, 4000, UTC),
        ),
    ],
)
def test_a_value_is_stored_when_nothing_is_lost(
    value: object, target: PropertyType, stored: object
) -> None:
    found = fit(value, target)
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize(
    ("value", "target", "rule", "mention"),
    [
        (None, scalar("I32"), "W01", "required"),
        (2**31, scalar("I32"), "W02", "2147483648"),
        (-1, scalar("U32"), "W02", "-1"),
        (1e39, scalar("F32"), "W02", "F32"),
        (float("nan"), scalar("F64"), "W02", "finite"),
        (10**400, scalar("F64"), "W02", "range"),
        (7.5, scalar("I64"), "W03", "7.5"),
        (float("inf"), scalar("I64"), "W03", "inf"),
        (True, scalar("I32"), "W03", "I32"),
        (1, scalar("Bool"), "W03", "Bool"),
        ("x", scalar("I32"), "W03", "x"),
        (5, scalar("String"), "W03", "String"),
        (datetime(2024, 1, 1, tzinfo=UTC), scalar("Date"), "W03", "Date"),
        (date(2024, 1, 1), scalar("DateTime"), "W03", "DateTime"),
        ((1.0,), VECTOR, "W03", "2 numbers, 1"),
        ((1.0, None), VECTOR, "W03", "item 1"),
        ((1.0, float("inf")), VECTOR, "W02", "item 1"),
        ("ab", TAGS, "W03", "ab"),
        ((2**31,), MARKS, "W02", "item 0"),
    ],
)
def test_a_value_that_would_change_is_refused_by_rule(
    value: object, target: PropertyType, rule: str, mention: str
) -> None:
    found = fit(value, target)
    assert isinstance(found, Misfit)
    assert found.rule == rule
    assert mention in found.reason


def test_a_number_that_rounds_into_the_range_of_f32_is_kept() -> None:
    largest = 3.4028235677973366e38 - 1e23
    assert fit(largest, scalar("F32")) == largest
