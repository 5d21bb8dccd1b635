"""A real Spark Connect server on this machine, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.spark_cluster import START_SECONDS_MAX, _end, _listens, free_port, processes

ROOT = Path(__file__).parents[2]
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
TASKS = "pyspark.daemon pyspark.worker"
PLANNERS = "pyspark.daemon pyspark.sql."


@dataclass
class ConnectServer:
    """A running server; what it started ends with it."""

    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        """End the server and its Python processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The Python processes that run tasks."""
        return self._list_processes(TASKS)

    def planners(self) -> list[int]:
        """The Python processes that plan reads and writes of data sources and commit them, for the server itself."""
        return self._list_processes(PLANNERS)

    def _list_processes(self, command: str) -> list[int]:
        below = {self.process.pid}
        listed = sorted(processes())
        for _ in listed:
            more = {pid for pid, parent, _ in listed if parent in below}
            if more <= below:
                break
            below |= more
        return [pid for pid, _, line in listed if pid in below and command in line]


@contextmanager
def connect_server(home: Path) -> Iterator[str]:
    """Start a server with two cores and give its address; it ends with the block."""
    server = start_server(home)
    try:
        yield server.address
    finally:
        _end(server.process)


def start_server(home: Path) -> ConnectServer:
    """Start a server with two cores and wait until it listens."""
    import pyspark

    from omnigraphdb.spark_jobs.java import java_home

    home.mkdir(parents=True, exist_ok=True)
    spark_home, java, port = Path(pyspark.__file__).parent, java_home(), free_port()
    environment = os.environ | {
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "JAVA_HOME": java,
    }
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 4,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    command = [str(spark_home / "bin" / "spark-submit"), "--master", "local[2,4]", "--class", CLASS]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = home / "connect.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            stdout=file, stderr=file, env=environment, cwd=home, start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + START_SECONDS_MAX
        while not _listens(port):
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.1)
    except BaseException:
        _end(server)
        raise
    return ConnectServer(server, f"sc://127.0.0.1:{port}")
