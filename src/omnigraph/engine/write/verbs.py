"""The writing verbs: mutate and load."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.changes import ChangeKind
from omnigraph.commit.plan import WritePlan
from omnigraph.commit.sidecar import WriterKind
from omnigraph.compile.params import bind
from omnigraph.engine.attempt import attempt
from omnigraph.engine.engine import Engine
from omnigraph.engine.write.committed import SnapshotRows
from omnigraph.engine.write.load import Input, change_kind, read_input
from omnigraph.engine.write.mutate import Counts, Mutating, run_statements
from omnigraph.engine.write.prepare import Header, prepare
from omnigraph.errors import ReadSetConflict, UserInputError
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId
from omnigraph.language.source import Source
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.view import View
from omnigraph.runtime import datetime_of


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
    compiled = engine.plans.mutation(engine.view(target), source, name)
    values = bind(compiled.params, params)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    write = header(engine, WriterKind.MUTATION, CommitKind.MUTATION, actor, if_commit)
    counts = Counts()

    def prepared(view: View) -> WritePlan | None:
        nonlocal counts
        checked = engine.plans.mutation(view, source, name)
        committed = SnapshotRows(view.snapshot, engine.store.tables)
        mutating = Mutating(
            catalog=view.catalog,
            committed=committed,
            params=values,
            now=now,
            runtime=engine.runtime,
        )
        changes = run_statements(checked, mutating)
        counts = mutating.counts
        return prepare(view, changes, committed, engine.store.tables, write)

    published = attempt(engine, target, prepared)
    return Mutated(
        query_name=compiled.name,
        branch=target,
        counts=counts,
        commit=None if published is None else published.commit,
    )


def load(
    engine: Engine,
    source: Any,
    *,
    mode: str,
    branch: BranchName = MAIN,
    from_branch: BranchName | None = None,
    actor: str | None = None,
    allow_empty: bool = False,
) -> Loaded:
    """Load records or frames: everything in one commit, or nothing."""
    engine.require_writable("load")
    target = branch_name(branch, "load")
    kind = change_kind(mode)
    contract = engine.contracts.current().contract
    if from_branch is None:
        engine.manifest.line(target)
    brought = read_input(source, kind, contract.catalog, engine.runtime)
    _refuse_empty(brought, kind, allow_empty)
    write = header(engine, WriterKind.LOAD, CommitKind.LOAD, actor)
    created = from_branch is not None and _create_missing(engine, target, from_branch)

    def prepared(view: View) -> WritePlan | None:
        if view.contract.ir_hash != contract.ir_hash:
            raise ReadSetConflict("the schema", contract.ir_hash, view.contract.ir_hash)
        committed = SnapshotRows(view.snapshot, engine.store.tables)
        return prepare(view, brought.changes, committed, engine.store.tables, write)

    published = attempt(engine, target, prepared)
    return Loaded(
        branch=target,
        branch_created=created,
        input=brought,
        commit=None if published is None else published.commit,
    )


def _refuse_empty(brought: Input, kind: ChangeKind, allow_empty: bool) -> None:
    if kind is ChangeKind.REPLACE and not brought.records and not allow_empty:
        raise UserInputError(
            "the input has 0 records, and mode overwrite would replace nothing; no changes were made",
            hint="check the path, or pass allow_empty",
        )


def _create_missing(engine: Engine, target: BranchName, base: BranchName) -> bool:
    """Fork the target from its base when it is not there yet."""
    if target == MAIN or target in engine.manifest.rows.branches():
        return False
    create_branch(engine.manifest, engine.store.tables, target, source=base)
    return True
