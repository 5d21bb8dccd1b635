"""Old versions of the manifest: those go that show a state which cleanup left unreadable, and nothing stands on."""

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
"""The versions that the rules keep of each table and fork that was cleaned; of the others all stay."""

NOTHING: Final = Reclaimed(versions=0, bytes=0)


def reclaim_manifest(
    engine: Engine, branch: BranchName, pinned: PinnedStates, kept: KeptVersions, *, dry_run: bool
) -> Reclaimed:
    """Remove the versions of the manifest on a branch whose commits cannot be read any more.

    A version stays when the rules keep all table versions that it shows, and so does every later one; so do the
    versions that merges, tags and branches need, looked up under the lock that they are made under.
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
        first = _find_first(engine, versions, pinned.live[branch].snapshot, kept)
        needed = pinned.list_manifests(branch)
        chosen = [one.version for one in versions if one.version < first]
        unpinned = [version for version in chosen if version not in needed]
        with engine.manifest.lock_versions(branch) as may_remove:
            if not (may_remove or dry_run):
                _log.warning("manifest.versions_in_use", branch=branch)
                return NOTHING
            reclaimed = engine.manifest.reclaim(branch, unpinned, dry_run=dry_run)
            fail(Failpoint.CLEANUP_RECLAIMED)
        return reclaimed


def _find_first(
    engine: Engine, versions: Sequence[VersionInfo], head: Snapshot, kept: KeptVersions
) -> Version:
    """Find the first version from which on all stay; not after `head`, what the branch showed at the first look.

    Pins only grow along a branch, so that a version that can be read is followed by others that can.
    """
    older = [one.version for one in versions if one.version < head.version]
    number = bisect_left(older, True, key=lambda one: _is_readable(engine, one, head, kept))
    foreign = engine.manifest.rows.foreign(lance_branch(head.branch))
    if not foreign.isdisjoint(older):
        # No state of the branch: it says nothing about those before it.
        own = [one for one in versions if one.version not in foreign]
        return _find_first(engine, own, head, kept)
    first = older[number] if number < len(older) else head.version
    # Where publishers do not lock one another out, one of them may stand on a version that was just replaced.
    return first if engine.manifest.publish_locks is not None else min(first, _find_young(versions))


def _find_young(versions: Sequence[VersionInfo]) -> Version:
    """Find the first version that was replaced a short time before the newest one was written."""
    since = versions[-1].created_us - int(MANIFEST_SECONDS_MIN * 1_000_000)
    young = (one.version for one, next_ in pairwise(versions) if next_.created_us >= since)
    return next(young, versions[-1].version)


def _is_readable(engine: Engine, version: Version, head: Snapshot, kept: KeptVersions) -> bool:
    """Whether the rules keep every table at the version that is shown, or the branch shows it still."""
    try:
        state = engine.manifest.load(head.branch, version)
    except HistoryReclaimed:
        return False
    lasting = {entry.at for entry in head.entries.values()}
    shown = {entry.at for entry in state.snapshot.entries.values()} - lasting
    return all(
        (at.path, at.branch) not in kept or at.version in kept[at.path, at.branch] for at in shown
    )
