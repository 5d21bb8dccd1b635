"""Spark jobs: the runner, frames, queries and sessions; loading this package loads PySpark."""

from omnigraphdb.packages import load_package

load_package("pyspark", "work on Spark", state="no changes were made")
