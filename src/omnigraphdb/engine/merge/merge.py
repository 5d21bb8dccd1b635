"""The merging verb: bring the changes of one branch into another in one commit, or report the conflicts."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cache, partial
from types import TracebackType
from typing import Final, Literal, TypedDict

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.commit.delta import DeltaKind, TableDelta, WrittenRows
from omnigraphdb.commit.plan import ANONYMOUS, Header, WriteOptions, WritePlan, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.commit.stage import StageWorkers
from omnigraphdb.display import Displayable, Grid, Report, tabulate
from omnigraphdb.engine.after_commit import after_commit
from omnigraphdb.engine.keyed import (
    KeyedRequest,
    Receipt,
    Replay,
    RequestKind,
    attempt_once,
    find_replay,
    make_write_request,
)
from omnigraphdb.engine.merge.conflicts import Conflict, ConflictSink, list_lines
from omnigraphdb.engine.merge.prepare import (
    Counts,
    DecidedMerge,
    ResolvedMerge,
    plan_merge,
    resolve_merge,
)
from omnigraphdb.engine.merge.relate import MergeStrategy, Outcome, Relation, relate, relate_tables
from omnigraphdb.engine.merge.steps import BulkMerge, SteppedMerge, measure_merge
from omnigraphdb.engine.results import Commit, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.heartbeat import keep_heartbeat
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice, choose_by_size
from omnigraphdb.engine.writer import CompletedWrite, Prepared
from omnigraphdb.errors import UserInputError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName, Granularity, OperationId, TableKey
from omnigraphdb.limits import CONFLICTS_SHOWN_MAX
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.checks import LoadProcess, LoadSpec
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Codec, Value, wire


class TableChanged(TypedDict):
    """Rows of one table that a merge changes."""

    table_key: str
    inserts: int
    updates: int
    deletes: int


_COUNTS: Final = Codec(
    encode=lambda counts: [
        {"table_key": key, "inserts": inserts, "updates": updates, "deletes": deletes}
        for key, (inserts, updates, deletes) in counts.items()
    ],
    decode=lambda tables: {
        table["table_key"]: (table["inserts"], table["updates"], table["deletes"])
        for table in tables
    },
    hint=list[TableChanged],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Displayable, Value):
    """The result of a merge, or of its `dry_run`; `tables` counts inserts, updates and deletes."""

    source: str
    target: str
    outcome: Outcome = field(metadata=wire(hint=Literal[tuple(map(str, Outcome))]))
    tables: Mapping[str, Counts] = field(metadata=wire("changes_by_table", codec=_COUNTS))
    commit: Commit | None
    conflicts: tuple[Conflict, ...] = ()
    actor: str | None = field(default=None, metadata=wire("actor_id"))
    dry_run: bool = False
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """True if this is the result of an earlier call with the same idempotency key; nothing was written."""
    engine: str = "local"
    """The engine that compared, checked and wrote the rows: this process, or Spark."""
    reason: str = ""
    conflicts_total: int = 0
    """The number of conflicts; a merge by steps describes the first of them only."""
    branch_deleted: bool | None = field(default=None, metadata=wire(omit=True))
    """True if the source was deleted afterwards; None if nobody asked for that."""
    branch_delete_error: str | None = field(
        default=None,
        metadata=wire(omit=lambda result: result.branch_deleted is None, hint=str | None),
    )
    """The reason why the source was not deleted."""

    def _report(self) -> Report:
        """Tabulate the changes of each table, and the conflicts of a dry run."""
        counts = [[key, *changed] for key, changed in self.tables.items()]
        grids = [Grid(columns=("table", "inserts", "updates", "deletes"), rows=counts)]
        if self.conflicts:
            names = ("table_key", "row_id", "kind", "message")
            grids.append(tabulate(self.conflicts, *names, caption="conflicts"))
        tried = " (dry run, nothing was written)" if self.dry_run else ""
        return Report(
            title=f"merge of {self.source} into {self.target}: {self.outcome}{tried}",
            facts=self._list_facts(),
            grids=tuple(grid for grid in grids if grid.rows),
        )

    def _list_facts(self) -> dict[str, str]:
        facts = {} if self.commit is None else {"commit": self.commit.id}
        return facts if self.engine == "local" else {**facts, "engine": self.engine}


def merge(
    engine: Engine,
    source: str,
    target: str,
    *,
    granularity: str = Granularity.ROW,
    options: WriteOptions = ANONYMOUS,
    dry_run: bool = False,
    allow_older_base: bool = False,
    choose_runner: ChooseRunner | None = None,
    rejects: ConflictSink | None = None,
    on_progress: OnProgress = ignore_progress,
) -> MergeResult:
    """Merge one branch into another; conflicts are collected completely before anything is written.

    `choose_runner` picks the executor by size: this process in memory, or a runner in steps. `rejects` gets every conflict.
    """
    pair = _check_names(source, target)
    parsed_granularity = _parse_granularity(granularity)
    if dry_run:
        operation = OperationId(engine.runtime.new_id())
        with MergeRun(
            engine, operation, parsed_granularity, choose_runner, rejects, on_progress
        ) as run:
            return replace(_preview(run, pair, older=allow_older_base), actor=options.actor)
    engine.require_writable("merge")
    request = make_write_request(
        RequestKind.MERGE,
        pair.target,
        options,
        source=pair.source,
        granularity=parsed_granularity,
        allow_older_base=allow_older_base,
    )
    replay = find_replay(engine, request)
    if replay is not None:
        return _replay(replay, pair, options.actor)
    engine.require_here(pair.source, "merge")
    kinds = WriterKind.BRANCH_MERGE, CommitKind.BRANCH_MERGE
    header = mint_header(engine.runtime, *kinds, options)
    with MergeRun(
        engine, header.operation_id, parsed_granularity, choose_runner, rejects, on_progress
    ) as run:
        done = _commit(run, pair, request, header, older=allow_older_base)
    if isinstance(done, Replay):
        return _replay(done, pair, options.actor)
    if done.commit is not None:
        rows = done.outcome.total_rows
        on_progress(Progress("commit", rows, rows, Unit.ROWS, rows))
    after_commit(engine, done)
    return MergeResult(
        source=pair.source,
        target=pair.target,
        outcome=done.outcome.relation.outcome,
        tables=_by_name(done.outcome.counts),
        commit=public_commit(done.commit),
        actor=options.actor,
        engine=run.choice.engine,
        reason=run.choice.reason,
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """The branch whose changes are brought, and the branch that gets them."""

    source: BranchName
    target: BranchName


def _commit(
    run: "MergeRun", pair: _Pair, request: KeyedRequest | None, header: Header, *, older: bool
) -> CompletedWrite[DecidedMerge] | Replay:
    engine = run.engine

    @cache
    def capture_source() -> BranchState:
        """Capture the source once for all attempts: later commits of the source are not part of this merge."""
        return engine.manifest.current(pair.source)

    def prepare(view: View) -> Prepared[DecidedMerge]:
        relation = _relate(engine, capture_source(), view.state, older=older)
        resolved = run.resolve(relation, view.catalog)
        if relation.base is None:
            return Prepared(None, resolved.decided)
        plan = run.plan(resolved, header)
        fail(Failpoint.MERGE_PLANNED)
        run.on_progress(Progress("commit", 0, resolved.decided.total_rows, Unit.ROWS))
        return Prepared(plan, resolved.decided)

    workers = StageWorkers(rows=run)
    return attempt_once(
        engine, pair.target, request, header, prepare, run.make_receipt, "merge", workers
    )


def _replay(replay: Replay, pair: _Pair, actor: str | None) -> MergeResult:
    return MergeResult(
        source=pair.source,
        target=pair.target,
        outcome=Outcome(replay.receipt["outcome"]),
        tables={key: (n, u, d) for key, (n, u, d) in replay.receipt["tables"].items()},
        commit=public_commit(replay.commit),
        actor=actor,
        replayed=True,
        # Receipts of earlier releases have neither field.
        engine=replay.receipt.get("engine", "local"),
        reason=replay.receipt.get("reason", ""),
    )


def _preview(run: "MergeRun", pair: _Pair, *, older: bool) -> MergeResult:
    engine = run.engine
    view = engine.view(pair.target)
    relation = _relate(engine, engine.manifest.current(pair.source), view.state, older=older)
    decided = run.resolve(relation, view.catalog).decided
    return MergeResult(
        source=pair.source,
        target=pair.target,
        outcome=relation.outcome,
        tables=_by_name(decided.counts),
        commit=None,
        conflicts=decided.conflicts,
        conflicts_total=decided.conflicts_total,
        dry_run=True,
        engine=run.choice.engine,
        reason=run.choice.reason,
    )


def _by_name(counts: Mapping[TableKey, Counts]) -> Mapping[str, Counts]:
    return {str(key): numbers for key, numbers in counts.items()}


def _relate(engine: Engine, source: BranchState, target: BranchState, *, older: bool) -> Relation:
    tables = engine.store.tables
    return relate(engine.manifest, tables, source, target, allow_older_base=older)


def _check_names(source: str, target: str) -> _Pair:
    pair = _Pair(branch_name(source, "merge"), branch_name(target, "merge"))
    if pair.source == pair.target:
        raise UserInputError(
            f"merge: source and target are the same branch '{pair.source}'; nothing was written",
            hint="name the branch to merge from, and with into= the one to merge into",
        )
    return pair


def _parse_granularity(text: str) -> Granularity:
    try:
        return Granularity(text)
    except ValueError as error:
        allowed = ", ".join(Granularity)
        raise UserInputError(
            f"merge: granularity '{text}' is unknown, it is one of {allowed}; nothing was written"
        ) from error


# ---- who does it


class MergeRun:
    """Decides and stages one merge over all its attempts: in memory when it is small, else by a runner in steps."""

    def __init__(
        self,
        engine: Engine,
        operation: OperationId,
        granularity: Granularity,
        choose_runner: ChooseRunner | None,
        rejects: ConflictSink | None,
        report: OnProgress,
    ) -> None:
        self.engine = engine
        self.choice = RunnerChoice(None, "there was nothing to compare")
        self._operation, self._granularity = operation, granularity
        self._choose = partial(choose_by_size, engine) if choose_runner is None else choose_runner
        self._rejects, self.on_progress = rejects, report
        self._resources = ExitStack()
        self._bulk: BulkMerge | None = None

    def __enter__(self) -> "MergeRun":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def resolve(self, relation: Relation, catalog: Catalog) -> ResolvedMerge | SteppedMerge:
        """Decide every row and check the rules; conflicts are part of the outcome."""
        if relation.base is None:
            return ResolvedMerge(relation=relation)
        bulk = self._bulk or self._choose_bulk(relation, catalog)
        if bulk is not None:
            return bulk.resolve(relation)
        tables = self.engine.store.tables
        resolved = resolve_merge(relation, catalog, tables, self._granularity, self.on_progress)
        if resolved.conflicts and self._rejects is not None:
            self._rejects.write_lines(list_lines(resolved.conflicts))
        return resolved

    def plan(self, resolved: ResolvedMerge | SteppedMerge, header: Header) -> WritePlan:
        """Stage a decided merge, or raise its conflicts."""
        match resolved:
            case ResolvedMerge():
                return plan_merge(resolved, self.engine.store.tables, header, self.on_progress)
            case SteppedMerge():
                return self._require_bulk().plan(resolved, header)

    def write(self, delta: TableDelta, at: TableAt) -> WrittenRows:
        """Write the rows of a table that had to be forked first."""
        return self._require_bulk().write(delta, at)

    def make_receipt(self, decided: DecidedMerge) -> Receipt:
        """Make the receipt from which a repeated call reports this merge."""
        return {
            "outcome": str(decided.relation.outcome),
            "tables": _by_name(decided.counts),
            "engine": self.choice.engine,
            "reason": self.choice.reason,
        }

    def _require_bulk(self) -> BulkMerge:
        assert self._bulk is not None, "rows of scratch files have a runner that wrote them"
        return self._bulk

    def _choose_bulk(self, relation: Relation, catalog: Catalog) -> BulkMerge | None:
        """Choose who does it, once; the scratch files of a runner live as long as the merge."""
        self.choice = self._choose(self._measure(relation))
        if self.engine.read_only and self.choice.runner is not None:
            reason = "a graph that is opened to be read keeps no scratch files"
            self.choice = RunnerChoice(None, reason)
        runner = self.choice.runner
        if runner is None:
            return None
        lingers = runner.engine != "local"
        area = self._resources.enter_context(
            keep_heartbeat(self.engine, self._operation, lingers=lingers)
        )
        spec = LoadSpec(
            location=self.engine.location,
            process=LoadProcess(self.engine.store),
            catalog=catalog,
            kind=DeltaKind.MERGE,
            seed=self._operation,
            area=area,
            keeps_rejects=self._rejects is not None,
            problems_max=CONFLICTS_SHOWN_MAX,
            held_ids_max=self.choice.held_ids_max,
        )
        self._bulk = BulkMerge(
            engine=self.engine,
            spec=spec,
            runner=runner,
            granularity=self._granularity,
            conflicts=self._rejects,
        )
        return self._bulk

    def _measure(self, relation: Relation) -> Size:
        """Measure the rows to compare; tables that together stay below the bound are not opened."""
        assert relation.base is not None, "a merge without a base has nothing to compare"
        related = [
            table
            for table in relate_tables(
                relation.base, relation.source.snapshot, relation.target.snapshot
            )
            if table.way is not MergeStrategy.SAME
        ]
        rows = sum(table.source.row_count + table.target.row_count for table in related)
        if rows <= self.engine.settings.small_work_rows:
            return Size(bytes=0, rows=rows)
        return measure_merge(self.engine.store.tables, related)
