"""The check of executors before a job: they run Python tasks of this driver, and have its versions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraphdb.errors import ConfigError
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.spark_jobs.faults import find_error_line, find_failed_hosts
from omnigraphdb.spark_jobs.session import is_connect, is_local, master_of, read_setting
from omnigraphdb.spark_jobs.versions import ADVICE, DIFFER, make_difference_finder

PREFLIGHT_TASKS: Final = 16
"""Tasks of the version check: enough to reach every executor of a small cluster; sealed tasks check again."""

GROUP: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""The local properties that make up the job group of a thread."""

_CHECKED: set[str] = set()
"""Applications whose executors have the versions of the driver."""


def require_same_versions(spark: SparkSession) -> None:
    """Refuse executors whose packages differ from those of the driver; each application is asked once."""
    application = read_setting(spark, "spark.app.id", str(id(spark)))
    if application not in _CHECKED and not is_local(spark):
        check_versions(spark)
        _CHECKED.add(application)


def check_versions(spark: SparkSession) -> None:
    """Ask the executors of a session for their versions; refuse executors that differ or run no task of this driver."""
    find = make_difference_finder()
    group = f"omnigraph-versions-{SYSTEM.new_id()}"
    try:
        host_differences = (
            _ask_server(spark, find) if is_connect(spark) else _ask_executors(spark, find, group)
        )
    except (PySparkException, Py4JError) as error:
        hosts = [] if is_connect(spark) else find_failed_hosts(spark, group)
        raise ConfigError(
            f"{_name_executors(spark, hosts)} cannot run Python tasks of this driver: "
            f"{find_error_line(str(error))}; no changes were made",
            hint=ADVICE,
        ) from error
    if host_differences:
        differences = "; ".join(sorted(set(host_differences)))
        raise ConfigError(f"{DIFFER}{differences}; no changes were made", hint=ADVICE)


def _name_executors(spark: SparkSession, hosts: Sequence[str]) -> str:
    names = ", ".join(f"'{host}'" for host in hosts)
    return f"executor host {names}" if hosts else f"the executors of '{master_of(spark)}'"


def _ask_executors(spark: Any, find: Callable[[], list[str]], group: str) -> Sequence[str]:
    """Ask by tasks that need nothing but Python."""

    # A nested function is pickled by value: an executor without our package must still be able to answer.
    def look(_: Iterator[int]) -> list[str]:
        return find()

    context = spark.sparkContext
    former = {name: context.getLocalProperty(name) for name in GROUP}
    context.setJobGroup(group, "versions")
    try:
        seeds = context.parallelize(range(PREFLIGHT_TASKS), PREFLIGHT_TASKS)
        differences: Sequence[str] = seeds.mapPartitions(look).collect()
        return differences
    finally:
        for name, value in former.items():
            context.setLocalProperty(name, value)


def _ask_server(spark: SparkSession, find: Callable[[], list[str]]) -> Sequence[str]:
    """Ask by a frame: under Connect there is no other way."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow  # noqa: PLC0415

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict(
                {"found": pyarrow.array(find(), pyarrow.string())}
            )

    seeds = spark.range(0, PREFLIGHT_TASKS, 1, PREFLIGHT_TASKS)
    return [row["found"] for row in seeds.mapInArrow(look, "found string").collect()]
