"""A comparison to be drawn: a bounded number of changed nodes and edges, the nodes that changed edges hang on, and all counts."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from omnigraph.api.neighbours import label_of, spell_entity
from omnigraph.engine.history.changes import Change
from omnigraph.engine.read.verbs import entities
from omnigraph.engine.session.engine import Engine
from omnigraph.ids import EntityKind, Op, node_key
from omnigraph.manifest.view import View
from omnigraph.values import dataclass

NODES_DRAWN: Final = 2_000
EDGES_DRAWN: Final = 10_000

_MARKS: Final = {Op.INSERT: "added", Op.UPDATE: "changed", Op.DELETE: "removed"}
_COUNTED: Final = {Op.INSERT: "inserted", Op.UPDATE: "updated", Op.DELETE: "deleted"}

Node = tuple[str, str]
"""A node by its type and id."""


@dataclass(slots=True, kw_only=True)
class DiffDrawing:
    """What is drawn of a comparison; takes changes one after the other and keeps the first ones."""

    engine: Engine
    base: View
    head: View
    nodes_max: int = NODES_DRAWN
    edges_max: int = EDGES_DRAWN
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[EntityKind, int] = field(default_factory=lambda: dict.fromkeys(EntityKind, 0))
    _kept: dict[EntityKind, list[Change]] = field(
        default_factory=lambda: {kind: [] for kind in EntityKind}
    )

    def take(self, changes: Iterable[Change]) -> "DiffDrawing":
        """Count changes, and keep as many as may be drawn."""
        most = {EntityKind.NODE: self.nodes_max, EntityKind.EDGE: self.edges_max}
        for change in changes:
            counts = self.counts.setdefault(change.type_name, dict.fromkeys(_COUNTED.values(), 0))
            counts[_COUNTED[change.op]] += 1
            self.totals[change.kind] += 1
            if len(self._kept[change.kind]) < most[change.kind]:
                self._kept[change.kind].append(change)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        nodes = self._kept[EntityKind.NODE]
        context = self._read_context()
        labels: dict[Node, str] = {
            (one.type_name, one.id): label_of(one.id, one.after or one.before) for one in nodes
        }
        labels |= {node: label_of(node[1], row) for node, row in context.items()}
        edges = [self._spell_edge(one, labels) for one in self._kept[EntityKind.EDGE]]
        return {
            "base": self.base.commit,
            "head": self.head.commit,
            "counts": dict(sorted(self.counts.items())),
            "nodes": [
                *map(_spell_change, nodes),
                *(
                    spell_entity("node", *node, row) | {"change": "same"}
                    for node, row in context.items()
                ),
            ],
            "edges": edges,
            "shown": {"nodes": len(nodes), "edges": len(edges)},
            "total": {
                "nodes": self.totals[EntityKind.NODE],
                "edges": self.totals[EntityKind.EDGE],
            },
        }

    def _spell_edge(self, change: Change, labels: Mapping[Node, str]) -> dict[str, Any]:
        ends = self._find_ends(change)
        spelled = [
            {"type": type_name, "id": one, "label": labels.get((type_name, one), one)}
            for type_name, one in ends
        ]
        return _spell_change(change) | dict(zip(("from", "to"), spelled, strict=False))

    def _find_ends(self, change: Change) -> tuple[Node, ...]:
        ends = change.endpoints
        type_ = self.head.catalog.edges.get(change.type_name)
        if ends is None or type_ is None:
            return ()
        return ((type_.source, ends.src), (type_.target, ends.dst))

    def _read_context(self) -> dict[Node, Mapping[str, Any]]:
        """The nodes that changed edges hang on and that did not change themselves, by type and id."""
        known = {(one.type_name, one.id) for one in self._kept[EntityKind.NODE]}
        wanted: dict[str, dict[str, None]] = {}
        for change in self._kept[EntityKind.EDGE]:
            for type_name, identity in self._find_ends(change):
                if (type_name, identity) not in known:
                    wanted.setdefault(type_name, {})[identity] = None
        found: dict[Node, Mapping[str, Any]] = {}
        for type_name, ids in sorted(wanted.items()):
            key, named = node_key(type_name), list(ids)
            rows = entities(self.engine, self.base, key, named)
            rows |= entities(self.engine, self.head, key, named)
            found |= {(type_name, one): rows[one] for one in sorted(rows)}
        return found


def _spell_change(change: Change) -> dict[str, Any]:
    row = change.before if change.after is None else change.after
    spelled = spell_entity(str(change.kind), change.type_name, change.id, row)
    before = {name: was for name, (was, _) in change.values.items()}
    return spelled | {"change": _MARKS[change.op], **({"before": before} if before else {})}
