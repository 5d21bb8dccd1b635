"""One write from entry to commit: heal, look, prepare, commit; prepared again, under its turns, when its base moved."""

from collections.abc import Callable

from omnigraph.commit.guard import StaleBase
from omnigraph.commit.plan import WritePlan
from omnigraph.commit.protocol import commit
from omnigraph.commit.queues import QueueKey
from omnigraph.engine.engine import Engine
from omnigraph.ids import BranchName
from omnigraph.limits import PREPARE_ROUNDS_MAX
from omnigraph.manifest.publish import Published
from omnigraph.manifest.view import View

Prepare = Callable[[View], WritePlan | None]
"""A writer: from a view to a plan, or to nothing to do."""


def attempt(engine: Engine, branch: BranchName, prepare: Prepare) -> Published | None:
    """Run a writer; None when it had nothing to write."""
    engine.recovery.heal()
    plan = prepare(engine.view(branch))
    if plan is None:
        return None
    try:
        return commit(engine.desk, plan)
    except StaleBase:
        if plan.is_strict:
            raise
    return _under_queues(engine, branch, prepare, plan.queues)


def _under_queues(
    engine: Engine, branch: BranchName, prepare: Prepare, keys: frozenset[QueueKey]
) -> Published | None:
    """Prepare again while holding the turns, so that nobody can move the base a second time."""
    last: StaleBase | None = None
    for _ in range(PREPARE_ROUNDS_MAX):
        with engine.desk.queues.hold(keys) as held:
            plan = prepare(engine.view(branch))
            if plan is None:
                return None
            if held.covers(plan.queues):
                try:
                    return commit(engine.desk, plan, held)
                except StaleBase as error:
                    # A process that does not take turns moved a table; look again.
                    last = error
            keys = keys | plan.queues
    assert last is not None, "a plan that needs more turns in every round"
    raise last
