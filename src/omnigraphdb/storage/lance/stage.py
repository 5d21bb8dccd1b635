"""Writing fragments and describing appends, overwrites, upserts and deletes; nothing is committed."""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.fragment import RowIdSequence, write_fragments

from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.errors import InternalError, shorten
from omnigraphdb.limits import DELETION_WRITES_MAX, FRAGMENT_BYTES_MAX, STREAM_ROWS
from omnigraphdb.storage.lance.digests import Digests, digest_new_files
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.fragments import fragment_of, fragment_rows
from omnigraphdb.storage.lance.new_files import (
    NewFile,
    data_files,
    deletion_files,
    require_whole_blobs,
)
from omnigraphdb.storage.lance.physical import StorageStream, logical, physical
from omnigraphdb.storage.lance.table import LanceTable
from omnigraphdb.storage.lance.unofficial.sequences import (
    describe_row_ids,
    describe_versions,
    encode_row_ids,
    encode_versions,
    versions_of,
)
from omnigraphdb.storage.lance.unofficial.shared_deletions import DeletionSource, share_deletions
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import Data, Inherited, Marked, Successors, Written
from omnigraphdb.values import dataclass

STORAGE_VERSION: Final = "2.2"
"""Always named: blobs need it, and the library's default may move."""

KEY: Final = "id"


@dataclass(frozen=True, slots=True)
class Base:
    """The version a change is staged on."""

    dataset: LanceDataset
    table: LanceTable
    location: TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One Lance operation and its effect on the row count."""

    operation: Any
    added: int = 0
    deleted: int = 0
    digests: Digests = field(default_factory=dict)
    """The digests of files that workers wrote for it."""


def append(base: Base, data: Data | None, parts: Sequence[Written] = ()) -> Change:
    """Write new rows, beside fragments that were written or copied before."""
    fragments = decode_fragments(parts)
    if data is not None:
        fragments += write(base, data, base.table.schema)
    if not fragments:
        raise InternalError("an append without rows was staged; leave the table out instead")
    return Change(
        operation=LanceOperation.Append(fragments),
        added=_rows(fragments),
        digests=_collect_digests(parts),
    )


def overwrite(base: Base, data: Data) -> Change:
    """Write the rows that replace all others; another schema than the table's replaces that too."""
    new_schema = logical(data.schema)
    before = base.table.count()
    if _same_columns(new_schema, base.table.schema):
        fragments = write(base, data, base.table.schema)
        return _describe_overwrite(base.dataset.lance_schema, fragments, before)
    fragments = write(base, data, new_schema, mode="overwrite")
    return _describe_overwrite(physical(new_schema), fragments, before)


def describe_append(base: Base, parts: Sequence[Written], *, replacing: bool) -> Change:
    """Describe the append or overwrite of fragments that workers wrote."""
    fragments = decode_fragments(parts)
    if replacing:
        change = _describe_overwrite(base.dataset.lance_schema, fragments, base.table.count())
        return replace(change, digests=_collect_digests(parts))
    if not fragments:
        raise InternalError("an append without rows was staged; leave the table out instead")
    return Change(
        operation=LanceOperation.Append(fragments),
        added=_rows(fragments),
        digests=_collect_digests(parts),
    )


def receipt(base: Base, fragments: Sequence[FragmentMetadata]) -> Written:
    """Encode written fragments for a message, with the digests of their files."""
    return Written(
        fragments=tuple(json.dumps(fragment.to_json()) for fragment in fragments),
        rows=_rows(fragments),
        digests=_digest(base, data_files(fragments)),
    )


def _digest(base: Base, files: Iterable[NewFile]) -> Digests:
    return digest_new_files(base.location, (file.name for file in files))


def _collect_digests(parts: Sequence[Written] | Sequence[Marked]) -> Digests:
    """Collect the digests of receipts."""
    return {key: digest for part in parts for key, digest in part.digests.items()}


def merge(base: Base, rows: pa.Table, deletes: pa.Array) -> Change:
    """Write an upsert by `id`: replaced rows are marked deleted and their successors keep the row ids; `deletes` go.

    Matched rows come first and in row-id order, so that their ids take little space in the manifest. New rows follow
    in the same fragment; the commit gives them row ids.
    """
    ids = _check_ids(rows)
    if pc.any(pc.is_in(deletes, value_set=ids)).as_py():
        raise InternalError("an id is to be written and deleted in one upsert")
    doomed = _addresses(base, deletes)
    hits = base.table.lookup(KEY, ids, (KEY,), row_id=True, row_address=True)
    ordered, row_ids = _order_matched(rows, ids, hits) if hits.num_rows else (rows, None)
    fragments = write(base, ordered, base.table.schema, row_ids=row_ids)
    addresses = np.concatenate([hits[ROW_ADDRESS].to_numpy(), doomed])
    return _describe_replaced(base, fragments, addresses)


