"""Ways of going about a read, and graphs laid out for it: whichever is taken, the rows are the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from omnigraphdb.engine.cached.traversal import Mode, Traversal
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.graph import reach, topology
from omnigraphdb.engine.read.operators import expand, join, scan, sort
from tests.support.plan_fixtures import harbour
from tests.support.query_model import ModelGraph
from tests.support.read_world import World
from tests.support.table_states import TableState, lay_out_rows

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
