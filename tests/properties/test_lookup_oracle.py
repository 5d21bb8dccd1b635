"""A lookup that memory answers gives the rows its query means, wherever the rows lie."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.engine.read.graph.adjacency import NeighbourUnit
from omnigraphdb.engine.read.lookup import prepare_lookup
from omnigraphdb.limits import LOOKUP_VALUES_MAX
from tests.support.plan_fixtures import checked_read, harbour
from tests.support.query_model import NOW, meaning
from tests.support.read_ways import worlds
from tests.support.read_world import INSTANT, World, plan_of, table_rows
from tests.support.table_states import TableState
from tests.unit.compile.test_rules_meaning import PORTS, VESSELS, graphs, same

LOOKUPS = (
    ("{ $v: Vessel { imo: $id } } return { $v.name, $v.dwt, $v.kind }", VESSELS),
    (
        "{ $v: Vessel { imo: $id } } return { $v.built, $v.seen, $v.tags, $v.draft, $v.sig }",
        VESSELS,
    ),
    ("{ $p: Port { code: $id } } return { $p, $p.name }", PORTS),
    ("{ $v: Vessel { imo: $id }  $v callsAt $p } return { $p.name, $p.code }", VESSELS),
    ("{ $p: Port { code: $id }  $v callsAt $p } return { $v.imo, $v.name }", PORTS),
    ("{ $p: Port { code: $id }  $p feeds $q } return { $q.code }", PORTS),
    ("{ $p: Port { code: $id }  $q feeds $p } return { $q.code, $q.name }", PORTS),
    ("{ $p: Port { code: $id }  $p feeds $q } return { count($q) as n }", PORTS),
    ("{ $p: Port { code: $id }  $p feeds $q  $q feeds $r } return { count($r) as n }", PORTS),
    (
        "{ $p: Port { code: $id }  $p feeds $q  $q feeds $r  $v callsAt $r } return { count($v) as n }",
        PORTS,
    ),
)


@pytest.mark.parametrize("state", TableState)
@settings(max_examples=6)
@given(data=st.data())
def test_memory_gives_the_rows_a_lookup_means(state: TableState, data: st.DataObject) -> None:
    graph = data.draw(graphs(least=2))
    body, ids = data.draw(st.sampled_from(LOOKUPS))
    read = checked_read(f"query q($id: String?) {{ match {body} }}")
    plan = plan_of(read, harbour())
    world = data.draw(worlds(graph, state))
    try:
        for identity in (*ids, "nobody", None):
            expected = meaning(read, graph, {"id": identity, NOW: INSTANT})
            found = from_memory(read, plan, world, identity)
            assert same(read, table_rows(found), expected), identity
    finally:
        world.close()


def from_memory(read: CheckedRead, plan: Plan, world: World, identity: str | None) -> pa.Table:
    """Answer from memory alone, once it holds what is needed."""
    lookup, opened = plan.lookup, world.reader(plan).snapshot
    assert lookup is not None
    nodes, shown = opened.nodes(lookup.type_name), opened.nodes(lookup.shown_type)
    assert prepare_lookup(read, plan, opened) is None or nodes.cached_id_index is not None
    nodes.row_ids_of(pa.array(["nobody"] * LOOKUP_VALUES_MAX))
    assert shown.row_offsets.rows == len(shown)
    for name in lookup.columns:
        shown.whole(name)
    for hop in lookup.hops:
        opened.topology(hop.edge).adjacency(hop.direction, NeighbourUnit.PAIR)
    prepared = prepare_lookup(read, plan, opened)
    assert prepared is not None
    found = prepared.answer({"id": identity})
    assert found is not None
    if identity is not None:
        assert prepared.answer_plain({"id": identity}) == found
    return pa.Table.from_batches([found])
