"""Loading: what a source brings becomes one commit, in memory or in steps, whichever its size asks for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from omnigraph.catalog.ir.contract import Contract
from omnigraph.commit.constraints import Violations, violations
from omnigraph.commit.delta import DeltaKind, Deltas
from omnigraph.commit.plan import ANONYMOUS, Header, WriteOptions, mint_header
from omnigraph.commit.sidecar import WriterKind
from omnigraph.commit.stage import ALONE, StageWorkers
from omnigraph.engine import branching
from omnigraph.engine.after_commit import after_commit
from omnigraph.engine.attempt import enter
from omnigraph.engine.keyed import (
    KeyedRequest,
    Receipt,
    Replay,
    Verb,
    attempt_once,
    find_replay,
    make_request,
    require_expected,
)
from omnigraph.engine.results import LoadResult, view_commit
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.snapshot_rows import SnapshotRows
from omnigraph.engine.write.bulk import BulkLoad, check
from omnigraph.engine.write.heartbeat import keep_heartbeat
from omnigraph.engine.write.prepare import is_batch_loaded, open_committed_rows, prepare_deltas
from omnigraph.engine.write.runner_choice import Choose, RunnerChoice, choose_here
from omnigraph.engine.writer import Done, Prepared
from omnigraph.errors import NotFound, OmniError, ReadSetConflict, UserInputError
from omnigraph.ids import MAIN, BranchName, LoadMode, TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.manifest.names import branch_name, new_branch_name
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.view import View
from omnigraph.pipeline.checks import EVERY_PROBLEM, LoadProcess, LoadSpec
from omnigraph.pipeline.input.cut import Size, Spread, cut, measure, spill_split, spool_stream
from omnigraph.pipeline.input.digest import digest_source
from omnigraph.pipeline.input.intake import Intake
from omnigraph.pipeline.input.sources import (
    LoadSource,
    SpilledFrame,
    identify_source,
    read_sources,
)
from omnigraph.pipeline.input.splits import Split, grain_of
from omnigraph.pipeline.keys.create import create_missing, require_creatable
from omnigraph.pipeline.progress import Progress, Tell, Unit, tell_nobody
from omnigraph.pipeline.rejects import Rejects, make_load_error, tabulate
from omnigraph.values import dataclass

KINDS = {
    LoadMode.APPEND: DeltaKind.APPEND,
    LoadMode.MERGE: DeltaKind.MERGE,
    LoadMode.OVERWRITE: DeltaKind.REPLACE,
}


def change_kind(mode: str) -> DeltaKind:
    """The kind of change a mode asks for."""
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
    choose: Choose | None = None,
    batch_id: str | None = None,
    strict: Collection[str] = (),
    tell: Tell = tell_nobody,
    rejects: Rejects | None = None,
    create: Collection[str] = (),
) -> LoadResult:
    """Load records or frames: everything in one commit, or nothing. `dry_run` checks everything and writes nothing.

    A `batch_id` is written once: a load that brings it again writes nothing. Types in `strict` are only added to when
    the others are merged. A load with an idempotency key takes effect once; repeated, it gives its first result.
    Of the types in `create` the load makes every node that its edges name and that is nowhere. `tell` hears of reading,
    checking, staging and indexing in memory, and of the commit; the runner tells of steps.
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
    if options.key is not None and not dry_run:
        settings = engine.settings
        load_source = load_source.read_ahead(settings.small_work_bytes, settings.small_work_rows)
        condition = () if options.if_commit is None else (options.if_commit,)
        asked = [mode, from_branch, *strict, *condition, *(f"create {name}" for name in create)]
        keyed = _make_request(engine, target, options.actor, options.key, load_source, asked)
        known = find_replay(engine, keyed)
        if known is not None:
            return _replay(engine, known, target, options.actor)
    kinds = WriterKind.LOAD, CommitKind.LOAD
    header = mint_header(engine.runtime, *kinds, options, batch_id=batch_id)
    request = LoadRequest(
        kind=kind,
        contract=contract,
        header=header,
        strict=frozenset(contract.catalog.table(name).table_key for name in strict),
        rejects=rejects,
        creates=creates,
        written_ahead=_find_written_ahead(load_source),
    )
    untouched = LoadResult(
        uri=engine.uri,
        branch=target,
        base_branch=from_branch,
        branch_created=False,
        mode=mode,
        tables={},
        actor=options.actor,
        commit=None,
    )
    if _is_there(engine, target) and is_batch_loaded(engine.view(target), batch_id):
        reason = f"batch '{batch_id}' was loaded before"
        return replace(untouched, reason=reason, notes=(f"{reason}; nothing was written",))
    with check_load(engine, load_source, request, choose, tell) as (checked_load, choice):
        done = _describe_checked(untouched, load_source, checked_load, choice)
        is_empty = kind is DeltaKind.REPLACE and not checked_load.records and not allow_empty
        if is_empty or dry_run:
            created = _require_fit_at_target(engine, target, from_branch, checked_load, header)
            done = _add_created(done, created)
        if is_empty:
            raise _refuse_empty(load_source)
        if dry_run:
            return done
        if from_branch is not None:
            forked = _fork_missing(engine, target, from_branch, checked_load)
            done = replace(done, branch_created=forked)
        written = _commit_checked(engine, keyed, header, checked_load, done, tell)
    if isinstance(written, Replay):
        return _replay(engine, written, target, options.actor)
    done = _add_created(done, written.outcome)
    if written.commit is None:
        return done
    tell(Progress("commit", done.total_rows, done.total_rows, Unit.ROWS, done.total_rows))
    pending = after_commit(
        engine, written, choice.index_workers, tell, rows_max=choice.indexed_rows_max
    )
    return replace(done, commit=view_commit(written.commit), pending_indexes=pending)


