"""Reading gives the rows a query means: on any graph, in any layout, whichever way it goes about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from omnigraph.compile.check import check_read
from omnigraph.compile.checked import CheckedRead
from omnigraph.compile.rules import fill
from omnigraph.engine.cached.cache import ByteCache
from omnigraph.engine.cached.traversal import Mode, Traversal
from omnigraph.engine.read import costs
from omnigraph.engine.read.graph import reach, topology
from omnigraph.engine.read.operators import expand, join, scan, sort
from omnigraph.engine.read.run import run, run_batches
from omnigraph.errors import QueryError
from omnigraph.language.source import Source
from tests.support.plan_fixtures import PlanCase, cases, harbour
from tests.support.query_model import NOW, ModelGraph, meaning
from tests.support.random_reads import read_texts, staged_texts
from tests.support.read_world import INSTANT, World, plan_of, table_rows
from tests.support.table_states import TableState, lay_out_rows
from tests.unit.compile.test_rules_meaning import graphs, parameter, same

RELEVANCE = {"bm25", "rrf", "rrf_page", "rrf_short"}
"""The model's relevance is a plain count; `test_search` has one of its own."""

AUTO = Traversal()


@dataclass(frozen=True)
class Way:
    """One way of going about a read."""

    name: str
    traversal: Traversal = AUTO
    cache_bytes: int = 1 << 26
    indexed: bool = False
    thrifty: bool = False
    small: bool = False
    follows: bool = False


WAYS = (
    Way("plain"),
    Way("csr with indexes", Traversal(mode=Mode.CSR), indexed=True),
    Way("indexed hops", Traversal(mode=Mode.INDEXED), indexed=True),
    Way("indexed hops without an index", Traversal(mode=Mode.INDEXED)),
    Way("nothing fits in memory", cache_bytes=0),
    Way("memory is dear", thrifty=True, indexed=True),
    Way("a few rows at a time", small=True),
    Way("held from version to version", follows=True),
    Way("a few rows at a time, memory is dear", thrifty=True, small=True, indexed=True),
)


@contextmanager
def tuned(way: Way) -> Iterator[None]:
    """Change what things are said to cost and how many rows are in flight."""
    patch = pytest.MonkeyPatch()
    if way.thrifty:
        for name in ("SCANNED_ROW", "SCANNED_NUMBER", "KEY_ROW", "EDGE_ROW", "TEXT_ROW"):
            patch.setattr(costs, name, 1e9)
    if way.follows:
        # However much changed, what is held is changed rather than made anew.
        patch.setattr(topology, "_PATCH_PART", 0)
    if way.small:
        for module in (scan, expand, join):
            patch.setattr(module, "MORSEL_ROWS", 2)
        patch.setattr(expand, "_MERGE_ROWS", 1)
        patch.setattr(reach, "REACH_CELLS", 3)
        patch.setattr(sort, "_SELECT_PART", 0)
    try:
        yield
    finally:
        patch.undo()


@st.composite
def worlds(draw: st.DrawFn, graph: ModelGraph, state: TableState) -> World:
    """A graph as tables, in a place."""
    world = World.of(harbour())
    lay_out_rows(draw, world, {**graph.nodes, **graph.edges}, state)
    return world


