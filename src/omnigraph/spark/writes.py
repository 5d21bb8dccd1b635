"""Writes that come from Spark: rows are in scratch files or frames, one load makes them one commit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from omnigraph.engine.maintenance.auto import maintain_touched
from omnigraph.engine.maintenance.indexes import index_after_load
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.load import RunnerChoice
from omnigraph.engine.write.verbs import Loaded, load
from omnigraph.ids import BranchName
from omnigraph.pipeline.input.cut import Size
from omnigraph.pipeline.input.sources import SpilledFrame
from omnigraph.pipeline.input.splits import Portion
from omnigraph.pipeline.local import LocalRunner
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.maintenance import RunnerWorkers
from omnigraph.spark.frames import frame_splits
from omnigraph.spark.runner import SparkRunner


class Handle(Protocol):
    """What is needed of an opened graph."""

    @property
    def _engine(self) -> Engine: ...


def write_frames(
    engine: Engine,
    tables: Mapping[str, Any],
    runner: SparkRunner | None,
    *,
    mode: str,
    branch: BranchName,
    from_branch: str | None = None,
    actor: str | None = None,
    batch_id: str | None = None,
    strict: Collection[str] = (),
) -> Loaded:
    """Load frames and scratch files in one commit, then build the indexes that large tables lack."""
    workers = runner or LocalRunner(engine.settings.load_concurrency)
    count = engine.settings.maintenance_concurrency

    def choose(size: Size) -> RunnerChoice:
        return RunnerChoice(workers, "the rows came from Spark", _portions)

    done = load(
        engine,
        tables,
        mode=mode,
        branch=branch,
        from_branch=None if from_branch is None else BranchName(from_branch),
        actor=actor,
        choose=choose,
        batch_id=batch_id,
        strict=strict,
    )
    if done.commit is not None:
        lent = None
        if runner is not None and runner.is_remote:
            lent = RunnerWorkers(runner=runner, home=engine.home, count=count)
        index_after_load(engine, done.branch, done.commit.tables, actor, lent)
        maintain_touched(engine, done.branch, done.commit.tables)
    return done


def _portions(frame: Any, home: StoreLocation, area: str) -> Sequence[Portion]:
    """Rows that were spilled before are where they are; those of a frame are spilled now."""
    return frame.portions if isinstance(frame, SpilledFrame) else frame_splits(frame, home, area)
