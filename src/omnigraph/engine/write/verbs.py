"""The writing verbs: mutate and load."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.commit.delta import DeltaKind
from omnigraph.commit.plan import mint_header
from omnigraph.commit.sidecar import WriterKind
from omnigraph.compile.arguments import bind_arguments
from omnigraph.compile.checked import CheckedMutation
from omnigraph.engine import branching
from omnigraph.engine.after_commit import after_commit
from omnigraph.engine.attempt import Prepared, attempt, enter
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.load import CheckedLoad, Choose, LoadRequest, change_kind, check_load
from omnigraph.engine.write.mutate import Counts, Mutating, run_statements
from omnigraph.engine.write.prepare import is_batch_loaded, open_committed_rows, prepare_deltas
from omnigraph.errors import NotFound, QueryError, UserInputError
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey
from omnigraph.language.source import Source
from omnigraph.manifest.names import branch_name, new_branch_name
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.view import View
from omnigraph.pipeline.input.sources import identify_source
from omnigraph.pipeline.progress import Progress, Tell
from omnigraph.runtime import datetime_of
from omnigraph.values import dataclass

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
    records: Mapping[TableKey, int]
    name: str
    engine: str
    reason: str
    commit: GraphCommit | None
    pending_indexes: tuple[str, ...] = ()
    repeated: bool = False
    """Whether the batch was there already, so that nothing was read."""


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
    compiled = _compile_mutation(engine, source, name)
    values = bind_arguments(compiled, params)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    header = mint_header(
        engine.runtime, WriterKind.MUTATION, CommitKind.MUTATION, actor, if_commit=if_commit
    )

    def prepare(view: View) -> Prepared[Counts]:
        committed = open_committed_rows(engine, view)
        mutating = Mutating(
            catalog=view.catalog,
            committed=committed,
            params=values,
            now=now,
            runtime=engine.runtime,
        )
        deltas = run_statements(engine.plans.mutation(view.accepted, source, name), mutating)
        plan = prepare_deltas(view, deltas, committed, engine.workers, header)
        return Prepared(plan, mutating.counts)

    done = attempt(engine, target, prepare, str(header.commit_kind))
    after_commit(engine, done)
    return Mutated(query_name=compiled.name, branch=target, counts=done.outcome, commit=done.commit)


def _compile_mutation(engine: Engine, source: Source, name: str | None) -> CheckedMutation:
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
    choose: Choose | None = None,
    batch_id: str | None = None,
    strict: Collection[str] = (),
    tell: Tell | None = None,
) -> Loaded:
    """Load records or frames: everything in one commit, or nothing. `dry_run` checks everything and writes nothing.

    A `batch_id` is written once: a load that brings it again writes nothing. Types in `strict` are only added to when
    the others are merged. `tell` is told of the commit, before indexes are built.
    """
    target = branch_name(branch, "load")
    kind = change_kind(mode)
    if not dry_run:
        engine.require_writable("load")
        enter(engine, "load")
    contract = engine.contracts.current().contract
    if from_branch is None:
        _require_branch(engine, target)
    given = identify_source(source, contract.catalog)
    order = LoadRequest(
        kind=kind,
        contract=contract,
        header=mint_header(
            engine.runtime, WriterKind.LOAD, CommitKind.LOAD, actor, batch_id=batch_id
        ),
        strict=frozenset(contract.catalog.table(name).table_key for name in strict),
    )
    if _is_there(engine, target) and is_batch_loaded(engine.view(target), batch_id):
        return Loaded(
            branch=target,
            branch_created=False,
            records={},
            name=given.name,
            engine="local",
            reason=f"batch '{batch_id}' was loaded before",
            commit=None,
            repeated=True,
        )
    with check_load(engine, given, order, choose) as (checked_load, choice):
        done = Loaded(
            branch=target,
            branch_created=False,
            records=checked_load.records,
            name=given.name,
            engine=choice.engine,
            reason=choice.reason,
            commit=None,
        )
        _refuse_empty(done, kind, allow_empty)
        if dry_run:
            there = _is_there(engine, target)
            base = target if there else branch_name(from_branch or target, "load")
            checked_load.require_fit(engine.view(base))
            return done
        created = from_branch is not None and _create_missing(
            engine, target, from_branch, checked_load
        )
        written = attempt(
            engine, target, checked_load.prepare, str(CommitKind.LOAD), checked_load.workers
        )
    if written.commit is None:
        return replace(done, branch_created=created)
    if tell is not None:
        rows = sum(done.records.values())
        tell(Progress("commit", rows, rows))
    pending = after_commit(engine, written, choice.index_workers)
    return replace(done, branch_created=created, commit=written.commit, pending_indexes=pending)


def _require_branch(engine: Engine, target: BranchName) -> None:
    try:
        engine.manifest.branch_incarnation(target)
    except NotFound as error:
        error.hint = "pass --from (from_branch) to create it"
        raise


def _refuse_empty(done: Loaded, kind: DeltaKind, allow_empty: bool) -> None:
    if kind is DeltaKind.REPLACE and not done.records and not allow_empty:
        raise UserInputError(
            f"{done.name} has 0 records, and mode overwrite would replace nothing; no changes were made",
            hint="check the path, or pass allow_empty",
        )


def _create_missing(
    engine: Engine, target: BranchName, base: BranchName, checked_load: CheckedLoad
) -> bool:
    """Fork the target from its base when it is not there yet and the load will fit there."""
    if _is_there(engine, target):
        return False
    new_branch_name(target, "load")
    checked_load.require_fit(engine.view(branch_name(base, "load")))
    branching.create(engine, target, base)
    return True


def _is_there(engine: Engine, branch: BranchName) -> bool:
    return branch == MAIN or branch in engine.manifest.rows.branches()
