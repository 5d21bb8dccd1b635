"""Which hands do bulk work: those of this process, or those of Spark when it was asked for."""

from importlib import import_module
from typing import Any

from omnigraph.engine.diff.spread import Spread
from omnigraph.engine.session.engine import Engine
from omnigraph.pipeline.local import LocalRunner
from omnigraph.pipeline.maintenance import RunnerWorkers
from omnigraph.pipeline.runner import Runner
from omnigraph.storage.tables import Workers


def spark_runner(spark: Any) -> Runner:
    """The runner of a Spark session; `True` stands for the active one, or a new one."""
    # Spark is an extra and slow to load: only who asks for it pays for it.
    found: Runner = import_module("omnigraph.spark.runner").spark_runner(spark)
    return found


def runner_of(engine: Engine, spark: Any) -> Runner:
    """The runner for bulk work: threads of this process unless Spark is asked for."""
    if spark is None or spark is False:
        return LocalRunner(engine.settings.load_concurrency)
    return spark_runner(spark)


def workers_of(engine: Engine, spark: Any) -> Workers | None:
    """The hands for maintenance; None stands for this process."""
    if spark is None or spark is False:
        return None
    return RunnerWorkers(
        runner=spark_runner(spark), home=engine.home, count=engine.settings.maintenance_concurrency
    )


def spread_of(engine: Engine, spark: Any) -> Spread | None:
    """The hands for comparing tables; None stands for this process."""
    if spark is None or spark is False:
        return None
    return Spread(
        runner=spark_runner(spark), home=engine.home, rows_min=engine.settings.small_work_rows
    )
