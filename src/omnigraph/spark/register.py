"""Registration of the data sources with a Spark session."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraph.errors import ConfigError
from omnigraph.spark.changes import ChangeSource
from omnigraph.spark.source import GraphSource
from omnigraph.spark_jobs.runner import find_error_line


def register(spark: SparkSession) -> None:
    """Register `format("omnigraph")` and `format("omnigraph-changes")` with a session."""
    try:
        spark.dataSource.register(GraphSource)
        spark.dataSource.register(ChangeSource)
    except PySparkException as error:
        raise ConfigError(
            f"this Spark cannot load omnigraph: {find_error_line(str(error))}; nothing was read or written",
            hint="install the same version of omnigraph where the driver of Spark runs",
        ) from error
