"""What follows a commit: cached ids, index coverage, automatic maintenance. Mutate, load, merge and schema apply call it once each."""

from typing import Any

from omnigraph.commit.plan import WritePlan
from omnigraph.engine.attempt import Done
from omnigraph.engine.maintenance.auto import maintain_touched
from omnigraph.engine.maintenance.indexes import index_after_load, index_after_schema_change
from omnigraph.engine.session.engine import Engine
from omnigraph.manifest.publish import Published
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.view import View
from omnigraph.pipeline.progress import Tell, tell_nobody
from omnigraph.storage.tables import Workers


def after_commit(
    engine: Engine,
    done: Done[Any],
    index_workers: Workers | None = None,
    tell: Tell = tell_nobody,
) -> tuple[str, ...]:
    """Look after the tables of a write, and name the indexes that are still missing.

    The write is visible already: a failure in here is logged, leaves work for later and never fails the write.
    """
    if done.plan is None or done.published is None or done.published.commit is None:
        return ()
    _follow_cached_ids(engine, done.view, done.plan, done.published)
    pending = _build_indexes(engine, done.plan, done.published.commit, index_workers, tell)
    if done.plan.commit_kind is not CommitKind.SCHEMA_APPLY:
        maintain_touched(engine, done.plan.branch, done.published.commit.tables)
    return pending


def _follow_cached_ids(engine: Engine, base: View, plan: WritePlan, published: Published) -> None:
    """Carry cached ids over to the versions that the write made, where it says which ids came and went."""
    entries = published.state.snapshot.entries
    for write in plan.tables:
        before = base.snapshot.entries.get(write.table_key)
        after = entries.get(write.table_key)
        if write.delta is None or before is None or after is None:
            continue
        if after.version == before.version + 1:
            engine.cached_ids.advance(before, after, write.delta)


def _build_indexes(
    engine: Engine, plan: WritePlan, commit: GraphCommit, workers: Workers | None, tell: Tell
) -> tuple[str, ...]:
    """Build what a bulk write or a new schema left missing. Mutations and merges leave it to maintenance."""
    match plan.commit_kind:
        case CommitKind.LOAD:
            return index_after_load(engine, plan.branch, commit.tables, plan.actor, workers, tell)
        case CommitKind.SCHEMA_APPLY:
            return index_after_schema_change(engine, plan.actor, tell)
        case _:
            return ()
