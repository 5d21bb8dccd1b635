"""Files and versions of a table: what there is, what a version needs, and the removal of versions."""

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
    """List the versions of one branch of a table that still exist, oldest first; reads each of them."""
    dataset = datasets.latest(path, branch)
    with translate_faults(StoreAction.LIST, datasets.location(path, branch)):
        listed = dataset.versions()
    found = (
        VersionInfo(
            version=Version(one["version"]),
            # Lance gives local time without a zone.
            created_us=us_of(cast(datetime, one["timestamp"]).astimezone()),
        )
        for one in listed
    )
    return tuple(sorted(found, key=lambda info: info.version))


def reclaim(
    datasets: Datasets,
    path: str,
    branch: str | None,
    chosen: Sequence[Version],
    *,
    dry_run: bool,
) -> Reclaimed:
    """Remove the chosen versions of one branch of a table, or count what would go.

    Lance keeps HEAD and versions that other branches forked from. Files of no version may belong to a writer that has
    not committed yet: only those older than seven days are removed.
    """
    if not chosen:
        return Reclaimed(versions=0, bytes=0)
    dataset = datasets.latest(path, branch)
    names = [int(version) for version in chosen]

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
    found = {
        path: NeededFile(bytes=file.bytes, deletions=file.deletions)
        for path, file in row_files(dataset, at).items()
    }
    for described in dataset.describe_indices():
        for segment in described.segments:
            name = f"_indices/{segment.uuid}/"
            path = locate_file(dataset, at.path, at.branch, segment.base_id, name)
            if path is not None:
                found[path] = NeededFile(bytes=segment.size_bytes)
    return found


def read_contents(datasets: Datasets, at: TableAt) -> VersionContents:
    """Read the manifest of a version anew, whatever is cached."""
    with translate_faults(StoreAction.OPEN, datasets.location(at.path, at.branch, at.version)):
        dataset = datasets.open_anew(at)
        _ = dataset.schema
        return VersionContents(row_count=int(dataset.count_rows()), files=needed_files(dataset, at))


def sizes(datasets: Datasets, path: str) -> Mapping[str | None, int]:
    """Sum the bytes of a table's main branch and of every branch tree."""
    found: dict[str | None, int] = {}
    for name, weight in file_sizes(datasets, path).items():
        tree = tree_of(name)
        found[tree] = found.get(tree, 0) + weight
    return found


def segment_files(datasets: Datasets, path: str) -> Mapping[str, Mapping[str, int]]:
    """List the files of every index segment of a table with their bytes, on whichever branch it lies, by its uuid.

    What Lance could not remove of a build is left in `staging/` and is no part of the segment.
    """
    found: dict[str, dict[str, int]] = {}
    for name, weight in file_sizes(datasets, path).items():
        _, is_index, rest = f"/{name}".partition("/_indices/")
        uuid, _, file = rest.partition("/")
        if is_index and not file.startswith("staging/"):
            found.setdefault(uuid, {})[name] = weight
    return found


def file_sizes(datasets: Datasets, path: str) -> Mapping[str, int]:
    """List every file in the directory of a table with its bytes, by its name there; one listing."""
    if datasets.root.is_local:
        # Lance opens the newest version for this, and that may be damaged.
        return _walk(datasets.root.at(path))
    dataset = datasets.latest(path, None)
    found: dict[str, int] = {}
    with translate_faults(StoreAction.LIST, datasets.location(path, None)):
        for batch in dataset.all_files():
            names, weights = batch.column("path").to_pylist(), batch.column("size_bytes")
            found |= zip(names, weights.to_pylist(), strict=True)
    return found


def _walk(directory: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            file = os.path.join(folder, name)
            # A file that is removed meanwhile is not listed.
            with suppress(FileNotFoundError):
                found[os.path.relpath(file, directory)] = os.stat(file).st_size
    return found