def update(base: Base, parts: Sequence[Written], addresses: pa.Array) -> Change:
    """Describe an update that workers wrote: it removes the rows at these addresses and adds the written ones."""
    doomed = np.unique(addresses.to_numpy(zero_copy_only=False))
    return replace(
        _describe_replaced(base, decode_fragments(parts), doomed), digests=_collect_digests(parts)
    )


def takeover(
    base: Base,
    parts: Sequence[Written],
    successors: Successors,
    addresses: pa.Array,
    like: DeletionSource | None,
) -> Change:
    """Describe an update whose rows an append added before: they inherit row ids and creation versions of removed rows.

    To inherit a creation version, the commit of an update searches the row ids of every fragment between the rows. It
    takes fragments that the table already has as they are described to it.
    """
    doomed = np.unique(addresses.to_numpy(zero_copy_only=False))
    updated, removed = _delete_rows(base, doomed, like)
    inheriting = _inherit_versions(base, decode_fragments(parts), successors)
    return replace(
        _update(base, [], [*updated, *inheriting], removed, len(doomed)),
        added=successors.count - successors.row_ids.null_count,
    )


def inherit(fragments: Sequence[FragmentMetadata], successors: Successors) -> tuple[Inherited, ...]:
    """Encode the ids and versions that the rows of written fragments inherit; all of these rows are successors."""
    start, inherited = 0, []
    for fragment in fragments:
        own = successors.slice(start, fragment.physical_rows)
        inherited.append(
            Inherited(
                encode_row_ids(RowIdSequence(own.row_ids).to_inline_metadata()),
                encode_versions(own.created_versions.to_numpy()),
            )
        )
        start += fragment.physical_rows
    return tuple(inherited)


def describe_takeover(base: Base, parts: Sequence[Written], marks: Sequence[Marked]) -> Change:
    """Describe the second commit of an update that workers wrote and marked, and that the last append brought."""
    heirs = [part for part in parts if part.inherited]
    fragments = _find_by_files(base, {path for part in heirs for path in _first_files(part)})
    inheriting = [
        _take_over(fragments[path], inherited, base.dataset.version + 1)
        for part in heirs
        for path, inherited in zip(_first_files(part), part.inherited, strict=True)
    ]
    updated, removed = _decode_marks(marks)
    change = _update(base, [], [*updated, *inheriting], removed, sum(mark.rows for mark in marks))
    return replace(change, added=sum(part.rows for part in heirs), digests=_collect_digests(marks))


def _first_files(part: Written) -> list[str]:
    return [fragment.files[0]._path for fragment in decode_fragments([part])]


def _take_over(fragment: FragmentMetadata, inherited: Inherited, version: int) -> FragmentMetadata:
    written = np.full(fragment.physical_rows, version, np.uint64)
    fragment.row_id_meta = describe_row_ids(inherited.row_ids)
    fragment.created_at_version_meta = describe_versions(inherited.created_versions)
    fragment.last_updated_at_version_meta = versions_of(written)
    return fragment


def mark(base: Base, addresses: pa.Array) -> tuple[Marked, ...]:
    """Mark rows deleted by address, one receipt per fragment."""
    ordered = np.sort(addresses.to_numpy(zero_copy_only=False))
    fragment_ids, counts = np.unique(ordered >> np.uint64(32), return_counts=True)
    updated, _ = _delete_rows(base, ordered)
    updated_by_id = {fragment.id: fragment for fragment in updated}
    return tuple(
        _mark(base, fragment_id, count, updated_by_id.get(fragment_id))
        for fragment_id, count in zip(fragment_ids.tolist(), counts.tolist(), strict=True)
    )


def _mark(base: Base, fragment_id: int, count: int, left: FragmentMetadata | None) -> Marked:
    if left is None:
        return Marked(fragment_id=fragment_id, rows=count, fragment=None)
    return Marked(
        fragment_id=fragment_id,
        rows=count,
        fragment=json.dumps(left.to_json()),
        digests=_digest(base, deletion_files([left])),
    )


def describe_update(base: Base, parts: Sequence[Written], marks: Sequence[Marked]) -> Change:
    """Describe an update that workers wrote and marked."""
    updated, removed = _decode_marks(marks)
    change = _update(
        base, decode_fragments(parts), updated, removed, sum(mark.rows for mark in marks)
    )
    return replace(change, digests={**_collect_digests(parts), **_collect_digests(marks)})


