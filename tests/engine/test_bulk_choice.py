"""Who does a load: memory, steps in this process or Spark; the result says who and why."""

import importlib.util
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api import loading
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import EngineError
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    config = {"small_work_bytes": 1_000, "small_work_rows": 50}
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=config) as graph:
        yield graph
        assert_settled(graph)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everybody who asked for Spark; none of them gets it."""
    sessions: list[Any] = []

    def refuse(spark: Any) -> Any:
        sessions.append(spark)
        raise EngineError("there is no Java here")

    monkeypatch.setattr(loading, "spark_runner", refuse)
    return sessions


def people(count: int) -> pa.Table:
    return pa.table({"name": [f"p{number}" for number in range(count)]})


def test_a_small_input_stays_in_memory(graph: Graph, asked: list[Any]) -> None:
    result = graph.load({"Person": people(50)}, mode="append")
    assert (result.engine, asked) == ("local", [])
    assert result.reason.endswith("50 rows of input are little enough for memory")
    assert result.to_dict()["reason"] == result.reason


@pytest.mark.parametrize("form", ["rows", "bytes"])
def test_a_large_input_asks_for_spark_and_stays_when_it_does_not_start(
    graph: Graph, asked: list[Any], tmp_path: Path, form: str
) -> None:
    source: Any = {"Person": people(51)}
    if form == "bytes":
        source = tmp_path / "some.jsonl"
        source.write_text(
            "".join(
                json.dumps({"type": "Person", "data": {"name": f"p{n}", "age": None}}) + "\n"
                for n in range(51)
            )
        )
    result = graph.load(source, mode="append")
    assert (result.engine, asked) == ("local", [None])
    assert "in steps: Spark did not start (there is no Java here)" in result.reason
    assert graph.table("Person").num_rows == 51


def test_without_pyspark_a_large_input_stays_here(
    graph: Graph, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        loading, "find_spec", lambda name: None if name == "pyspark" else find(name)
    )
    result = graph.load({"Person": people(51)}, mode="append")
    assert (result.engine, asked) == ("local", [])
    assert result.reason.endswith("in steps: pyspark is not installed")


def test_false_never_asks_and_a_session_always_does(graph: Graph, asked: list[Any]) -> None:
    assert graph.load({"Person": people(51)}, mode="append", spark=False).engine == "local"
    with pytest.raises(EngineError, match="no Java"):
        graph.load({"Person": people(1)}, mode="merge", spark=True)
    assert asked == [True]


@pytest.mark.parametrize("form", ["records", "rows", "lines"])
def test_what_comes_once_goes_where_it_is_asked_to(
    graph: Graph, asked: list[Any], form: str
) -> None:
    source = once(form, 3)
    with pytest.raises(EngineError, match="no Java"):
        graph.load(source, mode="append", spark=True)
    assert asked == [True]
    assert graph.table("Person").num_rows == 0


@pytest.mark.parametrize(("count", "words"), [(5, "little enough for memory"), (51, "in steps")])
def test_records_are_counted_as_far_as_the_bound(graph: Graph, count: int, words: str) -> None:
    result = graph.load(once("records", count), mode="append", spark=False)
    assert words in result.reason
    assert graph.table("Person").num_rows == count


def once(form: str, count: int) -> Any:
    """People who come one by one, once."""
    records = [{"type": "Person", "data": {"name": f"p{number}"}} for number in range(count)]
    match form:
        case "records":
            return iter(records)
        case "rows":
            return {"Person": [record["data"] for record in records]}
        case _:
            return io.StringIO("".join(json.dumps(record) + "\n" for record in records))


def test_another_word_is_refused(graph: Graph) -> None:
    with pytest.raises(omnigraphdb.UserInputError, match="True, False or 'auto', not 'yes'"):
        graph.load({"Person": people(1)}, mode="append", spark=cast("bool", "yes"))
