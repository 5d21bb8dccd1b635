"""What a load in steps sees at a glance does not have to meet: ids that ascend, ends whose nodes every task holds."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.commit.plan import ANONYMOUS, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine.write.checked_load import CheckedLoad, LoadRequest, check_load
from omnigraphdb.engine.write.runner_choice import RunnerChoice, choose_by_size
from omnigraphdb.errors import ConstraintError, KeyConflict, OmniError, ReferentialError
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.pipeline.input.sources import identify_source
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Runner, Shuffle, Step
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA = """
node Person { name: String @key  age: I32? }
node Place { name: String @key }
edge Knows: Person -> Person
edge In: Person -> Place @card(0..2)
"""
STEPS = {"small_work_bytes": 0, "small_work_rows": 0, "split_bytes": 400}
FRESH = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
NAMES = [f"p{number:03}" for number in range(60)]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=STEPS) as made:
        yield made
        assert_settled(made)


def people(names: Sequence[str] = NAMES) -> pa.Table:
    return pa.table({"name": names})


def edges(sources: Sequence[str], targets: Sequence[str], **more: Any) -> pa.Table:
    return pa.table({"src": sources, "dst": targets, **more})


def phases(graph: Graph, source: Any, mode: "Mode" = "append") -> list[str]:
    """The steps of a load, in their order."""
    told: list[Any] = []
    graph.load(source, mode=mode, spark=False, progress=told.append)
    return [one.phase for one in told if one.done == 0 and one.phase != "commit"]


def test_ids_that_ascend_and_ends_at_hand_meet_nobody(graph: Graph) -> None:
    source = {"Person": people(), "Knows": edges(NAMES, NAMES[::-1])}
    assert phases(graph, source) == ["check", "stage"]
    assert graph.table("Knows").num_rows == len(NAMES)


def test_ids_in_any_other_order_meet(graph: Graph) -> None:
    assert phases(graph, {"Person": people(NAMES[::-1])}) == ["check", "meet", "stage"]


def test_ids_of_a_table_that_holds_some_meet(graph: Graph) -> None:
    graph.load({"Person": people(["a"])}, mode="append", spark=False)
    assert phases(graph, {"Person": people()}) == ["check", "meet", "stage"]
    more = {"Person": people(["a", *NAMES])}
    assert phases(graph, more, "merge") == ["check", "meet", "stage"]
    assert phases(graph, {"Place": pa.table({"name": NAMES})}, "merge") == ["check", "stage"]


def test_committed_nodes_come_to_the_edges_too(graph: Graph) -> None:
    graph.load({"Person": people()}, mode="append", spark=False)
    assert phases(graph, {"Knows": edges(NAMES, NAMES)}) == ["check", "ends", "stage"]


def test_edges_of_some_who_come_and_some_who_are_there_look_twice(graph: Graph) -> None:
    graph.load({"Person": people(NAMES[:30])}, mode="append", spark=False)
    source = {"Person": people(NAMES[30:]), "Knows": edges(NAMES, NAMES[::-1])}
    assert phases(graph, source) == ["check", "ends", "meet", "stage"]


def test_edges_of_one_type_do_not_wait_for_those_of_another(graph: Graph) -> None:
    graph.load({"Place": pa.table({"name": ["x"]})}, mode="append", spark=False)
    source = {"Person": people(), "Knows": edges(NAMES, NAMES), "In": edges(NAMES, ["x"] * 60)}
    assert phases(graph, source) == ["check", "ends", "decide", "stage"]


def test_nodes_that_come_line_by_line_are_not_read_beforehand(graph: Graph, tmp_path: Path) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text("".join(f'{{"type": "Person", "data": {{"name": "{n}"}}}}\n' for n in NAMES))
    read = [{"edge": "Knows", "from": name, "to": name} for name in NAMES]
    with open(lines, "a") as more:
        more.write("".join(json.dumps(one) + "\n" for one in read))
    assert phases(graph, lines) == ["check", "ends", "stage"]


def test_edges_that_are_counted_meet_under_their_sources(graph: Graph) -> None:
    source = {
        "Person": people(),
        "Place": pa.table({"name": ["x"]}),
        "In": edges(NAMES, ["x"] * 60),
    }
    assert phases(graph, source) == ["check", "decide", "stage"]
    with pytest.raises(ConstraintError, match="'p007' would have 4 edges"):
        graph.load({"In": edges(["p007"] * 2 + NAMES, ["x"] * 62)}, mode="append", spark=False)


@pytest.mark.parametrize("rows", ["few nodes", "many nodes"])
def test_nodes_that_are_too_many_stay_where_they_are(
    graph: Graph, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = rows == "few nodes"
    bound = 60 if few else 59
    monkeypatch.setattr(
        "omnigraphdb.api.loading.choose_by_size",
        lambda *given: replace(choose_by_size(*given), held_ids_max=bound),
    )
    source = {"Person": people(), "Knows": edges(NAMES, NAMES)}
    expected = ["check", "stage"] if few else ["check", "decide", "stage"]
    assert phases(graph, source) == expected


WRONG = {
    "a source that is not there": {"Knows": edges([*NAMES, "nobody"], [*NAMES, "p001"])},
    "a target that is not there": {"Knows": edges([*NAMES, "p001"], [*NAMES, "nobody"])},
    "a node of another type": {
        "Place": pa.table({"name": ["x"]}),
        "Knows": edges([*NAMES, "p001"], [*NAMES, "x"]),
    },
    "nodes without their key": {"Person": pa.table({"age": [1]}), "Knows": edges(NAMES, NAMES)},
    "nodes with a key of another kind": {
        "Person": pa.table({"name": [[1], [2]]}),
        "Knows": edges(NAMES, NAMES),
    },
    "a key twice, far apart": {"Person": people([*NAMES, "p001"])},
    "a key twice, side by side": {"Person": people([*NAMES, "p059"])},
    "an id twice": {"Knows": edges(NAMES, NAMES, id=["a", *"b" * 59])},
}


def outcome(graph: Graph, wrong: str, mode: "Mode") -> Any:
    try:
        return graph.load({"Person": people()} | WRONG[wrong], mode=mode, spark=False).tables
    except OmniError as error:
        return FRESH.sub("fresh", repr((str(error), error.details)))


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_glance_doubts_is_told_as_ever(
    tmp_path: Path, graph: Graph, wrong: str, mode: "Mode"
) -> None:
    with omnigraphdb.init(tmp_path / "memory", SCHEMA) as memory:
        assert outcome(graph, wrong, mode) == outcome(memory, wrong, mode)


def choose_shuffle(*given: Any) -> RunnerChoice:
    return replace(choose_by_size(*given), held_ids_max=0)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("wrong", [one for one in WRONG if "not there" in one or "twice" in one])
def test_what_a_shuffle_finds_is_told_as_ever(
    tmp_path: Path, graph: Graph, wrong: str, mode: "Mode", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraphdb.api.loading.choose_by_size", choose_shuffle)
    with omnigraphdb.init(tmp_path / "memory", SCHEMA) as memory:
        assert outcome(graph, wrong, mode) == outcome(memory, wrong, mode)


@dataclass
class CountingRunner:
    """Counts the rows of a shuffle by table and role, and leaves the work to another runner."""

    inner: Runner
    rows: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)
    engine = "local"
    workers = 1

    def run(self, step: Step) -> pa.Table:
        self.steps.append(step.name)
        return self.inner.run(
            replace(step, keys=partial(self._count, step.keys))
            if isinstance(step, Shuffle)
            else step
        )

    def _count(self, keys: Any, split: Any) -> Iterator[tuple[str, pa.Table]]:
        for side, rows in keys(split):
            self.rows[side] += rows.num_rows
            yield side, rows


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_hub_is_shuffled_once_for_each_split_however_many_edges_name_it(
    graph: Graph, mode: "Mode", monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = CountingRunner(LocalRunner(1))
    monkeypatch.setattr(
        "omnigraphdb.api.loading.choose_by_size",
        lambda *given: replace(choose_shuffle(*given), runner=counting),
    )
    hub = edges(["p000"] * 3000, [NAMES[i % 60] for i in range(3000)])
    graph.load({"Person": people(), "Knows": hub}, mode=mode, spark=False)
    splits = 3000 * 2 * 9 // STEPS["split_bytes"]
    assert 1 < counting.rows["incoming|edge:Knows|src|0"] <= splits
    with pytest.raises(ReferentialError, match="'nobody' not found"):
        graph.load({"Knows": edges(["p000"] * 60, [*NAMES[1:], "nobody"])}, mode=mode, spark=False)
    # Whole rows come only in the join that says which edges miss a node.
    assert counting.steps.count("decide") == (3 if mode == "append" else 4)


def test_ids_in_no_order_past_the_bound_of_one_task_are_shuffled(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "omnigraphdb.api.loading.choose_by_size",
        lambda *given: replace(choose_by_size(*given), one_task_ids_max=59),
    )
    with pytest.raises(ConstraintError, match="'p007' is in record 53 and in record 61"):
        graph.load({"Person": people([*NAMES[::-1], "p007"])}, mode="append", spark=False)
    assert phases(graph, {"Person": people(NAMES[::-1])}) == ["check", "decide", "stage"]
    assert phases(graph, {"Person": people([f"q{n}" for n in range(10, 60)])}) == [
        "check",
        "meet",
        "stage",
    ]


@pytest.fixture
def brought(graph: Graph) -> Iterator[CheckedLoad]:
    """Edges and people that were read and found right by themselves."""
    graph.load({"Person": people()}, mode="append", spark=False)
    engine = graph._engine
    contract = engine.contracts.current().contract
    order = LoadRequest(
        kind=DeltaKind.APPEND,
        contract=contract,
        header=mint_header(engine.runtime, WriterKind.LOAD, CommitKind.LOAD, ANONYMOUS),
    )
    source = {"Person": people(["late"]), "Knows": edges(NAMES, NAMES[::-1])}
    with check_load(engine, identify_source(source, contract.catalog), order) as (found, choice):
        assert choice.runner is not None
        yield found


def test_another_attempt_sees_that_a_node_went(graph: Graph, brought: CheckedLoad) -> None:
    brought.require_fit(graph._engine.view(MAIN))
    graph.mutate('query q() { delete Person where name = "p007" }')
    with pytest.raises(ReferentialError, match="p007"):
        brought.require_fit(graph._engine.view(MAIN))


def test_another_attempt_sees_that_an_id_came(graph: Graph, brought: CheckedLoad) -> None:
    brought.require_fit(graph._engine.view(MAIN))
    graph.mutate('query q() { insert Person { name: "late" } }')
    with pytest.raises(KeyConflict, match="late"):
        brought.require_fit(graph._engine.view(MAIN))
