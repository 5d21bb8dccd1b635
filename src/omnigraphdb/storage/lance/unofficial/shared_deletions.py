"""Deletion files that another branch of a table already has: a hard link instead of a new file."""

import os
from typing import Any

import numpy as np
from lance import FragmentMetadata, LanceDataset
from lance.fragment import DeletionFile

from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.fragments import deletion_path
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.tables import Table
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class DeletionSource:
    """A version of the same table whose deletion files may have the contents of new ones."""

    dataset: LanceDataset
    table: Table


def share_deletions(
    table: Table,
    fragment: FragmentMetadata,
    offsets: "np.ndarray[Any, Any]",
    location: TableLocation,
    like: DeletionSource,
) -> FragmentMetadata | None:
    """Describe a fragment with more deleted rows by the deletion file of the other version, if both are equal.

    Creating a file is most of the cost of a deletion, and rows all over a table need one file per fragment. The hard
    link on this branch stays when the other branch is deleted. The caller must hold the lock of the table until the
    commit: the file may be old, and cleanup removes old files that no version uses.
    """
    with translate_faults(StoreAction.READ, location):
        like_fragment = like.dataset.get_fragment(fragment.id) if location.root.is_local else None
        other = None if like_fragment is None else like_fragment.metadata
    if other is None or other.deletion_file is None or _names(other) != _names(fragment):
        return None
    count = fragment.num_deletions + len(offsets)
    if other.deletion_file.num_deleted_rows != count:
        return None
    deleted = np.union1d(_read_deleted(table, fragment.id), offsets)
    if not np.array_equal(deleted, _read_deleted(like.table, fragment.id)):
        return None
    source = deletion_path(like.dataset, like.table.at.path, like.table.at.branch, other)
    if source is None or not _link_file(location, source, other.deletion_file.path(fragment.id)):
        return None
    fragment.deletion_file = _own_file(other.deletion_file)
    return fragment


def _names(fragment: FragmentMetadata) -> list[str]:
    return [file._path for file in fragment.files]


def _read_deleted(table: Table, fragment: int) -> "np.ndarray[Any, Any]":
    return table.deleted([fragment])[fragment].astype(np.uint64)


def _link_file(location: TableLocation, source: str, name: str) -> bool:
    target = location.root.at(f"{branch_path(location.path, location.branch)}/{name}")
    try:
        _link(location.root.at(source), target)
    except FileExistsError:
        # Names of deletion files are unique: an earlier attempt created this link and failed later.
        return True
    except OSError:
        # Not every file system has hard links.
        return False
    return True


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        # The first deletion file of a branch creates its directory.
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(source, target)


def _own_file(file: DeletionFile) -> DeletionFile:
    """Describe the same file as one of this branch."""
    return DeletionFile(
        file.read_version, file.id, file.file_type, file.num_deleted_rows, base_id=None
    )
