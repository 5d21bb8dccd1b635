"""One opened table version, read through Lance."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset
from lance.dataset import ColumnOrdering
from lance.fragment import RowIdSequence

from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.errors import InternalError, StorageError
from omnigraphdb.limits import (
    LOOKUP_FILTERED_MAX,
    LOOKUP_ROWS_PER_VALUE,
    LOOKUP_VALUES_MAX,
    SCAN_BATCH_ROWS,
    SCAN_BOUNDED_BATCHES,
    SCAN_BOUNDED_BYTES,
)
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.lance import search
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.deletions import DeletionReads
from omnigraphdb.storage.lance.digests import Digests
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.lance.fragments import fragment_infos, fragment_of
from omnigraphdb.storage.lance.index import list_uncovered
from omnigraphdb.storage.lance.index_damage import (
    DamagedSegments,
    IndexReads,
    may_be_damage,
)
from omnigraphdb.storage.lance.physical import BlobReads, logical
from omnigraphdb.storage.lance.unofficial.sequences import Numbers, row_ids_at, versions_at
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import Filter, FragmentInfo, IndexInfo, IndexKind, Offsets, TableAt

_AUTO_CLEANUP: Final = "lance.auto_cleanup."
_CREATED: Final = "_row_created_at_version"

_Answer = TypeVar("_Answer")


class LanceTable:
    """A table version held open; safe to share between threads."""

    __slots__ = (
        "_at",
        "_blobs",
        "_dataset",
        "_field_ids",
        "_fragments",
        "_indices",
        "_location",
        "_schema",
        "_unofficial",
        "deletions",
    )

    def __init__(
        self,
        at: TableAt,
        datasets: Datasets,
        deletions: DeletionReads,
        damaged: DamagedSegments,
    ) -> None:
        dataset, location = datasets.at(at), datasets.location_of(at)
        self._at = at
        self.deletions = deletions
        self._dataset = dataset
        self._location = location
        self._unofficial = datasets.unofficial
        self._schema = logical(dataset.schema)
        self._blobs = BlobReads(dataset, self._schema, location)
        self._indices = IndexReads(at, dataset, location, damaged)
        self._fragments: tuple[FragmentInfo, ...] | None = None
        self._field_ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}

    @property
    def at(self) -> TableAt:
        """Which version this is."""
        return self._at

    @property
    def schema(self) -> pa.Schema:
        """The logical Arrow schema."""
        return self._schema

    @property
    def field_ids(self) -> Mapping[str, int]:
        """The lasting number of every column."""
        return self._field_ids

    # ---- rows

    def count(self, filter: Filter | None = None) -> int:
        """Count rows; without a filter nothing is scanned."""
        if filter is None:
            with translate_faults(StoreAction.READ, self._location):
                return int(self._dataset.count_rows())
        return self._indices.answer(
            filter, lambda indexed: int(self._filtered(filter, indexed).count_rows())
        )

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        batch_rows: int | None = None,
        order_by_id: bool = False,
        fragments: Sequence[int] | None = None,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
        limit: int | None = None,
        bounded: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream rows."""

        def begin(indexed: bool) -> pa.RecordBatchReader:
            source: pa.RecordBatchReader = self._scanner(
                columns,
                filter,
                row_id=row_id,
                row_address=row_address,
                batch_rows=batch_rows or SCAN_BATCH_ROWS,
                order_by_id=order_by_id,
                fragments=fragments,
                blobs=blobs,
                limit=limit,
                indexed=indexed,
                bounded=bounded,
            ).to_reader()
            return source if filter is None else _read_ahead(source)

        source = self._indices.answer(filter, begin)
        record(Cost.TABLE_SCANS)
        return self._blobs.stream(source, blobs, row_id=row_id)

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        order_by_id: bool = False,
        fragments: Sequence[int] | None = None,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows into memory."""

        def rows_of(indexed: bool) -> pa.Table:
            return self._scanner(
                columns,
                filter,
                row_id=row_id,
                row_address=row_address,
                order_by_id=order_by_id,
                fragments=fragments,
                blobs=blobs,
                limit=limit,
                indexed=indexed,
            ).to_table()

        rows = self._indices.answer(filter, rows_of)
        record(Cost.TABLE_SCANS)
        return self._blobs.table(rows, blobs, row_id=row_id)

    def take(
        self,
        row_ids: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
    ) -> pa.Table:
        """Fetch live rows by stable row id, in the order asked; unknown ids are left out."""
        names = list(columns) if columns is not None else self._schema.names
        shown_id = ROW_ID in names
        stored = (
            [*names, ROW_ID] if self._blobs.needs_row_id(names, blobs) and not shown_id else names
        )
        with translate_faults(StoreAction.READ, self._location):
            rows = self._dataset._take_rows(row_ids.cast(pa.uint64()), columns=stored)
        record(Cost.TABLE_SCANS)
        return self._blobs.table(rows, blobs, row_id=shown_id)

    def lookup(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        row_address: bool = False,
        blobs: BlobForm = BlobForm.DESCRIPTOR,
    ) -> pa.Table:
        """Find rows whose `column` is one of `values`; uses the index where it pays.

        Without an index, Lance filters by a few texts; many values are compared here, batch by batch.
        """
        names = list(columns) if columns is not None else self._schema.names
        extra = [ROW_ID] * row_id + [ROW_ADDRESS] * row_address
        distinct = pc.drop_null(pc.unique(values))
        if not len(distinct):
            return self.read(names, row_id=row_id, row_address=row_address, blobs=blobs, limit=0)
        if self._can_filter(distinct) and (
            self._index_pays(column, len(distinct)) or _are_few_texts(distinct)
        ):
            parts = [
                self.read(
                    names,
                    _match_values(column, distinct.slice(start, LOOKUP_VALUES_MAX)),
                    row_id=row_id,
                    row_address=row_address,
                    blobs=blobs,
                )
                for start in range(0, len(distinct), LOOKUP_VALUES_MAX)
            ]
            return pa.concat_tables(parts)
        hits = self._scan_for(column, distinct)
        if set(names) <= {column}:
            return hits.select([*names, *extra])
        return self.take(hits[ROW_ID].combine_chunks(), [*names, *extra], blobs=blobs)

    def has_values(self, column: str, fragments: Sequence[int] | None = None) -> bool:
        """Tell whether any row, or any of some fragments, has a value."""
        # An expression cannot name a vector or blob column, text can.
        present = f"`{column}` IS NOT NULL"
        return bool(self.read((), present, row_id=True, limit=1, fragments=fragments).num_rows)

    # ---- search

    def nearest(
        self,
        column: str,
        vector: pa.Array,
        limit: int,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        row_id: bool = False,
    ) -> pa.Table:
        """Find the closest rows by squared L2 distance among those the filter lets through."""
        names = list(columns) if columns is not None else self._schema.names
        self.deletions.require_readable(self.fragments())

        def closest(indexed: bool) -> pa.Table:
            return search.nearest(
                self._dataset,
                column,
                vector,
                limit,
                columns=names,
                filter=filter,
                row_id=row_id,
                indexed=indexed,
            )

        rows = self._indices.answer(column if filter is None else f"{column} {filter}", closest)
        record(Cost.TABLE_SCANS)
        return self._blobs.table(rows, BlobForm.DESCRIPTOR, row_id=row_id)

    def match(
        self,
        column: str,
        text: str,
        *,
        fuzziness: int = 0,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        row_id: bool = False,
    ) -> pa.Table:
        """Search the text index only."""
        names = list(columns) if columns is not None else self._schema.names
        self.deletions.require_readable(self.fragments())
        if len(self.uncovered(column, IndexKind.TEXT)) == self.fragment_count():
            return self._nothing_scored(names, row_id)

        def matching(indexed: bool) -> pa.Table:
            return search.match(
                self._dataset,
                column,
                text,
                fuzziness=fuzziness,
                limit=limit,
                columns=names,
                filter=filter,
                row_id=row_id,
                indexed=indexed,
            )

        try:
            rows = self._indices.answer(filter, matching)
        except (StorageError, InternalError) as error:
            if not may_be_damage(error):
                raise
            own = (i for i in self.indices() if (i.column, i.kind) == (column, IndexKind.TEXT))
            self._indices.note(tuple(own), error)
            return self._nothing_scored(names, row_id)
        record(Cost.TABLE_SCANS)
        return self._blobs.table(rows, BlobForm.DESCRIPTOR, row_id=row_id)

    def _nothing_scored(self, names: Sequence[str], row_id: bool) -> pa.Table:
        empty = self.read(names, row_id=row_id, limit=0)
        return empty.append_column(search.SCORE, pa.nulls(0, pa.float32()))

    # ---- shape

    def fragments(self) -> tuple[FragmentInfo, ...]:
        """List the fragments of this version, by id."""
        if self._fragments is None:
            with translate_faults(StoreAction.READ, self._location):
                self._fragments = fragment_infos(self._dataset)
        return self._fragments

    def deleted(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """List the offsets of the deleted rows of some fragments."""
        return self.deletions.of(fragments)

    def row_ids(self, addresses: pa.Array) -> pa.Array:
        """Give the lasting row ids of rows, of deleted ones too, in the order asked."""
        ids = self._of_manifest(addresses, _row_ids if self._unofficial else _decoded_row_ids)
        assert ids is not None, "row ids stand in the manifest"
        return ids

    def created_versions(self, addresses: pa.Array) -> pa.Array:
        """Return the versions that live rows were born in, in the order asked."""
        versions = self._of_manifest(addresses, _created_versions) if self._unofficial else None
        if versions is not None:
            return versions
        fragments = np.unique(addresses.to_numpy(zero_copy_only=False) >> np.uint64(32)).tolist()
        rows = self.read([_CREATED], fragments=fragments, row_address=True)
        positions = pc.index_in(addresses, value_set=rows[ROW_ADDRESS].combine_chunks())
        return rows[_CREATED].combine_chunks().take(positions).cast(pa.uint64())

    def _of_manifest(
        self, addresses: pa.Array, decode: Callable[[FragmentMetadata, Numbers], Numbers | None]
    ) -> pa.Array | None:
        """Decode a number that the manifest records per row; None when it records nothing for some of the rows."""
        numbers = addresses.to_numpy(zero_copy_only=False).astype(np.uint64)
        fragments, offsets = numbers >> np.uint64(32), numbers & np.uint64(0xFFFFFFFF)
        decoded = np.empty(len(numbers), np.uint64)
        with translate_faults(StoreAction.READ, self._location):
            for fragment in np.unique(fragments).tolist():
                in_fragment = fragments == fragment
                part = decode(fragment_of(self._dataset, fragment).metadata, offsets[in_fragment])
                if part is None:
                    return None
                decoded[in_fragment] = part
        return pa.array(decoded, pa.uint64())

    def fragment_count(self) -> int:
        """Count the fragments."""
        return len(self._dataset.fragment_ids())

    def indices(self) -> tuple[IndexInfo, ...]:
        """List the indices of this version, by name."""
        return self._indices.infos()

    def uncovered(self, column: str, kind: IndexKind) -> tuple[int, ...]:
        """List the fragments that no index of that kind on the column covers."""
        infos = self.indices()
        with translate_faults(StoreAction.READ, self._location):
            return list_uncovered(self._dataset, infos, column, kind)

    @property
    def damaged_segments(self) -> frozenset[str]:
        """The index segments of the graph that reads found damaged so far."""
        return self._indices.damaged_segments

    def check_indices(
        self, files: Mapping[str, Mapping[str, int]], noted: Digests
    ) -> tuple[IndexInfo, ...]:
        """Compare the files of every index with recorded digests; `files` are those of each segment."""
        return self._indices.check(files, noted)

    def auto_cleanup_keys(self) -> tuple[str, ...]:
        """Config keys that would let Lance delete versions by itself."""
        with translate_faults(StoreAction.READ, self._location):
            return auto_cleanup_keys(self._dataset)

    def explain(self, filter: Filter) -> str:
        """Lance's plan for a filter."""
        with translate_faults(StoreAction.READ, self._location):
            return str(self._dataset.scanner(filter=filter).explain_plan(True))

    # ---- blobs

    def blob_range(self, column: str, row_id: int, start: int, length: int) -> bytes:
        """Read part of one row's blob content."""
        with translate_faults(StoreAction.READ, self._location):
            ranges = self._dataset.read_blob_ranges(
                column, [(row_id, start, length)], selector="ids"
            )
        return ranges[0][2] or b""

    # ---- how it is done

    def _scanner(
        self,
        columns: Sequence[str] | None,
        filter: Filter | None,
        *,
        row_id: bool,
        row_address: bool,
        order_by_id: bool,
        fragments: Sequence[int] | None,
        blobs: BlobForm,
        limit: int | None,
        indexed: bool,
        batch_rows: int | None = None,
        bounded: bool = False,
    ) -> Any:
        names = list(columns) if columns is not None else self._schema.names
        parts = None if fragments is None else [fragment_of(self._dataset, f) for f in fragments]
        return self._dataset.scanner(
            columns=names,
            filter=filter,
            with_row_id=row_id or self._blobs.needs_row_id(names, blobs),
            with_row_address=row_address,
            batch_size=batch_rows,
            order_by=[ColumnOrdering("id")] if order_by_id else None,
            fragments=parts,
            limit=limit,
            blob_handling="all_binary" if blobs is BlobForm.BYTES else None,
            use_scalar_index=indexed,
            batch_readahead=SCAN_BOUNDED_BATCHES if bounded else None,
            fragment_readahead=1 if bounded else None,
            io_buffer_size=SCAN_BOUNDED_BYTES if bounded else None,
        )

    def _filtered(self, filter: Filter, indexed: bool) -> Any:
        return self._dataset.scanner(
            columns=[], filter=filter, with_row_id=True, use_scalar_index=indexed
        )

    def _index_pays(self, column: str, values: int) -> bool:
        """Whether the index answers faster than one pass over the column."""
        indexed = any(i.column == column and i.kind is IndexKind.BTREE for i in self.indices())
        return indexed and values * LOOKUP_ROWS_PER_VALUE <= self.count()

    def _can_filter(self, values: pa.Array) -> bool:
        """Whether Lance can filter by values: an expression carries the whole schema, but no list of moments."""
        return _is_spelled(values) or not any(
            pa.types.is_list(kind) and pa.types.is_date64(kind.value_type)
            for kind in self._schema.types
        )

    def _scan_for(self, column: str, values: pa.Array) -> pa.Table:
        source = self.scan((column,), row_id=True, row_address=True)
        matches = [b.filter(pc.is_in(b.column(column), value_set=values)) for b in source]
        return pa.Table.from_batches([b for b in matches if b.num_rows], source.schema)


