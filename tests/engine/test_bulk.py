"""Loads in steps: large inputs in many splits, decided on by key, staged by many workers, in one commit."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.write import heartbeat
from omnigraphdb.errors import EngineError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from omnigraphdb.ids import OperationId
from omnigraphdb.pipeline.input import read
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Note { text: String }
edge Knows: Person -> Person { w: I32? }
edge Only: Person -> Person @card(0..1)
"""
STEPS = {"small_work_bytes": 0, "split_bytes": 4_000, "load_concurrency": 3}
PEOPLE = 2_000


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=STEPS) as graph:
        yield graph
        assert_settled(graph)
        assert not list((tmp_path / "g").glob("__staging/*"))


def person(number: int, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": f"p{number:05}", "age": number % 100} | data}


def knows(near: int, far: int, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": f"p{near:05}", "to": f"p{far:05}", "data": data}


def written(path: Path, records: list[Any]) -> Path:
    texts = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@pytest.fixture
def many(tmp_path: Path) -> Path:
    people = [person(number) for number in range(PEOPLE)]
    return written(tmp_path / "many.jsonl", [knows(0, PEOPLE - 1), *people, knows(1, 2)])


def test_many_splits_land_as_one_commit(graph: Graph, many: Path) -> None:
    result = graph.load(many, mode="append", spark=False)
    assert result.tables == {"edge:Knows": 2, "node:Person": PEOPLE}
    assert (result.engine, "in steps" in result.reason) == ("local", True)
    assert [commit.kind for commit in graph.commits()] == ["load", "init"]
    names = graph.table("Person")["name"].to_pylist()
    assert names == [f"p{number:05}" for number in range(PEOPLE)]


def test_fifty_bad_records_in_the_middle_are_one_error_and_nothing_is_written(
    graph: Graph, tmp_path: Path
) -> None:
    records: list[Any] = [person(number) for number in range(PEOPLE)]
    for number in range(900, 950):
        records[number] = person(number, age="old")
    path = written(tmp_path / "bad.jsonl", records)
    before = data_files(graph)
    with pytest.raises(omnigraphdb.DataError) as caught:
        graph.load(path, mode="append", spark=False)
    error = caught.value
    assert (error.total, len(error.data_errors)) == (50, 20)
    assert [one["line"] for one in error.data_errors] == list(range(901, 921))
    first = error.data_errors[0]
    assert (first["file"], first["rule"], first["property"]) == (str(path), "J07", "age")
    assert "expected I32?, got text 'old'" in first["message"]
    assert graph.table("Person").num_rows == 0
    assert data_files(graph) == before


def test_rules_that_many_splits_break_are_told_by_id(graph: Graph, tmp_path: Path) -> None:
    records = [person(number, age=200 if number % 40 == 0 else 1) for number in range(PEOPLE)]
    path = written(tmp_path / "bad.jsonl", list(reversed(records)))
    with pytest.raises(omnigraphdb.ConstraintError) as caught:
        graph.load(path, mode="append", spark=False)
    assert caught.value.total == 50
    assert [one["row_id"] for one in caught.value.data_errors] == [
        f"p{number:05}" for number in range(0, 800, 40)
    ]
    assert caught.value.data_errors[0]["line"] == PEOPLE


def test_twins_in_different_splits_name_both_places(graph: Graph, tmp_path: Path) -> None:
    records = [person(number) for number in range(500)]
    path = written(tmp_path / "duplicates.jsonl", [*records, person(7)])
    with pytest.raises(omnigraphdb.ConstraintError, match=r"line 8 and in .*line 501"):
        graph.load(path, mode="merge", spark=False)


def test_properties_may_have_any_name_the_language_allows(tmp_path: Path) -> None:
    names = ("k", "key", "position", "__position", "__row", "side", "number")
    unique = " ".join(f"{name}: I32? @unique" for name in names)
    schema = f"node Odd {{ name: String @key  {unique}  @unique(k, __position) }}"
    rows = [{"name": f"o{n:04}", **dict.fromkeys(names, n)} for n in range(300)]
    with omnigraphdb.init(tmp_path / "odd", schema, config=STEPS) as graph:
        table = pa.Table.from_pylist(rows)
        result = graph.load({"Odd": table}, mode="append", spark=False)
        assert result.tables == {"node:Odd": 300}
        assert graph.load({"Odd": table}, mode="merge", spark=False).tables == {"node:Odd": 300}
        duplicates = pa.Table.from_pylist([{"name": f"t{n:04}", "k": n} for n in range(300)])
        with pytest.raises(
            omnigraphdb.ConstraintError, match=r"@unique violation on Odd\.k"
        ) as caught:
            graph.load({"Odd": duplicates}, mode="append", spark=False)
        assert caught.value.total == 300
        assert_settled(graph)


def test_an_end_that_is_missing_is_found_wherever_its_edge_is(graph: Graph, many: Path) -> None:
    graph.load(many, mode="append", spark=False)
    path = written(many.with_name("ends.jsonl"), [knows(n, n + 1) for n in range(PEOPLE)])
    with pytest.raises(omnigraphdb.ReferentialError) as caught:
        graph.load(path, mode="append", spark=False)
    assert caught.value.total == 1
    assert caught.value.data_errors[0]["line"] == PEOPLE


def test_a_merge_keeps_the_row_ids_of_what_it_replaces(graph: Graph, many: Path) -> None:
    graph.load(many, mode="append", spark=False)
    changed = [person(number, age=101) for number in range(0, PEOPLE, 3)]
    path = written(many.with_name("more.jsonl"), [*changed, person(PEOPLE), person(PEOPLE + 1)])
    before = stored(graph, "node:Person")
    graph.load(path, mode="merge", spark=False)
    after = stored(graph, "node:Person")
    assert len(after) == PEOPLE + 2
    assert {name: after[name][0] for name in before} == {name: before[name][0] for name in before}
    ages = {name: row[1] for name, row in after.items()}
    assert {name for name, age in ages.items() if age == 101} == {
        f"p{number:05}" for number in range(0, PEOPLE, 3)
    }
    # A second merge meets rows that are new copies already.
    graph.load(path, mode="merge", spark=False)
    assert stored(graph, "node:Person") == after


def stored(graph: Graph, table: str) -> dict[str, tuple[int, int]]:
    """The row id and the age under every id."""
    engine = graph._engine
    at = engine.view().snapshot.entries[table].at  # type: ignore[index]
    rows = engine.store.tables.open(at).read(["id", "age"], row_id=True)
    return {row["id"]: (row["_rowid"], row["age"]) for row in rows.to_pylist()}


def test_the_last_of_several_notes_with_one_id_stays(graph: Graph, tmp_path: Path) -> None:
    notes = [{"type": "Note", "data": {"id": f"n{n % 50}", "text": str(n)}} for n in range(500)]
    path = written(tmp_path / "notes.jsonl", notes)
    assert graph.load(path, mode="merge", spark=False).tables == {"node:Note": 500}
    texts = {row["id"]: row["text"] for row in graph.table("Note").to_pylist()}
    assert texts == {f"n{n}": str(450 + n) for n in range(50)}


def test_an_edge_that_moves_frees_its_former_source(graph: Graph, many: Path) -> None:
    graph.load(many, mode="append", spark=False)
    moved = {"edge": "Only", "from": "p00001", "to": "p00002", "data": {"id": "o1"}}
    graph.load(written(many.with_name("o.jsonl"), [moved]), mode="append", spark=False)
    again = moved | {"from": "p00003"}
    other = moved | {"data": {"id": "o2"}}
    graph.load(written(many.with_name("o.jsonl"), [again, other]), mode="merge", spark=False)
    assert sorted(graph.table("Only")["src"].to_pylist()) == ["p00001", "p00003"]


def test_a_load_on_a_branch_writes_there_only(graph: Graph, many: Path) -> None:
    graph.load(many, mode="append", spark=False)
    path = written(many.with_name("more.jsonl"), [person(1, age=99), person(PEOPLE)])
    result = graph.load(path, mode="merge", branch="side", from_branch="main", spark=False)
    assert result.branch_created
    assert graph.table("Person").num_rows == PEOPLE
    assert graph.table("Person", branch="side").num_rows == PEOPLE + 1
    assert graph.entity("Person", "p00001", branch="side") != graph.entity("Person", "p00001")
    graph.load(path, mode="merge", branch="side", spark=False)
    assert graph.table("Person", branch="side").num_rows == PEOPLE + 1


def test_a_dry_run_checks_everything_and_writes_nothing(graph: Graph, many: Path) -> None:
    assert graph.load(many, mode="append", dry_run=True, spark=False).commit is None
    assert graph.table("Person").num_rows == 0
    bad = written(many.with_name("bad.jsonl"), [knows(1, 2)])
    with pytest.raises(omnigraphdb.ReferentialError):
        graph.load(bad, mode="append", dry_run=True, spark=False)


# ---- rivals and failures


def test_a_load_whose_tables_moved_decides_again_and_keeps_its_fragments(
    graph: Graph, many: Path
) -> None:
    files: list[int] = []
    with parked(Failpoint.PREPARED) as park:
        worker = threading.Thread(
            target=graph.load, args=(many,), kwargs={"mode": "append", "spark": False}
        )
        worker.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        files.append(len(data_files(graph)))
        graph.load([person(PEOPLE + 5)], mode="append", spark=False)
        park.release()
        worker.join(PARK_SECONDS_MAX)
    assert graph.table("Person").num_rows == PEOPLE + 1
    assert len(data_files(graph)) == files[0] + 1


def data_files(graph: Graph) -> set[str]:
    return {str(one) for one in Path(graph.uri).glob("*/*/data/*.lance")}


def test_a_rival_that_brought_the_same_key_first_is_noticed(graph: Graph, many: Path) -> None:
    failed: list[Exception] = []

    def load() -> None:
        try:
            graph.load(many, mode="append", spark=False)
        except omnigraphdb.KeyConflict as error:
            failed.append(error)

    with parked(Failpoint.PREPARED) as park:
        worker = threading.Thread(target=load)
        worker.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        graph.load([person(5)], mode="append", spark=False)
        park.release()
        worker.join(PARK_SECONDS_MAX)
    assert [error.row_id for error in failed] == ["p00005"]  # type: ignore[attr-defined]
    assert graph.table("Person").num_rows == 1


PHASES = [
    Failpoint.PREPARED,
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
]


@pytest.mark.parametrize(
    ("mode", "after"), [("append", PEOPLE + 1), ("merge", PEOPLE), ("overwrite", PEOPLE)]
)
@pytest.mark.parametrize("at", PHASES)
def test_a_load_that_fails_anywhere_is_whole_or_absent(
    tmp_path: Path, many: Path, at: Failpoint, mode: "Mode", after: int
) -> None:
    home = tmp_path / "failing"
    there = PEOPLE if mode == "append" else 7
    with omnigraphdb.init(home, SCHEMA, config=STEPS) as graph:
        graph.load([person(there)], mode="append", spark=False)
        with armed(at), pytest.raises(omnigraphdb.OmniError) as caught:
            graph.load(many, mode=mode, spark=False)
        assert not isinstance(caught.value, omnigraphdb.UserInputError)
    with omnigraphdb.open(home, config=STEPS) as graph:
        assert graph.table("Person").num_rows in (1, after)
        assert_settled(graph)
        graph.load(many, mode="overwrite", spark=False)
        assert graph.table("Person").num_rows == PEOPLE
        assert not list(home.glob("__staging/*"))
        assert_settled(graph)


def test_a_load_that_is_interrupted_publishes_nothing(graph: Graph, many: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with armed(Failpoint.PREPARED, interrupt), pytest.raises(KeyboardInterrupt):
        graph.load(many, mode="append", spark=False)
    assert graph.table("Person").num_rows == 0
    graph.load(many, mode="append", spark=False)
    assert graph.table("Person").num_rows == PEOPLE


# ---- what it leaves while it runs


def test_a_heartbeat_is_kept_while_a_load_runs(
    graph: Graph, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_RENEW_SECONDS", 0.01)
    home = Path(graph.uri)
    with parked(Failpoint.PREPARED) as park:
        worker = threading.Thread(
            target=graph.load, args=(many,), kwargs={"mode": "append", "spark": False}
        )
        worker.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        [found] = home.glob("__staging/*.json")
        first = json.loads(found.read_text())["expires_us"]
        assert first > graph._engine.runtime.now_us()
        while json.loads(found.read_text())["expires_us"] == first:
            pass
        assert list(home.glob("__staging/*/*.lance"))
        park.release()
        worker.join(PARK_SECONDS_MAX)
    assert not list(home.glob("__staging/*"))


# ---- inputs


def test_a_folder_and_a_list_of_parquet_files_are_one_frame(graph: Graph, tmp_path: Path) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    for part in range(3):
        names = [f"p{number:05}" for number in range(part * 100, part * 100 + 100)]
        pyarrow.parquet.write_table(pa.table({"name": names}), folder / f"{part}.parquet")
    assert graph.load(folder, type="Person", mode="append", spark=False).total_rows == 300
    files = sorted(str(one) for one in folder.iterdir())
    with pytest.raises(omnigraphdb.KeyConflict) as caught:
        graph.load({"Person": files}, mode="append", spark=False)
    first = caught.value.details["data_errors"][0]
    assert (first["file"], first["record"]) == (files[0], 1)


def test_a_few_rows_beside_many_are_looked_up_instead_of_brought_together(
    graph: Graph, many: Path
) -> None:
    graph.load(many, mode="append", spark=False)
    path = written(many.with_name("few.jsonl"), [knows(3, 4, w=1)])
    assert graph.load(path, mode="append", spark=False).total_rows == 1
    with pytest.raises(omnigraphdb.KeyConflict):
        graph.load(written(path, [person(3)]), mode="append", spark=False)
    graph.load(written(path, [person(3, age=33)]), mode="merge", spark=False)
    assert graph.entity("Person", "p00003")["age"] == 33  # type: ignore[index]


def test_a_graph_in_memory_loads_in_steps_too(many: Path) -> None:
    with omnigraphdb.init("memory://bulk", SCHEMA, config=STEPS) as graph:
        graph.load(many, mode="append", spark=False)
        assert graph.table("Person").num_rows == PEOPLE
        assert_settled(graph)


@pytest.mark.parametrize("rows", [0, 5, 3_000])
def test_a_stream_of_batches_is_kept_in_parts(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    names = pa.array([f"p{number:05}" for number in range(rows)])
    frame = pa.table({"name": names.dictionary_encode(), "age": pa.nulls(rows)})
    held: list[int] = []
    original = read.unpack_frame

    def unpack_frame(kept: Any) -> Any:
        held.append(original(kept).num_rows)
        return original(kept)

    monkeypatch.setattr(read, "unpack_frame", unpack_frame)
    reader = pa.RecordBatchReader.from_batches(frame.schema, iter(frame.to_batches(100)))
    result = graph.load({"Person": reader}, mode="append", spark=False)
    assert result.tables == {"node:Person": rows}
    assert sorted(graph.table("Person")["name"].to_pylist()) == names.to_pylist()
    assert max(held, default=0) < 3_000
    assert bool(held) == bool(rows)


def test_a_stream_that_breaks_is_the_callers_to_mend(graph: Graph) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(50):
            yield pa.record_batch({"name": [f"p{number}-{row}" for row in range(100)]})
        raise ValueError("the line went dead")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("name", pa.string())]), batches())
    with pytest.raises(
        omnigraphdb.UserInputError, match="'Person' cannot be read: the line went dead"
    ):
        graph.load({"Person": reader}, mode="append", spark=False)
    assert graph.table("Person").num_rows == 0


def test_a_graph_opened_to_be_read_checks_in_memory(graph: Graph, many: Path) -> None:
    with omnigraphdb.open(graph.uri, read_only=True, config=STEPS) as reader:
        before = sorted(str(one) for one in Path(graph.uri).rglob("*"))
        done = reader.load(many, mode="append", dry_run=True, spark=False)
        assert done.total_rows == PEOPLE + 2
        assert "read" in done.reason
        assert sorted(str(one) for one in Path(graph.uri).rglob("*")) == before


TYPES = """
node All {
  key: String @key
  flag: Bool?  small: I32?  big: U64?  real: F32?  wide: F64?
  day: Date?  at: DateTime?  tags: [String]?  days: [Date]?  sig: Vector(3)?  scan: Blob?
}
"""


def test_every_type_arrives_as_it_does_in_memory(tmp_path: Path) -> None:
    record = {"flag": True, "small": -5, "big": 2**63 + 1, "real": 1.5, "wide": -0.0, "day": "2024-02-29",
              "at": "2024-01-01T10:00:00.123Z", "tags": ["é", ""], "days": ["1999-12-31"], "sig": [1, 2.5, -3],
              "scan": "base64:AQID"}  # fmt: skip
    records = [{"type": "All", "data": {"key": "full"} | record}]
    records += [
        {"type": "All", "data": {"key": f"only {name}", name: record[name]}} for name in record
    ]
    path = written(tmp_path / "all.jsonl", [*records, {"type": "All", "data": {"key": "none"}}])
    exports = []
    for name, config in (("memory", {}), ("steps", STEPS | {"split_bytes": 300})):
        with omnigraphdb.init(tmp_path / name, TYPES, config=config) as graph:
            graph.load(path, mode="append", spark=False)
            graph.load(path, mode="merge", spark=False)
            exports.append(list(graph.export()))
            assert_settled(graph)
    assert exports[0] == exports[1]
    assert len(exports[0]) == len(records) + 1


@pytest.mark.s3
def test_a_graph_in_a_bucket_loads_in_steps_too(bucket: Bucket, many: Path) -> None:
    options = bucket.storage_options
    with omnigraphdb.init(
        f"{bucket.uri}/bulk", SCHEMA, storage_options=options, config=STEPS
    ) as graph:
        graph.load(many, mode="append", spark=False)
        changed = written(many.with_name("more.jsonl"), [person(1, age=99), person(PEOPLE)])
        graph.load(changed, mode="merge", spark=False)
        assert graph.table("Person").num_rows == PEOPLE + 1
        assert graph._engine.store.objects.list("__staging") == ()
        assert_settled(graph)


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (EngineError("lost"), True),
        (KeyboardInterrupt(), True),
        (omnigraphdb.UserInputError("no"), False),
    ],
)
def test_a_heartbeat_stays_only_where_tasks_elsewhere_may_still_run(
    graph: Graph, error: BaseException, stays: bool
) -> None:
    operation = OperationId("01M7F4EXVBZE224K4YQTKV9TNX")
    with (
        pytest.raises(type(error)),
        heartbeat.keep_heartbeat(graph._engine, operation, lingers=True),
    ):
        raise error
    left = list(Path(graph.uri).glob("__staging/*"))
    assert [one.name for one in left] == [f"{operation}.json"] * stays
    for one in left:
        one.unlink()


@pytest.mark.parametrize("text", [True, False])
def test_an_open_file_is_kept_in_parts_and_its_lines_are_counted(
    graph: Graph, many: Path, text: bool
) -> None:
    with many.open() if text else many.open("rb") as stream:
        result = graph.load(stream, mode="append", spark=False)
    assert result.total_rows == PEOPLE + 2
    assert "in steps" in result.reason
    bad = written(many.with_name("bad.jsonl"), [*(person(n) for n in range(500)), "{", person(1)])
    with bad.open("rb") as stream, pytest.raises(omnigraphdb.DataError) as caught:
        graph.load(stream, mode="merge", spark=False)
    found = [(one["file"], one["line"], one["rule"]) for one in caught.value.data_errors]
    assert found == [(str(bad), 501, "J01"), (str(bad), 502, "W13")]
    assert graph.table("Person").num_rows == PEOPLE
