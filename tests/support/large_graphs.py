"""Graphs that are large in one way each, by columns, so that making them takes little of the time of a test."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Port { code: String @key  size: I64? }
edge Ships: Port -> Port { weight: I64? }
"""
HUB = "hub"
WRITERS = 64
"""As many threads as a group of commits holds."""
ADD = "query add($c: String) { insert Port { code: $c } }"


def name_ports(count: int) -> list[str]:
    """The codes of so many ports."""
    return [f"port {number:08}" for number in range(count)]


def make_ports(place: Path, count: int) -> Graph:
    """Make a graph whose one type has so many rows."""
    graph = omnigraphdb.init(place, SCHEMA)
    rows = {"code": name_ports(count), "size": pa.array(range(count), pa.int64())}
    graph.load(pa.table(rows), type="Port", mode="append", spark=False)
    return graph


def make_hub(place: Path, edges: int) -> Graph:
    """Make a graph in which one node has so many edges."""
    graph = make_ports(place, edges)
    graph.load([{"type": "Port", "data": {"code": HUB}}], mode="append")
    ends = {"src": pa.array([HUB] * edges), "dst": pa.array(name_ports(edges))}
    weights = {"weight": pa.array(range(edges), pa.int64())}
    graph.load(pa.table(ends | weights), type="Ships", mode="append", spark=False)
    return graph


def make_difference(place: Path, changes: int) -> Graph:
    """Make a graph whose branch `review` differs from main in so many nodes: a third each is new, changed and gone."""
    third = changes // 3
    graph = make_ports(place, 3 * third)
    graph.branch_create("review")
    review, names = graph.on("review"), name_ports(4 * third)
    changed = pa.table({"code": names[:third], "size": pa.array([-1] * third, pa.int64())})
    fresh = pa.table({"code": names[3 * third :], "size": pa.nulls(third, pa.int64())})
    review.load(pa.concat_tables([changed, fresh]), type="Port", mode="merge", spark=False)
    review.mutate(f"query gone() {{ delete Port where size >= {2 * third} }}")
    return graph


def make_commits(place: Path, count: int) -> Graph:
    """Make a graph with so many commits, one row each; writers of one handle share their round trips."""
    graph = omnigraphdb.init(place, SCHEMA)

    def add(number: int) -> None:
        graph.mutate(ADD, {"c": f"port {number}"}, actor=f"actor {number % 7}")

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, range(count - 1)))
    return graph


def make_branches(place: Path, count: int) -> Graph:
    """Make a graph with so many branches beside main, each one commit ahead and up to three behind."""
    graph = omnigraphdb.init(place, SCHEMA)
    for number in range(count):
        name = f"branch {number:04}".replace(" ", "-")
        graph.branch_create(name)
        graph.mutate(ADD, {"c": name}, branch=name, actor="ada")
        if number >= count - 3:
            graph.mutate(ADD, {"c": f"main {number}"}, actor="bo")
    return graph


def make_types(place: Path, count: int) -> Graph:
    """Make a graph with so many types: half of them join the next two of the others."""
    half = count // 2
    nodes = [f"node Type{n} {{ code: String @key  label: String? @index }}" for n in range(half)]
    edges = [f"edge Joins{n}: Type{n} -> Type{(n + 1) % half} {{}}" for n in range(count - half)]
    return omnigraphdb.init(place, "\n".join([*nodes, *edges]))
