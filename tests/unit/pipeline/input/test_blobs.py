"""Records on their way to another process: what properties take arrives as it is, of the rest what an error says of it."""

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import UserInputError
from omnigraphdb.pipeline.input.blobs import decode_records, encode_records, estimate_bytes
from omnigraphdb.pipeline.input.columns import json_fit


class Word(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


class Odd(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return {"a": 1}[name]

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __len__(self) -> int:
        return 1


class Pair(NamedTuple):
    a: int
    b: int


class Thing:
    def __str__(self) -> str:
        return "a thing"


EMPTY = encode_records([]).nbytes
PLAIN = [
    None, True, -5, 2**70, 1.5, float("inf"), "日本", "\ud800", b"\x00", [1, [2]], (1, "x"), {"a": {"b": None}},
    date(2024, 2, 29), datetime(2024, 1, 1, 10, tzinfo=UTC), datetime(2024, 1, 1, 10),
    datetime(2024, 1, 1, 10, tzinfo=timezone(timedelta(hours=-3))),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_arrive_as_they_are(value: Any) -> None:
    [found] = decode_records(encode_records([value]))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (Odd(), {"a": 1}),
        (Word.ONE, "one"),
        (np.str_("x"), "x"),
        (np.bytes_(b"x"), b"x"),
        (Pair(1, 2), [1, 2]),
        (datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Rome")), datetime(2024, 6, 30, 22, tzinfo=UTC)),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_what_properties_take_becomes_plain(value: Any, expected: Any) -> None:
    [found] = decode_records(encode_records([value]))
    assert found == expected


@pytest.mark.parametrize("scalar", [Scalar.STRING, Scalar.I64, Scalar.F64, Scalar.DATE])
@pytest.mark.parametrize(
    "value",
    [np.float64(1.5), np.int64(7), Number.ONE, Decimal("1.5"), Thing(), np.array([1, 2]), {1}],
    ids=lambda one: type(one).__name__,
)
def test_what_no_property_takes_is_refused_in_the_same_words(value: Any, scalar: Scalar) -> None:
    [found] = decode_records(encode_records([value]))
    target = PropertyType(scalar=scalar)
    assert json_fit(found, target) == json_fit(value, target)


@pytest.mark.parametrize("value", [print, Thing, np.random.default_rng])
def test_nothing_that_could_run_is_sent(value: Any) -> None:
    [found] = decode_records(encode_records([value]))
    assert not callable(found)


def test_a_parcel_that_names_anything_else_is_not_opened() -> None:
    forged = pa.table({"__records": pa.array([pickle.dumps([print])], pa.large_binary())})
    with pytest.raises(pickle.UnpicklingError, match=r"holds no builtins\.print"):
        decode_records(forged)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 10_000])
def test_some_records_are_weighed_for_all(count: int) -> None:
    records = [{"type": "Person", "data": {"name": f"{n:08}"}} for n in range(count)]
    assert estimate_bytes(records) == pytest.approx(
        encode_records(records).nbytes - EMPTY, rel=0.2, abs=20
    )


def test_a_value_nested_too_deeply_is_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(UserInputError, match="nested too deeply"):
        estimate_bytes([{"type": "Person", "data": {"name": value}}])
