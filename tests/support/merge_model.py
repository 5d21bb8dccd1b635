"""A merge over plain dicts: the oracle that real merges are compared with."""

from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
Rows = dict[str, Row]
Graph = dict[str, Rows]
"""Rows by id, by table key."""

Found = set[tuple[str, str, str]]
"""Conflicts as (kind, table key, id)."""

ABSENT = None


def merge_row(base: Row | None, source: Row | None, target: Row | None) -> Row | str | None:
    """The row that results, None for none, or the kind of the conflict."""
    if source == base:
        return target
    if target == base or source == target:
        return source
    if base is ABSENT:
        return "divergent_insert"
    if source is ABSENT or target is ABSENT:
        return "delete_vs_update"
    return "divergent_update"


def merge_properties(base: Row | None, source: Row | None, target: Row | None) -> Row | str | None:
    """As `merge_row`, but rows changed on both sides conflict only where one property was."""
    whole = merge_row(base, source, target)
    if whole != "divergent_update":
        return whole
    assert base is not None
    assert source is not None
    assert target is not None
    mixed = {}
    for name in base:
        one = merge_row({"v": base[name]}, {"v": source[name]}, {"v": target[name]})
        if isinstance(one, str):
            return one
        assert one is not None
        mixed[name] = one["v"]
    return mixed


Decide = Callable[[Row | None, Row | None, Row | None], Row | str | None]


def merge_graph(
    base: Graph, source: Graph, target: Graph, decide: Decide = merge_row
) -> tuple[Graph, Found]:
    """Merge every table; conflicts are complete, the graph means nothing when there are any."""
    merged: Graph = {}
    conflicts: Found = set()
    for table in target:
        rows = [side.get(table, {}) for side in (base, source, target)]
        merged[table] = {}
        for id_ in {i for side in rows for i in side}:
            result = decide(*(side.get(id_) for side in rows))
            if isinstance(result, str):
                conflicts.add((result, table, id_))
            elif result is not None:
                merged[table][id_] = result
    return merged, conflicts


def broken_rules(graph: Graph, edges: Mapping[str, tuple[str, str]], unique: str | None) -> Found:
    """Edges without an end, and holders of a unique value that another row has."""
    found: Found = set()
    for table, (source, target) in edges.items():
        for id_, edge in graph[table].items():
            if edge["src"] not in graph[source] or edge["dst"] not in graph[target]:
                found.add(("orphan_edge", table, id_))
    if unique is not None:
        table, name = unique.split(".")
        values = [row[name] for row in graph[table].values() if row[name] is not None]
        if len(values) != len(set(values)):
            found.add(("unique_violation", table, ""))
    return found
