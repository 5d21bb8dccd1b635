"""The neighbourhood of a node as a value: the edges that were found, the nodes at their ends, and what was left out."""

from collections.abc import Mapping
from typing import Any, Final

from omnigraphdb.compile.checked import Direction
from omnigraphdb.display import Displayable, Grid, Report, count_of
from omnigraphdb.engine.read.neighbours import EdgeGroup, list_edge_groups
from omnigraphdb.engine.read.verbs import entities
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFound
from omnigraphdb.ids import node_key
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

_LABELS: Final = ("name", "title", "label")
"""Properties that name an entity for people, the best first."""
_SYSTEM: Final = frozenset({"id", "src", "dst"})

Row = Mapping[str, Any]


def label_of(identity: str, row: Row | None) -> str:
    """What people call an entity: its name, or else its id."""
    named = (None if row is None else row.get(name) for name in _LABELS)
    return next((one for one in named if isinstance(one, str) and one), identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood(Displayable):
    """The edges of a node, a bounded number of each type and direction, with the nodes they lead to."""

    type_name: str
    id: str
    branch: str
    commit: str | None
    groups: tuple[EdgeGroup, ...]
    nodes: Mapping[tuple[str, str], Row]
    """Rows by type and id; the node itself is among them."""
    edges: Mapping[tuple[str, str], Row]

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "graph_commit_id": self.commit,
            "nodes": [self._spell_node(*key) for key in self.nodes],
            "edges": [one for group in self.groups for one in self._spell_edges(group)],
            "groups": [
                {
                    "edge": group.edge.name,
                    "direction": str(group.direction),
                    "type": group.other_type,
                    "shown": len(group.ids),
                    "total": group.total,
                }
                for group in self.groups
            ],
        }

    def _spell_node(self, type_name: str, identity: str) -> dict[str, Any]:
        return spell_entity("node", type_name, identity, self.nodes[type_name, identity])

    def _spell_edges(self, group: EdgeGroup) -> list[dict[str, Any]]:
        here = self._spell_end(self.type_name, self.id)
        found = []
        for identity, other in zip(group.ids, group.others, strict=True):
            there = self._spell_end(group.other_type, other)
            ends = (here, there) if group.direction is Direction.OUT else (there, here)
            row = self.edges.get((group.edge.name, identity))
            spelled = spell_entity("edge", group.edge.name, identity, row)
            found.append(spelled | {"from": ends[0], "to": ends[1]})
        return found

    def _spell_end(self, type_name: str, identity: str) -> dict[str, str]:
        row = self.nodes.get((type_name, identity))
        return {"type": type_name, "id": identity, "label": label_of(identity, row)}

    def _report(self) -> Report:
        rows = [
            (one.edge.name, str(one.direction), one.other_type, len(one.ids), one.total)
            for one in self.groups
        ]
        shown = count_of(sum(one.total for one in self.groups), "edge")
        grid = Grid(columns=("edge", "direction", "type", "shown", "total"), rows=rows)
        return Report(title=f"{self.type_name} {self.id}: {shown}", grids=(grid,))


def spell_entity(kind: str, type_name: str, identity: str, row: Row | None) -> dict[str, Any]:
    """One entity as surfaces show it; the ends of an edge are added by who knows them."""
    properties = {name: value for name, value in (row or {}).items() if name not in _SYSTEM}
    return {
        "kind": kind,
        "type": type_name,
        "id": identity,
        "label": label_of(identity, row),
        "properties": properties,
    }


def read_neighbourhood(
    engine: Engine,
    view: View,
    type_name: str,
    identity: str,
    *,
    limit: int,
    edge: str | None,
    direction: Direction,
) -> Neighbourhood:
    """Read the neighbourhood of a node; one that does not exist is refused."""
    itself = entities(engine, view, node_key(type_name), [identity])
    if not itself:
        raise NotFound("entity", f"{type_name} {identity}")
    groups = tuple(
        list_edge_groups(
            engine, view, type_name, identity, limit=limit, edge=edge, direction=direction
        )
    )
    wanted: dict[str, dict[str, None]] = {}
    for group in groups:
        wanted.setdefault(group.other_type, {}).update(dict.fromkeys(group.others))
    return Neighbourhood(
        type_name=type_name,
        id=identity,
        branch=view.branch,
        commit=view.commit,
        groups=groups,
        nodes={(type_name, identity): itself[identity]}
        | {
            (name, one): row
            for name, ids in wanted.items()
            for one, row in entities(engine, view, node_key(name), list(ids)).items()
        },
        edges={
            (group.edge.name, one): row
            for group in groups
            for one, row in entities(engine, view, group.edge.table_key, group.ids).items()
        },
    )
