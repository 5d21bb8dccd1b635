"""What cleanup must never remove: everything that a live branch shows or may be merged on."""

import json
import math
from collections.abc import Iterator, Mapping

from omnigraph.engine.engine import Engine
from omnigraph.errors import HistoryReclaimed, OmniError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, Version
from omnigraph.manifest.lineage import merge_base
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import state_of
from omnigraph.storage.layout import STAGING_DIR


def live_snapshots(engine: Engine) -> Mapping[BranchName, Snapshot]:
    """What every live branch shows, read fresh; all of them or a refusal, since any may pin any version."""
    return {branch: state.snapshot for branch, state in _live_states(engine).items()}


def pinned_versions(engine: Engine, path: str) -> frozenset[Version]:
    """The versions of a table's main line that a live branch shows, its own or lazily its parent's, or needs
    to be merged with main again."""
    live = _live_states(engine)
    shown = [state.snapshot for state in live.values()]
    return frozenset(
        entry.version
        for snapshot in (*shown, *_merge_bases(engine, live))
        for entry in snapshot.entries.values()
        if entry.at.path == path and entry.at.branch is None
    )


def _live_states(engine: Engine) -> Mapping[BranchName, BranchState]:
    names = [BranchName(n) for n in engine.manifest.rows.branches() if n != SCHEMA_APPLY_LOCK]
    found: dict[BranchName, BranchState] = {}
    unreadable: list[str] = []
    for branch in (MAIN, *sorted(names)):
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            found[branch] = engine.manifest.load(branch)
        except OmniError as error:
            unreadable.append(f"'{branch}' ({error})")
    if unreadable:
        raise StorageError(
            f"what these branches show could not be read, so that nothing may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )
    return found


def _merge_bases(engine: Engine, live: Mapping[BranchName, BranchState]) -> Iterator[Snapshot]:
    main = live[MAIN]
    for branch, state in live.items():
        if branch == MAIN or state.head is None or main.head is None:
            continue
        known = {**state.lineage.by_id, **main.lineage.by_id}
        base = merge_base(known, state.head.id, main.head.id)
        if base is None:
            continue
        try:
            yield state_of(engine.manifest, branch, base).snapshot
        except HistoryReclaimed:
            # Nothing of a state that is gone can be kept.
            continue


def staging_loads(engine: Engine) -> tuple[str, ...]:
    """The loads that say they are writing files nobody refers to yet; a beacon that cannot be read counts."""
    now = engine.runtime.now_us()
    found = (
        (path, engine.store.objects.read(path)) for path in engine.store.objects.list(STAGING_DIR)
    )
    return tuple(path for path, text in found if text is not None and _expiry(text) > now)


def _expiry(text: str) -> float:
    try:
        return float(json.loads(text)["expires_us"])
    except (ValueError, LookupError, TypeError):
        return math.inf
