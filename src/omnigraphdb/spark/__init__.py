"""The API for Spark users: sessions, a data source, transactions and streams; loading this package loads PySpark."""
# ruff: noqa: E402  A missing PySpark is told with the extra that brings it, before anything here imports it.

from omnigraphdb.packages import load_package

load_package("pyspark", "omnigraphdb.spark", state="no changes were made")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraphdb.errors import ConfigError
from omnigraphdb.spark.changes import ChangeSource
from omnigraphdb.spark.source import GraphSource
from omnigraphdb.spark.streams import each_batch
from omnigraphdb.spark.transaction import Transaction
from omnigraphdb.spark.views import Views, register_views
from omnigraphdb.spark_jobs.faults import find_error_line
from omnigraphdb.spark_jobs.preflight import require_same_versions
from omnigraphdb.spark_jobs.runner import SparkRunner, spark_runner
from omnigraphdb.spark_jobs.session import session

__all__ = [
    "GraphSource",
    "SparkRunner",
    "Transaction",
    "Views",
    "each_batch",
    "register",
    "register_views",
    "session",
    "spark_runner",
]


def register(spark: SparkSession) -> None:
    """Register `format("omnigraph")` and `format("omnigraph-changes")` with a session, whose executors have our versions."""
    require_same_versions(spark)
    try:
        spark.dataSource.register(GraphSource)
        spark.dataSource.register(ChangeSource)
    except PySparkException as error:
        raise ConfigError(
            f"this Spark cannot load omnigraphdb: {find_error_line(str(error))}; nothing was read or written",
            hint="install the same version of omnigraphdb where the driver of Spark runs",
        ) from error
