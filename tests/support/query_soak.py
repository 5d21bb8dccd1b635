"""One query after another, asked of the naive evaluator, of the engine in some layout, and of a server."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.query_results import QueryResult
from omnigraphdb.catalog.model import TableType
from omnigraphdb.compile.check import check_read
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.rules import fill
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.run import run, run_batches
from omnigraphdb.errors import OmniError
from omnigraphdb.language.source import Source
from omnigraphdb.remote.graph import RemoteGraph
from tests.support.drawn import Draw, draw_by
from tests.support.plan_fixtures import FOLDER, harbour
from tests.support.query_model import NOW, ModelGraph, Values, meaning
from tests.support.random_reads import arguments, read_texts, staged_texts
from tests.support.read_ways import WAYS, Way, tuned, worlds
from tests.support.read_world import INSTANT, World, arrow_rows, plan_of, table_rows
from tests.support.served import serving
from tests.support.table_states import TableState
from tests.unit.compile.test_rules_meaning import exact, graphs, same

QUERIES_PER_GRAPH = 100
"""Laying out a graph and loading it takes as long as some dozens of queries."""
UNLOADED = frozenset({"Berth"})
"""Types whose ids are not those of the model, because the key makes them; no random query asks for one."""
AFTER_ALL = datetime(2100, 1, 1, tzinfo=UTC)
"""For `now()` of a server: later than every instant of a graph, which is only compared with it."""

T = TypeVar("T")
Params = Mapping[str, Any]

sizes = st.sampled_from([(0, 0), (2, 0), (2, 0), (3, 0), (4, 0), (5, 4)])
"""The fewest of every type and how many names there are beside the usual ones."""
texts = st.one_of(read_texts(), staged_texts())
ways = st.sampled_from((*[way for way in WAYS if not way.follows] * 4, *WAYS))
"""What follows every version reads each of them, so that it comes rarely."""
rarely = st.integers(0, 7).map(lambda number: number == 0)
forms = st.sampled_from(("cold", "warm", "warm", "streamed", "filled"))
"""Ways to run a plan: with nothing in memory, with what earlier queries left there, batch by batch, with its arguments in it."""


@dataclass
class Tally:
    """Counts of what was asked."""

    asked: int = 0
    answered: int = 0
    """Queries that gave rows."""
    rows: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Queries that the checker refused, by code."""


@dataclass(frozen=True)
class Served:
    """A graph on a server, which holds one model graph after another."""

    home: omnigraphdb.Graph
    remote: RemoteGraph

    def hold(self, graph: ModelGraph) -> None:
        """Load a model graph in place of the one before."""
        rows = {**graph.nodes, **graph.edges}
        types: dict[str, TableType] = {**harbour().nodes, **harbour().edges}
        tables = {
            name: arrow_rows(kind, rows.get(name, ()))
            for name, kind in types.items()
            if name not in UNLOADED
        }
        self.home.load(tables, mode="overwrite")


@contextmanager
def served(place: Path) -> Iterator[Served]:
    """A server for an empty graph of the harbour, on loopback."""
    schema = (FOLDER / "harbour.pg").read_text()
    with (
        omnigraphdb.init(place / "g", schema) as home,
        serving(str(place / "g"), "--unauthenticated", log=place / "log") as server,
        omnigraphdb.connect(server.url) as remote,
    ):
        yield Served(home, remote)


Refusal = tuple[str, ...]
"""The class, kind and code of an error."""


def try_read(ask: Callable[[], T]) -> T | Refusal:
    """The rows or the refusal; every other exception is a fault, and goes on."""
    try:
        return ask()
    except OmniError as error:
        return type(error).__name__, error.kind, str(error.code)


def run_in(world: World, way: Way, form: str, read: CheckedRead, params: Params) -> pa.Table:
    """Run a query in one way."""
    plan = plan_of(read, harbour())
    if form == "cold" or way.cache_bytes != world.cache.bytes_max:
        world.cache = ByteCache(way.cache_bytes)
    with tuned(way):
        if way.follows:
            now = world.at
            for earlier in world.before:
                world.at = earlier
                run(world.reader(plan, params))
            world.at = now
        if form == "filled":
            return run(world.reader(fill(plan, params, INSTANT), traversal=way.traversal))
        reader = world.reader(plan, params, traversal=way.traversal)
        return run_batches(reader, 2).read_all() if form == "streamed" else run(reader)


