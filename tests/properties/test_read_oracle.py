"""Reading gives the rows a query means: on any graph, in any layout, whichever way it goes about it."""

from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from omnigraphdb.compile.check import check_read
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.rules import fill
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.run import run, run_batches
from omnigraphdb.errors import QueryError
from omnigraphdb.language.source import Source
from tests.support.plan_fixtures import PlanCase, cases, harbour
from tests.support.query_model import NOW, meaning
from tests.support.random_reads import arguments, read_texts, staged_texts
from tests.support.read_ways import WAYS, Way, tuned, worlds
from tests.support.read_world import INSTANT, World, plan_of, table_rows
from tests.support.table_states import TableState
from tests.unit.compile.test_rules_meaning import graphs, parameter, same

RELEVANCE = {"bm25", "rrf", "rrf_page", "rrf_short"}
"""The model's relevance is a plain count; `test_search` has one of its own."""


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
    params = data.draw(arguments)
    way = data.draw(st.sampled_from(WAYS))
    event(way.name)
    world = data.draw(worlds(graph, state))
    try:
        check(read, world, params, meaning(read, graph, params | {NOW: INSTANT}), way)
    finally:
        world.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@settings(max_examples=6)
@given(data=st.data())
def test_queries_nobody_chose_give_the_rows_they_mean_whichever_way_is_taken(
    way: Way, data: st.DataObject
) -> None:
    read, graph = data.draw(random_reads()), data.draw(graphs(least=2))
    params = data.draw(arguments)
    state = TableState.INDEXED if way.indexed else data.draw(st.sampled_from(TableState))
    event(state)
    world = data.draw(worlds(graph, state))
    try:
        check(read, world, params, meaning(read, graph, params | {NOW: INSTANT}), way)
    finally:
        world.close()


@settings(max_examples=20)
@given(data=st.data())
def test_stages_unions_and_any_edges_give_the_rows_they_mean(data: st.DataObject) -> None:
    read, graph = data.draw(staged_reads()), data.draw(graphs(least=2))
    params = data.draw(arguments)
    way = data.draw(st.sampled_from(WAYS))
    world = data.draw(worlds(graph, data.draw(st.sampled_from(TableState))))
    try:
        check(read, world, params, meaning(read, graph, params | {NOW: INSTANT}), way)
    finally:
        world.close()


READS_PER_WORLD = 12
"""Laying out a graph takes as long as some dozens of reads; many more reads than these are no single example any more."""


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(max_examples=1_500)
@given(data=st.data())
def test_thousands_of_queries_give_the_rows_they_mean(data: st.DataObject) -> None:
    graph = data.draw(graphs(least=2))
    world = data.draw(worlds(graph, data.draw(st.sampled_from(TableState))))
    try:
        for _ in range(READS_PER_WORLD):
            read = data.draw(st.one_of(random_reads(), staged_reads()))
            params = data.draw(arguments)
            way = data.draw(st.sampled_from(WAYS))
            check(read, world, params, meaning(read, graph, params | {NOW: INSTANT}), way)
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
