"""Loading: every kind of source, every mode, in one commit."""

import gzip
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]?  sig: Vector(2)?  scan: Blob? }
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: I32? }
"""
RECORDS: list[dict[str, Any]] = [
    {"edge": "knows", "from": "ada", "to": "bo", "data": {"id": "k1", "since": 3}},
    {"type": "Person", "data": {"name": "ada", "age": 36, "born": "1815-12-10", "seen": "2024-01-01T10:00:00Z",
                                "tags": ["x", "y"], "sig": [1, 2.5], "scan": "base64:AQI="}},
    {"type": "Person", "data": {"name": "bo"}},
    {"type": "Note", "data": {"id": "n1", "text": "hello"}},
]  # fmt: skip


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        yield graph
        assert_settled(graph)


def exported(graph: Graph, **where: Any) -> list[dict[str, Any]]:
    return list(graph.export(**where))


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    "kind",
    ["records", "iterator", "jsonl", "text path", "ndjson", "json", "gz", "folder", "uri", "crlf"],
)
def test_every_source_of_records_gives_the_same_graph(
    graph: Graph, tmp_path: Path, kind: str
) -> None:
    graph.load(source(kind, tmp_path), mode="append")
    assert exported(graph) == [
        {"type": "Note", "data": {"id": "n1", "text": "hello"}},
        {"type": "Person", "data": {"id": "ada", "age": 36, "born": "1815-12-10", "name": "ada", "scan": "base64:AQI=",
                                    "seen": "2024-01-01T10:00:00Z", "sig": [1.0, 2.5], "tags": ["x", "y"]}},
        {"type": "Person", "data": {"id": "bo", "age": None, "born": None, "name": "bo", "scan": None, "seen": None,
                                    "sig": None, "tags": None}},
        {"edge": "Knows", "from": "ada", "to": "bo", "data": {"id": "k1", "since": 3}},
    ]  # fmt: skip


def source(kind: str, folder: Path) -> Any:
    text = lines(RECORDS)
    match kind:
        case "records":
            return RECORDS
        case "iterator":
            return iter(RECORDS)
        case "folder":
            (folder / "data").mkdir()
            for number, record in enumerate(RECORDS):
                (folder / "data" / f"{number}.jsonl").write_text(lines([record]))
            return folder / "data"
        case "gz":
            (folder / "d.json.gz").write_bytes(gzip.compress(text.encode()))
            return folder / "d.json.gz"
        case "crlf":
            (folder / "d.jsonl").write_bytes(
                b"\xef\xbb\xbf" + text.replace("\n", "\r\n\r\n").encode()
            )
            return folder / "d.jsonl"
    suffix = kind if kind in ("jsonl", "ndjson", "json") else "jsonl"
    path = folder / f"d.{suffix}"
    path.write_text(text)
    return {"text path": str(path), "uri": f"file://{path}"}.get(kind, path)


PEOPLE = pa.table(
    {
        "name": ["ada", "bo"],
        "age": pa.array([36, None], pa.int64()),
        "born": pa.array([date(1815, 12, 10), None]),
        "seen": pa.array([datetime(2024, 1, 1, 10, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    }
)


@pytest.mark.parametrize(
    "kind", ["arrow", "batch", "reader", "pandas", "polars", "parquet", "csv", "jsonl", "rows"]
)
def test_every_kind_of_frame_gives_the_same_rows(graph: Graph, tmp_path: Path, kind: str) -> None:
    result = graph.load({"Person": frame(kind, tmp_path)}, mode="append")
    assert result.tables == {"node:Person": 2}
    rows = graph.table("Person").select(["id", "age", "born"]).sort_by("id").to_pylist()
    assert rows == [
        {"id": "ada", "age": 36, "born": date(1815, 12, 10)},
        {"id": "bo", "age": None, "born": None},
    ]
    assert graph.entity("Person", "ada")["seen"].startswith("2024-01-01T10:00:00")  # type: ignore[index]


def frame(kind: str, folder: Path) -> Any:
    match kind:
        case "batch":
            return PEOPLE.to_batches()[0]
        case "reader":
            return PEOPLE.to_reader()
        case "pandas":
            found = PEOPLE.to_pandas().astype({"age": "Int64"})
            return found.set_index([[7, 8]])
        case "polars":
            polars = pytest.importorskip("polars")
            return polars.from_arrow(PEOPLE)
        case "parquet":
            pyarrow.parquet.write_table(PEOPLE, folder / "p.parquet")
            return folder / "p.parquet"
        case "csv":
            (folder / "p.csv").write_text(
                "name,age,born,seen\nada,36,1815-12-10,2024-01-01T10:00:00Z\nbo,,,\n"
            )
            return str(folder / "p.csv")
        case "jsonl":
            (folder / "p.jsonl").write_text(
                '{"name": "ada", "age": 36, "born": "1815-12-10", "seen": "2024-01-01T10:00:00Z"}\n{"name": "bo"}\n'
            )
            return folder / "p.jsonl"
        case "rows":
            return PEOPLE.to_pylist()
    return PEOPLE


def test_one_frame_needs_only_the_name_of_its_type(graph: Graph) -> None:
    graph.load(PEOPLE, type="Person", mode="append")
    graph.load(pa.table({"from": ["ada"], "to": ["bo"], "since": [3]}), type="Knows", mode="append")
    graph.load(pa.table({"src": ["bo"], "dst": ["ada"]}), type="edge:Knows", mode="append")
    found = [(e["from"], e["to"]) for e in exported(graph, types=["Knows"])]
    assert sorted(found) == [("ada", "bo"), ("bo", "ada")]


def test_nodes_and_edges_of_several_frames_are_one_commit(graph: Graph) -> None:
    before = len(graph.commits())
    result = graph.load(
        {"Knows": pa.table({"src": ["ada"], "dst": ["bo"]}), "Person": PEOPLE}, mode="append"
    )
    assert result.tables == {"edge:Knows": 1, "node:Person": 2}
    assert result.total_rows == 3
    assert len(graph.commits()) == before + 1


# ---- modes


def test_append_merge_and_overwrite_differ_in_what_they_do_to_what_is_there(graph: Graph) -> None:
    graph.load(RECORDS, mode="append")
    with pytest.raises(omnigraphdb.KeyConflict):
        graph.load([RECORDS[2]], mode="append")
    graph.load([{"type": "Person", "data": {"name": "ada", "age": 1}}], mode="merge")
    ada = graph.entity("Person", "ada")
    assert ada is not None
    assert (ada["age"], ada["tags"]) == (1, None)
    graph.load([{"type": "Note", "data": {"id": "n2", "text": "only"}}], mode="overwrite")
    assert [r["data"]["id"] for r in exported(graph, types=["Note"])] == ["n2"]
    assert graph.table("Person").num_rows == 2


def test_a_merge_refuses_known_ids_of_types_that_are_append_only(graph: Graph) -> None:
    ada = pa.table({"name": ["ada"]})
    graph.load({"Person": ada}, mode="append")
    knows = pa.table({"src": ["ada"], "dst": ["bo"]})
    with pytest.raises(omnigraphdb.KeyConflict):
        graph.load({"Person": ada, "Knows": knows}, mode="merge", append_only=["Person"])
    bo = pa.table({"name": ["bo"]})
    graph.load({"Person": bo, "Knows": knows}, mode="merge", append_only=["Person"])
    assert graph.table("Person").num_rows == 2


def test_a_merge_with_a_repeated_id_keeps_the_last_and_counts_what_came(graph: Graph) -> None:
    graph.load(RECORDS, mode="append")
    twice = [
        {"edge": "Knows", "from": "ada", "to": "bo", "data": {"id": "k2", "since": n}}
        for n in range(3)
    ]
    assert graph.load(twice, mode="merge").tables == {"edge:Knows": 3}
    found = {e["data"]["id"]: e["data"]["since"] for e in exported(graph, types=["Knows"])}
    assert found == {"k1": 3, "k2": 2}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"edge": "Knows", "from": "ada", "to": "nobody"}, omnigraphdb.ReferentialError),
        ({"edge": "Knows", "from": "bo", "to": "ada", "data": {"id": "k9"}}, omnigraphdb.ConstraintError),
    ],
    ids=["endpoint", "cardinality"],
)  # fmt: skip
def test_a_broken_rule_in_any_mode_moves_no_table_and_the_next_load_works(
    graph: Graph, mode: "Mode", record: dict[str, Any], error: type[omnigraphdb.OmniError]
) -> None:
    graph.load(RECORDS, mode="append")
    before = graph.snapshot().to_dict()
    many = [
        record,
        *({"edge": "Knows", "from": "bo", "to": "ada", "data": {"id": f"m{n}"}} for n in range(2)),
    ]
    with pytest.raises(error):
        graph.load(many, mode=mode)
    assert graph.snapshot().to_dict() == before
    assert_settled(graph)
    graph.load([{"edge": "Knows", "from": "bo", "to": "ada", "data": {"id": "fine"}}], mode=mode)


def test_an_overwrite_interrupted_before_its_publish_is_completed_by_the_next_open(
    graph: Graph,
) -> None:
    graph.load(RECORDS, mode="append")
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        graph.load([{"type": "Note", "data": {"id": "n9", "text": "new"}}], mode="overwrite")
    reopened = omnigraphdb.open(graph.uri)
    assert [r["data"]["id"] for r in exported(reopened, types=["Note"])] == ["n9"]
    assert_settled(reopened)


def test_an_overwrite_that_was_overtaken_is_the_callers_to_repeat(graph: Graph) -> None:
    graph.load(RECORDS, mode="append")
    raised: list[BaseException] = []

    def overwrite() -> None:
        try:
            graph.load([{"type": "Note", "data": {"id": "o", "text": "o"}}], mode="overwrite")
        except omnigraphdb.OmniError as error:
            raised.append(error)

    from omnigraphdb.failpoints import parked

    with parked(Failpoint.PREPARED) as park:
        thread = threading.Thread(target=overwrite)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        graph.load([{"type": "Note", "data": {"id": "a", "text": "a"}}], mode="append")
        park.release()
        thread.join(PARK_SECONDS_MAX)
    assert [type(one) for one in raised] == [omnigraphdb.ManifestConflict]
    assert sorted(r["data"]["id"] for r in exported(graph, types=["Note"])) == ["a", "n1"]


# ---- branches


def test_a_missing_branch_is_forked_only_when_a_base_is_named(graph: Graph) -> None:
    graph.load(RECORDS, mode="append")
    note = [{"type": "Note", "data": {"id": "b", "text": "b"}}]
    with pytest.raises(omnigraphdb.NotFound):
        graph.load(note, mode="append", branch="side")
    made = graph.load(note, mode="append", branch="side", from_branch="main")
    assert (made.branch, made.base_branch, made.branch_created) == ("side", "main", True)
    again = graph.load(
        [{"type": "Note", "data": {"id": "c", "text": "c"}}], mode="append", branch="side", from_branch="main"
    )  # fmt: skip
    assert (again.base_branch, again.branch_created) == ("main", False)
    assert sorted(r["data"]["id"] for r in exported(graph, branch="side", types=["Note"])) == [
        "b",
        "c",
        "n1",
    ]
    assert [r["data"]["id"] for r in exported(graph, types=["Note"])] == ["n1"]


def test_a_load_that_is_refused_does_not_leave_a_branch_behind(graph: Graph) -> None:
    for bad in ({"edge": "Knows", "from": "x", "to": "y"}, {"type": "Note", "data": {}}):
        with pytest.raises(omnigraphdb.UserInputError):
            graph.load([bad], mode="append", branch="side", from_branch="main")
    assert [branch.name for branch in graph.branches()] == ["main"]


# ---- size


def test_a_file_is_never_held_whole(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraphdb.pipeline.input.lines.BLOCK_BYTES", 2_000)
    path = tmp_path / "many.jsonl"
    path.write_text(
        lines([{"type": "Person", "data": {"name": f"p{i:04}", "age": i}} for i in range(500)])
    )
    seen: list[int] = []
    from omnigraphdb.pipeline.input import lines as reading

    original = reading.take_block

    def take_block(block: Any, intake: Any) -> Any:
        seen.append(sum(map(len, block.texts)))
        return original(block, intake)

    monkeypatch.setattr(reading, "take_block", take_block)
    graph.load(path, mode="append")
    assert len(seen) > 10
    assert max(seen) < 4_000
    assert graph.table("Person")["age"].to_pylist() == list(range(500))
    bad = tmp_path / "bad.jsonl"
    bad.write_text(path.read_text() + '{"type": "Person", "data": {"name": "p0007"}}\n')
    with pytest.raises(omnigraphdb.ConstraintError) as caught:
        graph.load(bad, mode="overwrite")
    assert "line 8" in str(caught.value)
    assert "line 501" in str(caught.value)


def test_an_empty_frame_is_no_record(graph: Graph) -> None:
    graph.load(RECORDS, mode="append")
    empty = PEOPLE.slice(0, 0)
    result = graph.load({"Person": empty}, mode="merge")
    assert (result.commit, result.tables) == (None, {"node:Person": 0})


@pytest.mark.parametrize(
    ("stored", "brought", "shown"),
    [
        ({"place": 0.0}, {"place": -0.0}, "-0.0"),
        ({"place": -0.0}, {"place": 0.0}, "0.0"),
        (
            {"at": "2024-01-01T10:00:00Z"},
            {"at": "2024-01-01T11:00:00+01:00"},
            "2024-01-01T10:00:00.000Z",
        ),
    ],
)
def test_a_value_that_is_held_already_is_known_however_it_is_spelled(
    tmp_path: Path, stored: dict[str, Any], brought: dict[str, Any], shown: str
) -> None:
    schema = "node Stone { name: String @key  place: F64? @unique  at: DateTime? @unique }"
    with omnigraphdb.init(tmp_path / "stones", schema) as graph:
        graph.load([{"type": "Stone", "data": {"name": "a", **stored}}], mode="append")
        with pytest.raises(omnigraphdb.ConstraintError, match=f"'{shown}' is held by 'a' and 'b'"):
            graph.load([{"type": "Stone", "data": {"name": "b", **brought}}], mode="append")
        assert_settled(graph)


def test_properties_may_have_the_names_of_helper_columns(tmp_path: Path) -> None:
    schema = "node Odd { name: String @key  __given: I32? @unique  __row: I32?  __holder: I32? @unique(__row, __holder) }"
    data = {"name": "a", "__given": 1, "__row": 2, "__holder": 3}
    with omnigraphdb.init(tmp_path / "odd", schema) as graph:
        graph.load([{"type": "Odd", "data": data}], mode="append")
        with pytest.raises(omnigraphdb.ConstraintError, match="__given"):
            graph.load([{"type": "Odd", "data": data | {"name": "b"}}], mode="append")
        assert graph.entity("Odd", "a") == {"id": "a"} | data


@pytest.mark.parametrize("steps", [False, True], ids=["in memory", "in steps"])
def test_files_that_are_read_together_report_their_problems_file_by_file(
    tmp_path: Path, steps: bool
) -> None:
    cells = {"a": "1,x", "b": "2,3", "c": "y,z"}
    for name, row in cells.items():
        (tmp_path / f"{name}.csv").write_text(f"name,age,size\n{name},{row}\n")
    schema = "node Person { name: String @key  age: I32?  size: I32? }"
    config = {"small_work_bytes": 0, "small_work_rows": 0} if steps else None
    files = [tmp_path / f"{name}.csv" for name in cells]
    with omnigraphdb.init(tmp_path / "g", schema, config=config) as graph:
        with pytest.raises(omnigraphdb.DataError) as caught:
            graph.load({"Person": files}, mode="append", spark=False)
        problems = caught.value.details["data_errors"]
        told = [(Path(str(one["file"])).stem, one["record"], one["property"]) for one in problems]
        assert told == [("a", 1, "size"), ("c", 1, "age"), ("c", 1, "size")]
        graph.load({"Person": files[1:2]}, mode="append", spark=False)
        assert graph.table("Person").num_rows == 1
