"""Fragments of one version: their ids, their handles, their files."""

from collections.abc import Iterable
from typing import Any

from lance import LanceDataset, LanceFragment

from omnigraphdb.errors import InternalError
from omnigraphdb.limits import FRAGMENT_ROWS_MAX, FRAGMENT_ROWS_MIN, FRAGMENTS_AIM
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.values import FragmentInfo


def fragment_rows(table_rows: int) -> int:
    """Choose how many rows a full fragment holds; doubling steps, so that growth rewrites a table rarely."""
    rows = FRAGMENT_ROWS_MIN
    while rows < FRAGMENT_ROWS_MAX and rows * FRAGMENTS_AIM < table_rows:
        rows *= 2
    return rows


def fragment_ids(dataset: LanceDataset) -> set[int]:
    """Return the ids of a version's fragments."""
    return set(dataset.fragment_ids())


def fragment_of(dataset: LanceDataset, number: int) -> LanceFragment:
    """Give one fragment."""
    fragment = dataset.get_fragment(number)
    if fragment is None:
        raise InternalError(f"version {dataset.version} has no fragment {number}")
    return fragment


def rows_of(dataset: LanceDataset, numbers: Iterable[int]) -> int:
    """Count the rows of some fragments."""
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


# ---- where their files lie


def deletion_path(
    dataset: LanceDataset, path: str, branch: str | None, fragment: Any
) -> str | None:
    """Give the path of the deletion file of a fragment under the graph root; None when it lies elsewhere."""
    deleted = fragment.deletion_file
    return locate_file(dataset, path, branch, deleted.base_id, deleted.path(fragment.id))


def locate_file(
    dataset: LanceDataset, path: str, branch: str | None, base_id: int | None, name: str
) -> str | None:
    """Locate a file of a branch, or of a branch it forked from, under the graph root; None when it lies elsewhere."""
    if base_id is None:
        return f"{branch_path(path, branch)}/{name}"
    base = dataset.base_paths().get(base_id)
    address = "" if base is None else str(base.path).rstrip("/")
    # A fork names its parent by a full address, which ends in the path of the table.
    _, separator, rest = address.rpartition(f"/{path}")
    return f"{path}{rest}/{name}" if separator else None
