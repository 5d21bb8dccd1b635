"""What Spark users import: sessions, a data source, transactions and streams; loading this package loads PySpark."""

from omnigraph.spark.register import register
from omnigraph.spark.source import GraphSource
from omnigraph.spark.streams import each_batch
from omnigraph.spark.transaction import Transaction
from omnigraph.spark_jobs.runner import SparkRunner, spark_runner
from omnigraph.spark_jobs.session import session

__all__ = [
    "GraphSource",
    "SparkRunner",
    "Transaction",
    "each_batch",
    "register",
    "session",
    "spark_runner",
]
