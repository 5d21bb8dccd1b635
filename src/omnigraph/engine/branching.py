"""Making a branch, from now or from a point of history, so that no cleanup takes away what it shows."""

from functools import partial

from omnigraph.commit.queues import queue_key
from omnigraph.engine.engine import Engine
from omnigraph.errors import ConflictError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import Branch, create_branch
from omnigraph.manifest.names import branch_name, new_branch_name
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import At

OPERATION = "branch create"


class _Moved(ConflictError):
    """The source went on while its branch was made: what it left behind may be about to be removed."""


def create(
    engine: Engine, name: str, source: str = MAIN, at: At | None = None
) -> tuple[Branch, BranchState]:
    """Make a branch that shows what its source shows; gives the state it was made from as well."""
    engine.require_writable(OPERATION)
    new_branch_name(name, OPERATION)
    base = engine.view(branch_name(source, OPERATION), at).state
    if at is None:
        try:
            made = _made(engine, name, base, captured=True)
        except _Moved:
            return _held(engine, name, base), base
        return made, base
    return _held(engine, name, base), base


def _made(engine: Engine, name: str, base: BranchState, *, captured: bool) -> Branch:
    return create_branch(
        engine.manifest,
        engine.store.tables,
        name,
        source=base.branch,
        at=base.version,
        state=base if captured else None,
        proved=partial(_require_newest if captured else _require_there, engine),
    )


def _require_newest(engine: Engine, base: BranchState) -> None:
    """Cleanup keeps what a live branch shows: what the source shows now is safe, whenever cleanup looked."""
    if engine.manifest.current(BranchName(base.branch)).version != base.version:
        raise _Moved("the source moved while the branch was made")


def _held(engine: Engine, name: str, base: BranchState) -> Branch:
    """Make a branch of a past state under the turns of its tables: cleanup removes versions only under the same.

    Either cleanup was there before, and the branch is refused, or it comes later and sees the branch.
    """
    fail(Failpoint.BRANCH_PAST)
    keys = [queue_key(e.table_key, e.at.branch) for e in base.snapshot.entries.values()]
    with engine.desk.queues.hold(keys):
        return _made(engine, name, base, captured=False)


def _require_there(engine: Engine, base: BranchState) -> None:
    for entry in base.snapshot.entries.values():
        # What is open may have been removed by another process since.
        engine.store.tables.forget(entry.at.path, entry.at.branch)
        engine.store.tables.open(entry.at)
