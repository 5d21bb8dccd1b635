"""What is held in memory follows the table: appended, changed, deleted, renamed, branched, compacted."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.graph.adjacency import NeighbourUnit
from omnigraphdb.engine.read.graph.topology import Topology
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.values import AddColumn, DropColumn, RenameColumn
from tests.engine.read.conftest import FEEDERS, PORTS
from tests.support.read_world import World

PORT, FEEDS = TableKey("node:Port"), TableKey("edge:Feeds")
LATS = "query q() { match { $p: Port } return { $p, $p.lat } order { $p.code } }"


def entities(world: World, key: TableKey, cache: ByteCache | None = None) -> Entities:
    entry = world.snapshot.entries[key]
    return Entities(world.catalog.tables[key], entry, world.store.tables, cache or world.cache)


def topology(world: World, cache: ByteCache | None = None) -> Topology:
    ports = entities(world, PORT, cache)
    return Topology(edges=entities(world, FEEDS, cache), sources=ports, targets=ports)


def scans(world: World, query: str) -> int:
    with counting() as costs:
        world.rows(query)
    return costs[Cost.TABLE_SCANS]


def same_as_fresh(world: World) -> None:
    """Every adjacency that is held is the one a reader without memory would make."""
    for direction in Direction:
        for each in NeighbourUnit:
            held = topology(world).adjacency(direction, each)
            fresh = topology(world, ByteCache(1 << 20)).adjacency(direction, each)
            nodes = entities(world, PORT).all
            walked, anew = held.walk(nodes), fresh.walk(nodes)
            pairs = list(zip(walked.rows.tolist(), walked.targets.tolist(), strict=True))
            assert sorted(pairs) == sorted(
                zip(anew.rows.tolist(), anew.targets.tolist(), strict=True)
            )
            if each is NeighbourUnit.PAIR:
                assert pairs == sorted(set(pairs))
            else:
                assert walked.edges is not None
                assert anew.edges is not None
                assert sorted(walked.edges.tolist()) == sorted(anew.edges.tolist())


def walk_all(world: World) -> None:
    for direction in Direction:
        for each in NeighbourUnit:
            topology(world).adjacency(direction, each)


def test_a_warm_query_reads_nothing(harbour: World) -> None:
    harbour.rows(FEEDERS)
    assert scans(harbour, FEEDERS) == 0


def test_an_appended_edge_is_put_into_the_adjacency_that_is_held(harbour: World) -> None:
    walk_all(harbour)
    harbour.append("Feeds", [{"id": "f6", "src": "FRLEH", "dst": "NLRTM", "weight": 3}])
    harbour.append("Feeds", [{"id": "f7", "src": "NLRTM", "dst": "BEANR", "weight": 3}])
    for _ in range(30):
        # Few edges are put in one by one; the bound is a share of all, so there must be many.
        harbour.append("Feeds", [{"id": f"x{_}", "src": "BEANR", "dst": "FRLEH", "weight": _}])
    same_as_fresh(harbour)
    harbour.append("Feeds", [{"id": "f8", "src": "FRLEH", "dst": "BEANR", "weight": 3}])
    same_as_fresh(harbour)
    assert ("FRLEH", "BEANR") in harbour.rows(FEEDERS)


def test_an_edge_between_new_nodes_is_walked(harbour: World) -> None:
    walk_all(harbour)
    for number in range(40):
        harbour.append("Feeds", [{"id": f"x{number}", "src": "BEANR", "dst": "FRLEH"}])
    walk_all(harbour)
    harbour.append("Port", [{"id": "SEGOT", "code": "SEGOT", "name": "Gothenburg"}])
    harbour.append("Feeds", [{"id": "f9", "src": "SEGOT", "dst": "SEGOT", "weight": 1}])
    harbour.append("Feeds", [{"id": "f10", "src": "SEGOT", "dst": "BEANR", "weight": 1}])
    same_as_fresh(harbour)


def test_a_changed_node_keeps_its_edges_and_shows_its_new_values(harbour: World) -> None:
    harbour.rows(FEEDERS)
    before = topology(harbour).adjacency(Direction.OUT, NeighbourUnit.PAIR)
    harbour.merge("Port", [PORTS[0] | {"lat": 1.5}])
    assert ("BEANR", 1.5) in harbour.rows(LATS)
    assert topology(harbour).adjacency(Direction.OUT, NeighbourUnit.PAIR) is before
    same_as_fresh(harbour)


def test_deleted_rows_are_gone_from_everything(harbour: World) -> None:
    walk_all(harbour)
    harbour.rows(LATS)
    harbour.delete("Feeds", ["f1", "f5"])
    harbour.delete("Port", ["FRLEH"])
    same_as_fresh(harbour)
    assert [row[0] for row in harbour.rows(LATS)] == ["BEANR", "DEHAM", "NLRTM"]
    point = 'query q() { match { $p: Port { code: "FRLEH" } } return { $p } }'
    assert harbour.rows(point) == []


def test_an_id_that_comes_back_is_another_row(harbour: World) -> None:
    point = 'query q() { match { $p: Port { code: "BEANR" } } return { $p.name } }'
    assert harbour.rows(point) == [("Antwerp",)]
    harbour.delete("Feeds", ["f1", "f3"])
    harbour.delete("Port", ["BEANR"])
    assert harbour.rows(point) == []
    harbour.append("Port", [PORTS[0] | {"name": "Anvers"}])
    assert harbour.rows(point) == [("Anvers",)]
    same_as_fresh(harbour)


def test_earlier_versions_stay_readable_beside_later_ones(harbour: World) -> None:
    early = dict(harbour.at)
    rows = harbour.rows(FEEDERS)
    harbour.append("Feeds", [{"id": "f6", "src": "FRLEH", "dst": "NLRTM"}])
    harbour.delete("Feeds", ["f1"])
    later = harbour.rows(FEEDERS)
    assert later != rows
    late, harbour.at = harbour.at, early
    assert harbour.rows(FEEDERS) == rows
    harbour.at = late
    assert harbour.rows(FEEDERS) == later


def test_an_index_or_a_branch_changes_nothing_that_is_held(harbour: World) -> None:
    harbour.rows(FEEDERS)
    harbour.index("Port")
    harbour.index("Feeds")
    assert scans(harbour, FEEDERS) == 0
    harbour.at[PORT] = harbour.store.tables.fork(harbour.at[PORT], "task")
    assert scans(harbour, FEEDERS) == 0


def test_two_branches_that_give_out_the_same_numbers_do_not_mix(harbour: World) -> None:
    main = harbour.at[PORT]
    harbour.append("Port", [{"id": "SEGOT", "code": "SEGOT", "name": "Gothenburg"}])
    on_main = harbour.at[PORT]
    harbour.rows(LATS)
    harbour.at[PORT] = harbour.store.tables.fork(main, "task")
    harbour.append("Port", [{"id": "PLGDN", "code": "PLGDN", "name": "Gdansk"}])
    assert [row[0] for row in harbour.rows(LATS)][-1] == "PLGDN"
    harbour.at[PORT] = on_main
    assert [row[0] for row in harbour.rows(LATS)][-1] == "SEGOT"


def test_a_branch_that_is_made_again_is_read_anew(harbour: World) -> None:
    main = harbour.at[PORT]
    found = []
    for life, name in enumerate(("Gothenburg", "Gdansk"), start=1):
        harbour.branch_incarnation = ((life, "task"),)
        harbour.at[PORT] = harbour.store.tables.fork(main, "task")
        harbour.append("Port", [{"id": "X", "code": "X", "name": name}])
        query = 'query q() { match { $p: Port { code: "X" } } return { $p.name } }'
        found += harbour.rows(query)
        harbour.store.tables.drop_fork(main.path, "task")
    assert found == [("Gothenburg",), ("Gdansk",)]


def test_compacted_tables_read_the_same(harbour: World) -> None:
    for number in range(6):
        harbour.append("Feeds", [{"id": f"x{number}", "src": "NLRTM", "dst": "FRLEH"}])
    harbour.delete("Feeds", ["x3", "f2"])
    rows = harbour.rows(FEEDERS)
    harbour.land(FEEDS, harbour.store.tables.stage_compaction(harbour.at[FEEDS]))
    assert harbour.rows(FEEDERS) == rows
    same_as_fresh(harbour)


@pytest.fixture
def busy(harbour: World) -> World:
    """Many feeders in one fragment and a few in small ones; every adjacency is held."""
    codes = [port["id"] for port in PORTS]
    many = [
        {"id": f"m{n}", "src": codes[n % 4], "dst": codes[n // 4 % 4], "weight": n}
        for n in range(400)
    ]
    harbour.append("Feeds", many)
    for number in range(5):
        harbour.append("Feeds", [{"id": f"x{number}", "src": "NLRTM", "dst": "FRLEH"}])
    walk_all(harbour)
    return harbour


def gathered(world: World) -> None:
    """Write the small fragments of the feeders as one; the large one stays."""
    world.land(FEEDS, world.store.tables.stage_compaction(world.at[FEEDS], 100))


def was_read_whole(world: World) -> bool:
    """Whether all edges of the version that is read were read to make an adjacency."""
    edges, ports = entities(world, FEEDS), entities(world, PORT)
    return world.cache.peek((edges.layout, ports.layout, ports.layout, "ends")) is not None


def test_edges_that_were_only_written_together_are_not_all_read_again(busy: World) -> None:
    gathered(busy)
    assert len(entities(busy, FEEDS).layout.fragments) == 3
    walk_all(busy)
    assert not was_read_whole(busy)
    same_as_fresh(busy)
    assert not was_read_whole(busy)


def test_edges_that_came_while_others_were_written_together_are_added(busy: World) -> None:
    busy.append("Feeds", [{"id": "late", "src": "BEANR", "dst": "BEANR"}])
    gathered(busy)
    busy.append("Feeds", [{"id": "later", "src": "FRLEH", "dst": "NLRTM"}])
    walk_all(busy)
    assert not was_read_whole(busy)
    same_as_fresh(busy)


@pytest.mark.parametrize("change", ["delete", "merge"])
def test_edges_that_went_or_moved_meanwhile_are_not_taken_for_what_they_were(
    busy: World, change: str
) -> None:
    if change == "delete":
        busy.delete("Feeds", ["x3"])
    else:
        busy.merge("Feeds", [{"id": "x3", "src": "DEHAM", "dst": "DEHAM"}])
    gathered(busy)
    walk_all(busy)
    same_as_fresh(busy)


@pytest.mark.parametrize("id", ["x3", "m17", "m40", "f5"])
def test_an_edge_that_went_or_was_written_again_is_all_that_is_looked_at(
    busy: World, id: str
) -> None:
    busy.merge("Feeds", [{"id": id, "src": "DEHAM", "dst": "FRLEH", "weight": 1}])
    walk_all(busy)
    same_as_fresh(busy)
    busy.delete("Feeds", [id, "m3", "m19", "m35"])
    walk_all(busy)
    same_as_fresh(busy)
    assert not was_read_whole(busy)


def test_the_last_edge_between_two_nodes_takes_their_connection_along(busy: World) -> None:
    between = [f"x{n}" for n in range(5)]
    between += [f"m{n}" for n in range(400) if n % 4 == 3 and n // 4 % 4 == 2]
    for number, id in enumerate(between):
        busy.delete("Feeds", [id])
        nodes = dict(
            zip(
                entities(busy, PORT).id_texts(entities(busy, PORT).all).to_pylist(),
                entities(busy, PORT).all.tolist(),
                strict=True,
            )
        )
        found = topology(busy).adjacency(Direction.OUT, NeighbourUnit.PAIR)
        near, far = (np.array([nodes[code]]) for code in ("NLRTM", "FRLEH"))
        assert found.connected(near, far)[0] == (number < len(between) - 1)
    same_as_fresh(busy)
    assert not was_read_whole(busy)


def test_a_version_that_is_gone_is_not_needed(busy: World) -> None:
    before = busy.at[FEEDS]
    gathered(busy)
    tables = busy.store.tables
    tables.reclaim(before.path, [before.version], dry_run=False)
    tables.forget(path=before.path)
    walk_all(busy)
    same_as_fresh(busy)


def test_a_name_that_moves_to_another_column_takes_no_old_values_along(harbour: World) -> None:
    tables = harbour.store.tables
    assert ("BEANR", 51.2) in harbour.rows(LATS)
    harbour.land(PORT, tables.stage_columns(harbour.at[PORT], [RenameColumn("lat", "north")]))
    assert ("BEANR", None) in harbour.rows(LATS), "the column is not there under this name"
    added = [AddColumn(pa.field("lat", pa.float64()))]
    harbour.land(PORT, tables.stage_columns(harbour.at[PORT], added))
    harbour.land(PORT, tables.stage_columns(harbour.at[PORT], [DropColumn("north")]))
    assert harbour.rows(LATS) == [(port["id"], None) for port in PORTS]


def test_a_type_that_was_not_there_yet_has_no_entities(harbour: World) -> None:
    del harbour.at[TableKey("node:Vessel")], harbour.at[TableKey("edge:CallsAt")]
    table = harbour.table("query q() { match { $v: Vessel } return { $v, $v.dwt, $v.tags } }")
    assert table.num_rows == 0
    assert table.schema.types == [pa.string(), pa.int64(), table.schema.field("v.tags").type]
    count = "query q() { match { $v: Vessel  $v callsAt $p } return { count($v) as n } }"
    assert harbour.rows(count) == [(0,)]
    absent = "query q() { match { $p: Port  not { $p callsAt $v } } return { $p } }"
    assert len(harbour.rows(absent)) == 4


def test_nothing_is_held_beyond_the_bound(harbour: World) -> None:
    harbour.cache = ByteCache(600)
    for _ in range(3):
        assert len(harbour.rows(FEEDERS)) == 5
    assert harbour.cache.bytes_cached <= 600


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_dangling_edge_is_walked_once_its_node_is_there(cut: int) -> None:
    world = World.of("node Port { code: String @key }  edge Feeds: Port -> Port")
    ports = [{"id": name, "code": name} for name in "ABCD"]
    world.append("Port", ports[:cut])
    edges = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "A")]
    world.append("Feeds", [{"id": f"e{n}", "src": a, "dst": b} for n, (a, b) in enumerate(edges)])
    query = "query q() { match { $p: Port  $p feeds $q } return { $p, $q } order { $p.code } }"
    whole = [(a, b) for a, b in edges if max(a, b) < "ABCD"[cut]]
    assert world.rows(query) == whole
    world.append("Port", ports[cut:])
    assert world.rows(query) == edges
    world.close()
