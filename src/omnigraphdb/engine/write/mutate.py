"""The verb mutate: all statements of a query in one commit, or none."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraphdb.catalog.values import json_column
from omnigraphdb.commit.plan import ANONYMOUS, Header, WriteOptions, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.compile.checked import CheckedInsert, CheckedMutation, Column
from omnigraphdb.compile.params import bind_arguments
from omnigraphdb.engine.after_commit import after_commit
from omnigraphdb.engine.attempt import enter
from omnigraphdb.engine.keyed import (
    KeyedRequest,
    Receipt,
    Replay,
    RequestKind,
    attempt_once,
    find_replay,
    make_request,
)
from omnigraphdb.engine.results import MutationResult, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.matches import open_matches
from omnigraphdb.engine.write.mutating import Counts, Mutating
from omnigraphdb.engine.write.prepare import check_deltas, open_committed_rows, prepare_deltas
from omnigraphdb.engine.write.statements import run_statements
from omnigraphdb.engine.write.table_source import StatementValues
from omnigraphdb.engine.writer import Prepared
from omnigraphdb.errors import QueryError, ResourceLimit
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.language.source import Source
from omnigraphdb.limits import RETURNED_BYTES_KEPT_MAX
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.view import View
from omnigraphdb.runtime import datetime_of

MIXED_WRITES = "T29"
"""Inserts or updates beside deletes; no schema changes that."""


def mutate(
    engine: Engine,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    *,
    branch: BranchName = MAIN,
    options: WriteOptions = ANONYMOUS,
    dry_run: bool = False,
) -> MutationResult:
    """Run a mutation: all of its statements in one commit, or none. `dry_run` checks everything and writes nothing.

    A mutation with an idempotency key takes effect once; repeated, it gives its first result.
    """
    engine.require_writable("mutate")
    target = branch_name(branch, "mutate")
    request = None if dry_run else _make_request(target, source, name, params, options)
    replay = find_replay(engine, request)
    if replay is not None:
        return _replay(replay, target, options.actor)
    compiled = _compile_mutation(engine, source, name)
    values = bind_arguments(compiled, params)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    header = mint_header(engine.runtime, WriterKind.MUTATION, CommitKind.MUTATION, options)

    def prepare(view: View) -> Prepared[Counts]:
        mutation = engine.plans.mutation(view.accepted, source, name)
        planned = None if dry_run else header
        return _prepare(engine, view, mutation, StatementValues(values, now), planned)

    only_inserts = _only_inserts(compiled)
    done = attempt_once(
        engine,
        target,
        request,
        header,
        prepare,
        lambda counts: _make_kept_receipt(compiled, counts),
        str(header.commit_kind),
        # An update conflicts with changes since it began, and has to know them from earlier ones.
        may_rely_on_memory=only_inserts and options.if_commit is None and not dry_run,
        only_inserts=only_inserts,
    )
    if isinstance(done, Replay):
        return _replay(done, target, options.actor)
    after_commit(engine, done)
    return MutationResult(
        branch=target,
        actor=options.actor,
        commit=public_commit(done.commit),
        **_make_receipt(compiled, done.outcome),
    )


def _make_request(
    target: BranchName,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    options: WriteOptions,
) -> KeyedRequest | None:
    if options.key is None:
        return None
    # The condition is included also when it is None: stored digests include it.
    request_parts = {
        "text": source.text,
        "name": name,
        "params": params,
        "if_commit": options.if_commit,
    }
    return make_request(RequestKind.MUTATE, target, options.actor, options.key, **request_parts)


def _prepare(
    engine: Engine,
    view: View,
    mutation: CheckedMutation,
    statement_values: StatementValues,
    header: Header | None,
) -> Prepared[Counts]:
    """Run the statements on a view, and plan the write; without a header they are only checked."""
    committed = open_committed_rows(engine, view)
    mutating = Mutating(
        catalog=view.catalog,
        committed=committed,
        given=statement_values,
        runtime=engine.runtime,
        run_match=open_matches(engine, view, statement_values, committed),
    )
    deltas = run_statements(mutation, mutating)
    if header is None:
        check_deltas(view, deltas, committed)
        # A commit names the version of every table that the statements read; a dry run finds them as well.
        committed.read_set()
        return Prepared(None, mutating.counts)
    plan = prepare_deltas(view, deltas, committed, engine.workers, header)
    return Prepared(plan, mutating.counts)


def _make_receipt(mutation: CheckedMutation, counts: Counts) -> Receipt:
    facts = {
        "query_name": mutation.name,
        "affected_nodes": counts.nodes,
        "affected_edges": counts.edges,
    }
    if not mutation.returning:
        return facts
    return facts | {
        "columns": [column.name for column in mutation.returning],
        "rows": _spell_rows(mutation.returning, counts.returned),
    }


def _spell_rows(columns: Sequence[Column], returned: Sequence[pa.Table]) -> list[dict[str, Any]]:
    """Render the rows that statements return as JSON-shaped values, one statement after the other."""
    rows: list[dict[str, Any]] = []
    names = [column.name for column in columns]
    for table in returned:
        json_columns = [json_column(table[column.name], column.type) for column in columns]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*json_columns, strict=True)]
    return rows


def _make_kept_receipt(mutation: CheckedMutation, counts: Counts) -> Receipt:
    """Make the receipt that the manifest stores for a repetition; refuse a receipt that is too large."""
    receipt = _make_receipt(mutation, counts)
    size = len(json.dumps(receipt)) if mutation.returning else 0
    if size > RETURNED_BYTES_KEPT_MAX:
        raise ResourceLimit(
            "bytes that a mutation with an idempotency key returns",
            RETURNED_BYTES_KEPT_MAX,
            size,
            "return fewer columns or rows, or leave the key or 'returning' out",
        )
    return receipt


def _only_inserts(mutation: CheckedMutation) -> bool:
    inserts = all(isinstance(statement, CheckedInsert) for statement in mutation.statements)
    return inserts and not mutation.matches


def _replay(replay: Replay, target: BranchName, actor: str | None) -> MutationResult:
    return MutationResult(
        branch=target,
        actor=actor,
        commit=public_commit(replay.commit),
        replayed=True,
        **replay.receipt,
    )


def _compile_mutation(engine: Engine, source: Source, name: str | None) -> CheckedMutation:
    """Compile against the cached schema, so that a bad mutation is refused before any request to the store."""
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
