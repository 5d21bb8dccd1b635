"""Fragments of one version: their ids, their handles, what tells two of them apart."""

from collections.abc import Iterable
from typing import Any

from lance import LanceDataset, LanceFragment

from omnigraph.errors import InternalError
from omnigraph.limits import FRAGMENT_ROWS_MAX, FRAGMENT_ROWS_MIN, FRAGMENTS_AIM
from omnigraph.storage.tables import FragmentInfo


def fragment_rows(table_rows: int) -> int:
    """Choose how many rows a full fragment holds; doubling steps, so that growth rewrites a table rarely."""
    rows = FRAGMENT_ROWS_MIN
    while rows < FRAGMENT_ROWS_MAX and rows * FRAGMENTS_AIM < table_rows:
        rows *= 2
    return rows


def fragment_ids(dataset: LanceDataset) -> set[int]:
    """The ids of a version's fragments."""
    return set(dataset.fragment_ids())


def fragment_of(dataset: LanceDataset, number: int) -> LanceFragment:
    """Give one fragment."""
    fragment = dataset.get_fragment(number)
    if fragment is None:
        raise InternalError(f"version {dataset.version} has no fragment {number}")
    return fragment


def rows_of(dataset: LanceDataset, numbers: Iterable[int]) -> int:
    """How many rows some fragments hold."""
    return sum(fragment_of(dataset, number).metadata.num_rows for number in numbers)


def fragment_infos(dataset: LanceDataset) -> tuple[FragmentInfo, ...]:
    """Describe the fragments of a version, by id."""
    parts = [_info(fragment.metadata) for fragment in dataset.get_fragments()]
    return tuple(sorted(parts, key=lambda info: info.id))


def _info(fragment: Any) -> FragmentInfo:
    deleted = fragment.deletion_file
    return FragmentInfo(
        id=fragment.id,
        # The public property defines a class on every call, which costs more than reading the manifest.
        files=tuple(file._path for file in fragment.files),
        deletions=None if deleted is None else deleted.path(fragment.id),
        physical_rows=fragment.physical_rows,
        deleted_rows=fragment.num_deletions,
        bytes=sum(file.file_size_bytes or 0 for file in fragment.files),
    )
