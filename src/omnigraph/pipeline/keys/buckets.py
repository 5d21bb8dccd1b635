"""Buckets of keys: equal keys meet in one bucket, in every process alike."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.limits import HASHED_ROWS
from omnigraph.pipeline.runner import KEY

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def buckets_of(keys: pa.Array, buckets: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Number the bucket of every key: a text and its bytes have the same; NULL has bucket 0."""
    parts = [_hashes(keys.slice(start, HASHED_ROWS)) for start in range(0, len(keys), HASHED_ROWS)]
    hashes = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    return (hashes % np.uint64(buckets)).astype(np.int64)


def by_bucket(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Give the rows of every bucket that has some, in the order they came."""
    if buckets == 1 or not rows.num_rows:
        yield 0, rows
        return
    numbers = buckets_of(_whole(rows), buckets)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    sorted_rows = rows.take(pa.array(order))
    for number, start, end in zip(
        found.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True
    ):
        yield number, sorted_rows.slice(start, end - start)


def _whole(rows: pa.Table) -> pa.Array:
    keys = rows[KEY]
    return pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)


def _hashes(keys: pa.Array) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """One number per key: its bytes weighted by their places, then mixed."""
    narrow = keys.cast(pa.large_binary())
    _, offsets, values = narrow.buffers()
    ends = np.frombuffer(offsets, np.int64)[narrow.offset : narrow.offset + len(narrow) + 1]
    lengths = np.diff(ends)
    text = np.frombuffer(values or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    places = np.arange(len(text), dtype=np.int64) - np.repeat(ends[:-1] - ends[0], lengths)
    with np.errstate(over="ignore"):
        weights = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR, np.uint64))
        sums = np.concatenate([[np.uint64(0)], np.cumsum((text + np.uint64(1)) * weights[places])])
        plain = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
        mixed: np.ndarray[Any, np.dtype[np.uint64]] = (plain ^ (plain >> _SHIFT)) * _FACTOR
    mixed ^= mixed >> np.uint64(32)
    if narrow.null_count:
        mixed[~narrow.is_valid().to_numpy(zero_copy_only=False)] = 0
    return mixed
