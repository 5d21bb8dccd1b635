"""Rejects of a load by Spark are those of a load in process: the same problems, at the same places, with the same total."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from tests.engine.test_rejects import (
    BAD,
    IN_STEPS,
    SCHEMA,
    file,
    list_facts,
    person,
    read_rejects,
)
from tests.support.settled import assert_settled

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

__all__ = ["file"]

PEOPLE = pa.table(
    {
        "name": ["a", "b", "b", None, "older", "c", "d"],
        "age": [1, 151, 2, 3, 4, None, 5],
        "mail": [None, "b@x", None, None, None, "old@x", "b@x"],
        "mood": ["good", "fine", None, None, None, None, None],
    }
)
EDGES = pa.table({"from": ["a", "a", None, "c"], "to": ["b", "zz", "b", "a"]})


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=IN_STEPS) as made:
        made.load([person("old", mail="old@x"), person("older")], mode="append", spark=False)
        yield made
        assert [made.table(name).num_rows for name in ("Person", "Knows")] == [2, 0]
        assert_settled(made)
        assert not list((tmp_path / "g").glob("__staging/*"))


def refuse(graph: Graph, source: Any, spark: Any, **given: Any) -> OmniError:
    with pytest.raises(OmniError) as caught:
        graph.load(source, mode="append", spark=spark, **given)
    return caught.value


def list_rejects(error: OmniError) -> list[dict[str, str]]:
    assert error.rejects is not None
    return [list_facts(one) for one in error.rejects.to_pylist()]


def compare(graph: Graph, source: Any, spark: Any, far: Any = None) -> OmniError:
    """Hold the refusal of a load by Spark to that of a load in process; `far` is the source of Spark's, if it differs."""
    here = refuse(graph, source, False, rejects="frame")
    there = refuse(graph, source if far is None else far, spark, rejects="frame")
    assert list_rejects(there) == list_rejects(here)
    assert there.details["total"] == here.details["total"] == len(list_rejects(here))
    assert (type(there), there.code) == (type(here), here.code)
    assert str(there) == str(here)
    return there


def test_problems_of_a_file_are_those_found_in_process(
    graph: Graph, file: Path, spark: Any, tmp_path: Path
) -> None:
    found = compare(graph, file, spark)
    assert found.details["total"] == len(BAD) + 1
    frame = omnigraphdb.rejects_frame(found, spark=spark)
    assert frame.count() == found.details["total"]
    assert "message" in frame.columns
    written = refuse(graph, file, spark, rejects=tmp_path / "problems.csv")
    rows = [list_facts(one) for one in read_rejects(tmp_path / "problems.csv")]
    assert rows == list_rejects(found)
    assert written.details["rejects"] == str(tmp_path / "problems.csv")


def test_problems_of_several_files_are_those_found_in_process(
    graph: Graph, file: Path, spark: Any
) -> None:
    lines = file.read_text().splitlines(keepends=True)
    parts = [file.with_name(f"part{n}.jsonl") for n in range(3)]
    for number, part in enumerate(parts):
        part.write_text("".join(lines[number::3]))
    file.unlink()
    assert compare(graph, parts, spark).details["total"] == len(BAD) + 1


def test_problems_of_frames_are_those_found_in_process(graph: Graph, spark: Any) -> None:
    found = compare(graph, {"Person": PEOPLE, "Knows": EDGES}, spark)
    rules = {(one["type"], one["record"], one["rule"]) for one in list_rejects(found)}
    assert rules == {
        ("Person", "2", "W10"),
        ("Person", "2", "W12"),
        ("Person", "3", "W13"),
        ("Person", "4", "J14"),
        ("Person", "5", "W20"),
        ("Person", "6", "W13"),
        ("Person", "7", "W13"),
        ("Knows", "2", "W15"),
        ("Knows", "3", "J04"),
    }


def test_problems_of_spark_frames_are_those_found_in_process(graph: Graph, spark: Any) -> None:
    """Rows of a Spark frame have no order, so that places are left out."""
    far = {"Person": frame(spark, PEOPLE), "Knows": frame(spark, EDGES)}
    here = refuse(graph, {"Person": PEOPLE, "Knows": EDGES}, False, rejects="frame")
    there = refuse(graph, far, spark, rejects="frame")
    assert there.details["total"] == here.details["total"]
    assert _without_places(there) == _without_places(here)


def frame(spark: Any, table: pa.Table) -> Any:
    names = ", ".join(
        f"{one.name} {'long' if one.type == pa.int64() else 'string'}" for one in table.schema
    )
    return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], names)


def _without_places(error: OmniError) -> list[list[tuple[str, str]]]:
    places = ("file", "line", "record", "message")
    rows = [{k: v for k, v in one.items() if k not in places} for one in list_rejects(error)]
    return sorted(sorted(row.items()) for row in rows)
