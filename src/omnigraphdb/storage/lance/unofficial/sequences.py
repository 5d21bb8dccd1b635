"""The sequences that a manifest keeps for the rows of a fragment, as Protocol Buffers messages: row ids, and the versions
in which each row was created and last written."""

import json
from typing import Any, TypeAlias

import numpy as np
from lance.fragment import RowDatasetVersionMeta, RowIdMeta

from omnigraphdb.storage.lance.unofficial.messages import message, number, read_fields

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
    """Return the starts and ends of a sequence whose segments are all plain ranges; None for any other sequence."""
    bounds = [_range(segment.value) for segment in read_fields(encoded)]
    if not bounds or None in bounds:
        return None
    starts, ends = np.array(bounds, np.uint64).T
    return starts, ends


def _range(segment: int | bytes | None) -> tuple[int, int] | None:
    """Give the start and end of a segment; None when it is not a plain range."""
    span = _values(segment).get(1) if isinstance(segment, bytes) else None
    if not isinstance(span, bytes):
        return None
    ends = _values(span)
    return int(ends.get(1, 0)), int(ends.get(2, 0))


def _values(encoded: bytes) -> dict[int, int | bytes]:
    return {field.number: field.value for field in read_fields(encoded)}


# ---- versions


def versions_at(metadata: RowDatasetVersionMeta, offsets: Numbers) -> Numbers | None:
    """Read the versions of some rows of a fragment; None when they are not encoded as consecutive runs."""
    encoded = bytes(json.loads(metadata.json()).get("inline", ()))
    runs = [_values(run.value) for run in read_fields(encoded) if isinstance(run.value, bytes)]
    spans = [_range(run.get(1)) for run in runs]
    if not spans or None in spans:
        return None
    starts, ends = np.array(spans, np.uint64).T
    if starts[0] or not np.array_equal(starts[1:], ends[:-1]) or offsets.max(initial=0) >= ends[-1]:
        return None
    versions = np.array([run.get(2, 0) for run in runs], np.uint64)
    return versions[np.searchsorted(starts, offsets, side="right") - 1]


def encode_versions(versions: Numbers) -> bytes:
    """Encode one version per row as runs of rows with the same version.

    A sequence has runs; a run has a span and a version; a span is a segment, here always a range of row offsets.
    """
    starts = np.flatnonzero(np.diff(versions, prepend=versions[:1] + 1))
    ends = np.append(starts[1:], len(versions))
    runs = zip(starts.tolist(), ends.tolist(), versions[starts].tolist(), strict=True)
    return b"".join(encode_run(start, end, version) for start, end, version in runs)


def versions_of(versions: Numbers) -> RowDatasetVersionMeta:
    """Describe one version per row as a fragment names them."""
    return describe_versions(encode_versions(versions))


def describe_versions(encoded: bytes) -> RowDatasetVersionMeta:
    """Describe encoded versions as a fragment names them."""
    return RowDatasetVersionMeta.from_json(json.dumps({"inline": list(encoded)}))


def encode_row_ids(metadata: RowIdMeta) -> bytes:
    """Give the encoded row ids of a fragment; a message holds them in a quarter of the room of their JSON."""
    return bytes(json.loads(metadata.json())["Inline"])


def describe_row_ids(encoded: bytes) -> RowIdMeta:
    """Describe encoded row ids as a fragment names them."""
    decode: Any = RowIdMeta  # Its type forgets that `from_json` is a class method.
    metadata: RowIdMeta = decode.from_json(json.dumps({"Inline": list(encoded)}))
    return metadata


def encode_run(start: int, end: int, version: int) -> bytes:
    """Encode a run of row offsets with one version."""
    return message(1, message(1, encode_range(start, end)) + number(2, version))


def encode_range(start: int, end: int) -> bytes:
    """Encode a plain range as a segment."""
    return message(1, number(1, start) + number(2, end))
