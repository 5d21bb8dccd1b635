"""OmniGraph on Spark: sessions, a data source, transactions and streams; loading this package loads PySpark."""

from importlib.util import find_spec

from omnigraph.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError(
        "PySpark is not installed, so nothing can run on Spark; no changes were made",
        hint="install the extra: pip install 'omnigraph[spark]'",
    )

from omnigraph.spark.runner import SparkRunner, spark_runner
from omnigraph.spark.sessions import session
from omnigraph.spark.source import GraphSource, register
from omnigraph.spark.stream import each_batch
from omnigraph.spark.transaction import Transaction

__all__ = [
    "GraphSource",
    "SparkRunner",
    "Transaction",
    "each_batch",
    "register",
    "session",
    "spark_runner",
]
