"""Applying a schema: plan, lock, change tables, publish once, put the new schema files in place."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from omnigraphdb.catalog.diff import types
from omnigraphdb.catalog.diff.steps import SchemaPlan, Step, first_refusal
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.guard import drift
from omnigraphdb.commit.locks import SCHEMA_APPLY, HeldLocks, lock_key
from omnigraphdb.commit.plan import (
    ANONYMOUS,
    Header,
    NewTable,
    ReshapeColumns,
    RewriteRows,
    SchemaChange,
    TableWrite,
    WriteOptions,
    WritePlan,
    mint_header,
    plan_of,
)
from omnigraphdb.commit.sidecar import Registration, Tombstone, WriterKind
from omnigraphdb.commit.stage import ALONE, StageWorkers, stage_commit
from omnigraphdb.engine.after_commit import after_commit
from omnigraphdb.engine.attempt import commit_locked
from omnigraphdb.engine.keyed import (
    KeyedRequest,
    Receipt,
    Replay,
    RequestKind,
    find_replay,
    make_write_request,
    record_key,
    replay_in,
)
from omnigraphdb.engine.maintenance.operation import refuse_pending
from omnigraphdb.engine.results import SchemaApplyResult, public_commit
from omnigraphdb.engine.schema.work import Work, work_of
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice, choose_by_size
from omnigraphdb.engine.writer import CompletedWrite
from omnigraphdb.errors import OmniError, PreconditionFailed, SchemaApplyConflict
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, OperationId, TableKey, Version
from omnigraphdb.language.source import Source
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.accepted_schema import AcceptedSchema
from omnigraphdb.manifest.branches import (
    is_schema_locked,
    list_branches,
    lock_schema,
    refuse_during_schema_apply,
    unlock_schema,
)
from omnigraphdb.manifest.change import OperationDraft
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress, track_tables
from omnigraphdb.pipeline.rewrite import RunnerRewriter, measure_tables
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass
from omnigraphdb.wire import from_dict

_log = get_logger(__name__)

_Remove = Callable[[Tables, str], None]


ACTIVITY = Activity(str(WriterKind.SCHEMA_APPLY))


def plan_schema(engine: Engine, source: Source, *, allow_data_loss: bool = False) -> SchemaPlan:
    """Plan a schema change; read no data and change nothing."""
    accepted = engine.contracts.current().catalog
    return types.plan(accepted, compile_schema(source), allow_data_loss=allow_data_loss)


def apply_schema(
    engine: Engine,
    source: Source,
    *,
    allow_data_loss: bool = False,
    options: WriteOptions = ANONYMOUS,
    on_progress: OnProgress = ignore_progress,
    choose_runner: ChooseRunner | None = None,
) -> SchemaApplyResult:
    """Change the schema of the graph in one commit; an unsupported change is refused as a whole.

    `choose_runner` selects the runner that rewrites the tables that lose a column for good; by default this process does it.
    """
    engine.require_writable("schema apply")
    desired = compile_schema(source)
    request = make_write_request(
        RequestKind.SCHEMA_APPLY, MAIN, options, text=source.text, allow_data_loss=allow_data_loss
    )
    replay = find_replay(engine, request)
    if replay is not None:
        return _replay(engine, replay, options.actor)
    engine.recovery.heal()
    with _schema_lock(engine) as lock, _lock_all_tables(engine, lock) as held_locks:
        view = engine.view(MAIN)
        # A rival with the same key had the locks until now.
        replay = None if request is None else replay_in(view.state, request)
        if replay is not None:
            return _replay(engine, replay, options.actor)
        if options.if_commit is not None and view.commit != options.if_commit:
            raise PreconditionFailed(options.if_commit, view.commit)
        plan = _require_supported(view, desired, allow_data_loss)
        receipt = {"steps": [step.to_dict() for step in plan.steps], "warnings": [*plan.warnings]}
        if not plan.steps:
            return _change_nothing(engine, view, plan, request, receipt, options.actor)
        # With every lock held, a pending operation has no owner left: recovery comes first.
        refuse_pending(engine, "schema apply", held_locks)
        work = work_of(view.contract, desired)
        choice = _choose_rewriter(
            engine, view, work.stripped if allow_data_loss else (), choose_runner
        )
        receipt |= {"engine": choice.engine, "reason": choice.reason}
        # The expectation of the caller was checked: the change is made of this head.
        kinds = WriterKind.SCHEMA_APPLY, CommitKind.SCHEMA_APPLY
        header = mint_header(engine.runtime, *kinds, replace(options, if_commit=view.commit))
        change = _Change(
            engine=engine,
            view=view,
            accepted=AcceptedSchema(source=source.text, contract=work.contract),
            work=work,
            header=header,
            forgets=allow_data_loss,
            choice=choice,
            on_progress=on_progress,
            operation=None if request is None else request.draft(header.operation_id, receipt),
        )
        done = change.commit(held_locks)
        history_warnings = _forget_dropped(engine, view.snapshot, work) if allow_data_loss else ()
    return SchemaApplyResult(
        uri=engine.uri,
        steps=plan.steps,
        manifest_version=done.outcome,
        actor=options.actor,
        commit=public_commit(done.commit),
        warnings=(*plan.warnings, *history_warnings),
        pending_indexes=after_commit(engine, done, choice.index_workers, on_progress=on_progress),
        engine=choice.engine,
        reason=choice.reason,
    )


def _change_nothing(
    engine: Engine,
    view: View,
    plan: SchemaPlan,
    request: KeyedRequest | None,
    receipt: Receipt,
    actor: str | None,
) -> SchemaApplyResult:
    """Return the result of a schema that is accepted already; only its key is recorded."""
    if request is not None:
        record_key(engine, request, OperationId(engine.runtime.new_id()), receipt)
    return SchemaApplyResult(
        uri=engine.uri,
        steps=(),
        manifest_version=view.version,
        actor=actor,
        commit=None,
        warnings=plan.warnings,
        reason=_NO_REWRITE,
    )


_NO_REWRITE: Final = "no row is written anew"


def _choose_rewriter(
    engine: Engine, view: View, stripped: Collection[TableKey], choose_runner: ChooseRunner | None
) -> RunnerChoice:
    """Choose the runner that rewrites rows, by their number and size."""
    versions = [view.snapshot.entry(key).at for key in sorted(stripped)]
    if not versions:
        return RunnerChoice(None, _NO_REWRITE)
    size = measure_tables(engine.store.tables, versions)
    return choose_by_size(engine, size) if choose_runner is None else choose_runner(size)


def _replay(engine: Engine, replay: Replay, actor: str | None) -> SchemaApplyResult:
    commit = replay.commit
    return SchemaApplyResult(
        uri=engine.uri,
        steps=tuple(from_dict(Step, step) for step in replay.receipt["steps"]),
        manifest_version=engine.manifest.current(MAIN).version
        if commit is None
        else commit.manifest_version,
        actor=actor,
        commit=public_commit(commit),
        warnings=tuple(replay.receipt["warnings"]),
        replayed=True,
        engine=replay.receipt.get("engine", "local"),
        reason=replay.receipt.get("reason", ""),
    )


def _require_supported(view: View, desired: Catalog, allow_data_loss: bool) -> SchemaPlan:
    plan = types.plan(view.catalog, desired, allow_data_loss=allow_data_loss)
    if not plan.supported:
        rows = {key: entry.row_count for key, entry in view.snapshot.entries.items()}
        raise first_refusal(plan, rows)
    return plan


@contextmanager
def _lock_all_tables(engine: Engine, lock: HeldLocks) -> Iterator[HeldLocks]:
    """Hold the locks of all tables of main: running writers end first, new ones wait.

    The schema's own lock sorts before every table, so locks are still taken in sorted order.
    """
    tables = engine.manifest.current(MAIN).snapshot.entries
    keys = [lock_key(key, None) for key in tables]
    with engine.committer.locks.acquire(keys, ACTIVITY) as held_locks:
        yield HeldLocks({**lock.locks, **held_locks.locks})


# ---- one commit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One schema change on its way from a view to a commit; `forgets` removes dropped columns from the files, too."""

    engine: Engine
    view: View
    accepted: AcceptedSchema
    work: Work
    header: Header
    forgets: bool
    choice: RunnerChoice
    """The runner that rewrites rows."""
    operation: OperationDraft | None
    on_progress: OnProgress

    def commit(self, held_locks: HeldLocks) -> CompletedWrite[Version]:
        """Make the change visible, or leave it to recovery, or leave no trace."""
        self._require_no_drift()
        try:
            plan = self._plan()
            count = len(self.work.touched)
            self.on_progress(Progress("commit", 0, count, Unit.TABLES))
            committed = commit_locked(self.engine, plan, held_locks, self._workers)
            self.on_progress(Progress("commit", count, count, Unit.TABLES))
            version = committed.published.version
            return CompletedWrite(view=self.view, plan=plan, outcome=version, committed=committed)
        except PreconditionFailed as error:
            raise self._make_lease_error() from error
        finally:
            self.engine.contracts.forget()

    @property
    def _workers(self) -> StageWorkers:
        runner = self.choice.runner
        if runner is None:
            return ALONE
        return StageWorkers(rewriter=RunnerRewriter(runner=runner, location=self.engine.location))

    def _plan(self) -> WritePlan:
        tables = sorted(self.work.reshaped)
        writes = [self._write(key) for key in track_tables(self.on_progress, "reshape", tables)]
        return replace(
            plan_of(self.header, self.view.snapshot, writes, self.view.snapshot.pins),
            registrations=tuple(self._registrations()),
            creations=dict(self._creations()),
            tombstones=tuple(self._tombstones()),
            schema=SchemaChange(self.accepted, self.view.contract),
            operation=self.operation,
        )

    # ---- tables

    def _entry(self, key: TableKey) -> Entry:
        return self.view.snapshot.entry(key)

    def _write(self, key: TableKey) -> TableWrite:
        base = self._entry(key).at
        reshape = ReshapeColumns(self.work.reshaped[key])
        staged = stage_commit(self.engine.store.tables, base, reshape).staged
        steps = (RewriteRows(),) if self.forgets and key in self.work.stripped else ()
        return TableWrite(table_key=key, base=base, strict=True, staged=staged, steps=steps)

    def _registrations(self) -> Iterator[Registration]:
        for key, new in self.work.created.items():
            yield Registration(table_key=key, table_path=new.path)
        for old, renamed in self.work.renamed.items():
            yield Registration(
                table_key=renamed, table_path=self._entry(old).at.path, created=False
            )

    def _creations(self) -> Iterator[tuple[TableKey, NewTable | TableAt]]:
        yield from self.work.created.items()
        for old, renamed in self.work.renamed.items():
            yield renamed, self._entry(old).at

    def _tombstones(self) -> Iterator[Tombstone]:
        for key in sorted((*self.work.dropped, *self.work.renamed)):
            yield Tombstone(key, Version(self._entry(key).version + 1))

    def _require_no_drift(self) -> None:
        """Compare HEAD and pin of renamed and dropped tables: no other step does so, because they are not written."""
        for key in sorted((*self.work.dropped, *self.work.renamed)):
            entry = self._entry(key)
            head = self.engine.store.tables.head(entry.at.path, None)
            if head != entry.version:
                raise drift(self.engine.committer.sidecars, key, None, entry.version, head)

    def _make_lease_error(self) -> SchemaApplyConflict:
        return SchemaApplyConflict(
            "schema apply lost its lease: main advanced while tables were changed; the change was taken back",
            hint="retry",
        )


