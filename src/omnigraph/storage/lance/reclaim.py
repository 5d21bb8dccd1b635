"""Cleanup: removing old versions of a table and the files that only they use."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from lance import CleanupStats

from omnigraph.ids import Version
from omnigraph.runtime import us_of
from omnigraph.storage.lance.branches import steady
from omnigraph.storage.lance.datasets import Datasets
from omnigraph.storage.lance.faults import translate_faults
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.values import Reclaimed, VersionInfo


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
    stats = steady(StoreAction.DELETE, datasets.location(path, branch), work)
    return Reclaimed(versions=stats.old_versions, bytes=stats.bytes_removed)
