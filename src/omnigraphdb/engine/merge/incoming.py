"""The rows that a merge by steps brings into a table: tasks read them from the source, for the rules and as fragments."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.commit.addressed import AddressedRows, mix_properties
from omnigraphdb.commit.constraints.report import Violations
from omnigraphdb.commit.constraints.values import value_violations
from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.engine.merge.prepare import fill_required, list_checked_columns
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import (
    COMPARE_SPLIT_ROWS,
    MERGED_FRAGMENT_BYTES,
    SIDE_BATCH_BYTES,
    SIDE_BATCH_ROWS,
)
from omnigraphdb.pipeline.checks import VALUES, LoadSpec, make_finding, spill_findings
from omnigraphdb.pipeline.input.read import POSITION, read_slices
from omnigraphdb.pipeline.input.splits import cut_runs, first_position
from omnigraphdb.pipeline.messages import (
    MESSAGES,
    IdRange,
    ScratchSlice,
    ScratchSlices,
    SplitCount,
    WroteFragments,
    encode,
)
from omnigraphdb.pipeline.runner import Each
from omnigraphdb.pipeline.stage import MarkSplit, Stage, write_successors
from omnigraphdb.storage.addresses import row_bytes, stream_rows_at, whole_fragments
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.values import TableAt, Written
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingSplit:
    """Rows of some fragments of the source that come to the target, or rows that take properties from both sides."""

    number: int
    table_key: TableKey
    source: TableAt
    target: TableAt
    new: tuple[ScratchSlice, ...] = ()
    changed: tuple[ScratchSlice, ...] = ()
    mixed: tuple[ScratchSlice, ...] = ()
    properties: tuple[str, ...] = ()
    """The properties that mixed rows mark."""

    @property
    def rows(self) -> int:
        """The number of rows that come."""
        return sum(scratch_slice.rows for scratch_slice in (*self.new, *self.changed, *self.mixed))


def cut_incoming(
    table: TableKey,
    source: TableAt,
    target: TableAt,
    new: ScratchSlices,
    changed: ScratchSlices,
    mixed: ScratchSlices,
    properties: tuple[str, ...],
    first: int,
) -> list[IncomingSplit]:
    """Cut the rows of a table by the fragments of the source they lie in; mixed rows come last."""
    splits: list[IncomingSplit] = []

    def add(**slices: tuple[ScratchSlice, ...]) -> None:
        splits.append(
            IncomingSplit(
                number=first + len(splits),
                table_key=table,
                source=source,
                target=target,
                properties=properties,
                **slices,
            )
        )

    parts = sorted(part for key, part in {**new, **changed} if key == table)
    for run in _cut_parts(table, parts, new, changed):
        add(new=_join(table, run, new), changed=_join(table, run, changed))
    others = sorted(part for key, part in mixed if key == table)
    for run in _cut_parts(table, others, mixed):
        add(mixed=_join(table, run, mixed))
    return splits


def _cut_parts(
    table: TableKey, parts: Sequence[int], *slices: ScratchSlices
) -> Iterator[Sequence[int]]:
    rows = [
        sum(
            scratch_slice.rows for group in slices for scratch_slice in group.get((table, part), ())
        )
        for part in parts
    ]
    for run in cut_runs(rows, COMPARE_SPLIT_ROWS):
        yield [parts[number] for number in run]


def _join(table: TableKey, parts: Sequence[int], slices: ScratchSlices) -> tuple[ScratchSlice, ...]:
    return tuple(scratch_slice for part in parts for scratch_slice in slices.get((table, part), ()))


# ---- reading


def _read_addresses(slices: Sequence[ScratchSlice], store: Store) -> pa.Array:
    if not slices:
        return pa.array([], pa.uint64())
    return column(read_slices(slices, store), "source")


def _stream_source(
    store: Store,
    split: IncomingSplit,
    addresses: pa.Array,
    names: Sequence[str],
    blobs: BlobForm = BlobForm.DESCRIPTOR,
) -> Iterator[pa.Table]:
    """Stream rows of the source with their addresses."""
    if not len(addresses):
        return
    table = store.tables.open(split.source)
    step = max(1, min(SIDE_BATCH_ROWS, SIDE_BATCH_BYTES // row_bytes(table.schema, names)))
    yield from stream_rows_at(table, addresses, names, step, blobs)


def _read_mixed(store: Store, split: IncomingSplit, names: Sequence[str]) -> Iterator[pa.Table]:
    """Read mixed rows by id, some at a time, with the addresses of the rows that they replace."""
    if not split.mixed:
        return
    mixed = read_slices(split.mixed, store).sort_by("id")
    rows = AddressedRows(source=split.source, target=split.target, properties=split.properties)
    schema = store.tables.open(split.source).schema
    step = max(1, min(SIDE_BATCH_ROWS, SIDE_BATCH_BYTES // row_bytes(schema, names)))
    for start in range(0, mixed.num_rows, step):
        part = mixed.slice(start, step)
        mixed_rows = mix_properties(store.tables, rows, part, names)
        yield mixed_rows.append_column(ROW_ADDRESS, part["target"])


# ---- for the rules


def gather_step(spec: LoadSpec, splits: Sequence[IncomingSplit]) -> Each:
    """Read the columns that rules look at, apply the rules about values, keep the columns for the other rules."""
    return Each(
        name="gather", splits=splits, run=Gather(spec), out=MESSAGES, weigh=attrgetter("rows")
    )


@dataclass(frozen=True, slots=True)
class Gather:
    """Reads the checked columns of one split."""

    spec: LoadSpec

    def __call__(self, split: IncomingSplit) -> Iterator[pa.Table]:
        store, type_ = self.spec.store(), self.spec.type(split.table_key)
        rows = self._read(store, split, list_checked_columns(type_))
        first = first_position(split.number)
        positions = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
        shaped = self.spec.write_scratch(
            store, f"{type_.name}-{split.number}", rows.append_column(POSITION, positions)
        )
        violations = _check_values(self.spec, type_, rows)
        findings = [make_finding(violations, (VALUES, self.spec.rank(split.table_key)))]
        yield encode(
            [
                *spill_findings(self.spec, store, findings if violations else ()),
                SplitCount(
                    split=split.number,
                    table_key=split.table_key,
                    rows=rows.num_rows,
                    ids=IdRange(0),
                    shaped=shaped,
                ),
            ]
        )

    def _read(self, store: Store, split: IncomingSplit, names: list[str]) -> pa.Table:
        """Read rows in the order they lie in, mixed rows by id: the first of several holders is then always the same."""
        if split.mixed:
            return pa.concat_tables(_read_mixed(store, split, names)).select(names)
        addresses = pa.concat_arrays(
            [_read_addresses(slices, store) for slices in (split.new, split.changed)]
        )
        parts = list(_stream_source(store, split, addresses, names))
        return pa.concat_tables(parts).sort_by(ROW_ADDRESS).select(names)


def _check_values(spec: LoadSpec, type_: TableType, rows: pa.Table) -> Violations:
    delta = TableDelta(
        type=type_,
        kind=DeltaKind.MERGE,
        rows=fill_required(rows, type_),
        shown_max=spec.shown_max,
    )
    violations = Violations()
    for name in sorted(type_.properties):
        violations = violations + value_violations(delta, type_.properties[name])
    return violations


# ---- as fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentSplit:
    """Rows that one task writes beside a version of the target."""

    number: int
    at: TableAt
    incoming: IncomingSplit
    takes_over: bool
    """True if rows that replace others are appended first and take over in the next commit."""

    @property
    def table_key(self) -> TableKey:
        """The table of the rows."""
        return self.incoming.table_key

    @property
    def rows(self) -> int:
        """The number of rows that the task writes."""
        return self.incoming.rows


def list_fragment_splits(
    splits: Sequence[IncomingSplit],
    sites: Mapping[TableKey, TableAt],
    taking_over: Collection[TableKey],
) -> list[FragmentSplit]:
    """Let every split of the tables be written beside its version."""
    selected_splits = [split for split in splits if split.table_key in sites]
    return [
        FragmentSplit(
            number=number,
            at=sites[split.table_key],
            incoming=split,
            takes_over=split.table_key in taking_over,
        )
        for number, split in enumerate(selected_splits)
    ]


def write_step(spec: LoadSpec, writes: Sequence[FragmentSplit], marks: Sequence[MarkSplit]) -> Each:
    """Write the rows that come, and mark the rows that go."""
    return Each(
        name="stage",
        splits=(*writes, *marks),
        run=WriteIncoming(spec),
        out=MESSAGES,
        weigh=_weigh,
    )


def _weigh(split: FragmentSplit | MarkSplit) -> int:
    return split.rows if isinstance(split, FragmentSplit) else 0


@dataclass(frozen=True, slots=True)
class WriteIncoming:
    """Writes new rows apart from rows that replace others, which keep the row ids of those."""

    spec: LoadSpec

    def __call__(self, split: FragmentSplit | MarkSplit) -> Iterator[pa.Table]:
        if isinstance(split, MarkSplit):
            yield from Stage(self.spec)(split)
            return
        store = self.spec.store()
        names = self.spec.type(split.table_key).schema.names
        written = [
            *self._write_new(store, split, names),
            *self._write_changed(store, split, names),
            *self._write_mixed(store, split, names),
        ]
        yield encode(
            [WroteFragments(number=split.number, table_key=split.table_key, written=tuple(written))]
        )

    def _write_new(
        self, store: Store, split: FragmentSplit, names: Sequence[str]
    ) -> Iterator[Written]:
        """Copy fragments all of whose rows are new, and write the other rows together."""
        incoming = split.incoming
        addresses = _read_addresses(incoming.new, store)
        whole, others = whole_fragments(store.tables.open(incoming.source), addresses)
        copies = store.tables.copy(split.at, incoming.source, whole) if whole else None
        if copies is not None:
            yield copies
            addresses = others
        parts = _stream_source(store, incoming, addresses, names, BlobForm.INPUT)
        first = next(parts, None)
        if first is None:
            return
        head = first.select(list(names))

        def batches() -> Iterator[pa.RecordBatch]:
            yield from head.to_batches()
            for part in parts:
                yield from part.select(list(names)).to_batches()

        yield store.tables.write(
            split.at, pa.RecordBatchReader.from_batches(head.schema, batches())
        )

    def _write_changed(
        self, store: Store, split: FragmentSplit, names: Sequence[str]
    ) -> Iterator[Written]:
        incoming = split.incoming
        if not incoming.changed:
            return
        changed = read_slices(incoming.changed, store)
        addresses, row_ids = column(changed, "source"), column(changed, "row_id")
        parts = _stream_source(store, incoming, addresses, names, BlobForm.INPUT)
        for rows in _bound_bytes(parts):
            order = pc.index_in(column(rows, ROW_ADDRESS), value_set=addresses)
            replaced = column(changed, "target").take(order)
            whole = rows.select(list(names))
            yield _write_successors(store, split, whole, row_ids.take(order), replaced)

    def _write_mixed(
        self, store: Store, split: FragmentSplit, names: Sequence[str]
    ) -> Iterator[Written]:
        target = store.tables.open(split.incoming.target)
        for rows in _bound_bytes(_read_mixed(store, split.incoming, names)):
            replaced = column(rows, ROW_ADDRESS)
            row_ids = target.row_ids(replaced)
            yield _write_successors(store, split, rows.select(list(names)), row_ids, replaced)


def _write_successors(
    store: Store, split: FragmentSplit, rows: pa.Table, row_ids: pa.Array, replaced: pa.Array
) -> Written:
    # Sorted row ids take little room in the manifest.
    order = pc.sort_indices(row_ids)
    ordered, row_ids = rows.take(order), row_ids.take(order)
    if split.takes_over:
        return write_successors(store.tables, split.at, ordered, row_ids, replaced.take(order))
    return store.tables.write(split.at, ordered, row_ids=row_ids)


def _bound_bytes(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put parts together up to a bound."""
    batch: list[pa.Table] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += part.nbytes
        if size >= MERGED_FRAGMENT_BYTES:
            yield pa.concat_tables(batch)
            batch, size = [], 0
    if batch:
        yield pa.concat_tables(batch)