def check(
    read: CheckedRead, world: World, params: dict[str, Any], expected: list[Any], way: Way
) -> None:
    """Run a query cold, warm and streamed; the rows must be those of the model."""
    plan = plan_of(read, harbour())
    world.cache = ByteCache(way.cache_bytes)
    with tuned(way):
        if way.follows:
            now = world.at
            for earlier in world.before:
                world.at = earlier
                run(world.reader(plan, params))
            world.at = now
        for round in ("cold", "warm"):
            reader = world.reader(plan, params, traversal=way.traversal)
            assert same(read, table_rows(run(reader)), expected), f"{way.name}, {round}"
        streamed = run_batches(world.reader(plan, params, traversal=way.traversal), 2)
        assert same(read, table_rows(streamed.read_all()), expected), f"{way.name}, streamed"
        filled = run(world.reader(fill(plan, params, INSTANT)))
        assert same(read, table_rows(filled), expected), f"{way.name}, filled"


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.name not in RELEVANCE], ids=lambda case: case.name
)
@settings(max_examples=6)
@given(data=st.data())
def test_every_query_gives_the_rows_it_means(case: PlanCase, data: st.DataObject) -> None:
    read, graph = case.read, data.draw(graphs())
    params = {one.name: data.draw(parameter(one.type)) for one in read.params.values()}
    expected = meaning(read, graph, params | {NOW: INSTANT})
    way = data.draw(st.sampled_from(WAYS))
    world = data.draw(worlds(graph, data.draw(st.sampled_from(TableState))))
    try:
        check(read, world, params, expected, way)
    finally:
        world.close()


@pytest.mark.parametrize("state", TableState)
@settings(max_examples=8)
@given(data=st.data())
def test_queries_nobody_chose_give_the_rows_they_mean_wherever_they_are_read(
    state: TableState, data: st.DataObject
) -> None:
    read, graph = data.draw(random_reads()), data.draw(graphs(least=2))
    way = data.draw(st.sampled_from(WAYS))
    event(way.name)
    world = data.draw(worlds(graph, state))
    try:
        check(read, world, {}, meaning(read, graph, {NOW: INSTANT}), way)
    finally:
        world.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@settings(max_examples=6)
@given(data=st.data())
def test_queries_nobody_chose_give_the_rows_they_mean_whichever_way_is_taken(
    way: Way, data: st.DataObject
) -> None:
    read, graph = data.draw(random_reads()), data.draw(graphs(least=2))
    state = TableState.INDEXED if way.indexed else data.draw(st.sampled_from(TableState))
    event(state)
    world = data.draw(worlds(graph, state))
    try:
        check(read, world, {}, meaning(read, graph, {NOW: INSTANT}), way)
    finally:
        world.close()


ENDS = {name: (one.source, one.target) for name, one in harbour().edges.items()}


@settings(max_examples=20)
@given(data=st.data())
def test_stages_unions_and_any_edges_give_the_rows_they_mean(data: st.DataObject) -> None:
    read, graph = data.draw(staged_reads()), data.draw(graphs(least=2))
    graph = replace(graph, ends=ENDS)
    way = data.draw(st.sampled_from(WAYS))
    world = data.draw(worlds(graph, data.draw(st.sampled_from(TableState))))
    try:
        check(read, world, {}, meaning(read, graph, {NOW: INSTANT}), way)
    finally:
        world.close()


READS_PER_WORLD = 12
"""Laying out a graph takes as long as some dozens of reads; many more reads than these are no single example any more."""


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(max_examples=1_500)
@given(data=st.data())
def test_thousands_of_queries_give_the_rows_they_mean(data: st.DataObject) -> None:
    graph = replace(data.draw(graphs(least=2)), ends=ENDS)
    world = data.draw(worlds(graph, data.draw(st.sampled_from(TableState))))
    try:
        for _ in range(READS_PER_WORLD):
            read = data.draw(st.one_of(random_reads(), staged_reads()))
            way = data.draw(st.sampled_from(WAYS))
            check(read, world, {}, meaning(read, graph, {NOW: INSTANT}), way)
    finally:
        world.close()


@st.composite
def staged_reads(draw: st.DrawFn) -> CheckedRead:
    """A read of several stages that the checker accepts."""
    try:
        return check_read(Source(draw(staged_texts())), harbour())
    except QueryError:
        reject()


@st.composite
def random_reads(draw: st.DrawFn) -> CheckedRead:
    """A query nobody chose; the checker has its own tests, here only what it accepts matters."""
    try:
        return check_read(Source(draw(read_texts())), harbour())
    except QueryError:
        reject()