def _describe_checked(
    untouched: LoadResult,
    load_source: LoadSource,
    checked_load: "CheckedLoad",
    choice: RunnerChoice,
) -> LoadResult:
    return replace(
        untouched,
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
    checked_load: "CheckedLoad",
    header: Header,
) -> Mapping[TableKey, int]:
    """Raise the problems of a load that writes nothing: an input without records may still name unknown columns."""
    there = _is_there(engine, target)
    view = engine.view(target if there else branch_name(base or target, "load"))
    require_expected(header, view)
    return checked_load.require_fit(view)


def _commit_checked(
    engine: Engine,
    keyed: KeyedRequest | None,
    header: Header,
    checked_load: "CheckedLoad",
    done: LoadResult,
    tell: Tell,
) -> Done[Mapping[TableKey, int]] | Replay:
    def prepare(view: View) -> Prepared[Mapping[TableKey, int]]:
        prepared = checked_load.prepare(view)
        tell(Progress("commit", 0, done.total_rows, Unit.ROWS, 0))
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


def _make_request(
    engine: Engine,
    target: BranchName,
    actor: str | None,
    key: str,
    load_source: LoadSource,
    asked: list[str | None],
) -> KeyedRequest:
    settings = engine.settings
    content = digest_source(load_source, settings.small_work_bytes, settings.small_work_rows)
    return make_request(Verb.LOAD, target, actor, key, asked=asked, content=content)


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


