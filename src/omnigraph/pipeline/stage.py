"""Staging by many hands: splits become fragments, replaced rows are marked, and only receipts come back."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks import Job
from omnigraph.pipeline.input.read import POSITION, positions_in, split_rows, with_ids, without
from omnigraph.pipeline.input.splits import Split
from omnigraph.pipeline.messages import ANSWERS, Discarded, Piece, WroteFragments, encode
from omnigraph.pipeline.runner import Each
from omnigraph.storage.arrow import column
from omnigraph.storage.lance.search import ROW_ID
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.storage.store import Store
from omnigraph.storage.tables import TableAt, Written
from omnigraph.values import dataclass

Pieces = Mapping[tuple[TableKey, int], tuple[Piece, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSplit:
    """Splits of one table that become fragments together, and which of their rows count or replace others."""

    number: int
    table_key: TableKey
    at: TableAt
    splits: tuple[Split, ...]
    superseded: tuple[tuple[Piece, ...], ...]
    matched: tuple[tuple[Piece, ...], ...]

    @property
    def bytes(self) -> int:
        """About how much there is to write."""
        return sum(split.bytes for split in self.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSplit:
    """Rows of some fragments that are replaced."""

    number: int
    table_key: TableKey
    at: TableAt
    pieces: tuple[Piece, ...]
    bytes: int = 0
    """Nothing, against what is written."""


def write_splits(
    splits: Sequence[Split],
    sites: Mapping[TableKey, TableAt],
    superseded: Pieces,
    matched: Pieces,
    workers: int | None,
) -> list[WriteSplit]:
    """Put splits of a table that follow one another together, so that each of many hands has its share."""
    found: list[WriteSplit] = []
    for table, group in groupby(splits, key=_table):
        own = list(group)
        size = _share(len(own), workers)
        for start in range(0, len(own), size):
            run = tuple(own[start : start + size])
            found.append(
                WriteSplit(
                    number=len(found),
                    table_key=table,
                    at=sites[table],
                    splits=run,
                    superseded=tuple(superseded.get((table, split.number), ()) for split in run),
                    matched=tuple(matched.get((table, split.number), ()) for split in run),
                )
            )
    return found


def _share(count: int, workers: int | None) -> int:
    """How many of them one hand takes; one when there are hands enough."""
    return 1 if workers is None else max(1, -(-count // max(1, workers)))


def _table(split: Split) -> TableKey:
    if split.table_key is None:
        raise InternalError(f"split {split.number} has no table")
    return split.table_key


def stage_step(job: Job, writes: Sequence[WriteSplit], marks: Sequence[MarkSplit]) -> Each:
    """Write the rows of every split, and mark those that they replace."""
    return Each(
        name="stage",
        splits=(*writes, *marks),
        run=Stage(job),
        out=ANSWERS,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """Writes the fragments of some splits, rows that replace others apart from new ones; or marks replaced rows."""

    job: Job

    def __call__(self, split: WriteSplit | MarkSplit) -> Iterator[pa.Table]:
        # Everything is decided: nobody asks for ids any more.
        self.job.let_go()
        match split:
            case WriteSplit():
                yield self._write(split)
            case MarkSplit():
                yield self._mark(split)

    def _mark(self, split: MarkSplit) -> pa.Table:
        store = self.job.store()
        addresses = column(positions_in(split.pieces, store), ROW_ADDRESS)
        marked = store.tables.mark(split.at, addresses)
        return encode([Discarded(number=split.number, table_key=split.table_key, marked=marked)])

    def _write(self, split: WriteSplit) -> pa.Table:
        store = self.job.store()
        written: list[Written] = []
        if any(split.matched):
            for offset, _ in enumerate(split.splits):
                written += self._replacing(split, offset, store)
        fresh = store.tables.write(split.at, self._fresh(split, store))
        if fresh.rows:
            written.append(fresh)
        return encode(
            [WroteFragments(number=split.number, table_key=split.table_key, written=tuple(written))]
        )

    def _rows(self, split: WriteSplit, offset: int, store: Store) -> pa.Table:
        type_ = self.job.type(split.table_key)
        names = [name for name in type_.schema.names if name != "id"]
        rows = split_rows(split.splits[offset], type_, names, store)
        return without(rows, split.superseded[offset], store)

    def _fresh(self, split: WriteSplit, store: Store) -> pa.RecordBatchReader:
        """Rows that replace none, as a stream: no more than one split is held at a time."""
        schema = self.job.type(split.table_key).schema

        def batches() -> Iterator[pa.RecordBatch]:
            for offset, pieces in enumerate(split.matched):
                rows = without(self._rows(split, offset, store), pieces, store)
                whole = with_ids(rows, self.job.seed).select(schema.names).cast(schema)
                yield from whole.to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _replacing(self, split: WriteSplit, offset: int, store: Store) -> Iterator[Written]:
        """Rows that replace others, under the row ids of those, in the order of these."""
        if not split.matched[offset]:
            return
        schema = self.job.type(split.table_key).schema
        matched = positions_in(split.matched[offset], store).sort_by(ROW_ID)
        rows = self._rows(split, offset, store)
        places = pc.index_in(matched[POSITION], value_set=column(rows, POSITION))
        chosen = rows.take(places).select(schema.names).cast(schema)
        yield store.tables.write(split.at, chosen, row_ids=column(matched, ROW_ID))


def mark_splits(
    sites: Mapping[TableKey, TableAt], replaced: Pieces, workers: int | None
) -> list[MarkSplit]:
    """Deal fragments out to many hands; one fragment is marked by one of them."""
    found: list[MarkSplit] = []
    for table, fragments in groupby(sorted(replaced), key=lambda key: key[0]):
        own = list(fragments)
        size = _share(len(own), workers)
        for start in range(0, len(own), size):
            pieces = tuple(piece for key in own[start : start + size] for piece in replaced[key])
            found.append(
                MarkSplit(number=len(found), table_key=table, at=sites[table], pieces=pieces)
            )
    return found
