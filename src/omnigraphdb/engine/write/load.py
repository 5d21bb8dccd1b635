"""Loading: the rows of a source become one commit, in memory or in steps, depending on the size of the source."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.commit.plan import ANONYMOUS, Header, WriteOptions, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine import branching
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
    require_expected,
)
from omnigraphdb.engine.results import LoadResult, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.batches import Batch, find_loaded_batch
from omnigraphdb.engine.write.checked_load import CheckedLoad, LoadRequest, check_load
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice
from omnigraphdb.engine.writer import CompletedWrite, Prepared
from omnigraphdb.errors import NotFound, UserInputError, warn_caller
from omnigraphdb.ids import MAIN, BranchName, LoadMode, TableKey
from omnigraphdb.manifest.names import branch_name, new_branch_name
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.input.digest import digest_source, list_tables
from omnigraphdb.pipeline.input.sources import LoadSource, SpilledFrame, identify_source
from omnigraphdb.pipeline.keys.create import require_creatable
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress
from omnigraphdb.pipeline.rejects import Rejects

KINDS = {
    LoadMode.APPEND: DeltaKind.APPEND,
    LoadMode.MERGE: DeltaKind.MERGE,
    LoadMode.OVERWRITE: DeltaKind.REPLACE,
}


def change_kind(mode: str) -> DeltaKind:
    """Return the kind of change of a load mode."""
    if mode not in KINDS:
        raise UserInputError(
            f"load mode '{mode}' is unknown; it is append, merge or overwrite; no changes were made"
        )
    return KINDS[LoadMode(mode)]


def load(
    engine: Engine,
    source: Any,
    *,
    mode: str,
    branch: BranchName = MAIN,
    from_branch: BranchName | None = None,
    options: WriteOptions = ANONYMOUS,
    allow_empty: bool = False,
    dry_run: bool = False,
    choose_runner: ChooseRunner | None = None,
    batch_id: str | None = None,
    strict: Collection[str] = (),
    on_progress: OnProgress = ignore_progress,
    rejects: Rejects | None = None,
    create: Collection[str] = (),
) -> LoadResult:
    """Load records or frames: everything in one commit, or nothing. `dry_run` checks everything and writes nothing.

    A `batch_id` is written once: a load that repeats it writes nothing, and a load with another request under it is
    refused. When the other types are merged, types in `strict` are only added to. A load with an idempotency key takes
    effect once; repeated, it returns its first result. For the types in `create` the load creates every node that its
    edges name and that does not exist. `on_progress` is called with the progress of reading, checking, staging and indexing in
    memory, and of the commit; the runner reports the progress of steps.
    """
    target = branch_name(branch, "load")
    kind = change_kind(mode)
    if not dry_run:
        engine.require_writable("load")
        enter(engine, "load")
    contract = engine.contracts.current().contract
    creates = require_creatable(contract.catalog, create)
    if from_branch is None:
        _require_branch(engine, target)
    load_source = identify_source(source, contract.catalog)
    keyed: KeyedRequest | None = None
    batch: Batch | None = None
    create_options = [f"create {name}" for name in create]
    if batch_id is not None or (options.key is not None and not dry_run):
        # The rows are a part of the request: they are digested, then loaded.
        load_source = _read_ahead(engine, load_source)
    if options.key is not None and not dry_run:
        condition = () if options.if_commit is None else (options.if_commit,)
        request_options = [mode, from_branch, *strict, *condition, *create_options]
        keyed = _make_request(
            engine, target, options.actor, options.key, load_source, request_options
        )
        replay = find_replay(engine, keyed)
        if replay is not None:
            return _replay(engine, replay, target, options.actor)
    if batch_id is not None:
        batch = _describe_batch(engine, batch_id, load_source, [mode, *strict, *create_options])
    header = _mint_load_header(engine, options, batch)
    request = LoadRequest(
        kind=kind,
        contract=contract,
        header=header,
        strict=frozenset(contract.catalog.table(name).table_key for name in strict),
        rejects=rejects,
        creates=creates,
        early_rows=_find_written_ahead(load_source),
    )
    empty_result = LoadResult(
        uri=engine.uri,
        branch=target,
        base_branch=from_branch,
        branch_created=False,
        mode=mode,
        tables={},
        actor=options.actor,
        commit=None,
    )
    replayed = _replay_batch(engine, batch, empty_result)
    if replayed is not None:
        return replayed
    with check_load(engine, load_source, request, choose_runner, on_progress) as (
        checked_load,
        choice,
    ):
        done = _describe_checked(empty_result, load_source, checked_load, choice)
        is_empty = kind is DeltaKind.REPLACE and not checked_load.records and not allow_empty
        if is_empty or dry_run:
            created = _require_fit_at_target(engine, target, from_branch, checked_load, header)
            done = _add_created(done, created)
        if is_empty:
            raise _refuse_empty(load_source)
        if dry_run:
            return done
        if from_branch is not None:
            was_forked = _fork_missing(engine, target, from_branch, checked_load)
            done = replace(done, branch_created=was_forked)
        written = _commit_checked(engine, keyed, header, checked_load, done, on_progress)
    if isinstance(written, Replay):
        return _replay(engine, written, target, options.actor)
    done = _add_created(done, written.outcome)
    if written.commit is None:
        # A rival may have loaded the batch meanwhile.
        return _replay_batch(engine, batch, empty_result) or done
    on_progress(Progress("commit", done.total_rows, done.total_rows, Unit.ROWS, done.total_rows))
    pending = after_commit(
        engine,
        written,
        choice.index_workers,
        on_progress,
        rows_max=choice.indexed_rows_max,
        adjacency_bytes_max=choice.adjacency_bytes_max,
    )
    return replace(done, commit=public_commit(written.commit), pending_indexes=pending)


def _mint_load_header(engine: Engine, options: WriteOptions, batch: Batch | None) -> Header:
    return mint_header(
        engine.runtime,
        WriterKind.LOAD,
        CommitKind.LOAD,
        options,
        batch_id=None if batch is None else batch.id,
        batch_request=None if batch is None else batch.request,
    )


def _replay_batch(
    engine: Engine, batch: Batch | None, empty_result: LoadResult
) -> LoadResult | None:
    """Return the result of a load whose batch was loaded before; None for a new batch."""
    target = BranchName(empty_result.branch)
    if batch is None or not _is_there(engine, target):
        return None
    commit = find_loaded_batch(engine.view(target), batch.id, batch.request, batch.tables)
    if commit is None:
        return None
    reason = f"batch '{batch.id}' was loaded before"
    note = f"{reason}, in commit {commit.id}; nothing was written"
    warn_caller(note)
    return replace(
        empty_result, commit=public_commit(commit), replayed=True, reason=reason, notes=(note,)
    )


def _describe_checked(
    empty_result: LoadResult,
    load_source: LoadSource,
    checked_load: CheckedLoad,
    choice: RunnerChoice,
) -> LoadResult:
    return replace(
        empty_result,
        tables={str(key): rows for key, rows in checked_load.records.items()},
        engine=choice.engine,
        reason=choice.reason,
        notes=_note_empty(load_source, checked_load),
    )


def _add_created(done: LoadResult, created: Mapping[TableKey, int]) -> LoadResult:
    return replace(done, created={str(key): rows for key, rows in created.items()})


def _require_fit_at_target(
    engine: Engine,
    target: BranchName,
    base: BranchName | None,
    checked_load: CheckedLoad,
    header: Header,
) -> Mapping[TableKey, int]:
    """Raise the problems of a load that writes nothing: an input without records may still name unknown columns."""
    exists = _is_there(engine, target)
    view = engine.view(target if exists else branch_name(base or target, "load"))
    require_expected(header, view)
    return checked_load.require_fit(view)


def _commit_checked(
    engine: Engine,
    keyed: KeyedRequest | None,
    header: Header,
    checked_load: CheckedLoad,
    done: LoadResult,
    on_progress: OnProgress,
) -> CompletedWrite[Mapping[TableKey, int]] | Replay:
    def prepare(view: View) -> Prepared[Mapping[TableKey, int]]:
        prepared = checked_load.prepare(view)
        on_progress(Progress("commit", 0, done.total_rows, Unit.ROWS, 0))
        return prepared

    return attempt_once(
        engine,
        BranchName(done.branch),
        keyed,
        header,
        prepare,
        lambda created: _make_receipt(_add_created(done, created)),
        str(CommitKind.LOAD),
        checked_load.workers,
    )


def _read_ahead(engine: Engine, load_source: LoadSource) -> LoadSource:
    return load_source.read_ahead(engine.settings.small_work_bytes, engine.settings.small_work_rows)


def _make_request(
    engine: Engine,
    target: BranchName,
    actor: str | None,
    key: str,
    load_source: LoadSource,
    request_options: list[str | None],
) -> KeyedRequest:
    settings = engine.settings
    content = digest_source(load_source, settings.small_work_bytes, settings.small_work_rows)
    return make_request(
        RequestKind.LOAD, target, actor, key, asked=request_options, content=content
    )


def _make_receipt(done: LoadResult) -> Receipt:
    return {
        "base_branch": done.base_branch,
        "branch_created": done.branch_created,
        "mode": done.mode,
        "tables": dict(done.tables),
        "engine": done.engine,
        "reason": done.reason,
        "notes": list(done.notes),
        **({"created": dict(done.created)} if done.created else {}),
    }


def _replay(engine: Engine, replay: Replay, target: BranchName, actor: str | None) -> LoadResult:
    facts = {**replay.receipt, "notes": tuple(replay.receipt["notes"])}
    return LoadResult(
        uri=engine.uri,
        branch=target,
        actor=actor,
        commit=public_commit(replay.commit),
        replayed=True,
        **facts,
    )


def _require_branch(engine: Engine, target: BranchName) -> None:
    try:
        engine.manifest.branch_incarnation(target)
    except NotFound as error:
        error.hint = "pass from_branch= to create it"
        raise


def _find_written_ahead(load_source: LoadSource) -> SpilledFrame | None:
    frame = load_source.foreign
    is_ahead = isinstance(frame, SpilledFrame) and frame.schema_hash is not None
    return frame if is_ahead else None


def _note_empty(load_source: LoadSource, checked_load: CheckedLoad) -> tuple[str, ...]:
    if checked_load.records:
        return ()
    return (f"{load_source.name} has 0 records; nothing was written",)


def _refuse_empty(load_source: LoadSource) -> UserInputError:
    return UserInputError(
        f"{load_source.name} has 0 records, and mode overwrite would replace nothing; no changes were made",
        hint="check the path, or pass allow_empty=True",
    )


def _fork_missing(
    engine: Engine, target: BranchName, base: BranchName, checked_load: CheckedLoad
) -> bool:
    """Fork the target from its base if the target does not exist yet and the load fits there."""
    if _is_there(engine, target):
        return False
    new_branch_name(target, "load")
    checked_load.require_fit(engine.view(branch_name(base, "load")))
    branching.create(engine, target, base)
    return True


def _is_there(engine: Engine, branch: BranchName) -> bool:
    return branch == MAIN or branch in engine.manifest.rows.branches()


def _describe_batch(
    engine: Engine, batch_id: str, load_source: LoadSource, request_options: Sequence[str | None]
) -> Batch:
    """Digest the request of a batch: options, types and content; rows of Spark count by their type alone.

    The branch is not a part of the request: a fork knows the batches of its base.
    """
    settings = engine.settings
    content = digest_source(load_source, settings.small_work_bytes, settings.small_work_rows)
    text = json.dumps([list(request_options), sorted(content)])
    return Batch(
        id=batch_id,
        request=hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
        tables=list_tables(load_source),
    )
