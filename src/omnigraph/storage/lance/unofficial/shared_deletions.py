"""Deletion files that another line of a table has already: a second name for one instead of a new one."""

import os
from typing import Any

import numpy as np
from lance import FragmentMetadata, LanceDataset
from lance.fragment import DeletionFile

from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.lance.fragments import deletion_path
from omnigraph.storage.layout import branch_path
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.tables import Table
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class DeletionSource:
    """A version of the same table whose deletion files may say what new ones would."""

    dataset: LanceDataset
    table: Table


def share_deletions(
    table: Table,
    fragment: FragmentMetadata,
    offsets: "np.ndarray[Any, Any]",
    location: TableLocation,
    like: DeletionSource,
) -> FragmentMetadata | None:
    """Describe a fragment without some more of its rows by the file of the other version, if that lacks the same ones.

    Creating a file is most of what a deletion costs, and rows from all over a table take one per fragment. The file is
    named on this line too, so that the other may go. It must be committed under the turn of the table: it may be
    old, and a cleanup takes old files that no version has.
    """
    with translate_faults(StoreAction.READ, location):
        found = like.dataset.get_fragment(fragment.id) if location.root.is_local else None
        other = None if found is None else found.metadata
    if other is None or other.deletion_file is None or _names(other) != _names(fragment):
        return None
    count = fragment.num_deletions + len(offsets)
    if other.deletion_file.num_deleted_rows != count:
        return None
    gone = np.union1d(_read_deleted(table, fragment.id), offsets)
    if not np.array_equal(gone, _read_deleted(like.table, fragment.id)):
        return None
    source = deletion_path(like.dataset, like.table.at.path, like.table.at.branch, other)
    if source is None or not _link_file(location, source, other.deletion_file.path(fragment.id)):
        return None
    fragment.deletion_file = _own_file(other.deletion_file)
    return fragment


def _names(fragment: FragmentMetadata) -> list[str]:
    return [file._path for file in fragment.files]


def _read_deleted(table: Table, number: int) -> "np.ndarray[Any, Any]":
    return table.deleted([number])[number].astype(np.uint64)


def _link_file(location: TableLocation, source: str, name: str) -> bool:
    target = location.root.at(f"{branch_path(location.path, location.branch)}/{name}")
    try:
        _link(location.root.at(source), target)
    except FileExistsError:
        # Its name is its own: an attempt before this one did not come to an end.
        return True
    except OSError:
        # Not every file system has second names.
        return False
    return True


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        # The first deletion file of a line makes its directory.
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(source, target)


def _own_file(file: DeletionFile) -> DeletionFile:
    """The same file, as one of this line."""
    return DeletionFile(
        file.read_version, file.id, file.file_type, file.num_deleted_rows, base_id=None
    )