@dataclass
class Soak:
    """Asks queries of one seed; `served` may be left out."""

    seed: int
    served: Served | None = None
    tally: Tally = field(default_factory=Tally)

    def ask(self, queries: int) -> Tally:
        """Ask so many queries, in one graph after another."""
        for number in range(queries):
            if number % QUERIES_PER_GRAPH == 0:
                graph_seed = f"{self.seed}.{number // QUERIES_PER_GRAPH}"
                draw = draw_by(random.Random(graph_seed))
                graph = draw(sizes.flatmap(lambda size: graphs(*size)))
                world = draw(st.sampled_from(TableState).flatmap(partial(worlds, graph)))
                if self.served is not None:
                    self.served.hold(graph)
            place = f"{self.seed}.{number}"
            draw = draw_by(random.Random(place))
            text, params = draw(texts), draw(arguments)
            try:
                self._ask_one(text, params, graph, world, draw)
            except Exception as error:
                shown = f"part {place}, in {graph_seed}\n{text}\n{params}\n{graph}"
                raise AssertionError(f"{type(error).__name__}: {error}\n{shown}") from error
            if (number + 1) % QUERIES_PER_GRAPH == 0 or number + 1 == queries:
                world.close()
        return self.tally

    def _ask_one(
        self, text: str, params: Params, graph: ModelGraph, world: World, draw: Draw
    ) -> None:
        self.tally.asked += 1
        try:
            read = check_read(Source(text), harbour())
        except OmniError as error:
            self.tally.refused[str(error.code)] += 1
            refusal = type(error).__name__, error.kind, str(error.code), str(error)
            if self.served is not None:
                assert self._ask_server_refusal(text, params) == refusal
            return
        known = {**params, NOW: INSTANT}
        expected = meaning(read, graph, known)
        way, form = draw(ways), draw(forms)
        here = try_read(lambda: run_in(world, way, form, read, params))
        self._compare(f"{way.name}, {form}", read, here, expected, graph, known)
        if self.served is None:
            return
        if "now()" in text:
            known = {**params, NOW: AFTER_ALL}
            expected = meaning(read, graph, known)
        there = self.served
        remote = try_read(lambda: there.remote.query(text, dict(params)))
        found = remote.to_arrow() if isinstance(remote, QueryResult) else remote
        self._compare("server", read, found, expected, graph, known)
        assert isinstance(remote, QueryResult)
        if not draw(rarely):
            return
        home = there.home.query(text, dict(params))
        assert remote.to_arrow().schema == home.to_arrow().schema
        assert Counter(map(repr, remote.rows)) == Counter(map(repr, home.rows))

    def _ask_server_refusal(self, text: str, params: Params) -> tuple[str, ...]:
        assert self.served is not None
        try:
            self.served.remote.query(text, dict(params))
        except OmniError as error:
            return type(error).__name__, error.kind, str(error.code), str(error)
        return ()

    def _compare(
        self,
        where: str,
        read: CheckedRead,
        outcome: pa.Table | Refusal,
        expected: list[Values],
        graph: ModelGraph,
        known: Params,
    ) -> None:
        """Compare the rows with those that are expected; `known` are the parameters and the time."""
        assert isinstance(outcome, pa.Table), f"{where}: {outcome}, expected {expected}"
        actual = table_rows(outcome)
        self.tally.answered += bool(actual)
        self.tally.rows += len(actual)
        assert same(read, actual, expected), f"{where}: {actual}, expected {expected}"
        if (read.limit or read.offset) and not read.order and not read.is_aggregate:
            whole = replace(read, limit=None, offset=None)
            every = meaning(whole, graph, known)
            assert not Counter(map(exact, actual)) - Counter(map(exact, every)), where
