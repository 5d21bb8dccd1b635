"""The runner and the workers of bulk work: this process, or Spark when the caller asks for it."""

from importlib import import_module
from typing import Any

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.maintenance import RunnerWorkers
from omnigraphdb.pipeline.progress import OnProgress
from omnigraphdb.pipeline.reporting import ReportingRunner
from omnigraphdb.pipeline.runner import Runner
from omnigraphdb.storage.tables import Workers


def spark_runner(spark: Any) -> Runner:
    """Make the runner of a Spark session; `True` stands for the active session, or a new one."""
    # Spark is an extra and slow to load, so it is imported on use.
    found: Runner = import_module("omnigraphdb.spark_jobs.runner").spark_runner(spark)
    return found


def runner_of(engine: Engine, spark: Any, on_progress: OnProgress) -> Runner:
    """Make the runner for bulk work: threads of this process unless the caller asks for Spark."""
    if spark is None or spark is False:
        return ReportingRunner(LocalRunner(engine.settings.load_concurrency), on_progress)
    return ReportingRunner(spark_runner(spark), on_progress)


def workers_of(engine: Engine, spark: Any) -> Workers | None:
    """Make the workers for maintenance; None stands for this process."""
    if spark is None or spark is False:
        return None
    return RunnerWorkers(
        runner=spark_runner(spark),
        location=engine.location,
        count=engine.settings.maintenance_concurrency,
    )