def _is_spelled(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_integer(values.type))


def _match_values(column: str, values: pa.Array) -> Filter:
    """Build a filter for the rows whose column has one of some values."""
    if not _is_spelled(values):
        return pc.field(column).isin(values)
    texts = values.cast(pa.string())
    if pa.types.is_string(values.type):
        texts = pc.binary_join_element_wise("'", pc.replace_substring(texts, "'", "''"), "'", "")
    return f"`{column}` in ({', '.join(texts.to_pylist())})"


def _are_few_texts(values: pa.Array) -> bool:
    return len(values) <= LOOKUP_FILTERED_MAX and bool(pa.types.is_string(values.type))


def _read_ahead(source: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the same stream, once its first batch is there: by then every index that serves it was read."""
    first = next(source, None)
    batches = source if first is None else chain([first], source)
    return pa.RecordBatchReader.from_batches(source.schema, batches)


def _row_ids(fragment: FragmentMetadata, offsets: Numbers) -> Numbers | None:
    metadata = fragment.row_id_meta
    ids = None if metadata is None else row_ids_at(metadata, offsets)
    return _decoded_row_ids(fragment, offsets) if ids is None else ids


def _decoded_row_ids(fragment: FragmentMetadata, offsets: Numbers) -> Numbers | None:
    if fragment.row_id_meta is None:
        return None
    sequence = RowIdSequence.from_inline_metadata(fragment.row_id_meta)
    row_ids: Numbers = sequence.to_pyarrow().to_numpy()
    return row_ids[offsets.astype(np.int64)]


def _created_versions(fragment: FragmentMetadata, offsets: Numbers) -> Numbers | None:
    metadata = fragment.created_at_version_meta
    return None if metadata is None else versions_at(metadata, offsets)


def auto_cleanup_keys(dataset: LanceDataset) -> tuple[str, ...]:
    """Config keys that would let Lance delete versions by itself."""
    return tuple(sorted(k for k in dataset.config() if k.startswith(_AUTO_CLEANUP)))
