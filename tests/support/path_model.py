"""Paths by hand: every path without a loop is listed, then chosen as the language says."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Pair = tuple[str, str]
Path = tuple[str, ...]
"""The ids of the edges of a path."""


@dataclass(frozen=True)
class ModelEdge:
    """An edge of a small graph."""

    id: str
    kind: str
    source: str
    target: str
    weight: int | None


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What a query asks of paths, and the text that asks it."""

    kinds: tuple[str, ...] = ("Feeds",)
    low: int = 1
    high: int = 8
    by: bool = False
    best: int | None = None
    every: bool = False
    least: int | None = None
    undirected: bool = False

    @property
    def text(self) -> str:
        """The edges and bounds of the traversal."""
        words = "|".join(kind[0].lower() + kind[1:] for kind in self.kinds)
        words = f"<{words}>" if self.undirected else words
        more = " by weight" if self.by else ""
        more += " all" if self.every else "" if self.best is None else f" best {self.best}"
        more += "" if self.least is None else f" where weight >= {self.least}"
        return f"{words}{{{self.low},{self.high}{more}}}"

    def steps(self, edges: Iterable[ModelEdge]) -> Mapping[str, list[tuple[str, ModelEdge]]]:
        """Where each node leads, by the edges that may be walked."""
        found = defaultdict(list)
        for edge in edges:
            kept = self.least is None or (edge.weight is not None and edge.weight >= self.least)
            if edge.kind not in self.kinds or not kept:
                continue
            found[edge.source].append((edge.target, edge))
            if self.undirected and edge.source != edge.target:
                found[edge.target].append((edge.source, edge))
        return found


def list_paths(walk: Walk, edges: Iterable[ModelEdge]) -> dict[Pair, list[Path]]:
    """The paths of every pair of ends, the best first."""
    steps = walk.steps(edges)
    nodes = {*steps, *(end for found in steps.values() for end, _ in found)}
    found: dict[Pair, list[Path]] = {}
    for start in nodes:
        by_end: defaultdict[str, list[list[ModelEdge]]] = defaultdict(list)
        for end, path in _extend(walk, steps, (start,), []):
            by_end[end].append(path)
        for end, paths in by_end.items():
            chosen = _choose(walk, paths, is_same=start == end)
            if chosen:
                found[start, end] = [tuple(edge.id for edge in path) for path in chosen]
    return found


def _extend(
    walk: Walk,
    steps: Mapping[str, list[tuple[str, ModelEdge]]],
    nodes: tuple[str, ...],
    path: list[ModelEdge],
) -> Iterator[tuple[str, list[ModelEdge]]]:
    yield nodes[-1], path
    if len(path) == walk.high:
        return
    for end, edge in steps.get(nodes[-1], ()):
        if end == nodes[-1] and not path:
            yield end, [edge]
        elif end not in nodes:
            yield from _extend(walk, steps, (*nodes, end), [*path, edge])


def _choose(walk: Walk, paths: list[list[ModelEdge]], *, is_same: bool) -> list[list[ModelEdge]]:
    def rank(path: list[ModelEdge]) -> tuple[object, ...]:
        cost = sum(edge.weight or 0 for edge in path) if walk.by else 0
        # A path without a hop is the best one from a node to itself, whatever its loops cost.
        return len(path) > 0, cost, len(path), [(edge.id, edge.kind) for edge in path]

    if is_same or walk.best is not None:
        paths = [path for path in paths if len(path) >= walk.low]
    ordered = sorted(paths, key=rank)
    if walk.best is not None:
        return ordered[: walk.best]
    if not ordered or len(ordered[0]) < walk.low:
        return []
    if not walk.every:
        return ordered[:1]
    return [path for path in ordered if len(path) == len(ordered[0])]
