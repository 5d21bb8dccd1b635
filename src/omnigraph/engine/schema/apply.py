"""Applying a schema: plan, lock, change tables, publish once, put the new schema files in place."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.catalog.diff import types
from omnigraph.catalog.diff.steps import SchemaPlan, first_refusal
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.commit.guard import drift
from omnigraph.commit.locks import HeldLocks, lock_key
from omnigraph.commit.plan import (
    Header,
    NewTable,
    ReshapeColumns,
    RewriteRows,
    SchemaChange,
    TableWrite,
    WritePlan,
    mint_header,
    plan_of,
)
from omnigraph.commit.sidecar import Registration, Tombstone, WriterKind
from omnigraph.commit.stage import stage_commit
from omnigraph.engine.after_commit import after_commit
from omnigraph.engine.attempt import Done, commit_held
from omnigraph.engine.maintenance.operation import refuse_pending
from omnigraph.engine.results import SchemaApplyResult, view_commit
from omnigraph.engine.schema.lock import ACTIVITY, schema_lock
from omnigraph.engine.schema.loss import forget_dropped
from omnigraph.engine.schema.work import Work, work_of
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import PreconditionFailed, SchemaApplyConflict
from omnigraph.ids import MAIN, TableKey, Version
from omnigraph.language.source import Source
from omnigraph.manifest.accepted_schema import AcceptedSchema
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.pipeline.progress import Progress, Tell, Unit, tell_nobody, track_tables
from omnigraph.storage.values import TableAt
from omnigraph.values import dataclass


def plan_schema(engine: Engine, source: Source, *, allow_data_loss: bool = False) -> SchemaPlan:
    """Say what applying a schema would do; reads no data and changes nothing."""
    accepted = engine.contracts.current().catalog
    return types.plan(accepted, compile_schema(source), allow_data_loss=allow_data_loss)


def apply_schema(
    engine: Engine,
    source: Source,
    *,
    allow_data_loss: bool = False,
    actor: str | None = None,
    tell: Tell = tell_nobody,
) -> SchemaApplyResult:
    """Change the schema of the graph in one commit; what is not supported is refused as a whole."""
    engine.require_writable("schema apply")
    desired = compile_schema(source)
    engine.recovery.heal()
    with schema_lock(engine) as lock, _lock_all_tables(engine, lock) as held_locks:
        view = engine.view(MAIN)
        plan = _require_supported(view, desired, allow_data_loss)
        if not plan.steps:
            return SchemaApplyResult(
                uri=engine.uri,
                steps=(),
                manifest_version=view.version,
                actor=actor,
                commit=None,
                warnings=plan.warnings,
            )
        # With every lock held, a pending operation has no owner left: recovery goes first.
        refuse_pending(engine, "schema apply", held_locks)
        work = work_of(view.contract, desired)
        header = mint_header(
            engine.runtime,
            WriterKind.SCHEMA_APPLY,
            CommitKind.SCHEMA_APPLY,
            actor,
            if_commit=view.commit,
        )
        change = _Change(
            engine=engine,
            view=view,
            accepted=AcceptedSchema(source=source.text, contract=work.contract),
            work=work,
            header=header,
            forgets=allow_data_loss,
            tell=tell,
        )
        done = change.commit(held_locks)
        kept = forget_dropped(engine, view.snapshot, work) if allow_data_loss else ()
    return SchemaApplyResult(
        uri=engine.uri,
        steps=plan.steps,
        manifest_version=done.outcome,
        actor=actor,
        commit=view_commit(done.commit),
        warnings=(*plan.warnings, *kept),
        pending_indexes=after_commit(engine, done, tell=tell),
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
    """One schema change on its way from a view to a commit; `forgets` takes dropped columns out of the files too."""

    engine: Engine
    view: View
    accepted: AcceptedSchema
    work: Work
    header: Header
    forgets: bool
    tell: Tell

    def commit(self, held_locks: HeldLocks) -> Done[Version]:
        """Make it visible, or leave it to recovery, or leave no trace."""
        self._require_no_drift()
        try:
            plan = self._plan()
            count = len(self.work.touched)
            self.tell(Progress("commit", 0, count, Unit.TABLES))
            committed = commit_held(self.engine, plan, held_locks)
            self.tell(Progress("commit", count, count, Unit.TABLES))
            version = committed.published.version
            return Done(view=self.view, plan=plan, outcome=version, committed=committed)
        except PreconditionFailed as error:
            raise self._make_lease_error() from error
        finally:
            self.engine.contracts.forget()

    def _plan(self) -> WritePlan:
        tables = sorted(self.work.reshaped)
        writes = [self._write(key) for key in track_tables(self.tell, "reshape", tables)]
        return replace(
            plan_of(self.header, MAIN, writes, self.view.snapshot.pins),
            registrations=tuple(self._registrations()),
            creations=dict(self._creations()),
            tombstones=tuple(self._tombstones()),
            schema=SchemaChange(self.accepted, self.view.contract),
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
        """A renamed or dropped table is not written, so nobody else looks whether its HEAD is at its pin."""
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