def _decode_marks(marks: Sequence[Marked]) -> tuple[list[FragmentMetadata], list[int]]:
    """Split marks into the fragments in which rows are left, and the ids of the fragments without any."""
    texts = [mark.fragment for mark in marks if mark.fragment is not None]
    removed = [mark.fragment_id for mark in marks if mark.fragment is None]
    return [FragmentMetadata.from_json(text) for text in texts], removed


def delete(base: Base, ids: pa.Array, row_addresses: pa.Array | None = None) -> Change | None:
    """Mark the rows with these ids deleted, at `row_addresses` if known. None when there is no such row."""
    addresses = (
        _addresses(base, ids) if row_addresses is None else np.unique(row_addresses.to_numpy())
    )
    if not len(addresses):
        return None
    updated, removed = _delete_rows(base, addresses)
    note = f"{len(addresses)} rows by id"
    return Change(operation=LanceOperation.Delete(updated, removed, note), deleted=len(addresses))


def write(
    base: Base,
    data: Data,
    schema: pa.Schema,
    *,
    mode: str = "append",
    row_ids: pa.Array | None = None,
) -> list[FragmentMetadata]:
    """Write fragments while the rows arrive; the leading rows get the given row ids."""
    incoming = data.num_rows if isinstance(data, pa.Table) else STREAM_ROWS
    source = StorageStream(data, schema)
    with source.blamed(), translate_faults(StoreAction.WRITE, base.location):
        fragments = write_fragments(
            source.reader(),
            base.dataset,
            mode=mode,
            max_rows_per_file=fragment_rows(base.table.count() + incoming),
            max_bytes_per_file=FRAGMENT_BYTES_MAX,
            data_storage_version=STORAGE_VERSION,
            allow_external_blob_outside_bases=True,
        )
        require_whole_blobs(base.location, fragments, source.large_blob_bytes)
    written = [fragment for fragment in fragments if fragment.physical_rows]
    if row_ids is not None:
        _keep_row_ids(written, row_ids)
    return written


def _check_ids(rows: pa.Table) -> pa.Array:
    if not rows.num_rows:
        raise InternalError("an upsert without rows was staged; leave the table out instead")
    ids = rows[KEY].combine_chunks()
    if ids.null_count:
        raise InternalError(f"{ids.null_count} of {len(ids)} rows of an upsert have no id")
    counts = pc.value_counts(ids)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        examples = ", ".join(shorten(value) for value in repeated.slice(0, 3).to_pylist())
        raise InternalError(f"{len(repeated)} ids come twice in one upsert: {examples}")
    return ids


