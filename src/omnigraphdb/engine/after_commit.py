"""The steps after a commit: cached ids, index coverage, automatic maintenance, adjacency files.

Mutate, load, merge, assign and schema apply call them once each.
"""

from typing import Any

from omnigraphdb.commit.plan import WritePlan
from omnigraphdb.engine.cached.ids import follow_cached_ids
from omnigraphdb.engine.maintenance.adjacency_files import store_adjacencies
from omnigraphdb.engine.maintenance.auto import maintain_touched
from omnigraphdb.engine.maintenance.indexes import (
    find_buildable_indexes,
    index_after_load,
    index_after_schema_change,
)
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite
from omnigraphdb.errors import OmniError, warn_caller
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.pipeline.progress import OnProgress, ignore_progress
from omnigraphdb.storage.tables import Workers


def after_commit(
    engine: Engine,
    done: CompletedWrite[Any],
    index_workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
    *,
    rows_max: int | None = None,
    adjacency_bytes_max: int | None = None,
) -> tuple[str, ...]:
    """Look after the tables of a write, and name the indexes that are still missing.

    Indexes of tables with more rows than `rows_max` are left pending. The write is visible already: a failure in here is
    logged, leaves work for later and never fails the write.
    """
    if done.plan is None or done.published is None or done.published.commit is None:
        return ()
    new_snapshot = done.published.state.snapshot
    follow_cached_ids(engine.cached_ids, done.plan, done.view.snapshot, new_snapshot)
    pending = _build_indexes(
        engine, done.plan, done.published.commit, index_workers, on_progress, rows_max
    )
    if pending:
        _warn_of_unbuilt(engine, done.plan.branch, pending)
    if done.plan.commit_kind is not CommitKind.SCHEMA_APPLY:
        maintain_touched(engine, done.plan.branch, done.published.commit.tables)
    if _keeps_adjacencies(engine, done.plan):
        store_adjacencies(engine, done.published.commit.tables, adjacency_bytes_max)
    return pending


def _warn_of_unbuilt(engine: Engine, branch: BranchName, pending: tuple[str, ...]) -> None:
    try:
        unbuilt = find_buildable_indexes(engine, branch, pending)
    except OmniError:
        # The error that prevented the build also prevents the search.
        unbuilt = pending
    if unbuilt:
        warn_caller(
            f"indexes of branch '{branch}' are not built: {', '.join(unbuilt)}; the commit is whole, reads "
            "without them are slower; `ensure_indices` or `omnigraphdb optimize` builds them"
        )


def _keeps_adjacencies(engine: Engine, plan: WritePlan) -> bool:
    is_load = plan.commit_kind is CommitKind.LOAD and plan.branch == MAIN
    return is_load and engine.settings.maintenance != "off"


def _build_indexes(
    engine: Engine,
    plan: WritePlan,
    commit: GraphCommit,
    workers: Workers | None,
    on_progress: OnProgress,
    rows_max: int | None,
) -> tuple[str, ...]:
    """Build the indexes that a bulk write or a new schema left missing; other writes leave them to maintenance."""
    match plan.commit_kind:
        case CommitKind.LOAD:
            return index_after_load(
                engine,
                plan.branch,
                commit.tables,
                plan.actor,
                workers,
                on_progress,
                rows_max=rows_max,
            )
        case CommitKind.SCHEMA_APPLY:
            return index_after_schema_change(engine, plan.actor, workers, on_progress)
        case _:
            return ()
