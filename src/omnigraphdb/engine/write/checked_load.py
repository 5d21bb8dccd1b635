"""The input of a load after it was read and checked by itself, in memory or in steps, depending on its size."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Protocol

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.commit.constraints import Violations, violations
from omnigraphdb.commit.delta import DeltaKind, Deltas
from omnigraphdb.commit.plan import Header
from omnigraphdb.commit.stage import ALONE, StageWorkers
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.engine.write.bulk import BulkLoad, check
from omnigraphdb.engine.write.heartbeat import keep_heartbeat
from omnigraphdb.engine.write.prepare import open_committed_rows, prepare_deltas
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice, choose_by_size
from omnigraphdb.engine.writer import Prepared
from omnigraphdb.errors import OmniError, ReadSetConflict, UserInputError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.checks import EVERY_PROBLEM, LoadProcess, LoadSpec
from omnigraphdb.pipeline.input.cut import Size, Spread, cut, measure, spill_split, spool_stream
from omnigraphdb.pipeline.input.intake import Intake
from omnigraphdb.pipeline.input.sources import LoadSource, SpilledFrame, read_sources
from omnigraphdb.pipeline.input.splits import Split, grain_of
from omnigraphdb.pipeline.keys.create import create_missing
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress
from omnigraphdb.pipeline.rejects import Rejects, SpilledProblems, make_load_error, tabulate_all
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The request of a load: the kind of change, the schema, and the header of the commit."""

    kind: DeltaKind
    contract: Contract
    header: Header
    strict: frozenset[TableKey] = frozenset()
    """Tables that a merge in steps only adds to."""
    rejects: Rejects | None = None
    """The destination of all problems; None when the first problems are enough."""
    creates: frozenset[TableKey] = frozenset()
    """Node tables that get a row for every id that edges name and that no node has."""

    early_rows: SpilledFrame | None = None
    """A frame whose rows were checked and written before the load began."""

    def require_schema(self, view: View) -> None:
        """Refuse rows that were typed by another schema, or written for a branch that no longer exists."""
        ahead = self.early_rows
        actual = view.contract.ir_hash
        for expected in (self.contract.ir_hash, *(() if ahead is None else (ahead.schema_hash,))):
            if actual != expected:
                raise ReadSetConflict("the schema", expected, actual)
        if ahead is not None and ahead.incarnation != view.state.branch_incarnation:
            raise ReadSetConflict(f"branch '{view.branch}'")


class CheckedLoad(Protocol):
    """An input that was read and checked by itself."""

    @property
    def records(self) -> Mapping[TableKey, int]:
        """The number of records for each table."""
        ...

    @property
    def workers(self) -> StageWorkers:
        """The workers for rows that can be written under the locks only."""
        ...

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise all rules that the load breaks on a view in one error; return the number of nodes that it would create."""
        ...

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; return the number of created nodes."""
        ...


@contextmanager
def check_load(
    engine: Engine,
    load_source: LoadSource,
    request: LoadRequest,
    choose_runner: ChooseRunner | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[tuple[CheckedLoad, RunnerChoice]]:
    """Read the whole source, in memory or in steps; raise with every problem of its records."""
    settings = engine.settings
    load_source = load_source.read_ahead(settings.small_work_bytes, settings.small_work_rows)
    foreign = load_source.foreign
    size = measure(load_source) if foreign is None else Size(bytes=0, rows=0, foreign=foreign)
    choice = choose_by_size(engine, size) if choose_runner is None else choose_runner(size)
    if engine.read_only and choice.runner is not None:
        choice = RunnerChoice(None, "a graph that is opened to be read keeps no scratch files")
    if foreign is None and choice.runner is None:
        on_progress(Progress("read", 0, None, Unit.ROWS, 0, 0))
        checked_load = _in_memory(engine, load_source, request, on_progress)
        rows = sum(checked_load.records.values())
        on_progress(Progress("read", rows, rows, Unit.ROWS, rows, size.bytes))
        yield checked_load, choice
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
    """Cut a source into splits that the workers of a runner can read.

    For workers elsewhere, frames in memory are stored with the graph.
    """
    if choice.runner is None or (size.foreign is not None and choice.spread is None):
        raise UserInputError(
            "a Spark DataFrame is loaded by Spark, which was not to be used; no changes were made",
            hint="leave out spark=False, or collect the frame first",
        )
    # The size of a frame that is elsewhere is not known before the frame is cut there.
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
    spilled: SpilledProblems | None
    """The problems before `problems`, when they are many and all problems are requested."""
    on_progress: OnProgress
    workers: StageWorkers = ALONE

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise all rules that the load breaks on a view in one error; return the number of nodes that it would create."""
        committed = open_committed_rows(self.engine, view)
        deltas, created = self._complete(view, committed)
        rule_violations = violations(deltas, committed, view.catalog)
        if rule_violations or self.problems:
            raise self._make_error(rule_violations)
        return created

    def _complete(
        self, view: View, committed: SnapshotRows
    ) -> tuple[Deltas, Mapping[TableKey, int]]:
        """Return the deltas with the nodes that the load creates."""
        if not self.request.creates:
            return self.deltas, {}
        return create_missing(self.deltas, self.request.creates, committed, view.catalog)

    def _make_error(self, rule_violations: Violations) -> OmniError:
        """Make the error of the problems of the input and of the rules."""
        all_violations, rejects = self.problems + rule_violations, self.request.rejects
        if rejects is None or self.spilled is None:
            first_problems = all_violations.problems[:PROBLEMS_SHOWN_MAX]
            return make_load_error(first_problems, all_violations.total, (), rejects)
        rows = chain(self.spilled.read(), tabulate_all(all_violations.problems))
        first_problems = (*self.spilled.first, *all_violations.problems[:PROBLEMS_SHOWN_MAX])
        return make_load_error(
            first_problems[:PROBLEMS_SHOWN_MAX], all_violations.total, rows, rejects
        )

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; return the number of created nodes."""
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
            self.on_progress,
            self._make_error,
        )
        return Prepared(plan, {} if plan is None else created)


def _in_memory(
    engine: Engine, load_source: LoadSource, request: LoadRequest, on_progress: OnProgress
) -> InMemoryLoad:
    intake, spilled = Intake(request.contract.catalog), None
    if request.rejects is not None:
        spilled = SpilledProblems()
        intake = Intake(request.contract.catalog, shown_max=EVERY_PROBLEM, spill=spilled.add)
    read_sources(load_source.sources, intake)
    deltas = intake.deltas(request.kind, engine.runtime)
    return InMemoryLoad(
        engine=engine,
        request=request,
        deltas=deltas,
        records=intake.records,
        problems=Violations(tuple(intake.problems), intake.total),
        spilled=spilled,
        on_progress=on_progress,
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
        """The number of records for each table."""
        return self.bulk.records

    @property
    def workers(self) -> StageWorkers:
        """The workers for rows that can be written under the locks only."""
        return StageWorkers(rows=self.bulk)

    def require_fit(self, view: View) -> Mapping[TableKey, int]:
        """Raise all rules that the load breaks on a view in one error; return the number of nodes that it would create."""
        return self.bulk.decide_keys(view).count_created()

    def prepare(self, view: View) -> Prepared[Mapping[TableKey, int]]:
        """Check the input against a view, stage it and plan the commit; return the number of created nodes."""
        self.request.require_schema(view)
        return self.bulk.prepare(view, self.request.header)


def _in_steps(
    engine: Engine, splits: Sequence[Split], request: LoadRequest, choice: RunnerChoice, area: str
) -> SteppedLoad:
    assert choice.runner is not None, "steps need a runner"
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