def _order_matched(rows: pa.Table, ids: pa.Array, hits: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Put matched rows first, by row id, and give their row ids."""
    position = pc.index_in(ids, value_set=hits[KEY].combine_chunks())
    matched = position.is_valid()
    row_ids = hits[ROW_ID].combine_chunks().take(position.drop_null())
    order = pc.sort_indices(row_ids)
    ordered = pa.concat_tables([rows.filter(matched).take(order), rows.filter(pc.invert(matched))])
    return ordered, row_ids.take(order)


def _addresses(base: Base, ids: pa.Array) -> "np.ndarray[Any, Any]":
    if not len(ids):
        return np.empty(0, np.uint64)
    rows = base.table.lookup(KEY, ids, (), row_address=True)
    addresses: np.ndarray[Any, Any] = rows[ROW_ADDRESS].to_numpy()
    return addresses


def _keep_row_ids(fragments: Sequence[FragmentMetadata], row_ids: pa.Array) -> None:
    """Give row ids to the leading rows; rows after them are new and get theirs at commit."""
    start = 0
    for fragment in fragments:
        own = row_ids.slice(start, fragment.physical_rows)
        if len(own):
            fragment.row_id_meta = RowIdSequence(own).to_inline_metadata()
        start += fragment.physical_rows


def _inherit_versions(
    base: Base, parts: Sequence[FragmentMetadata], successors: Successors
) -> list[FragmentMetadata]:
    """Describe the fragments of an append with the creation versions of the rows they replace, written just now."""
    fragments_by_file = _find_by_files(base, {part.files[0]._path for part in parts})
    start, inheriting = 0, []
    for part in parts:
        landed = fragments_by_file[part.files[0]._path]
        _inherit(landed, successors.slice(start, part.physical_rows), base.dataset.version)
        inheriting.append(landed)
        start += part.physical_rows
    return inheriting


def _find_by_files(base: Base, files: set[str]) -> dict[str, FragmentMetadata]:
    """Find fragments by their files; those of the last append are among the last."""
    fragments_by_file: dict[str, FragmentMetadata] = {}
    with translate_faults(StoreAction.READ, base.location):
        for fragment in reversed(base.dataset.get_fragments()):
            if len(fragments_by_file) == len(files):
                break
            metadata = fragment.metadata
            if (name := metadata.files[0]._path) in files:
                fragments_by_file[name] = metadata
    return fragments_by_file


def _inherit(fragment: FragmentMetadata, successors: Successors, appended: int) -> None:
    """Give the rows of a fragment the ids and versions that they inherit; other rows stay as the append wrote them."""
    assert fragment.row_id_meta is not None, "a commit gives every row an id"
    appended_ids = RowIdSequence.from_inline_metadata(fragment.row_id_meta).to_pyarrow()
    row_ids = pc.coalesce(successors.row_ids, appended_ids)
    created = pc.fill_null(successors.created_versions, pa.scalar(appended, pa.uint64()))
    written = np.where(successors.row_ids.is_valid(), appended + 1, appended).astype(np.uint64)
    fragment.row_id_meta = RowIdSequence(row_ids).to_inline_metadata()
    fragment.created_at_version_meta = versions_of(created.to_numpy())
    fragment.last_updated_at_version_meta = versions_of(written)


def _delete_rows(
    base: Base, addresses: "np.ndarray[Any, Any]", like: DeletionSource | None = None
) -> tuple[list[FragmentMetadata], list[int]]:
    """Mark rows deleted by address; return the changed fragments and the ids of the fragments without rows."""
    addresses = np.sort(addresses)
    fragment_ids, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    offsets = np.split(addresses & np.uint64(0xFFFFFFFF), starts[1:])

    def rest(fragment_id: int, part: "np.ndarray[Any, Any]") -> FragmentMetadata | None:
        with translate_faults(StoreAction.WRITE, base.location):
            fragment = fragment_of(base.dataset, fragment_id)
            metadata = fragment.metadata
            if len(part) == metadata.num_rows:
                return None
            changed = None
            if like is not None:
                changed = share_deletions(base.table, metadata, part, base.location, like)
            if changed is None and (changed := fragment.delete_rows(part.tolist())) is not None:
                base.table.deletions.learn(metadata, changed, part.astype(np.uint32))
            return changed

    remainders = _each(rest, fragment_ids.tolist(), offsets, at_once=base.location.root.is_distant)
    removed = [
        fragment_id
        for fragment_id, left in zip(fragment_ids.tolist(), remainders, strict=True)
        if left is None
    ]
    return [left for left in remainders if left is not None], removed


def _each(
    work: Callable[[int, "np.ndarray[Any, Any]"], FragmentMetadata | None],
    fragment_ids: list[int],
    parts: "list[np.ndarray[Any, Any]]",
    *,
    at_once: bool,
) -> list[FragmentMetadata | None]:
    """Write the deletion files of several fragments; only requests over a network are worth a thread each."""
    if len(fragment_ids) < 2 or not at_once:
        return [
            work(fragment_id, part) for fragment_id, part in zip(fragment_ids, parts, strict=True)
        ]
    with ThreadPoolExecutor(min(DELETION_WRITES_MAX, len(fragment_ids)), "omnigraph-write") as pool:
        return list(pool.map(work, fragment_ids, parts))


def _describe_replaced(
    base: Base, fragments: list[FragmentMetadata], addresses: "np.ndarray[Any, Any]"
) -> Change:
    added = _rows(fragments)
    if not len(addresses):
        return Change(operation=LanceOperation.Append(fragments), added=added)
    return _update(base, fragments, *_delete_rows(base, addresses), len(addresses))


def _update(
    base: Base,
    fragments: list[FragmentMetadata],
    updated: list[FragmentMetadata],
    removed: list[int],
    deleted: int,
) -> Change:
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=fragments,
        # Any value may have changed, so no index may count the new fragments as covered.
        fields_for_preserving_frag_bitmap=[
            field.id() for field in base.dataset.lance_schema.fields()
        ],
        update_mode="rewrite_rows",
    )
    return Change(operation=operation, added=_rows(fragments), deleted=deleted)


def decode_fragments(parts: Sequence[Written]) -> list[FragmentMetadata]:
    """Decode the fragments of receipts."""
    return [FragmentMetadata.from_json(text) for part in parts for text in part.fragments]


def _describe_overwrite(schema: Any, fragments: list[FragmentMetadata], before: int) -> Change:
    operation = LanceOperation.Overwrite(schema, fragments)
    return Change(operation=operation, added=_rows(fragments), deleted=before)


def _rows(fragments: Sequence[FragmentMetadata]) -> int:
    return sum(fragment.physical_rows for fragment in fragments)


def _same_columns(new_schema: pa.Schema, schema: pa.Schema) -> bool:
    shape = {field.name: (field.type, field.nullable) for field in schema}
    return shape == {field.name: (field.type, field.nullable) for field in new_schema}
