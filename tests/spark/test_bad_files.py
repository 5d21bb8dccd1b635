"""One bad file among many is one error that names the file, on Spark as in this process, and nothing is written."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, StorageError, UserInputError
from omnigraphdb.spark_jobs.faults import find_host, name_host
from tests.support.settled import assert_settled

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = "node Person { name: String @key  age: I32? }"
STEPS = {"small_work_bytes": 0, "small_work_rows": 0, "split_bytes": 8_000}
ROWS = 400


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path_factory.mktemp("bad") / "g", SCHEMA, config=STEPS) as made:
        yield made
        assert_settled(made)


def people(number: int, **columns: Any) -> pa.Table:
    names = [f"p{i}" for i in range(number * ROWS, (number + 1) * ROWS)]
    return pa.table({"name": names, "age": pa.array(range(ROWS), pa.int32())} | columns)


def write_parquet(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=ROWS // 4)


def write_lines(path: Path, rows: pa.Table) -> None:
    lines = [f'{{"name": "{row["name"]}", "age": {row["age"]}}}\n' for row in rows.to_pylist()]
    path.write_text("".join(lines))


def write_packed(path: Path, rows: pa.Table) -> None:
    write_lines(path, rows)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_csv(path: Path, rows: pa.Table) -> None:
    path.write_text("name,age\n" + "".join(f"{r['name']},{r['age']}\n" for r in rows.to_pylist()))


def cut_end(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def overwrite_middle(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[200:1800] = b"\xa5" * 1600
    path.write_bytes(whole)


def other_type(path: Path) -> None:
    write_parquet(path, people(1, age=[f"old {i}" for i in range(ROWS)]))


def other_column(path: Path) -> None:
    write_parquet(path, people(1, height=[1.8] * ROWS))


def other_type_of_key(path: Path) -> None:
    write_parquet(path, people(1, name=[[i] for i in range(ROWS)]))


WRITERS = {
    "parquet": write_parquet,
    "jsonl": write_lines,
    "jsonl.gz": write_packed,
    "csv": write_csv,
}
BAD: list[tuple[str, Callable[[Path], None], str]] = [
    ("parquet", other_type, "record 1: [J07] column 'age' of Person: expected I32?, got text"),
    ("parquet", other_type_of_key, "record 1: [J07] column 'name' of Person: expected String"),
    ("parquet", other_column, "1.parquet: [J05] unknown column 'height' of Person"),
    ("parquet", cut_end, "1.parquet' cannot be read: Parquet magic bytes not found"),
    ("parquet", overwrite_middle, "1.parquet' cannot be read: "),
    ("jsonl", cut_end, "line 202: [J01] not JSON"),
    ("jsonl", overwrite_middle, "line 8: [J01] not UTF-8 text"),
    ("jsonl.gz", cut_end, "1.jsonl.gz' cannot be read: Compressed file ended"),
    ("csv", overwrite_middle, "1.csv' cannot be read: "),
]


SHORT = ("parquet-other_type", "parquet-cut_end", "jsonl-cut_end")
"""What the default run tries."""


def _list_cases() -> Iterator[Any]:
    for kind, spoil, said in BAD:
        name = f"{kind}-{spoil.__name__}"
        marks = () if name in SHORT else (pytest.mark.soak,)
        yield pytest.param(kind, spoil, said, id=name, marks=marks)


@pytest.mark.parametrize(("kind", "spoil", "said"), list(_list_cases()))
def test_a_bad_file_in_the_middle_is_named(
    spark: Any, graph: Graph, tmp_path: Path, kind: str, spoil: Callable[[Path], None], said: str
) -> None:
    files = [tmp_path / f"{number}.{kind}" for number in range(3)]
    for number, file in enumerate(files):
        WRITERS[kind](file, people(number))
    spoil(files[1])
    told = [refuse(graph, files, way) for way in (False, spark)]
    assert told[0] == told[1]
    assert str(files[1]) in told[1]
    assert said in told[1]
    assert str(files[0]) not in told[1]
    assert (graph.table("Person").num_rows, len(graph.commits())) == (0, 1)
    assert not list(Path(graph.uri).glob("__staging/*"))


def refuse(graph: Graph, files: list[Path], spark: Any) -> str:
    with pytest.raises(OmniError, match="no changes were made") as caught:
        graph.load({"Person": [str(file) for file in files]}, mode="append", spark=spark)
    return str(caught.value)


@pytest.mark.parametrize("spoil", [cut_end, other_type])
def test_a_frame_of_spark_over_a_bad_file_names_it(
    spark: Any, graph: Graph, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    for number in range(2):
        write_parquet(tmp_path / f"{number}.parquet", people(number))
    frame = spark.read.parquet(str(tmp_path))
    spoil(tmp_path / "1.parquet")
    with pytest.raises(OmniError, match="nothing was committed") as caught:
        graph.load({"Person": frame}, mode="append", spark=spark)
    assert str(tmp_path / "1.parquet") in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert (graph.table("Person").num_rows, len(graph.commits())) == (0, 1)


# ---- the host of an error


def make_unreachable() -> OmniError:
    try:
        Path("/nowhere/people.parquet").read_bytes()
    except OSError as error:
        return chain(UserInputError("'people.parquet' cannot be read"), error)
    raise AssertionError("there is no such file")


def chain(error: OmniError, cause: Exception) -> OmniError:
    error.__cause__ = cause
    return error


def test_a_file_that_an_executor_cannot_reach_names_its_host() -> None:
    for error in (make_unreachable(), StorageError("the bucket did not answer")):
        host = find_host(error)
        assert host is not None
        assert f"on executor host '{host}'" in str(name_host(error, host).hint)


def test_damaged_content_is_not_due_to_a_host() -> None:
    assert find_host(chain(UserInputError("damaged"), OSError("Corrupt snappy"))) is None
    assert name_host(UserInputError("damaged"), None).hint is None
