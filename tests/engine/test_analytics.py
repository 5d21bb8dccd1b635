"""Projections of real graphs: any commit, written back in one commit, compared between commits."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import LimitError, NotFound, OmniError, ResourceLimit, UserInputError

SCHEMA = """
node Port { code: String @key  rank: F64?  group: I64?  note: String?  near: F32? }
node Ship { name: String @key }
edge Feeds: Port -> Port { load: F64? }
edge Calls: Ship -> Port
"""


def _ports(count: int) -> list[dict[str, object]]:
    return [{"type": "Port", "data": {"code": f"p{i}", "note": f"n{i}"}} for i in range(count)]


def _feeds(pairs: list[tuple[int, int]]) -> list[dict[str, object]]:
    return [
        {"edge": "Feeds", "from": f"p{a}", "to": f"p{b}", "data": {"load": float(a + b)}}
        for a, b in pairs
    ]


PAIRS = [(int(a), int(b)) for a, b in np.random.default_rng(5).integers(0, 30, (90, 2))]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(str(tmp_path / "g"), SCHEMA)
    graph.load(_ports(30) + _feeds(PAIRS), mode="append")
    return graph


def _ranks(scores: omnigraphdb.Scores) -> dict[str, float]:
    return {one["id"]: one["value"] for one in scores.to_arrow().to_pylist()}


def test_ranks_are_those_of_networkx_at_any_commit(graph: Graph) -> None:
    first = graph.commits()[0].id
    uses = {"Feeds": {"weight": "load"}}
    before = graph.project(edges=uses).pagerank(tolerance=1e-12)
    expected = nx.MultiDiGraph()
    expected.add_nodes_from(f"p{i}" for i in range(30))
    expected.add_edges_from((f"p{a}", f"p{b}", {"weight": a + b}) for a, b in PAIRS)
    ranks = _ranks(before)
    for code, rank in nx.pagerank(expected, tol=1e-12, max_iter=500).items():
        assert ranks[code] == pytest.approx(rank, abs=1e-7)
    graph.branch_create("more")
    graph.load(_feeds([(0, 29), (1, 29)]), mode="append", branch="more")
    graph.merge("more")
    graph.branch_delete("more")
    graph.schema_apply(SCHEMA.replace("note: String?", "note: String?  size: I32?"))
    graph.optimize()
    assert _ranks(graph.project(edges=uses, at=first).pagerank(tolerance=1e-12)) == ranks
    after = graph.project(edges=uses).pagerank(tolerance=1e-12, start=before)
    movers = omnigraphdb.compare(before, after, top=3).to_pylist()
    assert movers[0]["id"] == "p29"
    assert movers[0]["change"] == pytest.approx(movers[0]["after"] - movers[0]["before"])


def test_components_begin_from_those_of_another_commit(graph: Graph) -> None:
    graph.load(_ports(40)[30:] + _feeds([(30, 31), (31, 32), (33, 34)]), mode="append")
    former = graph.project(edges=["Feeds"]).wcc()
    graph.mutate('query q() { delete Port where code = "p31" }')
    graph.mutate("query q() { delete Feeds where load = 67.0 }")
    graph.load(_ports(42)[40:] + _feeds([(40, 0), (35, 36)]), mode="append")
    graph.optimize()
    for start in (former, graph.project(edges=["Feeds"], at=former.commit).wcc()):
        now = graph.project(edges={"Feeds": {"undirected": True}})
        again = now.wcc(start=start)
        assert again.to_arrow().equals(now.wcc().to_arrow())
    assert _ranks(former)["p30"] == _ranks(former)["p32"]
    assert _ranks(again)["p30"] != _ranks(again)["p32"]
    assert _ranks(again)["p33"] != _ranks(again)["p34"]
    assert _ranks(again)["p40"] == _ranks(again)["p0"]


def test_components_begin_from_those_of_another_branch(graph: Graph) -> None:
    """Two branches give the same row id to different nodes, and to edges that lead to the same one."""
    found = []
    for branch in ("one", "two"):
        graph.branch_create(branch)
        port = {"type": "Port", "data": {"code": branch}}
        graph.load(
            [port, {"edge": "Feeds", "from": branch, "to": "p0"}], mode="append", branch=branch
        )
        found.append(graph.project(edges=["Feeds"], branch=branch))
    again = found[1].wcc(start=found[0].wcc())
    assert again.to_arrow().equals(found[1].wcc().to_arrow())
    assert _ranks(again)["two"] == _ranks(again)["p0"]


ALGORITHMS: dict[str, Any] = {
    "pagerank": lambda g: g.pagerank(),
    "degrees": lambda g: g.degrees(),
    "betweenness": lambda g: g.betweenness(samples=10, seed=3),
    "wcc": lambda g: g.wcc(),
    "scc": lambda g: g.scc(),
    "label_propagation": lambda g: g.label_propagation(),
    "louvain": lambda g: g.louvain(seed=3),
    "triangles": lambda g: g.triangles(),
    "k_core": lambda g: g.k_core(),
    "bfs": lambda g: g.bfs("Port", "p1"),
    "dijkstra": lambda g: g.dijkstra("Port", "p1"),
}


def test_every_answer_at_an_old_commit_stays_as_it_was(graph: Graph) -> None:
    def answer(seen: Graph) -> dict[str, Any]:
        old = seen.project(edges={"Feeds": {"weight": "load"}}, at="old")
        return {name: run(old).to_arrow() for name, run in ALGORITHMS.items()}

    graph.tag("old")
    before = answer(graph)
    graph.branch_create("more")
    graph.load(_ports(40)[30:] + _feeds([(0, 39), (1, 29)]), mode="append", branch="more")
    graph.mutate('query q() { delete Port where code = "p2" }')
    graph.merge("more")
    graph.branch_delete("more")
    renamed = SCHEMA.replace("load: F64?", 'freight: F64? @rename_from("load")')
    graph.schema_apply(renamed)
    graph.schema_apply(renamed.replace("note: String?", ""))
    graph.optimize()
    removed = graph.cleanup(keep=1, confirm=True).tables
    assert sum(one.versions_removed for one in removed)
    with omnigraphdb.open(graph.uri) as fresh:
        for seen in (graph, fresh):
            for name, found in answer(seen).items():
                assert found.equals(before[name]), name
        with pytest.raises(NotFound, match="load"):
            fresh.project(edges={"Feeds": {"weight": "load"}})
        renamed_weight = {"Feeds": {"weight": "freight"}}
        old = fresh.project(edges=renamed_weight, at="old").pagerank()
        assert old.to_arrow().equals(before["pagerank"])
        now = fresh.project(edges=renamed_weight).pagerank()
        assert omnigraphdb.compare(old, now).num_rows


CHANGES: dict[str, Any] = {
    "append": lambda g, r: g.load(_feeds([(r, 7), (r, r + 1), (3, 3)]), mode="append"),
    "delete edges": lambda g, r: g.mutate(f"query q() {{ delete Feeds where load = {r + 9}.0 }}"),
    "delete a node": lambda g, r: g.mutate(f'query q() {{ delete Port where code = "p{r}" }}'),
    "insert a node": lambda g, r: g.mutate(f'query q() {{ insert Port {{ code: "n{r}" }} }}'),
    "update edges": lambda g, r: g.mutate(
        f"query q() {{ update Feeds set {{ load: {r}.0 }} where load > 50.0 }}"
    ),
    "update nodes": lambda g, r: g.load(_ports(r + 1), mode="merge"),
    "compact": lambda g, _: g.optimize(),
    "overwrite nodes": lambda g, _: g.load(_ports(30), mode="overwrite"),
}


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 30))]
)
def test_projections_after_changes_are_those_of_a_fresh_handle(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [*rng.permutation(list(CHANGES)[:-1]), *rng.choice(list(CHANGES), 4)]
    former = graph.project(edges=["Feeds"]).wcc()
    for name in names:
        number = int(rng.integers(0, 28))
        with suppress(OmniError):
            CHANGES[name](graph, number)
        uses = {"Feeds": {"weight": "load"}}
        now = graph.project(edges=uses)
        with omnigraphdb.open(graph.uri) as fresh:
            there = fresh.project(edges=uses)
            assert now.pagerank().to_arrow().equals(there.pagerank().to_arrow()), name
            again = now.wcc(start=former)
            assert again.to_arrow().equals(there.wcc().to_arrow()), name
        former = again


def test_the_ends_of_many_new_edges_are_found_without_an_index_of_all_ids(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "many", SCHEMA) as graph:
        graph.load(_ports(3_000) + _feeds([(n, n + 1) for n in range(2_999)]), mode="append")
        graph.project(edges=["Feeds"])
        graph.load(_feeds([(n, 2 * n) for n in range(1_200)]), mode="append")
        now = graph.project(edges=["Feeds"])
        assert now._plan.tables.nodes("Port").cached_id_index is None
        with omnigraphdb.open(graph.uri) as fresh:
            there = fresh.project(edges=["Feeds"])
            assert now.edge_count == there.edge_count == 2_999 + 1_200
            assert now.pagerank().to_arrow().equals(there.pagerank().to_arrow())


def test_values_are_written_in_one_commit(graph: Graph) -> None:
    ranks = graph.project(edges=["Feeds"]).pagerank()
    graph.branch_create("ranks")
    done = ranks.write("Port.rank", branch="ranks", actor="nightly")
    assert done.affected_nodes == 30
    assert done.commit is not None
    assert done.commit.actor == "nightly"
    stored = graph.query(
        "query q() { match { $p: Port } return { $p.code, $p.rank, $p.note } }", branch="ranks"
    ).rows
    assert {one["p.code"]: one["p.rank"] for one in stored} == _ranks(ranks)
    assert all(one["p.note"] == "n" + one["p.code"][1:] for one in stored)
    assert ranks.write("Port.rank", branch="ranks").commit is None
    assert graph.project(edges=["Feeds"]).wcc().write("Port.group").affected_nodes == 30


def test_values_of_no_nodes_change_nothing(tmp_path: Path) -> None:
    schema = "node A { k: String @key  rank: F64? }\nedge E: A -> A"
    with omnigraphdb.init(tmp_path / "empty", schema) as graph:
        done = graph.project().pagerank().write("A.rank")
    assert (done.affected_nodes, done.commit) == (0, None)


def test_nodes_that_are_gone_or_new_are_left_alone(graph: Graph) -> None:
    ranks = graph.project(edges=["Feeds"]).pagerank()
    graph.mutate('query q() { delete Port where code = "p3" }')
    graph.mutate('query q() { insert Port { code: "new" } }')
    assert ranks.write("Port.rank").affected_nodes == 29
    assert graph.entity("Port", "p3") is None
    new = graph.entity("Port", "new")
    assert new is not None
    assert new["rank"] is None


def test_several_types_and_distances(graph: Graph) -> None:
    graph.load(
        [{"type": "Ship", "data": {"name": "s"}}, {"edge": "Calls", "from": "s", "to": "p0"}],
        mode="append",
    )
    every = graph.project()
    assert (every.node_count, every.edge_count) == (31, 91)
    hops = _ranks(every.bfs("Ship", "s"))
    expected = nx.DiGraph([(f"p{a}", f"p{b}") for a, b in PAIRS] + [("s", "p0")])
    assert hops == dict(nx.single_source_shortest_path_length(expected, "s"))
    assert every.dijkstra("Ship", "s").top(1)[0]["value"] == max(hops.values())
    undirected = graph.project(edges={"Feeds": {"undirected": True}})
    loops = sum(a == b for a, b in PAIRS)
    assert undirected.edge_count == 2 * len(PAIRS) - loops


NOTHING: Any = 5
WRONG: dict[str, tuple[Any, type[OmniError], str]] = {
    "unknown node": (lambda g: g.project(["Prt"], ["Feeds"]), NotFound, "did you mean 'Port'"),
    "unknown edge": (lambda g: g.project(edges=["Feds"]), NotFound, "did you mean 'Feeds'"),
    "unknown weight": (
        lambda g: g.project(edges={"Feeds": {"weight": "lod"}}),
        NotFound,
        "did you mean 'load'",
    ),
    "unknown option": (
        lambda g: g.project(edges={"Feeds": {"wight": "load"}}),
        UserInputError,
        "wight",
    ),
    "left out": (lambda g: g.project(["Port"], ["Calls"]), UserInputError, "end at Ship"),
    "empty": (lambda g: g.project(["Port"], []), UserInputError, "needs a node type"),
    "engine": (lambda g: g.project(edges=["Feeds"], spark="maybe"), UserInputError, "maybe"),
    "text": (lambda g: g.project("Port", ["Feeds"]), UserInputError, "list of names"),
    "start": (lambda g: g.project(edges=["Feeds"]).bfs("Port", "x"), NotFound, "'x'"),
    "damping": (lambda g: g.project(edges=["Feeds"]).pagerank(damping=1.5), UserInputError, "1.5"),
    "no number": (
        lambda g: g.project(edges=["Feeds"]).pagerank().write("Port.note"),
        UserInputError,
        "do not fit Port.note",
    ),
    "fractions": (
        lambda g: g.project(edges=["Feeds"]).pagerank().write("Port.group"),
        UserInputError,
        "do not fit Port.group",
    ),
    "no property": (
        lambda g: g.project(edges=["Feeds"]).pagerank().write("Port.rnk"),
        NotFound,
        "did you mean 'rank'",
    ),
    "key": (
        lambda g: g.project(edges=["Feeds"]).degrees().write("Port.code"),
        UserInputError,
        "key",
    ),
    "foreign type": (
        lambda g: g.project(edges=["Feeds"]).degrees().write("Ship.name"),
        UserInputError,
        "of no Ship",
    ),
    "no target": (
        lambda g: g.project(edges=["Feeds"]).degrees().write("rank"),
        UserInputError,
        "Person.rank",
    ),
    "negative top": (
        lambda g: g.project(edges=["Feeds"]).pagerank().top(-1),
        UserInputError,
        "'count' counts from 0",
    ),
    "no top": (
        lambda g: g.project(edges=["Feeds"]).pagerank().top(True),
        UserInputError,
        "whole number",
    ),
    "negative movers": (
        lambda g: omnigraphdb.compare(_rank(g), _rank(g), top=-2),
        UserInputError,
        "'top' counts from 0",
    ),
    "two algorithms": (
        lambda g: omnigraphdb.compare(_rank(g), g.project(edges=["Feeds"]).degrees()),
        UserInputError,
        "an answer of pagerank and one of degrees",
    ),
    "no answer": (
        lambda g: omnigraphdb.compare(_rank(g), NOTHING),
        UserInputError,
        "'after' is the answer",
    ),
    "no former answer": (
        lambda g: g.project(edges=["Feeds"]).wcc(start=[1]),
        UserInputError,
        "'start' is the answer",
    ),
    "no flag": (
        lambda g: g.project(edges={"Feeds": {"undirected": "no"}}),
        UserInputError,
        "True or False",
    ),
    "no options": (lambda g: g.project(edges={"Feeds": 1}), UserInputError, "are a mapping"),
    "no nodes": (lambda g: g.project(3, ["Feeds"]), UserInputError, "'nodes' is a list"),
    "no edges": (lambda g: g.project(edges=3), UserInputError, "'edges' is a list"),
    "rounds": (
        lambda g: g.project(edges=["Feeds"]).pagerank(iterations=1.5),
        UserInputError,
        "'iterations' is a whole number",
    ),
    "tolerance": (
        lambda g: g.project(edges=["Feeds"]).pagerank(tolerance="no"),
        UserInputError,
        "'tolerance' is a number",
    ),
    "seed": (lambda g: g.project(edges=["Feeds"]).louvain(seed=-1), UserInputError, "'seed'"),
    "seconds": (
        lambda g: g.project(edges=["Feeds"], seconds_max=True),
        UserInputError,
        "'seconds_max' is a number",
    ),
    "no such time": (
        lambda g: g.project(edges=["Feeds"], seconds_max=float("nan")).pagerank(),
        LimitError,
        "nan s",
    ),
    "negative seconds": (
        lambda g: g.project(edges=["Feeds"], seconds_max=-1),
        UserInputError,
        "'seconds_max' is at least 0, it cannot be -1",
    ),
    "components from ranks": (
        lambda g: g.project(edges=["Feeds"]).wcc(start=_rank(g)),
        UserInputError,
        "'start' of wcc is an answer of wcc, not of pagerank",
    ),
    "texts": (
        lambda g: g.assign("Port.group", ["p1"], ["12"]),
        UserInputError,
        "it is not a number",
    ),
    "truths": (
        lambda g: g.assign("Port.rank", ["p1"], [True]),
        UserInputError,
        "it is not a number",
    ),
    "not finite": (
        lambda g: g.assign("Port.rank", ["p1"], [float("nan")]),
        UserInputError,
        "it is not finite",
    ),
    "too large": (
        lambda g: g.assign("Port.near", ["p1"], [1e300]),
        UserInputError,
        "it is not finite",
    ),
    "one text": (lambda g: g.assign("Port.group", "p1", [1, 2]), UserInputError, "'ids' is a list"),
}


def _rank(graph: Graph) -> omnigraphdb.Scores:
    return graph.project(edges=["Feeds"]).pagerank()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_write_nothing(graph: Graph, name: str) -> None:
    call, kind, fact = WRONG[name]
    before = [one.id for one in graph.commits()]
    with pytest.raises(kind) as caught:
        call(graph)
    assert fact in f"{caught.value} {caught.value.hint}"
    assert [one.id for one in graph.commits()] == before


def test_weights_that_are_missing_or_negative_are_refused(graph: Graph) -> None:
    graph.load(
        [
            {"edge": "Feeds", "from": "p1", "to": "p2", "data": {"load": -1.0}},
            {"edge": "Feeds", "from": "p1", "to": "p2", "data": {}},
        ],
        mode="append",
    )
    with pytest.raises(UserInputError, match="on 2 of 92 edges"):
        graph.project(edges={"Feeds": {"weight": "load"}})


def test_a_projection_past_the_bound_is_refused_before_it_is_read(graph: Graph) -> None:
    with (
        omnigraphdb.open(graph.uri, config={"projection_bytes": 7_000}) as small,
        pytest.raises(ResourceLimit, match=r"30 nodes and 90 arcs: 7680 is over the limit of 7000"),
    ):
        small.project(edges=["Feeds"], spark=False)
    with omnigraphdb.open(graph.uri, config={"projection_bytes": 7_680}) as enough:
        found = enough.project(edges=["Feeds"], spark=False)
        assert (found.engine, found.node_count, found.edge_count) == ("local", 30, 90)
        assert found.reason == "about 7680 bytes fit into projection_bytes"
        with pytest.raises(ResourceLimit):
            enough.project(edges={"Feeds": {"undirected": True}}, spark=False)


def test_weights_past_what_floats_count_are_rounded(tmp_path: Path) -> None:
    schema = "node A { k: String @key }\nedge E: A -> A { w: U64 }"
    with omnigraphdb.init(tmp_path / "wide", schema) as graph:
        rows = [{"from": "a", "to": b, "w": w} for b, w in (("b", 2**63), ("c", 2**61 + 1))]
        graph.load(pa.Table.from_pylist(rows, WIDE), type="E", mode="append", create_missing="A")
        ranks = _ranks(graph.project(edges={"E": {"weight": "w"}}).dijkstra("A", "a"))
    assert ranks == {"a": 0.0, "b": 2.0**63, "c": 2.0**61}


WIDE = pa.schema([("from", pa.string()), ("to", pa.string()), ("w", pa.uint64())])


def test_a_value_that_is_there_is_left_alone_though_it_is_null(graph: Graph) -> None:
    assert graph.assign("Port.rank", ["p1", "p2"], [None, 1.0]).affected_nodes == 1
    assert graph.assign("Port.rank", ["p1", "p2"], [None, None]).affected_nodes == 1
    assert graph.assign("Port.rank", ["p1", "p2"], [None, None]).commit is None


def test_groups_are_compared_by_their_members(graph: Graph) -> None:
    """A node that comes first gives every component another number; that is no move."""
    graph.load(_ports(39)[30:] + _feeds([(30, 31), (31, 32), (33, 34), (34, 35)]), mode="append")
    before = graph.project(edges=["Feeds"]).wcc()
    assert omnigraphdb.compare(before, before).num_rows == 0
    graph.mutate("query q() { delete Feeds where load = 63.0 }")
    graph.mutate('query q() { delete Port where code = "p38" }')
    graph.load(_feeds([(36, 33)]), mode="append")
    after = graph.project(edges=["Feeds"]).wcc()
    moved = omnigraphdb.compare(before, after).to_pylist()
    # p30 and p31 are left by p32, p36 joins three others, p38 is gone.
    assert [one["id"] for one in moved] == ["p32", "p36", "p38"]
    assert [one["after"] is None for one in moved] == [False, False, True]
    assert {one["change"] for one in moved} == {None}
    renumbered = replace(after, table=after.table.set_column(2, "value", [_mirror(after)]))
    assert omnigraphdb.compare(after, renumbered).num_rows == 0


def _mirror(scores: omnigraphdb.Scores) -> pa.Array:
    values = scores.to_arrow()["value"]
    return pc.subtract(pc.max(values), values).combine_chunks()
