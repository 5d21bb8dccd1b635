"""Binding what a caller gave to what a query declares."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import Parameter
from omnigraphdb.compile.params import bind
from omnigraphdb.errors import ParamError

VECTOR = PropertyType(scalar=Scalar.F32, dimension=3)


def scalar(name: str, **facts: Any) -> PropertyType:
    return PropertyType(scalar=Scalar(name), **facts)


def bound(declared: PropertyType, value: object) -> object:
    return bind({"x": Parameter(name="x", type=declared)}, {"x": value})["x"]


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (scalar("String"), "a", "a"),
        (scalar("I32"), 7, 7),
        (scalar("I32"), "-7", -7),
        (scalar("I64"), "9223372036854775807", 2**63 - 1),
        (scalar("I64"), np.int64(7), 7),
        (scalar("U64"), 2**64 - 1, 2**64 - 1),
        (scalar("U64"), "18446744073709551615", 2**64 - 1),
        (scalar("F64"), 3, 3.0),
        (scalar("F64"), np.float32(0.5), 0.5),
        (scalar("F32"), 0.1, 0.1),
        (scalar("Bool"), True, True),
        (scalar("Bool"), np.bool_(False), False),
        (scalar("Date"), "2020-01-31", date(2020, 1, 31)),
        (scalar("Date"), date(2020, 1, 31), date(2020, 1, 31)),
        (scalar("Date"), np.datetime64("2020-01-31"), date(2020, 1, 31)),
        (scalar("DateTime"), "2020-01-31T10:00:00+02:00", datetime(2020, 1, 31, 8, tzinfo=UTC)),
        (scalar("DateTime"), datetime(2020, 1, 31, 8), datetime(2020, 1, 31, 8, tzinfo=UTC)),
        (scalar("DateTime"), date(2020, 1, 31), datetime(2020, 1, 31, tzinfo=UTC)),
        (
            scalar("DateTime"),
            np.datetime64("2020-01-31T08:00:00.123456789"),
            datetime(2020, 1, 31, 8, 0, 0, 123000, UTC),
        ),
        (scalar("Blob"), "base64:AA==", "base64:AA=="),
        (scalar("Blob"), b"\x00", "base64:AA=="),
        (scalar("String", is_list=True), ["a", "b"], ("a", "b")),
        (scalar("I64", is_list=True), np.array([1, 2]), (1, 2)),
        (scalar("Date", is_list=True), np.array(["2020-01-31"], "datetime64[D]"), (date(2020, 1, 31),)),
        (scalar("I64", is_list=True), pa.array([1, 2]), (1, 2)),
        (scalar("F64"), pa.scalar(0.5), 0.5),
        (VECTOR, [1, 2.0, 3], (1.0, 2.0, 3.0)),
        (VECTOR, (0.5, 1.5, 2.5), (0.5, 1.5, 2.5)),
        (VECTOR, np.array([1, 2, 3], np.float32), (1.0, 2.0, 3.0)),
        (scalar("I32", nullable=True), None, None),
    ],
)  # fmt: skip
def test_a_natural_value_binds(declared: PropertyType, value: object, expected: object) -> None:
    found = bound(declared, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("declared", "value", "code"),
    [
        (scalar("String"), 5, "P01"),
        (scalar("I32"), 4.5, "P01"),
        (scalar("I32"), 4.0, "P01"),
        (scalar("I32"), "4.0", "P01"),
        (scalar("I32"), "", "P01"),
        (scalar("I32"), "-", "P01"),
        (scalar("I32"), "٤", "P01"),
        (scalar("I32"), True, "P01"),
        (scalar("I32"), 2**31, "P02"),
        (scalar("U32"), -1, "P01"),
        (scalar("U64"), 2**64, "P02"),
        (scalar("I64"), "9" * 10_000, "P02"),
        (scalar("F64"), "1.5", "P01"),
        (scalar("F64"), True, "P01"),
        (scalar("F64"), float("nan"), "P01"),
        (scalar("F64"), 10**400, "P02"),
        (scalar("F32"), 1e39, "P02"),
        (scalar("Bool"), "true", "P01"),
        (scalar("Bool"), 1, "P01"),
        (scalar("Date"), "tomorrow", "P03"),
        (scalar("Date"), 19723, "P01"),
        (scalar("Date"), datetime(2020, 1, 1), "P01"),
        (scalar("DateTime"), "noon", "P03"),
        (scalar("DateTime"), 1704067200000, "P01"),
        (scalar("Blob"), 5, "P01"),
        (scalar("String", is_list=True), "a", "P01"),
        (scalar("String", is_list=True), ["a", None], "P01"),
        (scalar("I32", is_list=True), [1, 2**31], "P02"),
        (scalar("Date", is_list=True), ["soon"], "P03"),
        (VECTOR, [1.0], "P04"),
        (VECTOR, "abc", "P01"),
        (VECTOR, [1.0, "x", 2.0], "P01"),
        (VECTOR, [1.0, float("inf"), 2.0], "P01"),
        (VECTOR, [1.0, 1e39, 2.0], "P02"),
        (scalar("I32"), None, "P05"),
        (scalar("I32"), {"a": 1}, "P01"),
    ],
)
def test_an_ill_typed_value_is_refused_by_code(
    declared: PropertyType, value: object, code: str
) -> None:
    with pytest.raises(ParamError) as caught:
        bound(declared, value)
    assert caught.value.code == code
    assert caught.value.details["param"]["name"] == "x"
    assert caught.value.details["param"]["code"] == code
    assert "'x'" in str(caught.value)
    assert str(declared) in str(caught.value)


def test_the_error_of_a_vector_names_both_lengths() -> None:
    with pytest.raises(ParamError, match=r"3 numbers.*an array of 1"):
        bound(VECTOR, [1.0])


DECLARED = {
    "age": Parameter(name="age", type=scalar("I32")),
    "since": Parameter(name="since", type=scalar("Date", nullable=True)),
}


def test_an_optional_parameter_may_be_left_out() -> None:
    assert bind(DECLARED, {"age": 4}) == {"age": 4, "since": None}


def test_no_object_at_all_means_no_parameters() -> None:
    assert bind({}, None) == {}


def test_a_missing_parameter_is_refused_and_the_declared_ones_are_listed() -> None:
    with pytest.raises(ParamError) as caught:
        bind(DECLARED, None)
    assert caught.value.code == "P06"
    assert "$age: I32, $since: Date?" in str(caught.value)


@pytest.mark.parametrize("given", [{"agee": 4}, {"$age": 4}])
def test_a_missing_parameter_is_found_behind_a_slip(given: dict[str, int]) -> None:
    with pytest.raises(ParamError, match="did you mean") as caught:
        bind({"age": DECLARED["age"]}, {**given, "aged": 1})
    assert caught.value.code == "P06"


def test_undeclared_names_are_ignored() -> None:
    assert bind(DECLARED, {"age": 4, "unused": [1]}) == {"age": 4, "since": None}


def test_undeclared_names_are_refused_when_strict() -> None:
    with pytest.raises(ParamError, match="did you mean 'age'") as caught:
        bind(DECLARED, {"age": 4, "aeg": 5}, strict=True)
    assert (caught.value.code, caught.value.name) == ("P01", "aeg")


def test_an_object_is_refused_even_under_an_undeclared_name() -> None:
    with pytest.raises(ParamError) as caught:
        bind(DECLARED, {"age": 4, "extra": {"a": 1}})
    assert caught.value.code == "P01"


def test_parameters_that_are_no_object_are_refused() -> None:
    given: Any = [("age", 4)]
    with pytest.raises(ParamError) as caught:
        bind(DECLARED, given)
    assert caught.value.code == "P01"
