"""The runner of a load: threads of this process, or Spark when the caller asks for it or the input is large."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from omnigraphdb.api.runners import spark_runner
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.runner_choice import (
    ChooseRunner,
    RunnerChoice,
    choose_by_size,
    format_size,
    is_large,
)
from omnigraphdb.errors import OmniError, UserInputError
from omnigraphdb.limits import (
    ADJACENCY_DRIVER_BYTES_MAX,
    AUTO_INDEX_ROWS_MAX,
    BESIDE_IDS_ROWS,
    BESIDE_KEYS_BYTES,
    CACHED_IDS_ROWS,
    ONE_TASK_IDS_ROWS,
)
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.input.sources import SpilledFrame
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.maintenance import RunnerWorkers
from omnigraphdb.pipeline.progress import OnProgress
from omnigraphdb.pipeline.reporting import ReportingRunner
from omnigraphdb.pipeline.runner import Runner
from omnigraphdb.storage.tables import Workers

AUTO = "auto"


def make_runner_choice(
    engine: Engine, spark: Any, on_progress: OnProgress | None = None, *, in_steps: bool = False
) -> ChooseRunner:
    """Make the function that chooses a runner by input size; `spark` is a session, True, False or `auto`.

    `on_progress` is called with the progress of every step; `in_steps` rules out a load in memory.
    """
    choose_runner = _make_choose(engine, spark)
    if in_steps:
        choose_runner = partial(_choose_steps, choose_runner, engine)
    return (
        choose_runner
        if on_progress is None
        else partial(_choose_reporting, choose_runner, on_progress)
    )


def _choose_reporting(
    choose_runner: ChooseRunner, on_progress: OnProgress, size: Size
) -> RunnerChoice:
    choice = choose_runner(size)
    if choice.runner is None:
        return choice
    return replace(choice, runner=ReportingRunner(choice.runner, on_progress))


def _choose_steps(choose_runner: ChooseRunner, engine: Engine, size: Size) -> RunnerChoice:
    choice = choose_runner(size)
    if choice.runner is not None:
        return choice
    return replace(choice, runner=LocalRunner(engine.settings.load_concurrency))


def _make_choose(engine: Engine, spark: Any) -> ChooseRunner:
    if spark is False or spark is None:
        return partial(choose_by_size, engine)
    if isinstance(spark, str):
        if spark != AUTO:
            raise UserInputError(
                f"spark= takes a SparkSession, True, False or 'auto', not '{spark}'; no changes were made"
            )
        return partial(_choose_by_size, engine)
    return partial(_choose_asked, engine, spark)


def _choose_asked(engine: Engine, spark: Any, _size: Size) -> RunnerChoice:
    """Spark, whatever the size."""
    return _on_spark(engine, spark, "Spark was asked for")


def _choose_by_size(engine: Engine, size: Size) -> RunnerChoice:
    if isinstance(size.foreign, SpilledFrame):
        return _choose_beside_spark()
    if size.foreign is not None:
        return _on_spark(engine, size.foreign.sparkSession, "a Spark DataFrame is among the input")
    if not is_large(engine, size):
        return choose_by_size(engine, size)
    if find_spec("pyspark") is None:
        here = choose_by_size(engine, size)
        return RunnerChoice(here.runner, f"{here.reason}: pyspark is not installed")
    try:
        return _on_spark(engine, None, f"{format_size(size)} are past the small-work bound")
    except (OmniError, OSError, RuntimeError) as error:
        here = choose_by_size(engine, size)
        return RunnerChoice(here.runner, f"{here.reason}: Spark did not start ({error})")


def _choose_beside_spark() -> RunnerChoice:
    """One thread of this process, with little memory: the process stands beside the driver of Spark."""
    return RunnerChoice(
        LocalRunner(1, keys_bytes_max=BESIDE_KEYS_BYTES, saves_memory=True),
        "the rows came from Spark",
        _spill_frame,
        held_ids_max=BESIDE_IDS_ROWS,
        indexed_rows_max=AUTO_INDEX_ROWS_MAX,
        adjacency_bytes_max=ADJACENCY_DRIVER_BYTES_MAX,
    )


def _on_spark(engine: Engine, spark: Any, reason: str) -> RunnerChoice:
    runner = spark_runner(spark)
    return RunnerChoice(
        runner,
        reason,
        _spill_frame,
        _index_workers(engine, runner),
        one_task_ids_max=ONE_TASK_IDS_ROWS if runner.workers > 1 else CACHED_IDS_ROWS,
        adjacency_bytes_max=ADJACENCY_DRIVER_BYTES_MAX,
    )


def _index_workers(engine: Engine, runner: Runner) -> Workers | None:
    """Who builds the indexes that follow a load: executors elsewhere; on one machine this process needs less time."""
    if not getattr(runner, "is_remote", False):
        return None
    count = engine.settings.maintenance_concurrency
    return RunnerWorkers(runner=runner, location=engine.location, count=count)


def _spill_frame(frame: Any, location: Any, area: str) -> Any:
    return import_module("omnigraphdb.spark_jobs.frames").spill_frame(frame, location, area)
