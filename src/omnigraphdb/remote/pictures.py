"""Pictures of a served graph as the values that a graph at hand gives: neighbourhoods, and drawn comparisons."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from omnigraphdb.api import wire
from omnigraphdb.api.drawings import DiffDrawing
from omnigraphdb.api.neighbours import Neighbourhood
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read.neighbours import EdgeGroup
from omnigraphdb.remote.answers import Form

Body = Mapping[str, Any]


def read_drawing(body: Body) -> DiffDrawing:
    """Read a drawn comparison."""
    return DiffDrawing(
        base=body["base"],
        head=body["head"],
        counts=body["counts"],
        nodes=tuple(body["nodes"]),
        edges=tuple(body["edges"]),
        shown=body["shown"],
        total=body["total"],
        actors=tuple(body["actors"]),
    )


def form_neighbourhood(catalog: Catalog, type_name: str, branch: str) -> Form[Neighbourhood]:
    """The form of a neighbourhood in a graph with these types."""
    return Form(
        wire.NeighbourhoodOutput,
        lambda body: read_neighbourhood(body, catalog, type_name, branch),
    )


def read_neighbourhood(body: Body, catalog: Catalog, type_name: str, branch: str) -> Neighbourhood:
    """Read the neighbourhood of a node, which stands first among the nodes."""
    edges = iter(body["edges"])
    groups = tuple(_read_group(one, catalog, edges) for one in body["groups"])
    return Neighbourhood(
        type_name=type_name,
        id=body["nodes"][0]["id"],
        branch=branch,
        commit=body["graph_commit_id"],
        groups=groups,
        nodes={
            (one["type"], one["id"]): {"id": one["id"]} | one["properties"] for one in body["nodes"]
        },
        edges={(one["type"], one["id"]): _read_edge(one) for one in body["edges"]},
    )


def _read_group(body: Body, catalog: Catalog, edges: Iterator[Body]) -> EdgeGroup:
    """Read a group; the edges of all groups come in their order."""
    direction = Direction(body["direction"])
    found = list(islice(edges, body["shown"]))
    far = "to" if direction is Direction.OUT else "from"
    return EdgeGroup(
        edge=catalog.edges[body["edge"]],
        direction=direction,
        ids=tuple(one["id"] for one in found),
        others=tuple(one[far]["id"] for one in found),
        total=body["total"],
    )


def _read_edge(body: Body) -> dict[str, Any]:
    ends = {"src": body["from"]["id"], "dst": body["to"]["id"]}
    return {"id": body["id"], **ends, **body["properties"]}


DRAWING: Final = Form(wire.DiffGraphOutput, read_drawing)
