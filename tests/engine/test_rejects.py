"""Rejects: a load tells of every problem of every phase at once, in the error, a file or a table."""

import csv
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, UserInputError
from tests.support.settled import assert_settled

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  @range(age, 0..150)
  mail: String? @unique
  mood: enum(good, bad)?
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: I32? }
"""
IN_STEPS = {"small_work_bytes": 1, "split_bytes": 4000}
IN_MEMORY: dict[str, int] = {}


@pytest.fixture(params=["memory", "steps"])
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Graph]:
    config = IN_STEPS if request.param == "steps" else IN_MEMORY
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=config) as graph:
        graph.load([person("old", mail="old@x"), person("older")], mode="append", spark=False)
        yield graph
        assert [graph.table(name).num_rows for name in ("Person", "Knows")] == [2, 0]
        assert_settled(graph)
        assert not list((tmp_path / "g").glob("__staging/*"))


def person(name: Any, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def knows(source: Any, target: Any, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target, "data": data}


GOOD = [person(f"p{n:03}", age=n % 100, mail=f"p{n}@x") for n in range(60)] + [
    knows(f"p{n:03}", f"p{n + 1:03}") for n in range(59)
]
BAD: list[tuple[str, str]] = [
    ("J01", '{"type": "Person", "data": {"name": '),
    ("J03", json.dumps({"type": "Persn", "data": {}})),
    ("J05", json.dumps(person("typo", agee=1))),
    ("J07", json.dumps(person("text age", age="old"))),
    ("J14", json.dumps(person(None, age=1))),
    ("J04", json.dumps({"edge": "Knows", "from": "p001"})),
    ("W13", json.dumps(person("p005"))),
    ("W10", json.dumps(person("ancient", age=151))),
    ("W12", json.dumps(person("moody", mood="fine"))),
    ("W13", json.dumps(person("same mail", mail="old@x"))),
    ("W13", json.dumps(person("own mail", mail="p7@x"))),
    ("W20", json.dumps(person("older"))),
    ("W15", json.dumps(knows("p001", "nobody"))),
    ("W15", json.dumps(knows("nobody", "p001"))),
]
CROWD = [knows("p050", f"p{n:03}") for n in (1, 2)]
"""With the edge that p050 has already, one more than it may have."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [json.dumps(one) for one in GOOD] + [text for _, text in BAD]
    lines += [json.dumps(one) for one in CROWD]
    path = tmp_path / "input.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def refuse(graph: Graph, source: Any, **given: Any) -> OmniError:
    with pytest.raises(OmniError) as caught:
        graph.load(source, mode="append", spark=False, **given)
    return caught.value


def expected_rules() -> Counter[str]:
    return Counter([rule for rule, _ in BAD] + ["W14"])


def test_the_total_counts_the_problems_of_every_phase(graph: Graph, file: Path) -> None:
    error = refuse(graph, file)
    total = len(BAD) + 1
    assert error.details["total"] == total
    assert str(error).startswith(f"{total} problems; no changes were made")
    assert Counter(one["rule"] for one in error.details["data_errors"]) == expected_rules()


def test_a_table_has_every_problem_with_its_place(graph: Graph, file: Path) -> None:
    error = refuse(graph, file, rejects="frame")
    assert error.rejects is not None
    rows = error.rejects.to_pylist()
    assert Counter(one["rule"] for one in rows) == expected_rules()
    assert {one["file"] for one in rows} == {str(file)}
    by_line = {one["line"]: one for one in rows}
    first = len(GOOD) + 1
    for number, (rule, _) in enumerate(BAD, first):
        assert by_line[number]["rule"] == rule
    text_age = by_line[first + 3]
    assert (text_age["type"], text_age["property"], text_age["value"]) == ("Person", "age", "old")
    ancient = by_line[first + 7]
    assert (ancient["id"], ancient["property"], ancient["value"]) == ("ancient", "age", "151")
    nobody = by_line[first + 12]
    assert (nobody["type"], nobody["property"], nobody["value"]) == ("Knows", "to", "nobody")
    older = by_line[first + 11]
    assert (older["id"], older["value"]) == ("older", "older")
    crowded = next(one for one in rows if one["rule"] == "W14")
    assert (crowded["type"], crowded["value"]) == ("Knows", "p050")
    assert all(one["message"] for one in rows)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_file_has_what_the_table_has(
    graph: Graph, file: Path, tmp_path: Path, suffix: str
) -> None:
    table = refuse(graph, file, rejects="frame").rejects
    assert table is not None
    wanted = table.to_pylist()
    path = tmp_path / f"problems.{suffix}"
    path.write_text("what an earlier load left")
    error = refuse(graph, file, rejects=path)
    assert error.details["rejects"] == str(path)
    assert str(path) in str(error.hint)
    found = read_rejects(path)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert list_facts(one) == list_facts(other)


