"""What cleanup must never remove: everything that a live branch shows or may be merged on."""

from collections.abc import Iterator, Mapping

from omnigraph.engine.engine import Engine
from omnigraph.errors import HistoryReclaimed, NotFoundError, OmniError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, Version
from omnigraph.manifest.lineage import merge_base
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.records import GraphCommit, graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import state_of
from omnigraph.storage.refs import MAIN_LINE


def live_snapshots(engine: Engine) -> Mapping[BranchName, Snapshot]:
    """What every live branch shows, read fresh; all of them or a refusal, since any may pin any version."""
    return {branch: state.snapshot for branch, state in _live_states(engine).items()}


def pinned_versions(engine: Engine, path: str, branch: str | None) -> frozenset[Version]:
    """The versions of one line of a table that a live branch shows, its own or lazily its parent's, or needs
    to be merged with main or with its parent again."""
    live = _live_states(engine)
    shown = [state.snapshot for state in live.values()]
    return frozenset(
        entry.version
        for snapshot in (*shown, *_merge_bases(engine, live))
        for entry in snapshot.entries.values()
        if entry.at.path == path and entry.at.branch == branch
    )


def _live_states(engine: Engine) -> Mapping[BranchName, BranchState]:
    refs = engine.manifest.rows.branches()
    lines = {BranchName(n): refs[n].incarnation for n in sorted(refs) if n != SCHEMA_APPLY_LOCK}
    found: dict[BranchName, BranchState] = {}
    unreadable: list[str] = []
    for branch, line in ({MAIN: MAIN_LINE} | lines).items():
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            found[branch] = engine.manifest.load(branch)
        except OmniError as error:
            # One that another process deletes meanwhile shows nothing any more.
            if not engine.manifest.is_gone(branch, line):
                unreadable.append(f"'{branch}' ({error})")
    if unreadable:
        raise StorageError(
            f"what these branches show could not be read, so that nothing may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )
    return found


def _merge_bases(engine: Engine, live: Mapping[BranchName, BranchState]) -> Iterator[Snapshot]:
    parents = {
        ref.name: graph_branch(ref.parent) for ref in engine.manifest.rows.branches().values()
    }
    pairs = {
        frozenset((branch, other))
        for branch in live
        for other in (MAIN, parents.get(branch, MAIN))
        if branch != other and other in live
    }
    for one, other in sorted(map(sorted, pairs)):
        base = _base(live[one], live[other])
        if base is None:
            continue
        try:
            yield state_of(engine.manifest, one, base).snapshot
        except (HistoryReclaimed, NotFoundError):
            # Nothing of a state that is gone can be kept.
            continue
        except OmniError:
            if not any(engine.manifest.is_gone(name, live[name].line) for name in (one, other)):
                raise


def _base(one: BranchState, other: BranchState) -> GraphCommit | None:
    if one.head is None or other.head is None:
        return None
    return merge_base({**one.lineage.by_id, **other.lineage.by_id}, one.head.id, other.head.id)
