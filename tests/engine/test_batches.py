"""A batch id is for one load: the same again writes nothing and says so, another load under it is refused by name."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import BatchConflict, OmniWarning
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, parked
from omnigraphdb.ids import MAIN, CommitId, TableKey
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"
ADA = pa.table({"name": ["Ada"], "age": pa.array([36], pa.int32())})
ROME = pa.table({"name": ["Rome"]})


pytestmark = pytest.mark.filterwarnings("ignore:batch .* was loaded before:UserWarning")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as opened:
        yield opened
        assert_settled(opened)


def records(*names: str) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": name}} for name in names]


def load(graph: Graph, source: Any, mode: Any = "append", **options: Any) -> Any:
    return graph.load(source, mode=mode, batch_id="b#1", **options)


def test_a_repeated_batch_gives_the_commit_that_holds_it(graph: Graph) -> None:
    first = load(graph, {"Person": ADA})
    again = load(graph, {"Person": ADA})
    assert (first.replayed, again.replayed) == (False, True)
    assert first.commit is not None
    assert again.commit == first.commit
    assert again.notes == (
        f"batch 'b#1' was loaded before, in commit {first.commit.id}; nothing was written",
    )
    assert graph.table("Person").num_rows == 1


def test_whoever_loads_a_batch_again_is_warned_without_configuring_anything(graph: Graph) -> None:
    first = load(graph, {"Person": ADA})
    told = f"batch 'b#1' was loaded before, in commit {first.commit.id}; nothing was written"
    with pytest.warns(OmniWarning, match=f"^{told}$") as seen:
        load(graph, {"Person": ADA})
    assert [one.filename for one in seen] == [__file__]


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ({"City": ROME}, {}),
        ({"Person": ADA, "City": ROME}, {}),
        ({"Person": pa.table({"name": ["Bob"]})}, {}),
        ({"Person": ADA}, {"mode": "merge"}),
        (records("Bob"), {}),
        ({"Person": ADA}, {"mode": "merge", "append_only": ["Person"], "spark": False}),
    ],
    ids=["another type", "more types", "other rows", "another mode", "records", "append_only"],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_another_load_under_the_same_id_is_refused_by_name(
    graph: Graph, source: Any, options: dict[str, Any], dry_run: bool
) -> None:
    first = load(graph, {"Person": ADA})
    with pytest.raises(BatchConflict, match=r"'b#1' was loaded .* into node:Person") as refused:
        load(graph, source, dry_run=dry_run, **options)
    facts = {"key": "b#1", "branch": MAIN, "commit_id": first.commit.id}
    assert refused.value.to_dict()["idempotency"] == facts
    assert (graph.table("Person").num_rows, graph.table("City").num_rows) == (1, 0)


def test_files_and_records_count_by_their_content(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    load(graph, file)
    assert load(graph, file).replayed
    file.write_text('{"type": "Person", "data": {"name": "Bob"}}\n')
    with pytest.raises(BatchConflict):
        load(graph, file)
    graph.load(iter(records("Cy")), mode="append", batch_id="r#1")
    assert graph.load(iter(records("Cy")), mode="append", batch_id="r#1").replayed
    with pytest.raises(BatchConflict):
        graph.load(iter(records("Di")), mode="append", batch_id="r#1")


def test_a_fork_knows_the_batches_of_its_base(graph: Graph) -> None:
    load(graph, {"Person": ADA})
    graph.branch_create("work")
    assert load(graph, {"Person": ADA}, branch="work").replayed
    with pytest.raises(BatchConflict, match="on branch 'work'"):
        load(graph, {"City": ROME}, branch="work")


def test_rivals_under_one_id_write_once_and_both_say_which_commit(graph: Graph) -> None:
    results: list[Any] = []
    with parked(Failpoint.PREPARED) as park:
        late = threading.Thread(target=lambda: results.append(load(graph, {"Person": ADA})))
        late.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with omnigraphdb.open(graph.uri) as rival:
            results.append(load(rival, {"Person": ADA}))
        park.release()
        late.join()
    assert sorted(one.replayed for one in results) == [False, True]
    assert results[0].commit == results[1].commit
    assert graph.table("Person").num_rows == 1


def test_a_batch_that_recovery_completed_keeps_what_it_asked_for(tmp_path: Path) -> None:
    with (
        omnigraphdb.init(tmp_path / "g", SCHEMA) as graph,
        armed(Failpoint.TABLES_COMMITTED),
        pytest.raises(Injected),
    ):
        load(graph, {"Person": ADA})
    with omnigraphdb.open(tmp_path / "g") as graph:
        assert load(graph, {"Person": ADA}).replayed
        with pytest.raises(BatchConflict):
            load(graph, {"City": ROME})
        assert_settled(graph)


def test_batches_of_earlier_releases_are_known_by_their_types(graph: Graph) -> None:
    """Their commits say nothing about contents."""
    engine = graph._engine
    draft = Draft(
        commit=CommitId(engine.runtime.new_id()),
        kind=CommitKind.LOAD,
        tables=(TableKey("node:Person"),),
        batch_id="b#1",
    )
    publish(engine.manifest, Change(branch=MAIN, draft=draft))
    assert load(graph, {"Person": ADA}).commit.id == draft.commit
    assert load(graph, records("Bob")).replayed
    with pytest.raises(BatchConflict):
        load(graph, {"City": ROME})