# ---- the lock
# One schema change at a time, and no other write meanwhile.


@contextmanager
def _schema_lock(engine: Engine) -> Iterator[HeldLocks]:
    """Hold the graph for a schema change; the lock is released when the block ends, also by an error."""
    _refuse_running(engine)
    with engine.committer.locks.acquire([SCHEMA_APPLY], ACTIVITY) as held_locks:
        lock_schema(engine.manifest, engine.store.tables)
        try:
            fail(Failpoint.SCHEMA_LOCKED)
            _refuse_branches(engine)
            yield held_locks
        finally:
            unlock_schema(engine.manifest)


def _refuse_running(engine: Engine) -> None:
    """Refuse at once while another schema change runs; a killed schema change does not count."""
    if is_schema_locked(engine.manifest):
        engine.recovery.drop_dead_schema_lock()
        refuse_during_schema_apply(engine.manifest.rows.branches(), "schema apply")


def _refuse_branches(engine: Engine) -> None:
    names = [branch.name for branch in list_branches(engine.manifest)[1:]]
    if names:
        raise SchemaApplyConflict.of_branches(names)


# ---- hard drops
# Dropped tables and columns also leave the history.


def _forget_dropped(engine: Engine, before: Snapshot, work: Work) -> tuple[str, ...]:
    """Remove dropped tables and the past of tables that lost a column; return a warning for each failed removal.

    The change is visible already, so that a failure here may not fail it.
    """
    dropped = ((before.entry(key), _remove_table) for key in work.dropped)
    stripped = ((before.entry(key), _remove_past) for key in sorted(work.stripped))
    return tuple(_remove_each(engine, (*dropped, *stripped)))


def _remove_each(engine: Engine, work: tuple[tuple[Entry, _Remove], ...]) -> Iterator[str]:
    for entry, remove in work:
        try:
            remove(engine.store.tables, entry.at.path)
        except OmniError as error:
            _log.warning("schema.history_kept", table=entry.table_key, reason=str(error))
            yield (
                f"what was dropped of {entry.table_key} is still in its history ({error}); "
                "`omnigraphdb cleanup` removes it"
            )


def _remove_table(tables: Tables, path: str) -> None:
    tables.delete_table(path)


def _remove_past(tables: Tables, path: str) -> None:
    *past, _ = (info.version for info in tables.versions(path))
    tables.reclaim(path, past, dry_run=False)
