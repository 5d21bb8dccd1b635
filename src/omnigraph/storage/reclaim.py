"""Giving space back: removing old versions of a table and the files that only they use."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from omnigraph.ids import Version
from omnigraph.runtime import us_of
from omnigraph.storage.datasets import Datasets
from omnigraph.storage.faults import faults
from omnigraph.storage.object_faults import Doing
from omnigraph.storage.tables import Reclaimed, VersionInfo


def versions(datasets: Datasets, path: str) -> tuple[VersionInfo, ...]:
    """List the versions of a table's main line that are still there, oldest first; reads each of them."""
    dataset = datasets.latest(path, None)
    with faults(Doing.LIST, datasets.place(path, None)):
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
    datasets: Datasets, path: str, chosen: Sequence[Version], *, dry_run: bool
) -> Reclaimed:
    """Remove the chosen versions of a table's main line, or say what would go.

    Lance keeps HEAD and what its branches stand on. Files of no version may belong to a writer that has not
    committed yet: only those older than seven days go with them.
    """
    if not chosen:
        return Reclaimed(versions=0, bytes=0)
    dataset = datasets.latest(path, None)
    with faults(Doing.DELETE, datasets.place(path, None)):
        names = [int(version) for version in chosen]
        if dry_run:
            stats = dataset.explain_cleanup_old_versions(
                versions=names, error_if_tagged_old_versions=False
            ).stats
        else:
            stats = dataset.cleanup_old_versions(versions=names, error_if_tagged_old_versions=False)
    return Reclaimed(versions=stats.old_versions, bytes=stats.bytes_removed)
