"""The writing verbs: mutate and load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.changes import ChangeKind, Changes
from omnigraph.commit.constraints import violations
from omnigraph.commit.plan import WritePlan
from omnigraph.commit.sidecar import WriterKind
from omnigraph.compile.arguments import arguments
from omnigraph.compile.checked import CheckedMutation
from omnigraph.engine.attempt import attempt, enter
from omnigraph.engine.engine import Engine
from omnigraph.engine.write.committed import SnapshotRows
from omnigraph.engine.write.load import Input, change_kind, read_input
from omnigraph.engine.write.mutate import Counts, Mutating, run_statements
from omnigraph.engine.write.prepare import Header, prepare
from omnigraph.errors import NotFound, QueryError, ReadSetConflict, UserInputError
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId
from omnigraph.language.source import Source
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.names import branch_name, new_branch_name
from omnigraph.manifest.publish import Published
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.view import View
from omnigraph.runtime import datetime_of

MIXED_WRITES = "T29"
"""Inserts or updates beside deletes; no schema changes that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """What a mutation did."""

    query_name: str
    branch: BranchName
    counts: Counts
    commit: GraphCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a load did."""

    branch: BranchName
    branch_created: bool
    input: Input
    commit: GraphCommit | None


def header(
    engine: Engine,
    kind: WriterKind,
    commit_kind: CommitKind,
    actor: str | None,
    if_commit: CommitId | None = None,
) -> Header:
    """Name one write: its ids are minted once and survive every retry."""
    return Header(
        kind=kind,
        commit_kind=commit_kind,
        actor=actor,
        operation_id=OperationId(engine.runtime.new_id()),
        commit_id=CommitId(engine.runtime.new_id()),
        if_commit=if_commit,
    )


def mutate(
    engine: Engine,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
    if_commit: CommitId | None = None,
) -> Mutated:
    """Run a mutation: all of its statements in one commit, or none."""
    engine.require_writable("mutate")
    target = branch_name(branch, "mutate")
    compiled = _compiled(engine, source, name)
    values = arguments(compiled, params)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    write = header(engine, WriterKind.MUTATION, CommitKind.MUTATION, actor, if_commit)
    writing = Writing(engine, write)
    counts = Counts()

    def changes(view: View, committed: SnapshotRows) -> Changes:
        nonlocal counts
        mutating = Mutating(
            catalog=view.catalog,
            committed=committed,
            params=values,
            now=now,
            runtime=engine.runtime,
        )
        found = run_statements(engine.plans.mutation(view.accepted, source, name), mutating)
        counts = mutating.counts
        return found

    commit = writing.run(target, changes)
    return Mutated(query_name=compiled.name, branch=target, counts=counts, commit=commit)


def _compiled(engine: Engine, source: Source, name: str | None) -> CheckedMutation:
    """Compile against the schema that is known: a bad mutation is refused before anything is asked of the store."""
    held = engine.contracts.held
    if held is not None:
        try:
            return engine.plans.mutation(held, source, name)
        except QueryError as error:
            if error.code == MIXED_WRITES:
                raise
            # A schema that changed meanwhile decides anew.
    enter(engine, "mutation")
    return engine.plans.mutation(engine.contracts.current(), source, name)


@dataclass(slots=True)
class Writing:
    """One write over all its attempts; what it made true is remembered for the next one."""

    engine: Engine
    header: Header
    prepared: tuple[View, Changes] | None = None

    def run(
        self, branch: BranchName, changes: Callable[[View, SnapshotRows], Changes]
    ) -> GraphCommit | None:
        """Prepare and commit; None when there was nothing to write."""

        def prepared(view: View) -> WritePlan | None:
            committed = _committed(self.engine, view)
            found = changes(view, committed)
            self.prepared = (view, found)
            return prepare(view, found, committed, self.engine.hands, self.header)

        published = attempt(self.engine, branch, prepared, str(self.header.commit_kind))
        if published is None:
            return None
        self._remember(published)
        return published.commit

    def _remember(self, published: Published) -> None:
        assert self.prepared is not None, "a write is prepared before it is published"
        view, changes = self.prepared
        after = published.state.snapshot.entries
        for change in changes:
            table = change.type.table_key
            base = view.snapshot.entry(table)
            if after[table].version == base.version + 1:
                self.engine.known.advance(base, after[table], change)


def load(
    engine: Engine,
    source: Any,
    *,
    mode: str,
    branch: BranchName = MAIN,
    from_branch: BranchName | None = None,
    actor: str | None = None,
    allow_empty: bool = False,
    dry_run: bool = False,
) -> Loaded:
    """Load records or frames: everything in one commit, or nothing. `dry_run` checks everything and writes nothing."""
    target = branch_name(branch, "load")
    kind = change_kind(mode)
    if not dry_run:
        engine.require_writable("load")
        enter(engine, "load")
    contract = engine.contracts.current().contract
    if from_branch is None:
        _require_branch(engine, target)
    brought = read_input(source, kind, contract.catalog, engine.runtime)
    _refuse_empty(brought, kind, allow_empty)
    if dry_run:
        base = target if _is_there(engine, target) else branch_name(from_branch or target, "load")
        _require_fit(engine, base, brought)
        return Loaded(branch=target, branch_created=False, input=brought, commit=None)
    write = header(engine, WriterKind.LOAD, CommitKind.LOAD, actor)
    created = from_branch is not None and _create_missing(engine, target, from_branch, brought)

    def changes(view: View, committed: SnapshotRows) -> Changes:
        if view.contract.ir_hash != contract.ir_hash:
            raise ReadSetConflict("the schema", contract.ir_hash, view.contract.ir_hash)
        return brought.changes

    commit = Writing(engine, write).run(target, changes)
    return Loaded(branch=target, branch_created=created, input=brought, commit=commit)


def _require_branch(engine: Engine, target: BranchName) -> None:
    try:
        engine.manifest.line(target)
    except NotFound as error:
        error.hint = "pass --from (from_branch) to create it"
        raise


def _refuse_empty(brought: Input, kind: ChangeKind, allow_empty: bool) -> None:
    if kind is ChangeKind.REPLACE and not brought.records and not allow_empty:
        raise UserInputError(
            f"{brought.name} has 0 records, and mode overwrite would replace nothing; no changes were made",
            hint="check the path, or pass allow_empty",
        )


def _create_missing(engine: Engine, target: BranchName, base: BranchName, brought: Input) -> bool:
    """Fork the target from its base when it is not there yet and the load will fit there."""
    if _is_there(engine, target):
        return False
    new_branch_name(target, "load")
    _require_fit(engine, branch_name(base, "load"), brought)
    create_branch(engine.manifest, engine.store.tables, target, source=base)
    return True


def _is_there(engine: Engine, branch: BranchName) -> bool:
    return branch == MAIN or branch in engine.manifest.rows.branches()


def _require_fit(engine: Engine, branch: BranchName, brought: Input) -> None:
    """Raise with every rule that a load would break on a branch as it is now."""
    view = engine.view(branch)
    found = violations(brought.changes, _committed(engine, view), view.catalog)
    if found:
        raise found.error()


def _committed(engine: Engine, view: View) -> SnapshotRows:
    return SnapshotRows(snapshot=view.snapshot, tables=engine.store.tables, known=engine.known)