def list_facts(row: dict[str, Any]) -> dict[str, str]:
    """The facts of a row as texts, without the ids of edges, which every load makes anew."""
    known = {name: str(value) for name, value in row.items() if value not in (None, "")}
    return {name: text for name, text in known.items() if name != "id" or row["type"] == "Person"}


def read_rejects(path: Path) -> list[dict[str, Any]]:
    match path.suffix:
        case ".jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        case ".csv":
            with path.open(newline="") as file:
                return list(csv.DictReader(file))
        case _:
            return pyarrow.parquet.read_table(path).to_pylist()


def test_problems_beyond_the_shown_ones_are_in_the_rejects(graph: Graph, tmp_path: Path) -> None:
    records = [person(f"q{n:04}", age=200 + n) for n in range(300)]
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    error = refuse(graph, path)
    assert error.details["total"] == 300
    assert len(error.details["data_errors"]) == 20
    assert "… and 280 more" in str(error)
    assert "rejects=" in str(error.hint)
    rows = refuse(graph, path, rejects="frame").rejects
    assert rows is not None
    assert rows["line"].to_pylist() == list(range(1, 301))
    assert rows["value"].to_pylist() == [str(200 + n) for n in range(300)]


def test_a_frame_with_problems_of_several_phases_is_told_whole(graph: Graph) -> None:
    people = pa.table({"name": ["a", "b", "b", None], "age": [1, 151, 2, 3]})
    edges = pa.table({"from": ["a", "a", None], "to": ["b", "zz", "b"]})
    error = refuse(graph, {"Person": people, "Knows": edges}, rejects="frame")
    assert error.rejects is not None
    found = {(one["type"], one["record"], one["rule"]) for one in error.rejects.to_pylist()}
    assert found == {
        ("Person", 2, "W10"),
        ("Person", 3, "W13"),
        ("Person", 4, "J14"),
        ("Knows", 2, "W15"),
        ("Knows", 3, "J04"),
    }


def test_a_bad_value_does_not_make_its_node_a_missing_endpoint(graph: Graph) -> None:
    records = [person("a", age="x"), person("b", agee=1), knows("a", "b")]
    error = refuse(graph, records)
    assert [one["rule"] for one in error.details["data_errors"]] == ["J07", "J05"]


def test_a_check_tells_the_same_and_writes_the_rejects(
    graph: Graph, file: Path, tmp_path: Path
) -> None:
    error = refuse(graph, file, dry_run=True, rejects=tmp_path / "r.jsonl")
    assert error.details["total"] == len(BAD) + 1
    assert len(read_rejects(tmp_path / "r.jsonl")) == len(BAD) + 1


def test_a_new_branch_is_not_made_for_a_refused_load(graph: Graph, file: Path) -> None:
    refuse(graph, file, branch="new", from_branch="main")
    assert [one.name for one in graph.branches()] == ["main"]


@pytest.mark.parametrize("wrong", ["problems.txt", "problems", "nowhere/problems.csv"])
def test_a_place_that_cannot_be_written_is_refused_before_reading(
    graph: Graph, tmp_path: Path, wrong: str
) -> None:
    with pytest.raises(UserInputError, match="no changes were made"):
        graph.load([], mode="append", spark=False, rejects=tmp_path / wrong)


