"""What travels to executors opens only where the versions of the driver are, and says so without our package too."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from platform import node
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark import cloudpickle
from pyspark.errors import PySparkException

import omnigraphdb
from omnigraphdb.errors import ConfigError
from omnigraphdb.pipeline.runner import Each
from omnigraphdb.spark.source import GraphSource
from omnigraphdb.spark_jobs import versions
from omnigraphdb.spark_jobs.preflight import check_versions
from omnigraphdb.spark_jobs.runner import SparkRunner
from omnigraphdb.spark_jobs.versions import seal_task

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OPEN_WITHOUT_US = """
import importlib.metadata, pickle, sys
# Spark brings PySpark; nothing else of ours may be imported to open what is sealed.
class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("omnigraphdb", "lance"):
            raise ModuleNotFoundError(f"No module named '{name}'")
known = importlib.metadata.version
def version(name):
    if name == "omnigraphdb":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)
importlib.metadata.version = version
sys.meta_path.insert(0, Hidden())
with open(sys.argv[1], "rb") as file:
    print(list(pickle.load(file)(iter(()))))
"""


def open_without_us(tmp_path: Path, thing: object) -> str:
    """What a Python without our package says when it opens something sealed."""
    file = tmp_path / "sealed"
    file.write_bytes(cloudpickle.dumps(thing))
    done = subprocess.run(
        [sys.executable, "-c", OPEN_WITHOUT_US, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().splitlines()[-1]


def test_a_sealed_task_names_the_host_where_our_package_is_missing(tmp_path: Path) -> None:
    told = open_without_us(tmp_path, seal_task(lambda batches: batches))
    assert f"executors and driver differ: host '{node()}' has omnigraphdb none, expected" in told
    assert "hint: install the same Python and the same versions" in told


def test_a_sealed_source_names_the_host_where_our_package_is_missing(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        source = GraphSource({"path": graph.uri, "type": "A"})
        reader = source.reader(source.schema())
        for one in (source, reader, *reader.partitions()):
            assert "has omnigraphdb none, expected" in open_without_us(tmp_path, one)


def test_a_sealed_object_is_the_same_where_versions_agree(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        source = GraphSource({"path": graph.uri, "type": "A"})
    opened = cloudpickle.loads(cloudpickle.dumps(source))
    assert (type(opened), opened.parsed, opened.pin) == (GraphSource, source.parsed, source.pin)


# ---- through Spark


def test_equal_executors_are_accepted(spark: Any) -> None:
    check_versions(spark)


@pytest.fixture
def other_lance(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = versions.read_versions()
    monkeypatch.setattr(versions, "read_versions", lambda: ours | {"pylance": "99.1"})


@pytest.mark.usefixtures("other_lance")
def test_other_versions_on_executors_are_refused_by_name(spark: Any) -> None:
    with pytest.raises(ConfigError, match=rf"host '{node()}' has pylance [\d.]+, expected 99\.1"):
        check_versions(spark)


@pytest.mark.usefixtures("other_lance")
def test_an_executor_that_comes_later_with_other_versions_is_refused_by_its_task(
    spark: Any,
) -> None:
    step = Each(name="look", splits=(1,), out=pa.schema([("x", pa.int64())]), run=_run_nothing)
    with pytest.raises(
        ConfigError, match=r"^executors and driver differ: host .* nothing was committed$"
    ):
        SparkRunner(spark).run(step)


@pytest.mark.usefixtures("other_lance")
def test_a_job_group_of_the_user_is_kept(spark: Any) -> None:
    spark.sparkContext.setJobGroup("mine", "my job")
    with pytest.raises(ConfigError):
        check_versions(spark)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_executors_that_run_no_task_are_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[str]:
        raise OSError("no Python here")

    monkeypatch.setattr("omnigraphdb.spark_jobs.preflight.make_difference_finder", lambda: fail)
    with pytest.raises(ConfigError) as refused:
        check_versions(spark)
    assert isinstance(refused.value.__cause__, PySparkException)
    text = str(refused.value)
    assert text.startswith("executor host '")
    assert (
        "cannot run Python tasks of this driver: OSError: no Python here; no changes were made"
        in text
    )


def _run_nothing(_: int) -> Iterator[pa.Table]:
    yield from ()
