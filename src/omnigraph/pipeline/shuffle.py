"""Rows of a shuffle on their way to their buckets: in memory while they are few, then in files of this machine."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.ipc

from omnigraph.limits import SPILLED_BUCKETS
from omnigraph.pipeline.keys.buckets import by_bucket
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file of rows of one side: one batch per bucket that has some, and which bucket that is."""

    path: Path
    batches: Mapping[int, int]


class Gathering:
    """Collects the sides of a shuffle; past a bound they are sorted by bucket into files, which go at the end."""

    def __init__(
        self, sides: Mapping[str, pa.Schema], bytes_max: int, buckets: int | None = None
    ) -> None:
        self._sides = sides
        self._bytes_max = bytes_max
        self._buckets = buckets
        self._held: dict[str, list[tuple[int, pa.Table]]] = {side: [] for side in sides}
        self._bytes = 0
        self._kept: dict[str, list[_Kept]] = {side: [] for side in sides}
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._sorted: list[dict[str, pa.Table]] | None = None

    def __enter__(self) -> "Gathering":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._home is not None:
            self._home.cleanup()

    def add(self, side: str, rows: pa.Table, position: int) -> None:
        """Take rows in; those held in memory are given back in the order of their turns, whenever they came."""
        if rows.num_rows:
            self._held[side].append((position, rows))
            self._bytes += rows.nbytes
        if self._bytes > self._bytes_max:
            self._spill()

    def numbers(self) -> Sequence[int]:
        """The buckets that can be asked for, once everything is in."""
        if self._home is not None:
            self._spill()
            return range(self._buckets or SPILLED_BUCKETS)
        self._sorted = self._in_memory(self._buckets or 1)
        return range(len(self._sorted))

    def bucket(self, number: int) -> Mapping[str, pa.Table]:
        """Every side of a bucket; an empty table where there is nothing."""
        if self._sorted is not None:
            return self._sorted[number]
        return {
            side: pa.concat_tables(
                [schema.empty_table(), *(_read(kept, number) for kept in self._kept[side] if number in kept.batches)]
            )
            for side, schema in self._sides.items()
        }  # fmt: skip

    def _in_memory(self, buckets: int) -> list[dict[str, pa.Table]]:
        empty = {side: schema.empty_table() for side, schema in self._sides.items()}
        met = [dict(empty) for _ in range(buckets)]
        for side in self._sides:
            rows = self._take_side(side)
            if rows.num_rows:
                for number, part in by_bucket(rows, buckets):
                    met[number][side] = part
        return met

    def _take_side(self, side: str) -> pa.Table:
        tables = [rows for _, rows in sorted(self._held[side], key=lambda held: held[0])]
        schema = self._sides[side]
        self._held[side] = []
        return pa.concat_tables(tables).cast(schema) if tables else schema.empty_table()

    def _spill(self) -> None:
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="omnigraph-keys-")
        for number, side in enumerate(self._sides):
            rows = self._take_side(side)
            if rows.num_rows:
                path = Path(self._home.name) / f"{number}-{len(self._kept[side])}.arrow"
                self._kept[side].append(_write(path, rows, self._buckets or SPILLED_BUCKETS))
        self._bytes = 0


def _write(path: Path, rows: pa.Table, buckets: int) -> _Kept:
    batches: dict[int, int] = {}
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        for number, part in by_bucket(rows, buckets):
            batches[number] = len(batches)
            for batch in part.combine_chunks().to_batches():
                writer.write_batch(batch)
    return _Kept(path, batches)


def _read(kept: _Kept, number: int) -> pa.Table:
    with pa.OSFile(str(kept.path), "rb") as file:
        reader = pa.ipc.open_file(file)
        return pa.Table.from_batches([reader.get_batch(kept.batches[number])])
