"""Executors that are not as the driver is: one error names the host and the difference, and nothing is written."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from platform import node
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from tests.spark.test_kills import BEFORE, Driver, make_graph, read_state
from tests.support.spark_cluster import Cluster, cluster, start_worker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark"),
]

VERBS = ("load", "merge", "export", "read", "write")
PYTHON = "task-python"
"""The name of the Python of tasks; every host finds another program under it."""
MINOR = sys.version_info.minor + 1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("executors"), workers=0) as found:
        yield found


# ---- Pythons of executors


def make_other_package(home: Path, name: str, version: str) -> str:
    """A Python that finds another version of a package."""
    folder = home / "other" / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return f'PYTHONPATH="{folder.parent}:$PYTHONPATH" exec {sys.executable} "$@"'


def make_other_minor(home: Path) -> str:
    """A Python that takes itself for the next one."""
    folder = home / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "info = collections.namedtuple('info', 'major minor micro releaselevel serial')\n"
        f"sys.version_info = info(3, {MINOR}, 0, 'final', 0)\n"
    )
    return f'PYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"'


def make_bare(home: Path) -> str:
    """A Python without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "bare"], check=True)
    return f'exec {home / "bare/bin/python"} "$@"'


def make_without_us(home: Path) -> str:
    """A Python with every package but ours."""
    command = make_bare(home)
    [site] = (home / "bare").glob("lib/*/site-packages")
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if "omnigraphdb" not in one.name and not (site / one.name).exists():
            (site / one.name).symlink_to(one)
    return command


def install_python(folder: Path, command: str) -> dict[str, str]:
    """Give a Python the name by which tasks find it, and the environment in which they do."""
    folder.mkdir(parents=True)
    program = folder / PYTHON
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": ""}


@contextmanager
def worker_with(running: Cluster, home: Path, command: str) -> Iterator[None]:
    """Run one worker whose tasks use a Python."""
    number = len(running.daemons)
    start_worker(running, number, install_python(home / "host", command))
    try:
        yield
    finally:
        running.kill_worker(number)


EXECUTORS = {
    "without us": (make_without_us, "has omnigraphdb none, expected"),
    "other omnigraphdb": (lambda home: make_other_package(home, "omnigraphdb", "9.9.9"), "has omnigraphdb 9.9.9, expected"),
    "other lance": (lambda home: make_other_package(home, "pylance", "1.0.0"), "has pylance 1.0.0, expected"),
    "other arrow": (lambda home: make_other_package(home, "pyarrow", "1.0.0"), "has pyarrow 1.0.0, expected"),
    "no package at all": (make_bare, "has omnigraphdb none, expected"),
    "other Python": (make_other_minor, f"different version: 3.{MINOR}"),
}  # fmt: skip


@pytest.mark.parametrize("executor", EXECUTORS)
def test_executors_that_differ_are_named_and_nothing_is_written(
    running: Cluster, tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, expected = EXECUTORS[executor]
    make_graph(tmp_path, str(tmp_path / "g"), {})
    here = install_python(tmp_path / "here", f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PATH", here["PATH"])
    driver = Driver(running.master, **{"spark.pyspark.python": PYTHON})
    with worker_with(running, tmp_path, make(tmp_path)):
        try:
            said = {verb: say(driver, verb, tmp_path) for verb in VERBS}
        finally:
            driver.end()
    for verb, answer in said.items():
        told = f"{verb}: {answer}"
        assert answer["kind"] == "config_error", told
        assert expected in answer["error"], told
        assert any(f"host '{host}'" in answer["error"] for host in (node(), "127.0.0.1")), told
        assert len(answer["error"]) < 500, told


def say(driver: Driver, verb: str, home: Path) -> dict[str, Any]:
    """What a verb says; whatever it says, it wrote nothing."""
    driver.send(
        {"verb": verb, "uri": str(home / "g"), "options": {}, "home": str(home), "out": "out"}
    )
    said = driver.hear_end()
    assert said is not None, verb
    assert read_state(str(home / "g"), {}) == BEFORE, verb
    assert not list(home.glob("out/**/*.parquet")), verb
    return said


# ---- a store that executors do not reach


HIDE = 'mount -t tmpfs none "$0" && exec "$@"'
"""Runs a command with an empty directory of its own in the place of one that other processes see."""


@pytest.fixture
def hidden(running: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A directory of this machine that the only worker, as one on another machine, sees empty."""
    folder = tmp_path / "hidden"
    folder.mkdir()
    prefix = ["unshare", "-r", "-m", "sh", "-c", HIDE, str(folder)]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    number = len(running.daemons)
    start_worker(running, number, prefix=prefix)
    yield folder
    running.kill_worker(number)


def test_a_store_that_executors_do_not_reach_is_named_with_the_host(
    running: Cluster, hidden: Path, tmp_path: Path
) -> None:
    make_graph(tmp_path, str(hidden / "g"), {})
    driver = Driver(running.master)
    order = {"uri": str(hidden / "g"), "options": {}, "home": str(tmp_path), "out": "out"}
    try:
        for verb in VERBS:
            driver.send(order | {"verb": verb})
            said = driver.hear_end()
            told = f"{verb}: {said}"
            assert said is not None, told
            text = f"{said['error']} {said['hint']}"
            assert "is not in the store" in text, told
            assert (
                f"executor host '{node()}': every executor must reach the files and the store"
                in text
            ), told
            assert len(text) < 700, told
            assert read_state(str(hidden / "g"), {}) == BEFORE, told
    finally:
        driver.end()


def test_a_directory_that_executors_do_not_reach_is_named_with_the_host(
    running: Cluster, hidden: Path, tmp_path: Path
) -> None:
    make_graph(tmp_path, str(tmp_path / "g"), {})
    driver = Driver(running.master)
    order = {"uri": str(tmp_path / "g"), "options": {}, "home": str(tmp_path), "out": "hidden/out"}
    try:
        driver.send(order | {"verb": "export"})
        said = driver.hear_end()
    finally:
        driver.end()
    assert said is not None
    assert "on executor host '127.0.0.1': FileNotFoundError" in said["error"]
    assert str(hidden / "out" / "node-Person-00000.parquet") in said["error"]
    assert not list(hidden.glob("out/*"))
