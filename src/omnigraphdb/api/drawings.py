"""A comparison to be drawn: a bounded number of changed nodes and edges, what they hang on and what joins them, and all counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

import pyarrow as pa

from omnigraphdb.api.neighbours import label_of, spell_entity
from omnigraphdb.display import Displayable, Grid, Report, count_of
from omnigraphdb.engine.history.authors import find_authored, list_actors
from omnigraphdb.engine.history.changes import Change
from omnigraphdb.engine.history.compare import ChangeFilter, find_steps, list_differing_pairs
from omnigraphdb.engine.history.counts import CountedTable, Counts, count_table
from omnigraphdb.engine.history.log import Shows
from omnigraphdb.engine.read.links import Link, Node, list_links
from omnigraphdb.engine.read.verbs import entities
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import EntityKind, Op, TableKey, is_node, node_key, type_name
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

NODES_DRAWN: Final = 2_000
EDGES_DRAWN: Final = 10_000
ACTORS_LISTED: Final = 200

_LINKS: Final = "unchanged_edges"
_MARKS: Final = {Op.INSERT: "added", Op.UPDATE: "changed", Op.DELETE: "removed"}
_COUNTED: Final = ("inserted", "updated", "deleted")


class OperationCounts(TypedDict):
    """The number of entities that differ, by operation."""

    inserted: int
    updated: int
    deleted: int


Drawn = Mapping[str, Any]
"""A node or an edge as surfaces show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffDrawing(Displayable):
    """What is drawn of a comparison: all counts by type, the first changes, and how many there are."""

    base: str | None
    head: str | None
    counts: Mapping[str, OperationCounts]
    nodes: tuple[Drawn, ...]
    """The changed nodes, then those that changed edges hang on."""
    edges: tuple[Drawn, ...]
    """The changed edges, then unchanged ones between nodes that are drawn."""
    shown: Mapping[str, int]
    total: Mapping[str, int]
    actors: tuple[str, ...] = ()
    """Who made the commits that only one of the states has."""

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "base": self.base,
            "head": self.head,
            "counts": {name: dict(counts) for name, counts in self.counts.items()},
            "nodes": list(self.nodes),
            "edges": list(self.edges),
            "shown": dict(self.shown),
            "total": dict(self.total),
            "actors": list(self.actors),
        }

    def _report(self) -> Report:
        rows = [(name, *counts.values()) for name, counts in self.counts.items()]
        shown = f"{self.shown['nodes']} of {count_of(self.total['nodes'], 'node')}"
        edges = f"{self.shown['edges']} of {count_of(self.total['edges'], 'edge')}"
        grid = Grid(columns=("type", *_COUNTED), rows=rows)
        title = f"Drawing of {self.base}..{self.head}: {shown} and {edges} shown"
        return Report(title=title, grids=(grid,) if rows else ())


def draw_diff(
    engine: Engine,
    base: View,
    head: View,
    wanted: ChangeFilter,
    shows: Shows,
    *,
    nodes_max: int,
    edges_max: int,
) -> DiffDrawing:
    """Compare two states, and keep as many changes as may be drawn."""
    wanted = find_authored(engine, base.state, head.state, wanted, shows)
    room = {EntityKind.NODE: nodes_max, EntityKind.EDGE: edges_max}
    kept: dict[EntityKind, list[Change]] = {kind: [] for kind in EntityKind}
    totals = dict.fromkeys(EntityKind, 0)
    counted = []
    for pair in list_differing_pairs(base.state, head.state, wanted):
        kind = EntityKind.NODE if is_node(pair.key) else EntityKind.EDGE
        found = count_table(engine.store.tables, pair, wanted, room[kind] - len(kept[kind]))
        kept[kind].extend(found.first)
        totals[kind] += found.total
        counted.append(found)
    nodes, edges = kept[EntityKind.NODE], kept[EntityKind.EDGE]
    context = _read_context(engine, base, head, nodes, edges)
    labels = _name_nodes(nodes) | {node: label_of(node[1], row) for node, row in context.items()}
    links = list_links(engine, head, labels, lambda key: _list_changed(engine, base, head, key))
    kept_links = links[: edges_max - len(edges)]
    return DiffDrawing(
        base=base.commit,
        head=head.commit,
        counts=_sum_types(counted),
        nodes=(*map(_spell_change, nodes), *_spell_context(context)),
        edges=(
            *(_spell_edge(head, one, labels) for one in edges),
            *(_spell_link(one, labels) for one in kept_links),
        ),
        shown={"nodes": len(nodes), "edges": len(edges), _LINKS: len(kept_links)},
        total={
            "nodes": totals[EntityKind.NODE],
            "edges": totals[EntityKind.EDGE],
            _LINKS: len(links),
        },
        actors=list_actors(base.state, head.state, shows)[:ACTORS_LISTED],
    )


