"""Spark sessions: the only module that makes one, and the check of versions on executors."""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraphdb.errors import ConfigError, EngineError
from omnigraphdb.spark_jobs.java import INSTALLED, java_home

GIB: Final = 1024**3
DRIVER_MEMORY_MAX: Final = 4 * GIB
"""Tasks that read splits need half a GiB in the JVM; rows of DataFrames pass through it and need more."""

TASK_TRIES: Final = 4
"""Tries of a task at most; a master of `local[n]` alone never repeats a task."""

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options that halve the start time and slow down computing: for short runs only."""

CONNECT: Final = "sc://"
"""The scheme of the address of a Connect server."""

CONNECT_PORT: Final = 15002
"""The default port of a Connect server."""

CONNECT_SECONDS: Final = 10.0
"""Time that a Connect server may take to accept a connection."""

CONNECT_TRIES: Final = 9
"""Repetitions of a request to a Connect server that does not answer; a restarted server has lost the session."""

CONNECT_BACKOFF_MS: Final = 5_000
"""The longest wait between two of these requests."""

PYTHON: Final = "spark.pyspark.python"
"""The setting that names the Python of executors."""

MASTER: Final = "OMNIGRAPH_SPARK_MASTER"
"""The environment variable that names the master of new sessions."""


def session(
    master: str | None = None,
    *,
    memory: str | None = None,
    quick: bool = False,
    app: str = "omnigraphdb",
    **conf: Any,
) -> SparkSession:
    """Return the running session, else start a local one.

    `conf` holds Spark's own settings by their names, which override ours; `memory` is that of the driver; `quick` starts
    faster and computes more slowly.
    """
    running = active()
    if running is not None:
        return running if not conf else _configure_running(running, conf)
    cores = max(2, os.cpu_count() or 1)
    selected_master = master or os.environ.get(MASTER) or os.environ.get("SPARK_REMOTE")
    selected_master = selected_master or f"local[{cores},{TASK_TRIES}]"
    if selected_master.startswith(CONNECT):
        return _connect(selected_master, conf)
    _prepare_environment(conf.get(PYTHON))
    settings = _settings(selected_master, cores, memory, quick=quick) | _texts(conf)
    builder = SparkSession.builder.master(selected_master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings(), _import_installed(selected_master):
            # PySpark forks to start the JVM and runs another program at once, so Lance never runs in the fork.
            warnings.filterwarnings("ignore", message="lance is not fork-safe")
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise ConfigError(
            f"no Spark session could be started on '{selected_master}': {error}; no changes were made",
            hint="check JAVA_HOME and the master, or run without Spark (spark=False)",
        ) from error


def _connect(address: str, conf: Mapping[str, Any]) -> SparkSession:
    parts = urlsplit(address)
    try:
        # The client retries for minutes; this connection fails at once when no server listens.
        with create_connection((parts.hostname, parts.port or CONNECT_PORT), CONNECT_SECONDS):
            pass
        remote: SparkSession = SparkSession.builder.remote(address).getOrCreate()
        _bound_retries(remote)
        return _configure_running(remote, conf)
    except (PySparkException, ImportError, OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"there is no Spark Connect session at '{address}': {_first_line(error)}; no changes were made",
            hint="check that the server listens there, and install its client: pip install 'pyspark[connect]'",
        ) from error


def _bound_retries(remote: Any) -> None:
    """Let a client give up on a server that is gone after half a minute; of itself it asks for ten minutes."""
    for policy in remote.client.get_retry_policies():
        policy.max_retries, policy.max_backoff = CONNECT_TRIES, CONNECT_BACKOFF_MS


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def active() -> SparkSession | None:
    """Return the running session of this process; None when there is none."""
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    # `getActiveSession` sees only sessions that the same thread made.
    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context else None


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to a Connect server; the objects of the driver are then not accessible."""
    return is_remote() or type(spark).__module__.startswith("pyspark.sql.connect")


def master_of(spark: Any) -> str:
    """Return the master of a session, or the host of its Connect server, which need not answer; empty when it is not known."""
    if is_connect(spark):
        return f"{CONNECT}{spark.client.host}"
    return spark.conf.get("spark.master", "") or ""


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, with this Python."""
    return not is_connect(spark) and master_of(spark).partition("[")[0] == "local"


def parallelism(spark: SparkSession) -> int:
    """About how many tasks run at once."""
    if is_connect(spark):
        return max(2, int(read_setting(spark, "spark.sql.shuffle.partitions", "200")) // 4)
    return max(1, int(spark.sparkContext.defaultParallelism))


def read_setting(spark: SparkSession, name: str, default: str) -> str:
    """Read a setting of a session, whose server may be gone."""
    try:
        return spark.conf.get(name, default) or default
    except PySparkException as error:
        raise EngineError(
            f"the Spark session does not answer: {_first_line(error)}; nothing was committed",
            hint="start a new session when its server runs again",
        ) from error


def _configure_running(running: SparkSession, conf: Mapping[str, Any]) -> SparkSession:
    for name, value in _texts(conf).items():
        running.conf.set(name, value)
    return running


def _texts(conf: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in conf.items()
    }


def _prepare_environment(python: str | None) -> None:
    # Without this, workers run the first python3 on the path, which may not have our packages. Spark reads its own
    # setting only in spark-submit.
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = java_home()


@contextmanager
def _import_installed(master: str) -> Iterator[None]:
    """Let Python workers of a local session import PySpark as this process does, a second sooner than from Spark's archive.

    Spark gives the process of a stream's source ten seconds to start. Other Java processes that this one starts keep their way.
    """
    own = os.environ["PYSPARK_PYTHON"] == sys.executable and "SPARK_HOME" not in os.environ
    if not (own and master.startswith("local[")):
        yield
        return
    os.environ[INSTALLED] = "1"
    try:
        yield
    finally:
        del os.environ[INSTALLED]


def _settings(master: str, cores: int, memory: str | None, *, quick: bool) -> dict[str, str]:
    quiet = Path(__file__).with_name("quiet.properties").as_uri()
    java = f"-Dlog4j2.configurationFile={quiet}" + (f" {QUICK_JAVA}" if quick else "")
    settings = {
        "spark.driver.memory": memory or f"{_driver_memory() // GIB}g",
        "spark.driver.extraJavaOptions": java,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(4 * cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _driver_memory() -> int:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(GIB, min(DRIVER_MEMORY_MAX, memory_bytes // 2 // GIB * GIB))