def _replay(engine: Engine, known: Replay, target: BranchName, actor: str | None) -> LoadResult:
    facts = {**known.receipt, "notes": tuple(known.receipt["notes"])}
    return LoadResult(
        uri=engine.uri,
        branch=target,
        actor=actor,
        commit=view_commit(known.commit),
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


def _note_empty(load_source: LoadSource, checked_load: "CheckedLoad") -> tuple[str, ...]:
    if checked_load.records:
        return ()
    return (f"{load_source.name} has 0 records; nothing was written",)


def _refuse_empty(load_source: LoadSource) -> UserInputError:
    return UserInputError(
        f"{load_source.name} has 0 records, and mode overwrite would replace nothing; no changes were made",
        hint="check the path, or pass allow_empty=True",
    )


def _fork_missing(
    engine: Engine, target: BranchName, base: BranchName, checked_load: "CheckedLoad"
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


# ---- what it brings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is asked of a load: how it writes, on which schema, under which name."""

    kind: DeltaKind
    contract: Contract
    header: Header
    strict: frozenset[TableKey] = frozenset()
    """Tables that a merge in steps only adds to."""
    rejects: Rejects | None = None
    """Where all problems go; None when the first of them are enough."""
    creates: frozenset[TableKey] = frozenset()
    """Node tables that get a row for every id that edges name and that is nowhere."""

    written_ahead: SpilledFrame | None = None
    """A frame whose rows were checked and written before the load began."""

    def require_schema(self, view: View) -> None:
        """Refuse to write what was typed by another schema, or lies beside a branch that is gone."""
        ahead = self.written_ahead
        actual = view.contract.ir_hash
        for expected in (self.contract.ir_hash, *(() if ahead is None else (ahead.schema_hash,))):
            if actual != expected:
                raise ReadSetConflict("the schema", expected, actual)
        if ahead is not None and ahead.incarnation != view.state.branch_incarnation:
            raise ReadSetConflict(f"branch '{view.branch}'")


class CheckedLoad(Protocol):
    """An input that was read and found right by itself."""

    @property
    def records(self) -> Mapping[TableKey, int]:
        """How many records came for each table."""
        ...

    @property
    def workers(self) -> StageWorkers:
        """Who writes rows that can be written under the locks only."""
        ...

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise with every rule that the load would break on a view; say how many nodes it would create."""
        ...

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; say how many nodes it creates."""
        ...


@contextmanager
def check_load(
    engine: Engine,
    load_source: LoadSource,
    request: LoadRequest,
    choose: Choose | None = None,
    tell: Tell = tell_nobody,
) -> Iterator[tuple[CheckedLoad, RunnerChoice]]:
    """Read the whole source, in memory or in steps; raise with every problem of its records."""
    settings = engine.settings
    load_source = load_source.read_ahead(settings.small_work_bytes, settings.small_work_rows)
    foreign = load_source.foreign
    size = measure(load_source) if foreign is None else Size(bytes=0, rows=0, foreign=foreign)
    choice = choose_here(engine, size) if choose is None else choose(size)
    if engine.read_only and choice.runner is not None:
        choice = RunnerChoice(None, "a graph that is opened to be read keeps no scratch files")
    if foreign is None and choice.runner is None:
        tell(Progress("read", 0, None, Unit.ROWS, 0, 0))
        read = _in_memory(engine, load_source, request, tell)
        rows = sum(read.records.values())
        tell(Progress("read", rows, rows, Unit.ROWS, rows, size.bytes))
        yield read, choice
        return
    with keep_heartbeat(
        engine, request.header.operation_id, lingers=choice.engine != "local"
    ) as area:
        yield (
            _in_steps(
                engine, _splits(engine, load_source, size, choice, area), request, choice, area
            ),
            choice,
        )


def _splits(
    engine: Engine, load_source: LoadSource, size: Size, choice: RunnerChoice, area: str
) -> Sequence[Split]:
    """Splits as the workers of a runner can read them: frames in memory are kept beside the graph for others."""
    if choice.runner is None or (size.foreign is not None and choice.spread is None):
        raise UserInputError(
            "a Spark DataFrame is loaded by Spark, which was not to be used; no changes were made",
            hint="leave out spark=False, or collect the frame first",
        )
    # Of what is elsewhere the size is not known before it is cut there.
    workers = 1 if size.foreign is not None else choice.runner.workers
    grain = grain_of(engine.settings.split_bytes, size.bytes, size.rows, workers)
    spool = partial(spool_stream, store=engine.store, area=area)
    splits = cut(load_source, grain, _spread(engine, choice, area), spool)
    if choice.engine == "local":
        return splits
    return [spill_split(split, engine.store, area) for split in splits]


def _spread(engine: Engine, choice: RunnerChoice, area: str) -> Spread | None:
    spread = choice.spread
    return None if spread is None else lambda frame: spread(frame, engine.location, area)


# ---- in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemoryLoad:
    """An input whose rows are in memory."""

    engine: Engine
    request: LoadRequest
    deltas: Deltas
    records: Mapping[TableKey, int]
    problems: Violations
    tell: Tell
    workers: StageWorkers = ALONE

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise with every rule that the load would break on a view; say how many nodes it would create."""
        committed = open_committed_rows(self.engine, view)
        deltas, created = self._complete(view, committed)
        found = violations(deltas, committed, view.catalog)
        if found or self.problems:
            raise self._make_error(found)
        return created

    def _complete(
        self, view: View, committed: SnapshotRows
    ) -> tuple[Deltas, Mapping[TableKey, int]]:
        """The deltas with the nodes that the load creates."""
        if not self.request.creates:
            return self.deltas, {}
        return create_missing(self.deltas, self.request.creates, committed, view.catalog)

    def _make_error(self, found: Violations) -> OmniError:
        """The error of the problems of the input and of the rules."""
        every, rejects = self.problems + found, self.request.rejects
        rows = [] if rejects is None else [tabulate(every.problems)]
        return make_load_error(every.problems[:PROBLEMS_SHOWN_MAX], every.total, rows, rejects)

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; say how many nodes it creates."""
        self.request.require_schema(view)
        if self.problems:
            self.require_fit(view)
        committed = open_committed_rows(self.engine, view)
        header = self.request.header
        deltas, created = self._complete(view, committed)
        plan = prepare_deltas(
            view,
            deltas,
            committed,
            self.engine.workers,
            header,
            self.tell,
            self._make_error,
        )
        return Prepared(plan, {} if plan is None else created)


def _in_memory(
    engine: Engine, load_source: LoadSource, request: LoadRequest, tell: Tell
) -> InMemoryLoad:
    shown_max = PROBLEMS_SHOWN_MAX if request.rejects is None else EVERY_PROBLEM
    intake = Intake(request.contract.catalog, shown_max=shown_max)
    read_sources(load_source.sources, intake)
    deltas = intake.deltas(request.kind, engine.runtime)
    return InMemoryLoad(
        engine=engine,
        request=request,
        deltas=deltas,
        records=intake.records,
        problems=Violations(tuple(intake.problems), intake.total),
        tell=tell,
    )


# ---- in steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedLoad:
    """An input that workers read again in every step."""

    engine: Engine
    request: LoadRequest
    bulk: BulkLoad

    @property
    def records(self) -> Mapping[TableKey, int]:
        """How many records came for each table."""
        return self.bulk.records

    @property
    def workers(self) -> StageWorkers:
        """Who writes rows that can be written under the locks only."""
        return StageWorkers(rows=self.bulk)

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise with every rule that the load would break on a view; say how many nodes it would create."""
        return self.bulk.decide_keys(view).count_created()

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; say how many nodes it creates."""
        self.request.require_schema(view)
        return self.bulk.prepare(view, self.request.header)


def _in_steps(
    engine: Engine, splits: Sequence[Split], request: LoadRequest, choice: RunnerChoice, area: str
) -> SteppedLoad:
    assert choice.runner is not None, "steps have someone to run them"
    job = LoadSpec(
        location=engine.location,
        process=LoadProcess(engine.store),
        catalog=request.contract.catalog,
        kind=request.kind,
        append_only=request.strict,
        creates=request.creates,
        held_ids_max=choice.held_ids_max,
        one_task_ids_max=min(choice.held_ids_max, choice.one_task_ids_max),
        keeps_rejects=request.rejects is not None,
        seed=request.header.operation_id,
        area=area,
    )
    return SteppedLoad(
        engine=engine,
        request=request,
        bulk=check(engine, job, choice.runner, splits, request.rejects),
    )
