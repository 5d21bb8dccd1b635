"""Files and versions of a table: listing both, the files that a version needs, and the removal of versions."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import cast

from lance import CleanupStats, LanceDataset

from omnigraphdb.ids import Version
from omnigraphdb.runtime import us_of
from omnigraphdb.storage.lance.branches import retry_dropped_refs, tree_of
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.lance.fragments import locate_file
from omnigraphdb.storage.lance.new_files import row_files
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import (
    NeededFile,
    Reclaimed,
    TableAt,
    VersionContents,
    VersionInfo,
)


def versions(datasets: Datasets, path: str, branch: str | None) -> tuple[VersionInfo, ...]:
    """List the versions of one branch of a table that still exist, oldest first; each of them is read."""
    dataset = datasets.latest(path, branch)
    with translate_faults(StoreAction.LIST, datasets.location(path, branch)):
        entries = dataset.versions()
    infos = (
        VersionInfo(
            version=Version(entry["version"]),
            # Lance gives local time without a zone.
            created_us=us_of(cast(datetime, entry["timestamp"]).astimezone()),
        )
        for entry in entries
    )
    return tuple(sorted(infos, key=lambda info: info.version))


def reclaim(
    datasets: Datasets,
    path: str,
    branch: str | None,
    selected: Sequence[Version],
    *,
    dry_run: bool,
) -> Reclaimed:
    """Remove versions of one branch of a table; with `dry_run`, only count the versions and their bytes.

    Lance keeps HEAD and versions that other branches forked from. Files of no version may belong to a writer that has
    not committed yet: only files older than seven days are removed.
    """
    if not selected:
        return Reclaimed(versions=0, bytes=0)
    dataset = datasets.latest(path, branch)
    names = [int(version) for version in selected]

    def work() -> CleanupStats:
        if not dry_run:
            return dataset.cleanup_old_versions(versions=names, error_if_tagged_old_versions=False)
        explained = dataset.explain_cleanup_old_versions(
            versions=names, error_if_tagged_old_versions=False
        )
        return explained.stats

    # Lance reads every branch of the table, for forks from these versions.
    stats = retry_dropped_refs(StoreAction.DELETE, datasets.location(path, branch), work)
    return Reclaimed(versions=stats.old_versions, bytes=stats.bytes_removed)


# ---- files


def needed_files(dataset: LanceDataset, at: TableAt) -> dict[str, NeededFile]:
    """List the files of a version that lie under the graph root: data, deletions, and index segments."""
    needed = {
        path: NeededFile(bytes=file.bytes, deletions=file.deletions)
        for path, file in row_files(dataset, at).items()
    }
    for described in dataset.describe_indices():
        for segment in described.segments:
            name = f"_indices/{segment.uuid}/"
            path = locate_file(dataset, at.path, at.branch, segment.base_id, name)
            if path is not None:
                needed[path] = NeededFile(bytes=segment.size_bytes)
    return needed


def read_contents(datasets: Datasets, at: TableAt) -> VersionContents:
    """Read the manifest of a version anew, without a cache."""
    with translate_faults(StoreAction.OPEN, datasets.location(at.path, at.branch, at.version)):
        dataset = datasets.open_anew(at)
        _ = dataset.schema
        return VersionContents(row_count=int(dataset.count_rows()), files=needed_files(dataset, at))


def sizes(datasets: Datasets, path: str) -> Mapping[str | None, int]:
    """Sum the bytes of a table's main branch and of every branch tree."""
    bytes_by_tree: dict[str | None, int] = {}
    for name, weight in file_sizes(datasets, path).items():
        tree = tree_of(name)
        bytes_by_tree[tree] = bytes_by_tree.get(tree, 0) + weight
    return bytes_by_tree


def segment_files(datasets: Datasets, path: str) -> Mapping[str, Mapping[str, int]]:
    """List the files of every index segment of a table on any branch, with their bytes, by the uuid of the segment.

    Lance leaves files of a build that it could not remove in `staging/`; they are not a part of the segment.
    """
    files_by_uuid: dict[str, dict[str, int]] = {}
    for name, weight in file_sizes(datasets, path).items():
        _, is_index, rest = f"/{name}".partition("/_indices/")
        uuid, _, file = rest.partition("/")
        if is_index and not file.startswith("staging/"):
            files_by_uuid.setdefault(uuid, {})[name] = weight
    return files_by_uuid


def file_sizes(datasets: Datasets, path: str) -> Mapping[str, int]:
    """List every file in the directory of a table with its bytes, by its name there; one listing."""
    if datasets.root.is_local:
        # Lance opens the newest version for this, and that may be damaged.
        return _walk(datasets.root.at(path))
    dataset = datasets.latest(path, None)
    bytes_by_name: dict[str, int] = {}
    with translate_faults(StoreAction.LIST, datasets.location(path, None)):
        for batch in dataset.all_files():
            names, weights = batch.column("path").to_pylist(), batch.column("size_bytes")
            bytes_by_name |= zip(names, weights.to_pylist(), strict=True)
    return bytes_by_name


def _walk(directory: str) -> dict[str, int]:
    bytes_by_name: dict[str, int] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            file = os.path.join(folder, name)
            # A file that is removed meanwhile is not listed.
            with suppress(FileNotFoundError):
                bytes_by_name[os.path.relpath(file, directory)] = os.stat(file).st_size
    return bytes_by_name
