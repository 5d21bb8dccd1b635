"""Topology: one edge table with the nodes at both ends, and the adjacencies that are made from it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from omnigraph.commit.changes import column
from omnigraph.compile.checked import Direction
from omnigraph.engine.read import costs
from omnigraph.engine.read.adjacency import (
    Adjacency,
    Each,
    Ends,
    Slots,
    added,
    compress,
    none_absent,
    slots_of,
)
from omnigraph.engine.read.columns import Held
from omnigraph.engine.read.entities import ID, Entities
from omnigraph.engine.read.layout import Layout
from omnigraph.engine.read.numbers import ABSENT, Numbers, indices_of
from omnigraph.engine.read.places import Places
from omnigraph.storage.tables import FragmentInfo, IndexKind

SOURCE, TARGET = "src", "dst"
_ROW_ID = "_rowid"
_PATCH_PART = 16
"""Edges are added to what is there while they are fewer than one in this many of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An adjacency and what it was made from; `dangling` when an edge had an end that was not there."""

    adjacency: Adjacency
    edges: Layout
    sources: Layout
    targets: Layout
    dangling: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One edge table; each adjacency is made when it is first walked."""

    edges: Entities
    sources: Entities
    targets: Entities

    def adjacency(self, direction: Direction, each: Each) -> Adjacency:
        """The neighbours of all nodes in a direction."""
        key, family = self._names(direction, each)
        previous = self.edges.cache.latest(family)
        kept: Kept = self.edges.cache.get(
            key,
            lambda: self._patched(previous, direction, each) or self._built(direction, each),
            lambda one: one.adjacency.nbytes,
            family,
        )
        return kept.adjacency

    def is_near(self, direction: Direction, each: Each) -> bool:
        """Whether an adjacency is in memory, or one that it differs little from."""
        key, family = self._names(direction, each)
        if self.edges.cache.peek(key) is not None:
            return True
        previous = self.edges.cache.latest(family)
        return previous is not None and self._can_patch(previous)

    def _names(self, direction: Direction, each: Each) -> tuple[object, object]:
        kind = ("adjacency", direction, each)
        layouts = (self.edges.layout, self.sources.layout, self.targets.layout)
        return (*layouts, *kind), (self.edges.layout.path, *kind)

    # ---- from the whole table

    def _built(self, direction: Direction, each: Each) -> Kept:
        ends, dangling = self._whole()
        return self._kept(compress(self._slots(direction), ends.turned(direction), each), dangling)

    def _whole(self) -> tuple[Ends, bool]:
        """All edges by their ends; kept for a while, because the other direction may be walked next."""
        layouts = (self.edges.layout, self.sources.layout, self.targets.layout)
        return self.edges.cache.get(
            (*layouts, "ends"),
            lambda: none_absent(self._ends(self.edges.layout.fragments)),
            lambda found: found[0].nbytes,
        )

    def _kept(self, adjacency: Adjacency, dangling: bool) -> Kept:
        return Kept(
            adjacency=adjacency,
            edges=self.edges.layout,
            sources=self.sources.layout,
            targets=self.targets.layout,
            dangling=dangling,
        )

    def _slots(self, direction: Direction) -> Slots:
        return slots_of(self.near(direction).places)

    def near(self, direction: Direction) -> Entities:
        """The nodes a walk in a direction comes from."""
        return self.targets if direction is Direction.IN else self.sources

    def far(self, direction: Direction) -> Entities:
        """The nodes a walk in a direction leads to."""
        return self.sources if direction is Direction.IN else self.targets

    def _ends(self, fragments: tuple[FragmentInfo, ...]) -> Ends:
        if not fragments:
            nothing = np.empty(0, dtype=np.int64)
            return Ends(near=nothing, far=nothing, edges=nothing)
        parts = [fragment.id for fragment in fragments]
        rows = self.edges.table.read((SOURCE, TARGET), row_id=True, fragments=parts)
        with ThreadPoolExecutor(2) as both:
            near = both.submit(self.sources.numbers_of, column(rows, SOURCE))
            far = both.submit(self.targets.numbers_of, column(rows, TARGET))
            edges = column(rows, _ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64)
            return Ends(near=near.result(), far=far.result(), edges=edges)

    # ---- from the adjacency of an earlier version

    def _patched(self, previous: Kept | None, direction: Direction, each: Each) -> Kept | None:
        if previous is None or not self._can_patch(previous):
            return None
        fresh = tuple(f for f in self.edges.layout.fragments if f not in previous.edges.starts)
        if not fresh:
            return self._kept(previous.adjacency, dangling=False)
        slots = self._slots(direction)
        if not slots.extends(previous.adjacency.slots):
            return None
        ends, dangling = none_absent(self._ends(fresh))
        return self._kept(added(previous.adjacency, slots, ends.turned(direction)), dangling)

    def _can_patch(self, previous: Kept) -> bool:
        now = self.edges.layout
        return (
            not previous.dangling
            and all(fragment in now.starts for fragment in previous.edges.fragments)
            and (now.rows - previous.edges.rows) * _PATCH_PART <= now.rows
            and keeps(self.sources, previous.sources)
            and keeps(self.targets, previous.targets)
        )

    # ---- for a few nodes only

    def hop_cost(self, nodes: int, direction: Direction) -> float:
        """What a hop from some nodes through the indexes may cost, where no index covers a row included."""
        edges = nodes * len(self.edges) // max(len(self.near(direction)), 1)
        ways = _one_way(direction)
        loose = sum(self.edges.loose_rows(_name(one), IndexKind.BTREE) for one in ways)
        return len(ways) * costs.hop(edges, len(self.edges)) + loose * costs.SCANNED_ROW

    def local(self, nodes: Numbers, direction: Direction, each: Each) -> Adjacency:
        """The neighbours of some nodes, found through the indexes of the edge table."""
        known = np.unique(nodes[nodes != ABSENT])
        slots = Slots(0, len(known), known)
        parts = [self._edges_of(known, one) for one in _one_way(direction)]
        ends, _ = none_absent(_joined(parts))
        return compress(slots, ends, each)

    def _edges_of(self, known: Numbers, direction: Direction) -> Ends:
        name, other = _name(direction), _name(_TURNED[direction])
        texts = self.near(direction).id_texts(known)
        if not len(self.edges) or not len(known):
            nothing = np.empty(0, dtype=np.int64)
            return Ends(near=nothing, far=nothing, edges=nothing)
        rows = self.edges.table.lookup(name, texts, (SOURCE, TARGET), row_id=True)
        places = pc.index_in(column(rows, name), value_set=texts).to_numpy(zero_copy_only=False)
        return Ends(
            near=known[places.astype(np.int64)],
            far=self.far(direction).numbers_of(column(rows, other)),
            edges=column(rows, _ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64),
        )