def test_a_good_load_leaves_no_rejects(tmp_path: Path) -> None:
    path = tmp_path / "problems.csv"
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        assert graph.load(GOOD, mode="append", spark=False, rejects=path).total_rows == len(GOOD)
    assert not path.exists()


ALIKE = {
    "no type": "{}",
    "no JSON": "nonsense",
    "doubled member": '{"type": "Person", "type": "Person"}',
    "wrong type": json.dumps({"type": "Note", "data": {"text": 1}}),
    "no end": json.dumps({"edge": "Knows", "from": "a"}),
}
ALIKE_LINES = 60_000
COUNTED_BYTES_MAX = 26 * 1024 * 1024
HELD_BYTES_MAX = 38 * 1024 * 1024
"""With the columns of the rows that were read, or the problems that wait to be written."""


@pytest.mark.parametrize("kind", ALIKE)
def test_many_problems_are_counted_and_not_held(tmp_path: Path, kind: str) -> None:
    assert len(list(refuse_alike(tmp_path, kind, None))) == 2


@pytest.mark.parametrize("kind", ["no type", "wrong type"])
def test_many_problems_go_to_the_rejects_and_are_not_held(tmp_path: Path, kind: str) -> None:
    rejects = tmp_path / "rejects.jsonl"
    for _ in refuse_alike(tmp_path, kind, rejects):
        numbers = [one["line"] for one in read_rejects(rejects)]
        assert numbers == list(range(1, ALIKE_LINES + 1))


def refuse_alike(folder: Path, kind: str, rejects: Path | None) -> Iterator[OmniError]:
    """Load lines that have the same problem, in memory and in steps; bound the memory that it takes."""
    path = folder / "alike.jsonl"
    path.write_text(f"{ALIKE[kind]}\n" * ALIKE_LINES)
    for config in (IN_MEMORY, {"small_work_bytes": 1}):
        with omnigraphdb.init(folder / f"g{len(config)}", SCHEMA, config=config) as graph:
            tracemalloc.start()
            error = refuse(graph, path, rejects=rejects)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert error.details["total"] == ALIKE_LINES
        assert [one["line"] for one in error.details["data_errors"]] == list(range(1, 21))
        is_held = rejects is not None or kind == "wrong type"
        assert peak < (HELD_BYTES_MAX if is_held else COUNTED_BYTES_MAX)
        yield error


def test_the_values_of_a_long_frame_that_do_not_fit_are_not_held(graph: Graph) -> None:
    count = 150_000
    names = [f"n{number}" for number in range(count)]
    frame = pa.table({"name": names, "age": pa.array(["x"] * count)})
    tracemalloc.start()
    error = refuse(graph, {"Person": frame})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.details["total"] == count
    assert peak < 48 * 1024 * 1024


@pytest.mark.soak
def test_fifty_bad_rows_of_two_million_are_told_as_fifty(tmp_path: Path) -> None:
    count, random_rows = 2_000_000, random.Random(7)
    wrong = sorted(random_rows.sample(range(count), 50))
    ages = [1] * count
    targets = [f"{(n * 7919) % count}" for n in range(count)]
    for number in wrong[:25]:
        ages[number] = 999
    for number in wrong[25:]:
        targets[number] = f"gone {number}"
    schema = "node P { k: String @key  age: I32  @range(age, 0..150) }\nedge E: P -> P"
    people = pa.table({"k": [str(n) for n in range(count)], "age": pa.array(ages, pa.int32())})
    edges = pa.table({"from": [str(n) for n in range(count)], "to": targets})
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        tracemalloc.start()
        error = refuse(graph, {"P": people, "E": edges}, rejects="frame")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert error.details["total"] == 50
    assert error.rejects is not None
    assert sorted(row["record"] - 1 for row in error.rejects.to_pylist()) == wrong
    assert peak < 64 * 1024 * 1024
