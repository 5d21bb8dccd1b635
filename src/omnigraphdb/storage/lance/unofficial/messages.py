"""The wire form of Protocol Buffers messages, as far as Lance's manifests use it: numbers, and bytes of known length."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_BYTES = 2
_NEGATIVE = 1 << 64
"""A negative number is written as the number that is greater by this."""


class Field(NamedTuple):
    """One field of a message: its value, and how the field is written."""

    number: int
    value: int | bytes
    encoded: bytes


def read_fields(message: bytes) -> Iterator[Field]:
    """Read the fields of a message: numbers, and messages within it; any other field is a `ValueError`."""
    location = 0
    while location < len(message):
        start = location
        tag, location = _read_varint(message, location)
        value, location = _read_varint(message, location)
        if tag & 7 == _BYTES:
            content, location = location, location + value
            yield Field(tag >> 3, message[content:location], message[start:location])
        elif tag & 7 == 0:
            yield Field(tag >> 3, value, message[start:location])
        else:
            raise ValueError(f"a field of wire type {tag & 7}")


def find_run(message: bytes, number: int) -> tuple[int, int]:
    """Find where the messages with a number begin and end that follow one another; the same twice when there is none."""
    start, tag = 0, number << 3 | _BYTES
    while start < len(message) and message[start] != tag:
        # Nothing but messages comes before them.
        length, content = _read_varint(message, start + 1)
        if message[start] & 7 != _BYTES or message[start] >> 3 > number:
            return start, start
        start = content + length
    end = start
    while end < len(message) and message[end] == tag:
        length, content = _read_varint(message, end + 1)
        end = content + length
    return start, end


def _read_varint(message: bytes, location: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[location]
        value |= (byte & 0x7F) << shift
        location, shift = location + 1, shift + 7
        if byte < 0x80:
            return value, location


def message(number: int, payload: bytes) -> bytes:
    """Write a message, a text or bytes as a field."""
    return _varint(number << 3 | _BYTES) + _varint(len(payload)) + payload


def number(field: int, value: int) -> bytes:
    """Write a number as a field; a zero is not written, since a missing number means zero."""
    return _varint(field << 3) + _varint(value) if value else b""


def present_number(field: int, value: int) -> bytes:
    """Write a number whose absence means something else than zero."""
    return _varint(field << 3) + _varint(value)


def numbers(field: int, values: Iterable[int]) -> bytes:
    """Write numbers as one packed field; an empty list of numbers is written as nothing."""
    packed = b"".join(map(_varint, values))
    return message(field, packed) if packed else b""


_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _SMALL[value]
    value %= _NEGATIVE
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
