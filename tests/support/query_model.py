"""What a checked query means over a graph of plain Python values: every assignment is tried."""

import itertools
import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from omnigraph.catalog.types import FLOATS, Scalar
from omnigraph.compile.checked import (
    Aggregate,
    AllOf,
    Among,
    AnyOf,
    Bm25,
    CheckedRead,
    Compare,
    Condition,
    Const,
    Direction,
    EntityRef,
    Hop,
    IsNull,
    Nearest,
    Not,
    Now,
    ParamRef,
    Pattern,
    PropertyRef,
    Rrf,
    TextMatch,
    VariableKind,
)
from omnigraph.compile.plan.algebra import Always, Test
from omnigraph.compile.plan.operators import Expand

T = TypeVar("T")

NOW = "now()"
"""The instant of the query stands among the parameters, under a name none can have."""

Entity = Mapping[str, Any]
Row = dict[str, Entity | None]
Values = tuple[object, ...]


@dataclass(frozen=True)
class ModelGraph:
    """Nodes by type and edges by type; each entity has an `id`, each edge `src` and `dst`."""

    nodes: Mapping[str, Sequence[Entity]] = field(default_factory=dict)
    edges: Mapping[str, Sequence[Entity]] = field(default_factory=dict)


# ---- one row: operands and three-valued conditions


def value_of(expr: Any, row: Row, params: Mapping[str, object]) -> Any:
    match expr:
        case Const(value=value):
            return value
        case ParamRef(name=name):
            return params[name]
        case Now():
            return params[NOW]
        case PropertyRef(variable=variable, property=name):
            entity = row[variable]
            return None if entity is None else entity.get(name)
        case EntityRef(variable=variable):
            entity = row[variable]
            return None if entity is None else entity["id"]
        case TextMatch():
            return truth(expr, row, params)
        case _:
            raise NotImplementedError(expr)


def truth(test: Test, row: Row, params: Mapping[str, object]) -> bool | None:
    """True, false, or None for unknown."""
    match test:
        case Always(value=value):
            return value
        case AllOf(parts=parts):
            return _all([truth(part, row, params) for part in parts])
        case AnyOf(parts=parts):
            return _negated(_all([_negated(truth(part, row, params)) for part in parts]))
        case Not(part=part):
            return _negated(truth(part, row, params))
        case IsNull(operand=operand, negated=negated):
            return (value_of(operand, row, params) is None) != negated
        case Compare():
            return _compared(test, row, params)
        case Among(operand=operand, choices=choices):
            values = value_of(choices, row, params)
            if values == ():
                return False
            if values is None or value_of(operand, row, params) is None:
                return None
            typed = [Const(value=one, type=choices.type) for one in values]
            equal = [Compare(left=operand, op="=", right=one) for one in typed]
            return _negated(_all([_negated(truth(one, row, params)) for one in equal]))
        case TextMatch(field=field, query=query):
            text = value_of(field, row, params)
            return (
                None if text is None else bool(_words(text) & _words(value_of(query, row, params)))
            )


