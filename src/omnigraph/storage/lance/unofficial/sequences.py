"""The sequences that a manifest keeps for the rows of a fragment, as Protocol Buffers messages: row ids, and the versions
in which each row was created and last written."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from lance.fragment import RowDatasetVersionMeta, RowIdMeta

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


def row_ids_at(metadata: RowIdMeta, offsets: Numbers) -> Numbers | None:
    """Read the row ids of some rows of a fragment; None when they are not encoded as plain ranges.

    The row ids of rows that one load wrote are one range.
    """
    ranges = _ranges(bytes(json.loads(metadata.json()).get("Inline", ())))
    if ranges is None:
        return None
    starts, ends = ranges
    before = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.uint64)
    part = np.searchsorted(before, offsets, side="right") - 1
    return starts[part] + (offsets - before[part])


def _ranges(encoded: bytes) -> tuple[Numbers, Numbers] | None:
    """Give the starts and ends of a sequence whose segments are all plain ranges; None for any other sequence."""
    found = [_range(segment) for _, segment in _fields(encoded)]
    if not found or None in found:
        return None
    starts, ends = np.array(found, np.uint64).T
    return starts, ends


def _range(segment: int | bytes | None) -> tuple[int, int] | None:
    """Give the start and end of a segment; None when it is not a plain range."""
    span = dict(_fields(segment)).get(1) if isinstance(segment, bytes) else None
    if not isinstance(span, bytes):
        return None
    ends = dict(_fields(span))
    return int(ends.get(1, 0)), int(ends.get(2, 0))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read the fields of a message: numbers, and messages within it."""
    location = 0
    while location < len(message):
        tag, location = _read_varint(message, location)
        value, location = _read_varint(message, location)
        if tag & 7 == 2:
            yield tag >> 3, message[location : location + value]
            location += value
        else:
            yield tag >> 3, value


def _read_varint(message: bytes, location: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[location]
        value |= (byte & 0x7F) << shift
        location, shift = location + 1, shift + 7
        if byte < 0x80:
            return value, location


# ---- versions


def versions_at(metadata: RowDatasetVersionMeta, offsets: Numbers) -> Numbers | None:
    """Read the versions of some rows of a fragment; None when they are not encoded as consecutive runs."""
    encoded = bytes(json.loads(metadata.json()).get("inline", ()))
    runs = [dict(_fields(run)) for _, run in _fields(encoded) if isinstance(run, bytes)]
    spans = [_range(run.get(1)) for run in runs]
    if not spans or None in spans:
        return None
    starts, ends = np.array(spans, np.uint64).T
    if starts[0] or not np.array_equal(starts[1:], ends[:-1]) or offsets.max(initial=0) >= ends[-1]:
        return None
    versions = np.array([run.get(2, 0) for run in runs], np.uint64)
    return versions[np.searchsorted(starts, offsets, side="right") - 1]


def versions_of(versions: Numbers) -> RowDatasetVersionMeta:
    """Encode one version per row as runs of rows with the same version.

    A sequence has runs; a run has a span and a version; a span is a segment, here always a range of row offsets.
    """
    starts = np.flatnonzero(np.diff(versions, prepend=versions[:1] + 1))
    ends = np.append(starts[1:], len(versions))
    runs = zip(starts.tolist(), ends.tolist(), versions[starts].tolist(), strict=True)
    encoded = b"".join(_message(1, _run(start, end, version)) for start, end, version in runs)
    return RowDatasetVersionMeta.from_json(json.dumps({"inline": list(encoded)}))


def _run(start: int, end: int, version: int) -> bytes:
    offsets = _number(1, start) + _number(2, end)
    return _message(1, _message(1, offsets)) + _number(2, version)


def _message(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def _number(field: int, value: int) -> bytes:
    # A zero is not written: a missing number means zero.
    return _varint(field << 3) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
