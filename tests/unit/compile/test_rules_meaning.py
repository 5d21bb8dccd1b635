"""Lowering and every rule keep the meaning of a query, on graphs nobody chose."""

import math
from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.rules import fill
from tests.support.plan_fixtures import PlanCase, cases, harbour, stages_of
from tests.support.plan_model import execute
from tests.support.query_model import NOW, ModelGraph, Values, freeze, meaning

INSTANT = datetime(2026, 2, 1, tzinfo=UTC)
PORTS = ("NLRTM", "BEANR", "DEHAM", "A")
VESSELS = ("9100001", "9100002", "9100003")
COMPANIES = ("North", "South")
ENDS = {name: (one.source, one.target) for name, one in harbour().edges.items()}

words = st.sampled_from(
    ["aster", "Aster II", "storm aster", "NLRTM", "Hamburg", "Antwerp", "NL", ""]
)
small = st.integers(-1, 12)
halves = st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, 51.5])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


vessels = st.fixed_dictionaries(
    {
        "name": words,
        "kind": st.sampled_from(["tanker", "bulk", "roro"]),
        "built": maybe(st.sampled_from([date(2010, 5, 1), date(2018, 3, 15)])),
        "dwt": maybe(st.sampled_from([-1, 0, 1, 2, 3, 5, 7, 11, 80000])),
        "crew": st.integers(0, 8),
        "draft": maybe(st.sampled_from([0.0, 0.10000000149011612, 0.25])),
        "tags": maybe(st.lists(st.sampled_from(["ice", "lng"]), max_size=2).map(tuple)),
        "marks": maybe(st.lists(halves, max_size=2).map(tuple)),
        "seen": maybe(st.sampled_from([INSTANT, datetime(2025, 1, 1, tzinfo=UTC)])),
        "log": maybe(words),
        "sig": maybe(st.tuples(halves, halves)),
        "active": maybe(st.booleans()),
    }
)
ports = st.fixed_dictionaries({"name": words, "lat": maybe(halves), "depth": small})
companies = st.fixed_dictionaries({"country": maybe(words)})
calls = st.fixed_dictionaries({"eta": st.none(), "berth": maybe(st.sampled_from(["A1", "B2"]))})


def nodes(
    ids: tuple[str, ...], key: str, values: st.SearchStrategy[Any], least: int = 0
) -> st.SearchStrategy[Any]:
    def entities(chosen: list[str]) -> st.SearchStrategy[Any]:
        return st.lists(values, min_size=len(chosen), max_size=len(chosen)).map(
            lambda rows: tuple(
                {"id": one, key: one} | row for one, row in zip(chosen, rows, strict=True)
            )
        )

    some = st.lists(st.sampled_from(ids), unique=True, min_size=min(least, len(ids)))
    return some.flatmap(entities)


def edges(
    sources: Any, targets: Any, values: st.SearchStrategy[Any], prefix: str, least: int = 0
) -> st.SearchStrategy[Any]:
    if not sources or not targets:
        return st.just(())
    ends = st.tuples(st.sampled_from(sources), st.sampled_from(targets), values)
    return st.lists(ends, min_size=least, max_size=6).map(
        lambda found: tuple(
            {"id": f"{prefix}{9 - number}", "src": source["id"], "dst": target["id"]} | row
            for number, (source, target, row) in enumerate(found)
        )
    )


@st.composite
def graphs(draw: st.DrawFn, least: int = 0, more: int = 0) -> ModelGraph:
    """Small graphs of the harbour schema, with parallel edges, loops and NULLs.

    There are at least `least` of every main type, as far as the names go, of which there may be `more`.
    """
    further = tuple(f"N{number}" for number in range(more))
    boats = draw(nodes((*VESSELS, *further), "imo", vessels, least))
    harbours = draw(nodes((*PORTS, *further), "code", ports, least))
    owners = _unlike(draw(nodes((*COMPANIES, *further), "name", companies, least)))
    notes = draw(nodes(("n1", "n2"), "id", st.fixed_dictionaries({"text": words})))
    berths = draw(nodes(("b1",), "id", st.just({"port": "NLRTM", "number": 3, "length": None})))
    weights = st.fixed_dictionaries({"weight": maybe(small)})
    return ModelGraph(
        nodes={
            "Vessel": boats,
            "Port": harbours,
            "Company": owners,
            "Note": notes,
            "Berth": berths,
        },
        edges={
            "CallsAt": draw(edges(boats, harbours, calls, "c", least)),
            "Feeds": draw(edges(harbours, harbours, weights, "f", least)),
            "Ships": draw(edges(harbours, harbours, weights, "s")),
            "OwnedBy": draw(edges(boats, owners, st.just({}), "o", least)),
        },
        ends=ENDS,
    )


def _unlike(owners: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Companies of which no two have one country, as the schema demands."""
    taken = Counter[str]()
    found = []
    for owner in owners:
        country = owner["country"]
        found.append(owner if not taken[country] else owner | {"country": None})
        taken[country] += 1
    return tuple(found)


def parameter(kind: PropertyType) -> st.SearchStrategy[Any]:
    if kind.is_vector:
        return st.tuples(*[halves] * (kind.dimension or 0))
    if kind.is_list:
        return st.lists(st.sampled_from(["tanker", "bulk", "x"]), max_size=2).map(tuple)
    return words if kind.scalar is Scalar.STRING else st.integers(0, 5)


def exact(row: Values) -> Values:
    """Make sums comparable: the order of adding is not part of the meaning."""
    rounded = (float(f"{x:.9g}") if isinstance(x, float) and math.isfinite(x) else x for x in row)
    return tuple(map(freeze, rounded))


def same(read: CheckedRead, actual: list[Values], expected: list[Values]) -> bool:
    left, right = [exact(row) for row in actual], [exact(row) for row in expected]
    if read.order or read.is_aggregate:
        return left == right
    if read.limit is not None or read.offset is not None:
        return len(left) == len(right)
    return Counter(left) == Counter(right)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@settings(max_examples=settings().max_examples // 12)
@given(data=st.data())
def test_every_stage_of_a_plan_gives_the_rows_the_query_means(
    case: PlanCase, data: st.DataObject
) -> None:
    read, graph = case.read, data.draw(graphs())
    params = {one.name: data.draw(parameter(one.type)) for one in read.params.values()}
    known = params | {NOW: INSTANT}
    expected = meaning(read, graph, known)
    stages = list(stages_of(read))
    for title, plan in stages:
        assert same(read, execute(plan, graph, known), expected), title
    filled = fill(stages[-1][1], params, INSTANT)
    assert same(read, execute(filled, graph, {}), expected), "filled"
