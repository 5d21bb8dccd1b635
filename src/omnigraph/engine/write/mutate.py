"""The verb mutate: all statements of a query in one commit, or none."""

from collections.abc import Mapping
from typing import Any

from omnigraph.commit.plan import mint_header
from omnigraph.commit.sidecar import WriterKind
from omnigraph.compile.checked import CheckedInsert, CheckedMutation
from omnigraph.compile.params import bind_arguments
from omnigraph.engine.after_commit import after_commit
from omnigraph.engine.attempt import enter
from omnigraph.engine.keyed import Receipt, Replay, Verb, attempt_once, find_replay, make_request
from omnigraph.engine.results import MutationResult, view_commit
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.prepare import check_deltas, open_committed_rows, prepare_deltas
from omnigraph.engine.write.statements import Counts, Mutating, run_statements
from omnigraph.engine.writer import Prepared
from omnigraph.errors import QueryError
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.language.source import Source
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.view import View
from omnigraph.runtime import datetime_of

MIXED_WRITES = "T29"
"""Inserts or updates beside deletes; no schema changes that."""


def mutate(
    engine: Engine,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
    allowed_by: int | None = None,
    if_commit: CommitId | None = None,
    dry_run: bool = False,
    message: str | None = None,
    key: str | None = None,
) -> MutationResult:
    """Run a mutation: all of its statements in one commit, or none. `dry_run` checks everything and writes nothing.

    A mutation with an idempotency `key` takes effect once; repeated, it gives its first result.
    """
    engine.require_writable("mutate")
    target = branch_name(branch, "mutate")
    asked = {"text": source.text, "name": name, "params": params, "if_commit": if_commit}
    request = (
        None if key is None or dry_run else make_request(Verb.MUTATE, target, actor, key, **asked)
    )
    known = find_replay(engine, request)
    if known is not None:
        return _replay(known, target, actor)
    compiled = _compile_mutation(engine, source, name)
    values = bind_arguments(compiled, params)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    header = mint_header(
        engine.runtime,
        WriterKind.MUTATION,
        CommitKind.MUTATION,
        actor,
        if_commit=if_commit,
        message=message,
        allowed_by=allowed_by,
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
        if dry_run:
            check_deltas(view, deltas, committed)
            return Prepared(None, mutating.counts)
        plan = prepare_deltas(view, deltas, committed, engine.workers, header)
        return Prepared(plan, mutating.counts)

    done = attempt_once(
        engine,
        target,
        request,
        header,
        prepare,
        lambda counts: _make_receipt(compiled.name, counts),
        str(header.commit_kind),
        # An update conflicts with changes since it began, and has to know them from earlier ones.
        may_rely_on_memory=_only_inserts(compiled) and if_commit is None and not dry_run,
    )
    if isinstance(done, Replay):
        return _replay(done, target, actor)
    after_commit(engine, done)
    return MutationResult(
        branch=target,
        actor=actor,
        commit=view_commit(done.commit),
        **_make_receipt(compiled.name, done.outcome),
    )


def _make_receipt(query_name: str, counts: Counts) -> Receipt:
    return {
        "query_name": query_name,
        "affected_nodes": counts.nodes,
        "affected_edges": counts.edges,
    }


def _only_inserts(mutation: CheckedMutation) -> bool:
    return all(isinstance(statement, CheckedInsert) for statement in mutation.statements)


def _replay(known: Replay, target: BranchName, actor: str | None) -> MutationResult:
    return MutationResult(
        branch=target,
        actor=actor,
        commit=view_commit(known.commit),
        replayed=True,
        **known.receipt,
    )


def _compile_mutation(engine: Engine, source: Source, name: str | None) -> CheckedMutation:
    """Compile against the schema that is known: a bad mutation is refused before anything is asked of the store."""
    cached = engine.contracts.cached
    if cached is not None:
        try:
            return engine.plans.mutation(cached, source, name)
        except QueryError as error:
            if error.code == MIXED_WRITES:
                raise
            # A schema that changed meanwhile decides anew.
    enter(engine, "mutation")
    return engine.plans.mutation(engine.contracts.current(), source, name)
