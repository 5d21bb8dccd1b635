"""The text, JSON, column and key of a value."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.catalog.values import (
    composite_id,
    format_date,
    format_datetime,
    json_column,
    json_value,
    key_text,
    key_texts,
    parse_date,
    parse_datetime,
    to_arrow,
)


def scalar(name: str) -> PropertyType:
    return PropertyType(scalar=Scalar(name))


def listed(name: str) -> PropertyType:
    return PropertyType(scalar=Scalar(name), is_list=True)


VECTOR = PropertyType(scalar=Scalar.F32, dimension=2)
NOON = datetime(2024, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01T10:00:00Z", NOON),
        ("2024-01-01t10:00:00z", NOON),
        ("2024-01-01 10:00:00", NOON),
        ("2024-01-01T12:00:00+02:00", NOON),
        ("2024-01-01T05:30:00-04:30", NOON),
        ("2024-01-01 10:00:00.123456Z", NOON + timedelta(milliseconds=123)),
        ("2024-01-01T10:00:00.9999999999Z", NOON + timedelta(milliseconds=999)),
        ("2024-01-01T10:00:00.5Z", NOON + timedelta(milliseconds=500)),
        ("2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        ("1969-12-31T23:59:59.999Z", datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
    ],
)
def test_an_instant_is_read_as_utc_milliseconds(text: str, expected: datetime) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "2024-02-30", "2024-01-01T", "2024-01-01T24:00:00Z", "2024-01-01T10:00:60Z",
        "2024-01-01T10:00:00+24:00", "2024-01-01T10:00:00+02:60", "2024-01-01T10:00:00 Z",
        "2024-01-01T10:00:00Z\n", "٢٠٢٤-01-01", "0001-01-01T00:00:00+01:00", "2024-1-1",
    ],
)  # fmt: skip
def test_malformed_text_is_no_instant(text: str) -> None:
    assert parse_datetime(text) is None


@pytest.mark.parametrize("text", ["soon", "2023-02-30", "01.02.2024", "2024-1-1", "2024-01-01 "])
def test_malformed_text_is_no_day(text: str) -> None:
    assert parse_date(text) is None


@given(st.dates())
def test_a_day_survives_its_text(day: date) -> None:
    assert parse_date(format_date(day)) == day


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_its_text_to_the_millisecond(instant: datetime) -> None:
    again = parse_datetime(format_datetime(instant))
    assert again == instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def test_an_instant_is_spelled_with_its_milliseconds() -> None:
    assert format_datetime(NOON) == "2024-01-01T10:00:00.000Z"
    assert format_datetime(NOON.replace(microsecond=500_000)) == "2024-01-01T10:00:00.500Z"


def test_an_instant_with_an_offset_is_shown_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=9)))
    assert format_datetime(there) == "2024-01-01T10:00:00.000Z"


def test_a_column_of_instants_keeps_the_time_of_day() -> None:
    column = to_arrow([NOON, None], scalar("DateTime"))
    assert column.type == pa.date64()
    assert column.cast(pa.int64()).to_pylist() == [1704103200000, None]


def test_lists_of_instants_keep_the_time_of_day() -> None:
    column = to_arrow([(NOON,), None, ()], listed("DateTime"))
    assert json_column(column, listed("DateTime")) == [["2024-01-01T10:00:00.000Z"], None, []]


# ---- JSON


JSON_CASES = [
    (scalar("String"), "x", "x"),
    (scalar("Bool"), True, True),
    (scalar("I64"), 9007199254740993, 9007199254740993),
    (scalar("U64"), 18446744073709551615, 18446744073709551615),
    (scalar("F32"), 0.5, 0.5),
    (scalar("F64"), 0.1, 0.1),
    (scalar("F64"), float("inf"), "Infinity"),
    (scalar("F64"), float("-inf"), "-Infinity"),
    (scalar("F64"), float("nan"), "NaN"),
    (scalar("Date"), date(2010, 5, 1), "2010-05-01"),
    (scalar("DateTime"), NOON, "2024-01-01T10:00:00.000Z"),
    (listed("String"), ("b", "a"), ["b", "a"]),
    (listed("Date"), (date(2024, 2, 29),), ["2024-02-29"]),
    (VECTOR, (0.5, -1.5), [0.5, -1.5]),
    (VECTOR, (0.5, float("nan")), [0.5, None]),
    (scalar("I32"), None, None),
]


@pytest.mark.parametrize(("value_type", "value", "expected"), JSON_CASES)
def test_one_value_has_one_json_spelling(
    value_type: PropertyType, value: object, expected: object
) -> None:
    assert json_value(value, value_type) == expected


@pytest.mark.parametrize(("value_type", "value", "expected"), JSON_CASES)
def test_a_column_is_spelled_like_its_values(
    value_type: PropertyType, value: object, expected: object
) -> None:
    column = to_arrow([value, None, value], value_type)
    assert json_column(column, value_type) == [expected, None, expected]
    assert json_column(column[1:], value_type) == [None, expected]
    assert (
        json_column(pa.chunked_array([column, column]), value_type)
        == [expected, None, expected] * 2
    )


def test_a_32_bit_float_is_widened_exactly_and_short_on_the_wire() -> None:
    column = to_arrow([0.1], scalar("F32"))
    stored = column.to_pylist()[0]
    assert json_column(column, scalar("F32")) == [0.10000000149011612]
    assert json_column(column, scalar("F32"), wire=True) == [0.1]
    assert json_value(stored, scalar("F32")) == 0.10000000149011612
    assert json_value(stored, scalar("F32"), wire=True) == 0.1


def test_the_wire_spells_long_integers_as_text_and_short_ones_as_numbers() -> None:
    column = to_arrow([9007199254740993, -9007199254740992, 7], scalar("I64"))
    expected = ["9007199254740993", "-9007199254740992", 7]
    assert json_column(column, scalar("I64"), wire=True) == expected
    assert [json_value(v, scalar("I64"), wire=True) for v in column.to_pylist()] == expected


def test_days_outside_the_calendar_of_python_still_have_a_spelling() -> None:
    column = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    assert json_column(column, scalar("Date")) == ["10183-09-21"]


# ---- keys


KEY_CASES = [
    (scalar("String"), "abc", "abc"),
    (scalar("I64"), -7, "-7"),
    (scalar("U64"), 18446744073709551615, "18446744073709551615"),
    (scalar("Bool"), False, "false"),
    (scalar("Date"), date(2024, 1, 1), "19723"),
    (scalar("DateTime"), datetime(2024, 1, 1, tzinfo=UTC), "1704067200000"),
    (scalar("F64"), 1.0, "1"),
    (scalar("F64"), 0.1, "0.1"),
    (scalar("F32"), 0.1, "0.1"),
    (scalar("F64"), 1e21, "1000000000000000000000"),
    (scalar("F64"), 1e-7, "0.0000001"),
    (scalar("F64"), -0.0, "0"),
    (scalar("F32"), -0.0, "0"),
    (scalar("F64"), float("nan"), None),
    (scalar("F64"), float("-inf"), None),
    (scalar("String"), None, None),
]


@pytest.mark.parametrize(("value_type", "value", "expected"), KEY_CASES)
def test_a_key_value_has_one_canonical_text(
    value_type: PropertyType, value: object, expected: str | None
) -> None:
    assert key_text(value, value_type) == expected
    assert key_texts(to_arrow([value, value], value_type), value_type).to_pylist() == [expected] * 2


@given(st.lists(st.floats(width=32)))
def test_column_and_value_agree_on_the_key_text_of_32_bit_floats(values: list[float]) -> None:
    column = to_arrow(values, scalar("F32"))
    expected = [key_text(value, scalar("F32")) for value in column.to_pylist()]
    assert key_texts(column, scalar("F32")).to_pylist() == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_key_text_of_a_float_gives_the_float_back(value: float) -> None:
    text = key_text(value, scalar("F64"))
    assert text is not None
    assert float(text) == value
    assert "e" not in text.lower()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_key_text_of_a_32_bit_float_gives_that_float_back(value: float) -> None:
    text = key_text(value, scalar("F32"))
    assert text is not None
    assert np.float32(text) == np.float32(value)


def test_a_composite_id_is_a_compact_json_array() -> None:
    assert composite_id(["NLRTM", "2026"]) == '["NLRTM","2026"]'
    assert composite_id(['a"b', "ü"]) == '["a\\"b","ü"]'
