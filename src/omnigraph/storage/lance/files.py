"""Files and versions of a table: what there is, what a version needs, and the removal of versions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from lance import CleanupStats, LanceDataset

from omnigraph.ids import Version
from omnigraph.runtime import us_of
from omnigraph.storage.lance.branches import retry_dropped_refs, tree_of
from omnigraph.storage.lance.datasets import Datasets
from omnigraph.storage.lance.faults import translate_faults
from omnigraph.storage.lance.fragments import locate_file
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.values import Reclaimed, TableAt, VersionInfo


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


def needed_files(dataset: LanceDataset, at: TableAt) -> dict[str, int | None]:
    """List the files of a version that lie under the graph root, with their bytes: data, deletions, and index segments."""
    found: dict[str, int | None] = {}

    def add(base_id: int | None, name: str, size: int | None) -> None:
        path = locate_file(dataset, at.path, at.branch, base_id, name)
        if path is not None:
            found[path] = size

    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            add(file.base_id, f"data/{file._path}", file.file_size_bytes or None)
        if metadata.deletion_file is not None:
            deleted = metadata.deletion_file
            add(deleted.base_id, deleted.path(metadata.id), None)
    for described in dataset.describe_indices():
        for segment in described.segments:
            add(segment.base_id, f"_indices/{segment.uuid}/", segment.size_bytes)
    return found


def sizes(datasets: Datasets, path: str) -> Mapping[str | None, int]:
    """Sum the bytes of a table's main branch and of every branch tree."""
    found: dict[str | None, int] = {}
    for name, weight in file_sizes(datasets, path).items():
        tree = tree_of(name)
        found[tree] = found.get(tree, 0) + weight
    return found


def segment_files(datasets: Datasets, path: str) -> Mapping[str, Mapping[str, int]]:
    """List the files of every index segment of a table with their bytes, on whichever branch it lies, by its uuid."""
    found: dict[str, dict[str, int]] = {}
    for name, weight in file_sizes(datasets, path).items():
        _, is_index, rest = f"/{name}".partition("/_indices/")
        if is_index:
            found.setdefault(rest.partition("/")[0], {})[name] = weight
    return found


def file_sizes(datasets: Datasets, path: str) -> Mapping[str, int]:
    """List every file in the directory of a table with its bytes, by its name there; one listing."""
    dataset = datasets.latest(path, None)
    found: dict[str, int] = {}
    with translate_faults(StoreAction.LIST, datasets.location(path, None)):
        for batch in dataset.all_files():
            names, weights = batch.column("path").to_pylist(), batch.column("size_bytes")
            found |= zip(names, weights.to_pylist(), strict=True)
    return found