def _all(parts: list[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _negated(part: bool | None) -> bool | None:
    return None if part is None else not part


def _words(text: str) -> set[str]:
    return set(text.lower().split())


def _compared(test: Compare, row: Row, params: Mapping[str, object]) -> bool | None:
    left, right = value_of(test.left, row, params), value_of(test.right, row, params)
    if left is None or right is None:
        return None
    left, right = _at_precision(left, test.right), _at_precision(right, test.left)
    match test.op:
        case "=":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "contains":
            return right in left
        case "starts_with":
            return bool(left.startswith(right))


def _at_precision(value: Any, other: object) -> Any:
    """A number compared with a float property has that property's precision."""
    if not isinstance(other, PropertyRef) or other.type.scalar not in FLOATS:
        return value
    if other.type.scalar is Scalar.F64:
        return float(value)
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


# ---- hops


def reached(graph: ModelGraph, hop: Hop | Expand) -> set[tuple[str, str]]:
    """All pairs of ids that a hop connects, at a shortest distance within its bounds."""
    neighbours = defaultdict(set)
    for edge in graph.edges.get(hop.edge, ()):
        for source, target in _ends(edge, hop.direction):
            neighbours[source].add(target)
    found = {(node, node) for node in neighbours if node in neighbours[node] and hop.low == 1}
    for start in list(neighbours):
        seen, frontier = {start}, {start}
        for distance in range(1, hop.high + 1):
            frontier = {far for near in frontier for far in neighbours.get(near, ())} - seen
            seen |= frontier
            if distance >= hop.low:
                found |= {(start, far) for far in frontier}
    return found


def _ends(edge: Entity, direction: Direction) -> Iterator[tuple[str, str]]:
    if direction is not Direction.IN:
        yield edge["src"], edge["dst"]
    if direction is not Direction.OUT:
        yield edge["dst"], edge["src"]


def matching_edges(
    graph: ModelGraph, edge_type: str, direction: Direction, pair: tuple[str, str]
) -> list[Entity]:
    edges = graph.edges.get(edge_type, ())
    return [edge for edge in edges if pair in _ends(edge, direction)]


# ---- the meaning of a query, straight from the checked pattern


def meaning(read: CheckedRead, graph: ModelGraph, params: Mapping[str, object]) -> list[Values]:
    """The rows of a query by trying every assignment."""
    rows = list(_matches(read.pattern, {}, read, graph, params))
    if read.is_aggregate:
        return windowed(_meant_groups(read, rows, params), read.limit, read.offset, params)
    rows = _meant_order(read, rows, params)
    rows = windowed(rows, read.limit, read.offset, params)
    return [tuple(value_of(one.expr, row, params) for one in read.columns) for row in rows]


def _matches(
    pattern: Pattern,
    outer: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> Iterator[Row]:
    if any(outer[bind.variable] is None for bind in pattern.binds if bind.variable in outer):
        return
    own = [one for one in pattern.variables if one.kind is VariableKind.NODE]
    pools = [graph.nodes.get(one.type_name, ()) for one in own]
    for chosen in itertools.product(*pools):
        nodes: Row = outer | {one.name: node for one, node in zip(own, chosen, strict=True)}
        for row in _with_edges(pattern.hops, nodes, read, graph):
            for full in _with_optionals(pattern.optionals, row, read, graph, params):
                if _passes(pattern, full, read, graph, params):
                    yield full


def _with_edges(
    hops: Sequence[Hop], row: Row, read: CheckedRead, graph: ModelGraph
) -> Iterator[Row]:
    if not hops:
        yield row
        return
    hop, rest = hops[0], hops[1:]
    left, right = row[hop.left], row[hop.right]
    if left is None or right is None:
        return
    pair = (left["id"], right["id"])
    same_type = read.variables[hop.left].type_name == read.variables[hop.right].type_name
    if not same_type and hop.low > 1:
        return
    if hop.edge_variable is not None:
        for edge in matching_edges(graph, hop.edge, hop.direction, pair):
            yield from _with_edges(rest, row | {hop.edge_variable: edge}, read, graph)
    elif _connected(graph, hop, pair, same_type):
        yield from _with_edges(rest, row, read, graph)


def _connected(graph: ModelGraph, hop: Hop, pair: tuple[str, str], same_type: bool) -> bool:
    if same_type:
        return pair in reached(graph, hop)
    return bool(matching_edges(graph, hop.edge, hop.direction, pair))


def _with_optionals(
    blocks: Sequence[Pattern],
    row: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> Iterator[Row]:
    if not blocks:
        yield row
        return
    block, rest = blocks[0], blocks[1:]
    found = list(_matches(block, row, read, graph, params))
    missing: Row = row | {one.name: None for one in block.row_variables}
    for full in found or [missing]:
        yield from _with_optionals(rest, full, read, graph, params)


def _passes(
    pattern: Pattern,
    row: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> bool:
    blocks = (match for bind in pattern.binds for match in bind.matches)
    conditions: Iterable[Condition] = (*blocks, *pattern.conditions)
    return all(truth(one, row, params) is True for one in conditions) and not any(
        next(_matches(block, row, read, graph, params), None) for block in pattern.negations
    )


def _meant_order(read: CheckedRead, rows: list[Row], params: Mapping[str, object]) -> list[Row]:
    if not read.order:
        return rows
    by_name = {column.name: column.expr for column in read.columns}
    shown = sorted(one.name for one in read.pattern.row_variables if not one.anonymous)
    first = read.order[0].key
    if isinstance(first, Nearest | Bm25 | Rrf):
        kinds = {one.name: one.kind for one in read.pattern.row_variables}
        edges_first = sorted(shown, key=lambda name: kinds[name] is VariableKind.NODE)
        depth = window_end(read.limit, read.offset, params)
        return ranked(rows, first, edges_first, depth, params)
    rows = sorted(rows, key=lambda row: [id_order(row[name]) for name in shown])
    for key in reversed(read.order):
        expr = by_name[key.key] if isinstance(key.key, str) else key.key
        rows = sorted(
            rows,
            key=lambda row, expr=expr: null_first(value_of(expr, row, params)),  # type: ignore[misc]
            reverse=key.descending,
        )
    return rows


def null_first(value: object) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def id_order(entity: Entity | None) -> tuple[bool, Any]:
    return null_first(None if entity is None else entity["id"])


def _meant_groups(read: CheckedRead, rows: list[Row], params: Mapping[str, object]) -> list[Values]:
    keys = [one for one in read.columns if not isinstance(one.expr, Aggregate)]
    groups: dict[Values, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(value_of(one.expr, row, params) for one in keys)].append(row)
    if not keys:
        groups.setdefault((), [])

    def cell(expr: Any, group: Values) -> object:
        if isinstance(expr, Aggregate):
            found = [value_of(expr.argument, row, params) for row in groups[group]]
            return tallied(expr.function, [(value, 1) for value in found])
        return group[[one.expr for one in keys].index(expr)]

    order = sorted(groups, key=lambda group: [null_first(value) for value in group])
    by_name = {column.name: column.expr for column in read.columns}
    for key in reversed(read.order):
        expr = by_name[key.key] if isinstance(key.key, str) else key.key
        order = sorted(
            order,
            key=lambda group, expr=expr: null_first(cell(expr, group)),  # type: ignore[misc]
            reverse=key.descending,
        )
    return [tuple(cell(one.expr, group) for one in read.columns) for group in order]


# ---- shared by meaning and doing: scores, tallies, windows


def ranked(
    rows: list[Row],
    ranking: Nearest | Bm25 | Rrf,
    ties: Sequence[str],
    depth: int | None,
    params: Mapping[str, object],
) -> list[Row]:
    """Rows by the rank of their entity, then by the ids of the ties."""
    subject = (ranking.first if isinstance(ranking, Rrf) else ranking).field.variable
    places = _places(rows, subject, ranking, depth, params)
    kept = [row for row in rows if _key(row, subject) in places]
    return sorted(
        kept,
        key=lambda row: (places[_key(row, subject)], [id_order(row[name]) for name in ties]),
    )


def _key(row: Row, variable: str) -> object:
    entity = row[variable]
    return None if entity is None else entity["id"]


def _places(
    rows: list[Row],
    subject: str,
    ranking: Nearest | Bm25 | Rrf,
    depth: int | None,
    params: Mapping[str, object],
) -> dict[object, int]:
    entities = {_key(row, subject): row for row in rows if row[subject] is not None}
    if not isinstance(ranking, Rrf):
        scores = {one: _score(ranking, row, params) for one, row in entities.items()}
        order = sorted((score, str(one)) for one, score in scores.items() if score is not None)
        return {one: place for place, (_, one) in enumerate(order)}
    arms = [_places(rows, subject, arm, None, params) for arm in (ranking.first, ranking.second)]
    for position, arm in enumerate((ranking.first, ranking.second)):
        if isinstance(arm, Nearest) and depth is not None:
            arms[position] = {one: at for one, at in arms[position].items() if at < depth}
    k = int(str(value_of(ranking.k, {}, params)))
    fused = {
        one: -sum(1 / (k + arm[one] + 1) for arm in arms if one in arm)
        for one in arms[0].keys() | arms[1].keys()
    }
    last = len(entities)
    best = sorted(fused, key=lambda one: (fused[one], *(arm.get(one, last) for arm in arms)))
    return {one: place for place, one in enumerate(best)}


def _score(ranking: Nearest | Bm25, row: Row, params: Mapping[str, object]) -> float | None:
    value, query = value_of(ranking.field, row, params), value_of(ranking.query, row, params)
    if value is None:
        return None
    if isinstance(ranking, Nearest):
        return float(sum((a - b) ** 2 for a, b in zip(value, query, strict=True)))
    words = Counter(value.lower().split())
    return -sum(words[word] for word in _words(query)) or None


def tallied(function: str, values: list[tuple[Any, int]]) -> object:
    """One aggregate over values and how often each occurs."""
    known = [(value, weight) for value, weight in values if value is not None]
    if function == "count":
        return sum(weight for _, weight in known)
    if not known:
        return None
    total = (
        math.fsum(value * weight for value, weight in known) if function in ("sum", "avg") else 0
    )
    match function:
        case "sum":
            return total
        case "avg":
            return total / sum(weight for _, weight in known)
        case "min":
            return min(value for value, _ in known)
        case _:
            return max(value for value, _ in known)


def window_end(
    limit: Const | ParamRef | None, offset: Const | ParamRef | None, params: Mapping[str, object]
) -> int | None:
    if limit is None:
        return None
    return sum(int(value_of(one, {}, params)) for one in (limit, offset) if one is not None)


def windowed(
    rows: list[T],
    limit: Const | ParamRef | None,
    offset: Const | ParamRef | None,
    params: Mapping[str, object],
) -> list[T]:
    start = 0 if offset is None else int(value_of(offset, {}, params))
    return rows[start : window_end(limit, offset, params)]
