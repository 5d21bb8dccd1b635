"""What the tasks of `df.write` do, and what is left for its commit: keys, and the rows that replace others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import KeyConflict, OmniError, ReadSetConflict
from omnigraphdb.ids import LoadMode
from omnigraphdb.pipeline.input.splits import CheckedRows, Spilled
from omnigraphdb.spark.sink import TaskMessage
from tests.support.frame_tasks import cut, make_writer, run_tasks, write_frame
from tests.support.settled import assert_settled

pytestmark = [pytest.mark.spark]

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  @range(age, 0..99) }
node Item { size: I64?  data: Blob? }
node Plain { size: I64? }
node Note { text: String? }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Plain @card(0..2)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "graph", SCHEMA) as made:
        yield made
        assert_settled(made)
        assert not any((tmp_path / "graph").glob("__staging/*"))


def people(names: str, age: int = 1) -> pa.Table:
    return pa.table({"name": list(names), "age": pa.array([age] * len(names), pa.int32())})


def ages(graph: Graph, branch: str = "main") -> dict[str, int]:
    rows = graph.table("Person", branch=branch).to_pylist()
    return {row["name"]: row["age"] for row in rows}


def list_contents(messages: list[TaskMessage]) -> list[Any]:
    return [portion.content for message in messages for portion in message.task.portions]


def list_written(messages: list[TaskMessage]) -> set[str]:
    """The fragments that tasks wrote, as their receipts describe them."""
    return {
        text
        for content in list_contents(messages)
        if isinstance(content, CheckedRows) and content.written is not None
        for text in content.written.fragments
    }


def list_files(graph: Graph, type_name: str) -> set[str]:
    fragments = graph.snapshot().pin(type_name).open().fragments()
    return {file for fragment in fragments for file in fragment.files}


def test_tasks_write_the_fragments_that_the_commit_shows(graph: Graph) -> None:
    messages = write_frame(graph, "Person", people("abcd"))
    written = list_written(messages)
    files = list_files(graph, "Person")
    assert len(files) == len(written) == 2
    assert all(any(file in text for text in written) for file in files)
    assert ages(graph) == dict.fromkeys("abcd", 1)


def test_a_merge_leaves_only_rows_that_replace_others_to_the_commit(graph: Graph) -> None:
    write_frame(graph, "Person", people("abcd"))
    before = graph.snapshot().pin("Person").open().read(["name"], row_id=True).to_pylist()
    messages = write_frame(graph, "Person", people("cdef", 2), load_mode="merge", parts=1)
    new, replacing = list_contents(messages)
    assert (new.written.rows, new.columns) == (2, ("mail",))
    assert (replacing.written, set(replacing.columns)) == (None, {"name", "age", "mail"})
    assert any(
        file in text for file in list_files(graph, "Person") for text in list_written(messages)
    )
    assert ages(graph) == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 2}
    after = graph.snapshot().pin("Person").open().read(["name"], row_id=True).to_pylist()
    assert [row for row in after if row in before] == sorted(
        (row for row in before), key=after.index
    )


def test_of_rows_with_one_id_the_last_of_all_tasks_counts(graph: Graph) -> None:
    first = pa.table({"id": ["1", "2", "1"], "size": [1, 2, 3]})
    write_frame(graph, "Plain", first, load_mode="merge", parts=3)
    again = pa.table({"id": ["1", "9", "2", "9", "9"], "size": [10, 11, 12, 13, 14]})
    write_frame(graph, "Plain", again, load_mode="merge", parts=2)
    rows = {row["id"]: row["size"] for row in graph.table("Plain").to_pylist()}
    assert rows == {"1": 10, "2": 12, "9": 14}


def test_rows_without_an_id_get_one(graph: Graph) -> None:
    write_frame(graph, "Plain", pa.table({"size": [1, 2, 3]}))
    write_frame(graph, "Plain", pa.table({"size": [1, 2, 3]}), load_mode="merge")
    assert len(set(graph.table("Plain")["id"].to_pylist())) == 6


def test_blobs_are_written_and_merged(graph: Graph) -> None:
    rows = pa.table({"id": ["1", "2"], "data": [b"a", b"b"]})
    write_frame(graph, "Item", rows)
    write_frame(graph, "Item", pa.table({"id": ["2", "3", "3"], "data": [b"c", b"d", b"e"]}),
                load_mode="merge")  # fmt: skip
    found = {id: graph.blob("Item", id, "data").read() for id in "123"}
    assert found == {"1": b"a", "2": b"c", "3": b"e"}


def test_a_table_that_the_branch_does_not_own_yet_is_written_by_the_commit(graph: Graph) -> None:
    write_frame(graph, "Person", people("ab"))
    graph.branch_create("review")
    messages = write_frame(graph, "Person", people("bc", 5), load_mode="merge", branch="review")
    assert not list_written(messages)
    write_frame(graph, "Person", people("d"), branch="fresh", from_branch="review")
    assert ages(graph) == {"a": 1, "b": 1}
    assert ages(graph, "review") == {"a": 1, "b": 5, "c": 5}
    assert ages(graph, "fresh") == {"a": 1, "b": 5, "c": 5, "d": 1}


# ---- the graph moves between the tasks and the commit


def test_a_row_that_another_writer_committed_meanwhile_is_seen(graph: Graph) -> None:
    appending, merging = (
        make_writer(graph, "Person"),
        make_writer(graph, "Person", load_mode="merge"),
    )
    appended, merged = (run_tasks(one, cut(people("abc", 7), 2)) for one in (appending, merging))
    write_frame(graph, "Person", people("bz"))
    with pytest.raises(KeyConflict, match="Person 'b' already exists"):
        appending.commit([*appended])
    assert ages(graph) == {"b": 1, "z": 1}
    merging.commit([*merged])
    assert ages(graph) == {"a": 7, "b": 7, "c": 7, "z": 1}


def test_an_id_that_exists_is_refused_with_the_option_that_replaces_it(graph: Graph) -> None:
    write_frame(graph, "Person", people("a"))
    with pytest.raises(KeyConflict) as refused:
        write_frame(graph, "Person", people("a"))
    assert "option 'load_mode' merge" in str(refused.value.hint)


def test_a_schema_that_changed_meanwhile_is_refused(graph: Graph) -> None:
    writer = make_writer(graph, "Person")
    messages = run_tasks(writer, [people("ab")])
    graph.schema_apply(SCHEMA.replace("age: I32?", "shoe: I32?  age: I32?"))
    with pytest.raises(ReadSetConflict, match="the schema changed"):
        writer.commit([*messages])
    assert ages(graph) == {}


def test_a_branch_that_was_made_again_meanwhile_is_refused(graph: Graph) -> None:
    graph.branch_create("review")
    write_frame(graph, "Person", people("a"), branch="review")
    writer = make_writer(graph, "Person", branch="review")
    messages = run_tasks(writer, [people("bc")])
    assert list_written(messages)
    graph.branch_delete("review")
    graph.branch_create("review")
    write_frame(graph, "Person", people("x"), branch="review")
    with pytest.raises(ReadSetConflict, match="branch 'review' changed"):
        writer.commit([*messages])
    assert ages(graph, "review") == {"x": 1}


# ---- the same as a load


def make_rows(random: np.random.Generator, type_name: str) -> pa.Table:
    """Rows of a type with few ids, so that keys meet, and now and then a value that breaks a rule."""
    count = int(random.integers(1, 12))
    bad = random.random() < 0.3
    letters = [chr(97 + one) for one in random.integers(0, 20 if bad else 8, count)]
    if type_name == "Person":
        letters = list(dict.fromkeys(letters)) if not bad else letters
        age = random.integers(0, 110 if bad else 99, len(letters))
        mails = [f"m{letter}" for letter in letters]
        return pa.table({"name": letters, "age": pa.array(age, pa.int32()), "mail": mails})
    if type_name == "Plain":
        return pa.table({"id": letters, "size": random.integers(0, 9, count)})
    others = [chr(97 + one) for one in random.integers(0, 8, count)]
    return pa.table({"src": letters, "dst": others})


def attempt(act: Any) -> tuple[str, str] | None:
    try:
        act()
    except OmniError as error:
        return type(error).__name__, str(error)
    return None


def list_rows(graph: Graph) -> dict[str, list[Any]]:
    names = {"Person": ["name", "age", "mail"], "Plain": ["id", "size"], "Knows": ["src", "dst"]}
    return {
        name: sorted(tuple(row.values()) for row in graph.table(name).select(columns).to_pylist())
        for name, columns in names.items()
    }


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 40))]
)
def test_a_write_gives_the_rows_and_the_errors_of_a_load(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    with (
        omnigraphdb.init(tmp_path / "written", SCHEMA) as written,
        omnigraphdb.init(tmp_path / "loaded", SCHEMA) as loaded,
    ):
        for _ in range(8):
            type_name = str(random.choice(["Person", "Plain", "Knows"]))
            rows = make_rows(random, type_name)
            mode = str(random.choice(["append", "merge", "merge", "overwrite"]))
            parts = int(random.integers(1, 4))
            given = {"overwrite": True} if mode == "overwrite" else {"load_mode": mode}

            def write() -> None:
                write_frame(written, type_name, rows, parts=parts, **given)  # noqa: B023

            def load() -> None:
                loaded.load({type_name: rows}, mode=LoadMode(mode))  # noqa: B023

            refused, expected = attempt(write), attempt(load)
            assert (refused is None) == (expected is None), (refused, expected)
            if refused is not None and expected is not None and mode != "merge":
                assert refused == expected
            assert list_rows(written) == list_rows(loaded)
        assert_settled(written)


def test_rows_with_a_wrong_value_are_left_to_the_load_which_names_them(graph: Graph) -> None:
    writer = make_writer(graph, "Person")
    rows = pa.table({"name": ["a", "b"], "age": pa.array([5, 500], pa.int32())})
    messages = run_tasks(writer, cut(rows, 2))
    checked, unchecked = list_contents(messages)
    assert (type(checked), type(unchecked)) == (CheckedRows, Spilled)
    with pytest.raises(OmniError, match=r"record 2: .*500"):
        writer.commit([*messages])


# ---- memory beside the driver

COMMIT = """
import pickle, sys
import omnigraphdb.spark
writer, messages = pickle.load(open(sys.argv[1], "rb"))
writer.commit(messages)
[peak] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.parametrize(
    ("rows", "mib_max"),
    [(600_000, 400), pytest.param(5_000_000, 300, marks=pytest.mark.soak)],
    ids=["small", "5 million"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_a_commit_needs_the_same_memory_for_any_number_of_rows(
    graph: Graph, tmp_path: Path, rows: int, mib_max: int
) -> None:
    from pyspark import cloudpickle

    writer, messages = make_writer(graph, "Note"), list[TaskMessage]()
    for start in range(0, rows, 100_000):
        # Ids that do not ascend: the commit has to compare all of them.
        numbers = np.random.default_rng(start).permutation(100_000) + start
        ids = pa.array(numbers).cast(pa.string())
        texts = pa.array(["a text that no step of the commit reads"] * 100_000)
        messages += run_tasks(writer, [pa.table({"id": ids, "text": texts})])
    at = tmp_path / "commit"
    at.write_bytes(cloudpickle.dumps((writer, messages)))
    done = subprocess.run(
        [sys.executable, "-c", COMMIT, str(at)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) <= mib_max
    assert graph.snapshot().tables()["node:Note"] == rows
