"""A real Spark cluster on this machine: a master, two workers of one core each, executors in processes of their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS_MAX = 90.0
WORKERS = 2


@dataclass
class Cluster:
    """A running cluster and the processes it is made of."""

    master: str
    home: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        workers = {daemon.pid for name, daemon in self.daemons.items() if name != "master"}
        return [
            pid
            for pid, parent, line in processes()
            if "CoarseGrainedExecutorBackend" in line and _above(parent, workers)
        ]

    def kill_worker(self, number: int) -> None:
        """End a worker at once."""
        daemon = self.daemons[f"worker-{number}"]
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait()

    def log(self, name: str) -> str:
        """What a daemon said."""
        return (self.home / f"{name}.log").read_text(errors="replace")


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process with its parent and its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            yield int(entry.name), int(stat.rpartition(")")[2].split()[1]), line


def _above(pid: int, wanted: set[int]) -> bool:
    parents = {one: parent for one, parent, _ in processes()}
    while pid > 1:
        if pid in wanted:
            return True
        pid = parents.get(pid, 0)
    return False


def peak_bytes(pid: int) -> int:
    """The most memory a process has used so far."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), "0 0")
    return int(peak.split()[1]) * 1024


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(home: Path, workers: int = WORKERS) -> Iterator[Cluster]:
    """Start a master and its workers; all of them end with the block."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    found = Cluster(f"spark://127.0.0.1:{port}", home)
    try:
        _start(
            found,
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())),
        )
        _await(lambda: _listens(port), found, "master")
        for number in range(workers):
            start_worker(found, number)
        yield found
    finally:
        for daemon in found.daemons.values():
            _end(daemon)


def start_worker(
    found: Cluster,
    number: int,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> None:
    """Start a worker of one core and wait until the master knows it; a prefix is a command that runs it elsewhere."""
    name = f"worker-{number}"
    before = found.log("master").count("Registering worker")
    _start(
        found,
        name,
        "org.apache.spark.deploy.worker.Worker",
        *(
            "--host",
            "127.0.0.1",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--webui-port",
            str(free_port()),
        ),
        *("--work-dir", str(found.home / name), found.master),
        environment=environment,
        prefix=prefix,
    )
    _await(lambda: found.log("master").count("Registering worker") > before, found, name)


def _start(
    found: Cluster,
    name: str,
    daemon: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> None:
    import pyspark

    from omnigraphdb.spark_jobs.java import java_home

    spark_home = Path(pyspark.__file__).parent
    java = java_home()
    inherited = os.environ | {
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java,
    }
    with open(found.home / f"{name}.log", "wb") as log:
        found.daemons[name] = subprocess.Popen(
            [*prefix, str(spark_home / "bin" / "spark-class"), daemon, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**inherited, **(environment or {})},
            start_new_session=True,
        )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _await(ready: object, found: Cluster, name: str) -> None:
    assert callable(ready)
    end = time.monotonic() + START_SECONDS_MAX
    while not ready():
        assert found.daemons[name].poll() is None, found.log(name)[-2000:]
        assert time.monotonic() < end, found.log(name)[-2000:]
        time.sleep(0.1)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    """End a daemon and what it started, which are in a process group of their own."""
    try:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    with suppress(ProcessLookupError):
        os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait()
