"""Loading: what a source brings becomes one commit, in memory or in steps, whichever its size asks for."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from omnigraph.catalog.ir.contract import Contract
from omnigraph.commit.constraints import violations
from omnigraph.commit.delta import DeltaKind, Deltas
from omnigraph.commit.plan import Header
from omnigraph.commit.stage import ALONE, StageWorkers
from omnigraph.engine.attempt import Prepared
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.bulk import Bulk, check
from omnigraph.engine.write.heartbeat import keep_heartbeat
from omnigraph.engine.write.prepare import open_committed_rows, prepare_deltas
from omnigraph.errors import ReadSetConflict, UserInputError
from omnigraph.ids import LoadMode, TableKey
from omnigraph.manifest.view import View
from omnigraph.pipeline.checks import LoadProcess, LoadSpec
from omnigraph.pipeline.input.cut import Size, Spread, cut, measure, spill_split, spool_stream
from omnigraph.pipeline.input.intake import Intake
from omnigraph.pipeline.input.sources import LoadSource, read_source
from omnigraph.pipeline.input.splits import Portion, Split, grain_of
from omnigraph.pipeline.local import LocalRunner
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.runner import Runner
from omnigraph.storage.tables import Workers
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


# ---- who does it


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """Who does a load and why; without a runner it is done in memory. `spread` cuts frames that are elsewhere."""

    runner: Runner | None
    reason: str
    spread: "Callable[[Any, StoreLocation, str], Sequence[Portion]] | None" = None
    index_workers: Workers | None = None
    """Who builds the indexes that follow the load; None stands for this process."""

    @property
    def engine(self) -> str:
        """What the report says."""
        return "local" if self.runner is None else self.runner.engine


Choose = Callable[[Size], RunnerChoice]
"""Chooses by size; of what comes once, that is what was read ahead."""


def choose_here(engine: Engine, size: Size) -> RunnerChoice:
    """Choose without leaving this process: in memory when the input is small, else by threads in steps."""
    if not is_large(engine, size):
        return RunnerChoice(None, f"{spell_size(size)} are little enough for memory")
    # More hands than cores would only hold more in memory.
    workers = min(engine.settings.load_concurrency, os.cpu_count() or 1)
    return RunnerChoice(LocalRunner(workers), f"{spell_size(size)}, in steps")


def is_large(engine: Engine, size: Size) -> bool:
    """Whether an input is past the small-work bound."""
    settings = engine.settings
    return size.bytes > settings.small_work_bytes or size.rows > settings.small_work_rows


def spell_size(size: Size) -> str:
    """A size in words."""
    rows = f" and {size.rows} rows" if size.rows else ""
    return f"{size.bytes} bytes{rows} of input"


# ---- what it brings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is asked of a load: how it writes, on which schema, under which name."""

    kind: DeltaKind
    contract: Contract
    header: Header
    strict: frozenset[TableKey] = frozenset()
    """Tables that a merge in steps only adds to."""

    def require_schema(self, view: View) -> None:
        """Refuse to write what was typed by another schema."""
        if view.contract.ir_hash != self.contract.ir_hash:
            raise ReadSetConflict("the schema", self.contract.ir_hash, view.contract.ir_hash)


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

    def require_fit(self, view: View) -> None:
        """Raise with every rule that the load would break on a view."""
        ...

    def prepare(self, view: View) -> Prepared[None]:
        """Check the input against a view, stage it and plan the commit."""
        ...


@contextmanager
def check_load(
    engine: Engine, given: LoadSource, order: LoadRequest, choose: Choose | None = None
) -> Iterator[tuple[CheckedLoad, RunnerChoice]]:
    """Read everything that is given, the way that suits it; raise with all that is wrong."""
    settings = engine.settings
    given = given.read_ahead(settings.small_work_bytes, settings.small_work_rows)
    foreign = given.foreign
    size = measure(given) if foreign is None else Size(bytes=0, rows=0, foreign=foreign)
    choice = choose_here(engine, size) if choose is None else choose(size)
    if engine.read_only and choice.runner is not None:
        choice = RunnerChoice(None, "a graph that is opened to be read keeps no scratch files")
    if foreign is None and choice.runner is None:
        yield _in_memory(engine, given, order), choice
        return
    with keep_heartbeat(
        engine, order.header.operation_id, lingers=choice.engine != "local"
    ) as area:
        yield (
            _in_steps(engine, _splits(engine, given, size, choice, area), order, choice, area),
            choice,
        )


def _splits(
    engine: Engine, given: LoadSource, size: Size, choice: RunnerChoice, area: str
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
    splits = cut(given, grain, _spread(engine, choice, area), spool)
    if choice.engine == "local":
        return splits
    return [spill_split(split, engine.store, area) for split in splits]


def _spread(engine: Engine, choice: RunnerChoice, area: str) -> Spread | None:
    spread = choice.spread
    return None if spread is None else lambda frame: spread(frame, engine.location, area)


# ---- in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemoryLoad:
    """An input that is held in memory."""

    engine: Engine
    order: LoadRequest
    deltas: Deltas
    records: Mapping[TableKey, int]
    workers: StageWorkers = ALONE

    def require_fit(self, view: View) -> None:
        """Raise with every rule that the load would break on a view."""
        found = violations(self.deltas, open_committed_rows(self.engine, view), view.catalog)
        if found:
            raise found.error()

    def prepare(self, view: View) -> Prepared[None]:
        """Check the input against a view, stage it and plan the commit."""
        self.order.require_schema(view)
        committed = open_committed_rows(self.engine, view)
        header = self.order.header
        plan = prepare_deltas(view, self.deltas, committed, self.engine.workers, header)
        return Prepared(plan, None)


def _in_memory(engine: Engine, given: LoadSource, order: LoadRequest) -> InMemoryLoad:
    intake = Intake(order.contract.catalog)
    for source in given.sources:
        read_source(source, intake)
    deltas = intake.deltas(order.kind, engine.runtime)
    return InMemoryLoad(engine=engine, order=order, deltas=deltas, records=intake.records)


# ---- in steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedLoad:
    """An input that many hands read again whenever it is needed."""

    engine: Engine
    order: LoadRequest
    bulk: Bulk

    @property
    def records(self) -> Mapping[TableKey, int]:
        """How many records came for each table."""
        return self.bulk.records

    @property
    def workers(self) -> StageWorkers:
        """Who writes rows that can be written under the locks only."""
        return StageWorkers(rows=self.bulk)

    def require_fit(self, view: View) -> None:
        """Raise with every rule that the load would break on a view."""
        self.bulk.decide_keys(view)

    def prepare(self, view: View) -> Prepared[None]:
        """Check the input against a view, stage it and plan the commit."""
        self.order.require_schema(view)
        return Prepared(self.bulk.prepare(view, self.order.header), None)


def _in_steps(
    engine: Engine, splits: Sequence[Split], order: LoadRequest, choice: RunnerChoice, area: str
) -> SteppedLoad:
    assert choice.runner is not None, "steps have someone to run them"
    job = LoadSpec(
        location=engine.location,
        process=LoadProcess(engine.store),
        catalog=order.contract.catalog,
        kind=order.kind,
        append_only=order.strict,
        seed=order.header.operation_id,
        area=area,
    )
    return SteppedLoad(engine=engine, order=order, bulk=check(engine, job, choice.runner, splits))