def _sum_types(counted: Iterable[CountedTable]) -> dict[str, OperationCounts]:
    found: dict[str, Counter[Op]] = {}
    for one in counted:
        if one.total:
            found.setdefault(type_name(one.key), Counter()).update(one.counts)
    return {name: count_operations(counts) for name, counts in sorted(found.items())}


def count_operations(counts: Counts) -> OperationCounts:
    """Give counts by the words of a drawing."""
    return OperationCounts(
        inserted=counts.get(Op.INSERT, 0),
        updated=counts.get(Op.UPDATE, 0),
        deleted=counts.get(Op.DELETE, 0),
    )


def _read_context(
    engine: Engine, base: View, head: View, nodes: list[Change], edges: list[Change]
) -> dict[Node, Mapping[str, Any]]:
    """Read the nodes that changed edges hang on and that did not change themselves, by type and id."""
    known = {(one.type_name, one.id) for one in nodes}
    wanted: dict[str, dict[str, None]] = {}
    for change in edges:
        for type_, identity in _find_ends(head, change):
            if (type_, identity) not in known:
                wanted.setdefault(type_, {})[identity] = None
    found: dict[Node, Mapping[str, Any]] = {}
    for type_, ids in sorted(wanted.items()):
        key, named = node_key(type_), list(ids)
        rows = entities(engine, base, key, named) | entities(engine, head, key, named)
        found |= {(type_, one): rows[one] for one in sorted(rows)}
    return found


def _list_changed(engine: Engine, base: View, head: View, key: TableKey) -> pa.Array:
    """List the edges of a table that differ, drawn or not: the others are unchanged."""
    pairs = list_differing_pairs(base.state, head.state, ChangeFilter(tables=(key,)))
    steps = (step for pair in pairs for step, _ in find_steps(engine.store.tables, pair))
    parts = [part for step in steps for part in step.moves["id"].chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _find_ends(head: View, change: Change) -> tuple[Node, ...]:
    ends = change.endpoints
    type_ = head.catalog.edges.get(change.type_name)
    if ends is None or type_ is None:
        return ()
    return ((type_.source, ends.src), (type_.target, ends.dst))


# ---- spelling


def _name_nodes(nodes: Iterable[Change]) -> dict[Node, str]:
    return {(one.type_name, one.id): label_of(one.id, one.after or one.before) for one in nodes}


def _spell_context(context: Mapping[Node, Mapping[str, Any]]) -> Iterable[Drawn]:
    return (spell_entity("node", *node, row) | {"change": "same"} for node, row in context.items())


def _spell_edge(head: View, change: Change, labels: Mapping[Node, str]) -> Drawn:
    ends = [
        {"type": type_, "id": one, "label": labels.get((type_, one), one)}
        for type_, one in _find_ends(head, change)
    ]
    return _spell_change(change) | dict(zip(("from", "to"), ends, strict=False))


def _spell_link(link: Link, labels: Mapping[Node, str]) -> Drawn:
    ends = {
        word: {"type": node[0], "id": node[1], "label": labels[node]}
        for word, node in (("from", link.source), ("to", link.target))
    }
    return spell_entity("edge", link.type_name, link.id, None) | {"change": "same"} | ends


def _spell_change(change: Change) -> dict[str, Any]:
    row = change.before if change.after is None else change.after
    spelled = spell_entity(str(change.kind), change.type_name, change.id, row)
    before = {name: was for name, (was, _) in change.values.items()}
    return spelled | {"change": _MARKS[change.op], **({"before": before} if before else {})}
