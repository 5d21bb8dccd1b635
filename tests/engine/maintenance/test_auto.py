"""Automatic maintenance: many small writes leave few fragments, and a write never pays with its success."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.engine.maintenance.auto import maintain_touched
from omnigraphdb.engine.session.settings import settings_of
from omnigraphdb.errors import ConfigError, OmniWarning
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN
from omnigraphdb.limits import AUTO_COMPACT_ROWS_MAX, INDEX_ROWS_MIN, SMALL_FRAGMENTS_MAX
from tests.support.maintenance import (
    ADD,
    FIND,
    GONE,
    OLDER,
    PERSON,
    content,
    fragments,
    made,
    states,
)

SCHEMA = "node Person { name: String @key  age: I32? @index  note: String? }"
MANY = 3 * SMALL_FRAGMENTS_MAX


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = omnigraphdb.init(tmp_path / "g", SCHEMA)
    yield opened
    assert opened.doctor() == []
    opened.close()


def write(graph: Graph, count: int, start: int = 0, branch: str = "main") -> None:
    for number in range(start, start + count):
        graph.mutate(ADD, {"name": f"p{number}", "age": number}, branch=branch)


def test_many_small_writes_leave_few_fragments(graph: Graph) -> None:
    write(graph, MANY)
    assert len(fragments(graph)) <= SMALL_FRAGMENTS_MAX + 2
    assert graph.table("Person").num_rows == MANY


def test_it_is_no_history(graph: Graph) -> None:
    write(graph, MANY)
    commits = graph.commits()
    assert {str(commit.kind) for commit in commits} == {"init", "mutation"}
    assert len(commits) == 1 + MANY


def test_every_commit_in_between_reads_its_own_rows(graph: Graph) -> None:
    write(graph, MANY)
    for number, commit in enumerate(reversed(graph.commits())):
        assert graph.table("Person", at=commit.id).num_rows == number


def test_updates_and_deletes_survive_it(graph: Graph) -> None:
    write(graph, MANY)
    for number in range(0, MANY, 3):
        graph.mutate(OLDER, {"name": f"p{number}", "age": -number})
    for number in range(1, MANY, 3):
        graph.mutate(GONE, {"name": f"p{number}"})
    rows = {row["id"]: row["age"] for row in content(graph)[PERSON]}
    assert rows == {f"p{n}": -n if n % 3 == 0 else n for n in range(MANY) if n % 3 != 1}
    assert len(fragments(graph)) <= 2 * SMALL_FRAGMENTS_MAX


def test_the_writer_goes_on_knowing_its_ids(graph: Graph) -> None:
    write(graph, MANY)
    again = graph.mutate(ADD, {"name": "p0", "age": 99})
    assert again.affected_nodes == 1
    assert graph.table("Person").num_rows == MANY
    assert graph.query(FIND, {"name": "p0"}).rows == [{"p.name": "p0", "p.age": 99}]


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"}) as graph:
        write(graph, MANY)
        assert len(fragments(graph)) == MANY
    with pytest.raises(ConfigError, match="auto, off"):
        omnigraphdb.open(tmp_path / "g", config={"maintenance": "sometimes"})


def test_the_deprecated_name_of_the_setting_works_and_warns() -> None:
    with pytest.warns(OmniWarning, match="setting 'upkeep' is deprecated; use 'maintenance'"):
        assert settings_of({"upkeep": "off"}).maintenance == "off"
    with pytest.warns(OmniWarning, match="deprecated"):
        assert settings_of({"upkeep": "off", "maintenance": "auto"}).maintenance == "auto"


def test_the_deprecated_variable_works_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "off")
    with pytest.warns(OmniWarning, match="OMNIGRAPH_UPKEEP is deprecated"):
        assert settings_of(None).maintenance == "off"
    assert settings_of({"maintenance": "auto"}).maintenance == "auto"
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE", "auto")
    assert settings_of(None).maintenance == "auto"


@pytest.mark.parametrize(
    "at", [Failpoint.OPTIMIZE_ARMED, Failpoint.OPTIMIZE_COMPACTED, Failpoint.OPTIMIZE_COMMITTED]
)
def test_a_write_succeeds_though_its_maintenance_fails(graph: Graph, at: Failpoint) -> None:
    with armed(at, "1*error"):
        write(graph, SMALL_FRAGMENTS_MAX + 4)
    assert graph.table("Person").num_rows == SMALL_FRAGMENTS_MAX + 4
    write(graph, MANY, start=100)
    assert len(fragments(graph)) <= SMALL_FRAGMENTS_MAX + 2
    assert graph.pending_recoveries() == []


def test_a_table_somebody_else_writes_is_left_for_later(tmp_path: Path) -> None:
    with made(tmp_path / "g", config={"maintenance": "off"}) as graph:
        write(graph, MANY, start=100)
    with omnigraphdb.open(tmp_path / "g") as later:
        later.query(FIND, {"name": "p1"})
        before = fragments(later)
        with later._engine.committer.locks.acquire([lock_key(PERSON, None)]):
            maintain_touched(later._engine, MAIN, [PERSON])
        assert fragments(later) == before
        maintain_touched(later._engine, MAIN, [PERSON])
        assert len(fragments(later)) < len(before)


def test_a_branch_looks_after_its_own_tables_only(graph: Graph) -> None:
    write(graph, 4)
    graph.branch_create("review")
    write(graph, MANY, start=100, branch="review")
    assert len(fragments(graph, branch="review")) <= SMALL_FRAGMENTS_MAX + 2
    assert len(fragments(graph)) == 4
    assert graph.table("Person", branch="review").num_rows == MANY + 4


def test_full_fragments_are_not_rewritten(graph: Graph) -> None:
    rows = [{"type": "Person", "data": {"name": f"b{i}"}} for i in range(AUTO_COMPACT_ROWS_MAX)]
    graph.load(rows, mode="append")
    (large,) = fragments(graph)
    write(graph, MANY)
    assert large in fragments(graph)
    assert states(graph)["node:Person.age"] == "partial"


def test_a_table_that_grew_by_small_writes_gets_its_indexes(graph: Graph) -> None:
    step = INDEX_ROWS_MIN // SMALL_FRAGMENTS_MAX
    batch = "query some(" + ", ".join(f"$n{i}: String" for i in range(step)) + ") { "
    batch += " ".join(f"insert Person {{ name: $n{i} }}" for i in range(step)) + " }"
    for number in range(SMALL_FRAGMENTS_MAX + 3):
        graph.mutate(batch, {f"n{i}": f"x{number}-{i}" for i in range(step)})
    assert {"ready", "partial"} >= set(states(graph).values())


def test_a_handle_that_comes_later_looks_after_what_it_finds(tmp_path: Path) -> None:
    with made(tmp_path / "g", config={"maintenance": "off"}) as graph:
        write(graph, MANY, start=100)
    with omnigraphdb.open(tmp_path / "g") as later:
        write(later, 1, start=900)
        assert len(fragments(later)) <= 2
        assert later.doctor() == []
