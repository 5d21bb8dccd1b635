"""Old versions of the manifest: cleanup removes the versions that nothing needs and whose state can no longer be read."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from omnigraphdb.commit.locks import manifest_key
from omnigraphdb.engine.maintenance.orphans import ACTIVITY
from omnigraphdb.engine.maintenance.retention import PinnedStates
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import HistoryReclaimed, RowContention
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName, Version
from omnigraphdb.limits import MANIFEST_SECONDS_MIN
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.storage.values import Reclaimed, VersionInfo

_log = get_logger(__name__)

KeptVersions = Mapping[tuple[str, str | None], frozenset[Version]]
"""The versions that the rules keep of each cleaned table and fork; other tables keep all versions."""

NOTHING: Final = Reclaimed(versions=0, bytes=0)


def reclaim_manifest(
    engine: Engine,
    branch: BranchName,
    pinned: PinnedStates,
    kept_versions: KeptVersions,
    *,
    dry_run: bool,
) -> Reclaimed:
    """Remove the versions of the manifest on a branch whose commits cannot be read any more.

    A version stays when the rules keep all table versions that it shows; every later version stays, too. The versions
    that merges, tags and branches need also stay; the lock under which those are made is held while they are read.
    """
    with engine.committer.locks.acquire([manifest_key(lance_branch(branch))], ACTIVITY):
        fail(Failpoint.CLEANUP_MANIFEST)
        if not dry_run:
            # A rival that comes first leaves nothing to do.
            with suppress(RowContention):
                engine.manifest.rows.supersede(lance_branch(branch))
        pinned.look_again()
        if pinned.live[branch].stamp != CURRENT:
            # A release that migrates it may be at work.
            return NOTHING
        versions = engine.manifest.rows.versions(lance_branch(branch))
        first = _find_first(engine, versions, pinned.live[branch].snapshot, kept_versions)
        needed = pinned.list_manifests(branch)
        candidates = [info.version for info in versions if info.version < first]
        unpinned = [version for version in candidates if version not in needed]
        with engine.manifest.lock_versions(branch) as may_remove:
            if not (may_remove or dry_run):
                _log.warning("manifest.versions_in_use", branch=branch)
                return NOTHING
            reclaimed = engine.manifest.reclaim(branch, unpinned, dry_run=dry_run)
            fail(Failpoint.CLEANUP_RECLAIMED)
        return reclaimed


def _find_first(
    engine: Engine, versions: Sequence[VersionInfo], head: Snapshot, kept_versions: KeptVersions
) -> Version:
    """Find the first of the versions that stay; it is never later than `head`, the version that the branch showed at first.

    Pins only grow along a branch, so that all versions after a readable version can be read.
    """
    older = [info.version for info in versions if info.version < head.version]
    number = bisect_left(
        older, True, key=lambda version: _is_readable(engine, version, head, kept_versions)
    )
    foreign = engine.manifest.rows.foreign(lance_branch(head.branch))
    if not foreign.isdisjoint(older):
        # A foreign version is not a state of the branch: it says nothing about the versions before it.
        own_versions = [info for info in versions if info.version not in foreign]
        return _find_first(engine, own_versions, head, kept_versions)
    first = older[number] if number < len(older) else head.version
    # Without publish locks, a publisher may still build on a version that was just replaced.
    return first if engine.manifest.publish_locks is not None else min(first, _find_young(versions))


def _find_young(versions: Sequence[VersionInfo]) -> Version:
    """Find the first version that was replaced a short time before the newest one was written."""
    since = versions[-1].created_us - int(MANIFEST_SECONDS_MIN * 1_000_000)
    recent = (info.version for info, next_ in pairwise(versions) if next_.created_us >= since)
    return next(recent, versions[-1].version)


def _is_readable(
    engine: Engine, version: Version, head: Snapshot, kept_versions: KeptVersions
) -> bool:
    """Whether the rules keep each table version of an old state, or the branch still shows it."""
    try:
        state = engine.manifest.load(head.branch, version)
    except HistoryReclaimed:
        return False
    current_tables = {entry.at for entry in head.entries.values()}
    past_tables = {entry.at for entry in state.snapshot.entries.values()} - current_tables
    return all(
        (at.path, at.branch) not in kept_versions or at.version in kept_versions[at.path, at.branch]
        for at in past_tables
    )