_TURNED = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}


def _name(direction: Direction) -> str:
    return TARGET if direction is Direction.IN else SOURCE


def _one_way(direction: Direction) -> tuple[Direction, ...]:
    return (Direction.OUT, Direction.IN) if direction is Direction.BOTH else (direction,)


def _joined(parts: list[Ends]) -> Ends:
    if len(parts) == 1:
        return parts[0]
    out, back = parts
    back = back.keep(back.near != back.far)
    return Ends(
        near=np.concatenate([out.near, back.near]),
        far=np.concatenate([out.far, back.far]),
        edges=np.concatenate([out.edges, back.edges]),
    )


def keeps(nodes: Entities, before: Layout) -> bool:
    """Whether every node of an earlier layout is still there, with the number and the id it had."""
    now = nodes.layout
    gone = [fragment for fragment in before.fragments if fragment not in now.starts]
    if not gone:
        return True
    places: Places | None = nodes.cache.peek((before, "places"))
    ids: Held | None = nodes.cache.peek((before, "column", nodes.table.field_ids[ID]))
    if places is None or ids is None:
        return False
    spots = np.concatenate(
        [np.arange(before.starts[f], before.starts[f] + f.rows, dtype=np.int64) for f in gone]
    )
    found = nodes.places.of(places.at(spots))
    if (found == ABSENT).any():
        return False
    same = pc.equal(ids.values.take(indices_of(spots)), nodes.whole(ID).take(indices_of(found)))
    return bool(pc.all(same, min_count=0).as_py())
