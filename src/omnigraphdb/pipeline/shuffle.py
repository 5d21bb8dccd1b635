"""The shuffle in this process: rows go to buckets by the hash of their key, through files when they are many."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from omnigraphdb.limits import HASHED_ROWS, SPILLED_BUCKETS
from omnigraphdb.pipeline.runner import KEY
from omnigraphdb.values import dataclass

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


# ---- buckets: equal keys have the same bucket, in every process


def buckets_of(keys: pa.Array, buckets: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Number the bucket of every key: a text and its bytes have the same; NULL has bucket 0."""
    parts = [
        _hash_keys(keys.slice(start, HASHED_ROWS)) for start in range(0, len(keys), HASHED_ROWS)
    ]
    hashes = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    return (hashes % np.uint64(buckets)).astype(np.int64)


def split_by_bucket(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of every bucket that has some, in their order."""
    if buckets == 1 or not rows.num_rows:
        yield 0, rows
        return
    keys = rows[KEY]
    joined = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
    numbers = buckets_of(joined, buckets)
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    sorted_rows = rows.take(pa.array(order))
    for number, start, end in zip(
        present.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True
    ):
        yield number, sorted_rows.slice(start, end - start)


def _hash_keys(keys: pa.Array) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Hash every key: its bytes weighted by their index, summed, then mixed."""
    narrow = keys.cast(pa.large_binary())
    _, offsets, values = narrow.buffers()
    ends = np.frombuffer(offsets, np.int64)[narrow.offset : narrow.offset + len(narrow) + 1]
    lengths = np.diff(ends)
    text = np.frombuffer(values or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    indexes = np.arange(len(text), dtype=np.int64) - np.repeat(ends[:-1] - ends[0], lengths)
    with np.errstate(over="ignore"):
        weights = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR, np.uint64))
        sums = np.concatenate([[np.uint64(0)], np.cumsum((text + np.uint64(1)) * weights[indexes])])
        plain = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
        mixed: np.ndarray[Any, np.dtype[np.uint64]] = (plain ^ (plain >> _SHIFT)) * _FACTOR
    mixed ^= mixed >> np.uint64(32)
    if narrow.null_count:
        mixed[~narrow.is_valid().to_numpy(zero_copy_only=False)] = 0
    return mixed


# ---- the rows of a shuffle


@dataclass(frozen=True, slots=True)
class _BucketFile:
    """A file of rows of one side: one batch for each bucket that has rows, and the index of that batch."""

    path: Path
    batches: Mapping[int, int]


class ShuffleBuffer:
    """Collects the sides of a shuffle in memory; past a bound it writes them to temporary files, sorted by bucket."""

    def __init__(
        self,
        sides: Mapping[str, pa.Schema],
        bytes_max: int,
        buckets: int | None = None,
        spilled_buckets: int = SPILLED_BUCKETS,
    ) -> None:
        self._sides = sides
        self._bytes_max = bytes_max
        self._buckets = buckets
        self._spilled_buckets = buckets or spilled_buckets
        self._buffered: dict[str, list[tuple[int, pa.Table]]] = {side: [] for side in sides}
        self._bytes = 0
        self._files: dict[str, list[_BucketFile]] = {side: [] for side in sides}
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._in_memory: list[dict[str, pa.Table]] | None = None

    def __enter__(self) -> "ShuffleBuffer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._directory is not None:
            self._directory.cleanup()

    def add(self, side: str, rows: pa.Table, position: int) -> None:
        """Add rows of a side; rows in memory are sorted by `position`, whenever they are added."""
        if rows.num_rows:
            self._buffered[side].append((position, rows))
            self._bytes += rows.nbytes
        if self._bytes > self._bytes_max:
            self._spill()

    def list_buckets(self) -> Sequence[int]:
        """List the buckets; call it when all rows are added."""
        if self._directory is not None:
            self._spill()
            return range(self._spilled_buckets)
        self._in_memory = self._sort_in_memory(self._buckets or 1)
        return range(len(self._in_memory))

    def read_bucket(self, number: int) -> Mapping[str, pa.Table]:
        """Read every side of a bucket; a side without rows is an empty table."""
        if self._in_memory is not None:
            return self._in_memory[number]
        return {
            side: pa.concat_tables(
                [schema.empty_table(), *(_read(file, number) for file in self._files[side] if number in file.batches)]
            )
            for side, schema in self._sides.items()
        }  # fmt: skip

    def _sort_in_memory(self, buckets: int) -> list[dict[str, pa.Table]]:
        empty = {side: schema.empty_table() for side, schema in self._sides.items()}
        sorted_rows = [dict(empty) for _ in range(buckets)]
        for side in self._sides:
            rows = self._take_side(side)
            if rows.num_rows:
                for number, part in split_by_bucket(rows, buckets):
                    sorted_rows[number][side] = part
        return sorted_rows

    def _take_side(self, side: str) -> pa.Table:
        tables = [rows for _, rows in sorted(self._buffered[side], key=lambda pair: pair[0])]
        schema = self._sides[side]
        self._buffered[side] = []
        return pa.concat_tables(tables).cast(schema) if tables else schema.empty_table()

    def _spill(self) -> None:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="omnigraph-keys-")
        for number, side in enumerate(self._sides):
            rows = self._take_side(side)
            if rows.num_rows:
                path = Path(self._directory.name) / f"{number}-{len(self._files[side])}.arrow"
                self._files[side].append(_write(path, rows, self._spilled_buckets))
        self._bytes = 0


def _write(path: Path, rows: pa.Table, buckets: int) -> _BucketFile:
    batches: dict[int, int] = {}
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        for number, part in split_by_bucket(rows, buckets):
            batches[number] = len(batches)
            for batch in part.combine_chunks().to_batches():
                writer.write_batch(batch)
    return _BucketFile(path, batches)


def _read(file: _BucketFile, number: int) -> pa.Table:
    with pa.OSFile(str(file.path), "rb") as source:
        reader = pa.ipc.open_file(source)
        return pa.Table.from_batches([reader.get_batch(file.batches[number])])
