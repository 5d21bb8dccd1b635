"""Clocks that step back, and machines whose clocks differ: history is dated forward, whatever they say."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import init_graph, open_graph
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import RECOVERY_ACTOR
from omnigraphdb.language.source import Source
from omnigraphdb.runtime import SYSTEM
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key } node City { name: String @key }"
DAY = timedelta(days=1)


@dataclass
class Clock:
    """The clock of this machine, wrong by so much."""

    off: timedelta = field(default_factory=timedelta)

    def now_us(self) -> int:
        return SYSTEM.now_us() + self.off // timedelta(microseconds=1)

    def monotonic(self) -> float:
        return SYSTEM.monotonic()

    def new_id(self) -> str:
        return SYSTEM.new_id()

    def wait(self, seconds: float) -> None:
        SYSTEM.wait(seconds)

    def jitter(self, seconds: float) -> float:
        return SYSTEM.jitter(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def graph(tmp_path: Path, clock: Clock) -> Iterator[Graph]:
    engine = init_graph(str(tmp_path / "g"), Source(SCHEMA, "schema.pg"), runtime=clock)
    with Graph(engine) as opened:
        yield opened


def add(graph: Graph, type_: str, name: str, branch: str = "main") -> None:
    graph.mutate(f'query m() {{ insert {type_} {{ name: "{name}" }} }}', branch=branch)


def names(graph: Graph, **at: object) -> list[str]:
    return sorted(graph.table("Person", **at)["name"].to_pylist())  # type: ignore[arg-type]


def assert_dated(graph: Graph) -> None:
    """No commit is older than its parents."""
    known = {c.id: c for b in graph.branches() for c in graph.commits(branch=b.name)}
    for commit in known.values():
        for parent in filter(None, (commit.parent, commit.merged_parent)):
            assert commit.created_at >= known[parent].created_at


def test_a_moment_shows_what_was_there_then_when_the_clock_went_back(
    graph: Graph, clock: Clock
) -> None:
    add(graph, "Person", "long ago")
    clock.off = 2 * DAY
    today = datetime.now(UTC) + 2 * DAY
    add(graph, "Person", "today")
    clock.off = timedelta()
    add(graph, "Person", "later, by a slow clock")
    assert names(graph, at=today - DAY) == ["long ago"]
    assert len(names(graph, at=today + DAY)) == 3
    assert_dated(graph)


@pytest.mark.parametrize("other", ["Person", "City"])
def test_cleanup_keeps_what_was_replaced_a_moment_ago_by_a_slow_clock(
    graph: Graph, clock: Clock, other: str
) -> None:
    """The table was last written by the right clock (Person), or only another one was (City)."""
    add(graph, "Person", "before")
    clock.off = 2 * DAY
    add(graph, other, "today")
    seen = graph.commits()[0].id
    clock.off = timedelta()
    add(graph, "Person", "later, by a slow clock")
    clock.off = 2 * DAY
    report = graph.cleanup(older_than=DAY / 2, confirm=True)
    assert [one.error for one in report.tables] == [None, None]
    graph._engine.cache.clear()
    assert "before" in names(graph, at=seen)
    assert_settled(graph)


def test_cleanup_still_removes_what_was_replaced_long_ago(graph: Graph, clock: Clock) -> None:
    add(graph, "Person", "before")
    seen = graph.commits()[0].id
    add(graph, "Person", "long ago")
    clock.off = 2 * DAY
    add(graph, "Person", "today")
    graph.cleanup(older_than=DAY / 2, confirm=True)
    graph._engine.cache.clear()
    with pytest.raises(omnigraphdb.OmniError, match="cleanup"):
        names(graph, at=seen)
    assert names(graph, at=graph.commits()[1].id) == ["before", "long ago"]


def test_a_merge_is_not_older_than_the_branch_it_brings(graph: Graph, clock: Clock) -> None:
    add(graph, "Person", "shared")
    graph.branch_create("side")
    clock.off = DAY
    add(graph, "Person", "fast", "side")
    clock.off = timedelta()
    add(graph, "Person", "slow")
    graph.merge("side")
    assert_dated(graph)


@pytest.mark.parametrize(
    "point", [Failpoint.MERGE_ARMED, Failpoint.MERGE_EFFECTS_DONE, Failpoint.MERGE_CONFIRMED]
)
def test_a_recovery_is_not_older_than_what_it_settles(
    graph: Graph, clock: Clock, point: Failpoint
) -> None:
    add(graph, "Person", "shared")
    graph.branch_create("side")
    clock.off = DAY
    add(graph, "Person", "fast", "side")
    clock.off = timedelta()
    add(graph, "Person", "slow")
    with armed(point), pytest.raises(omnigraphdb.OmniError):
        graph.merge("side")
    clock.off = -DAY
    with Graph(open_graph(graph.uri, runtime=clock)) as again:
        assert again.commits()[0].actor == RECOVERY_ACTOR
        assert_dated(again)
        assert_settled(again)
