"""What a checked query means over a graph of plain Python values: every assignment is tried."""

import calendar
import itertools
import math
import re
import statistics
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, TypeVar

from omnigraphdb.catalog.types import FLOATS, PropertyType, Scalar
from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    BlockValue,
    Bm25,
    Call,
    CheckedRead,
    CheckedStage,
    Column,
    Compare,
    Condition,
    Const,
    Direction,
    Duration,
    EntityRef,
    Field,
    Hop,
    HopBound,
    InList,
    IsNull,
    Nearest,
    Not,
    Now,
    ParamRef,
    PathValue,
    Pattern,
    PropertyRef,
    Rrf,
    TextMatch,
    Truth,
    VariableKind,
    find_condition,
    has_aggregate,
)
from omnigraphdb.compile.plan.algebra import Always, Test
from omnigraphdb.compile.plan.operators import Expand
from omnigraphdb.compile.plan.visit import list_children, replace_parts, strip_spans
from tests.support.path_model import ModelEdge, Walk, list_paths

T = TypeVar("T")

TYPE = "#type"
"""Where a node says of which type it is."""
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
    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The types that each edge type connects, where variables of several types need them."""


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
        case Nearest():
            return _score(expr, row, params)
        case Field(name=name):
            return row[name]
        case Truth(condition=condition):
            return truth(condition, row, params)
        case Call(function="case", arguments=arguments):
            half = len(arguments) // 2
            for test, result in zip(arguments[:half], arguments[half:], strict=False):
                if value_of(test, row, params) is True:
                    return value_of(result, row, params)
            return value_of(arguments[-1], row, params) if len(arguments) % 2 else None
        case Call(function="type", arguments=(EntityRef(variable=variable), Const(value=tuple()))):
            entity = row[variable]
            return None if entity is None else entity[TYPE]
        case Call(function="coalesce", arguments=arguments):
            found = (value_of(one, row, params) for one in arguments)
            return next((one for one in found if one is not None), None)
        case Call(function="entity", arguments=arguments, type=kind):
            names = [name for name, _ in kind.fields]
            values = [freeze(value_of(one, row, params)) for one in arguments]
            return None if values[0] is None else tuple(zip(names, values, strict=True))
        case PathValue():
            return _path_value(expr, row, params)
        case Call(function=function, arguments=arguments):
            return call(function, [value_of(one, row, params) for one in arguments])
        case _:
            raise NotImplementedError(expr)


def freeze(value: object) -> object:
    """A value that can be a key: lists and records become tuples."""
    if isinstance(value, Mapping):
        return tuple((name, freeze(one)) for name, one in value.items())
    return tuple(map(freeze, value)) if isinstance(value, list | tuple) else value


def fraction_of(
    asked: Aggregate | PathValue | BlockValue, params: Mapping[str, object]
) -> float | None:
    """The fraction of a percentile."""
    return None if asked.fraction is None else float(value_of(asked.fraction, {}, params))


def _path_value(asked: PathValue, row: Row, params: Mapping[str, object]) -> object:
    path = row[asked.variable]
    if path is None:
        return None
    if asked.function == "hops":
        return len(path["edges"])
    if asked.function == "nodes":
        return tuple(path["nodes"])
    values = [value_of(asked.argument, {asked.walked: edge}, params) for edge in path["edges"]]
    if asked.function == "edges":
        return tuple(values)
    cells = [(one, 1) for one in values]
    fraction = fraction_of(asked, params)
    return tallied(asked.function, cells, distinct=asked.distinct, fraction=fraction)


class Refused(Exception):
    """A value that a function refuses."""


def call(function: str, values: list[Any]) -> Any:
    """A function of plain values; NULL gives NULL."""
    if None in values:
        return None
    match function, values:
        case "+" | "-" | "*" | "/" | "%", [left, right]:
            return _calculate(function, left, right)
        case "lower", [text]:
            return text.lower()
        case "upper", [text]:
            return text.upper()
        case "trim", [text]:
            return text.strip()
        case "length" | "size", [text]:
            return len(text)
        case "substring", [text, start, *length]:
            end = start + max(length[0], 0) if length else len(text) + 1
            return text[max(start, 1) - 1 : max(end, 1) - 1]
        case "replace", [text, old, new]:
            return text.replace(old, new) if old else text
        case "concat", texts:
            return "".join(texts)
        case "abs", [number]:
            return abs(number)
        case "floor", [number]:
            return math.floor(number) if isinstance(number, int) else float(math.floor(number))
        case "ceil", [number]:
            return math.ceil(number) if isinstance(number, int) else float(math.ceil(number))
        case "round", [number, *digits]:
            if isinstance(number, int):
                return number
            scale = Decimal(1).scaleb(-(digits[0] if digits else 0))
            return float(Decimal(repr(number)).quantize(scale, ROUND_HALF_UP))
        case "year", [moment]:
            return moment.year
        case "month", [moment]:
            return moment.month
        case "day", [moment]:
            return moment.day
        case "date_trunc", [unit, moment]:
            return _truncate(unit, moment)
        case "first", [items]:
            return items[0] if items else None
        case "last", [items]:
            return items[-1] if items else None
        case "number", [number]:
            return number
        case "type", [_, name]:
            return name
    raise NotImplementedError(function)


def _truncate(unit: str, moment: Any) -> Any:
    match unit:
        case "year":
            date = moment.replace(month=1, day=1)
        case "quarter":
            date = moment.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            date = moment.replace(day=1)
        case "week":
            date = moment - timedelta(days=moment.weekday())
        case _:
            date = moment
    if not isinstance(moment, datetime):
        return date
    kept = {"hour": 1, "minute": 2, "second": 3}.get(unit, 0)
    cleared = dict.fromkeys(("hour", "minute", "second")[kept:], 0)
    return date.replace(microsecond=0, **cleared)


def _calculate(op: str, left: Any, right: Any) -> Any:
    if isinstance(left, Duration):
        left, right = right, left
    if isinstance(right, Duration):
        return _shift(left, right, -1 if op == "-" else 1)
    if op in ("/", "%") and right == 0:
        raise Refused("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        found = _whole(op, left, right)
        if not -(2**63) <= found < 2**63:
            raise Refused("overflow")
        return found
    left, right = float(left), float(right)
    if op == "%":
        return math.fmod(left, right)
    return (
        {"+": left + right, "-": left - right, "*": left * right}.get(op, 0.0)
        if op != "/"
        else left / right
    )


def _whole(op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right


def _shift(moment: Any, duration: Duration, sign: int) -> Any:
    months = moment.year * 12 + moment.month - 1 + sign * duration.months
    year, month = divmod(months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    found = moment.replace(year=year, month=month + 1, day=day)
    return found + sign * timedelta(days=duration.days, milliseconds=duration.milliseconds)


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
        case InList(operand=operand, choices=choices):
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


def _identify(entity: Entity | None) -> object:
    return None if entity is None else (entity.get(TYPE), entity["id"])


def _compared(test: Compare, row: Row, params: Mapping[str, object]) -> bool | None:
    left, right = value_of(test.left, row, params), value_of(test.right, row, params)
    if isinstance(test.left, EntityRef) and isinstance(test.right, EntityRef):
        left, right = (_identify(row[one.variable]) for one in (test.left, test.right))
    if test.op == "contains" and left in ((), []):
        return False
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
        case "ends_with":
            return bool(left.endswith(right))
        case "matches":
            return re.search(right, left) is not None


def _at_precision(value: Any, other: object) -> Any:
    """A number compared with a float property has that property's precision."""
    if (
        isinstance(value, tuple)
        or not isinstance(other, PropertyRef)
        or other.type.scalar not in FLOATS
    ):
        return value
    if other.type.scalar is Scalar.F64:
        return float(value)
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


# ---- hops


def walked_edges(
    graph: ModelGraph, hop: Hop | Expand, params: Mapping[str, object]
) -> list[tuple[str, Entity]]:
    """The edges that a hop may walk, each with its type."""
    return [
        (kind, edge)
        for kind in hop.edge.split("|")
        for edge in graph.edges.get(kind, ())
        if all(truth(one, {str(hop.walked): edge}, params) is True for one in hop.where)
    ]


def reached(
    graph: ModelGraph, hop: Hop | Expand, params: Mapping[str, object]
) -> set[tuple[str, str]]:
    """All pairs of ids that a hop connects, at a shortest distance within its bounds.

    Without a hop every node reaches itself, which is not among them.
    """
    low, high = bounds_of(hop, params)
    neighbours = defaultdict(set)
    for _, edge in walked_edges(graph, hop, params):
        for source, target in _ends(edge, hop.direction):
            neighbours[source].add(target)
    found = {(node, node) for node in neighbours if node in neighbours[node] and low <= 1 <= high}
    for start in list(neighbours):
        seen, frontier, distance = {start}, {start}, 0
        while frontier and distance < high:
            distance += 1
            frontier = {far for near in frontier for far in neighbours.get(near, ())} - seen
            seen |= frontier
            if distance >= low:
                found |= {(start, far) for far in frontier}
    return found


def find_paths(
    graph: ModelGraph, hop: Hop, pair: tuple[str, str], params: Mapping[str, object]
) -> list[Entity]:
    """The paths between two nodes that a hop binds, as the ids of their nodes and as their edges."""
    (low, high), choice = bounds_of(hop, params), hop.path
    assert choice is not None
    kinds = tuple(hop.edge.split("|"))
    tag = len(kinds) > 1
    by_id = {
        f"{edge['id']} {kind}": {**edge, TYPE: kind} if tag else edge
        for kind, edge in walked_edges(graph, hop, params)
    }
    weight = None if choice.by is None else choice.by.property
    edges = tuple(
        ModelEdge(
            id=name,
            kind=name.rpartition(" ")[2],
            source=edge["src"],
            target=edge["dst"],
            weight=None if weight is None else edge[weight],
        )
        for name, edge in by_id.items()
    )
    walk = Walk(
        kinds=kinds,
        low=low,
        high=int(high),
        by=weight is not None,
        best=None if choice.best is None else int(_bound_of(choice.best, params)),
        every=choice.every,
        undirected=hop.direction is Direction.BOTH,
    )
    paths = _list_paths(walk, edges).get(pair, [])
    if low == 0 and pair[0] == pair[1] and not paths:
        paths = [()]
    return [_lay_path(pair[0], [by_id[one] for one in path]) for path in paths]


def _lay_path(start: str, walked: list[Entity]) -> Entity:
    nodes = [start]
    for edge in walked:
        nodes.append(edge["dst"] if edge["src"] == nodes[-1] else edge["src"])
    return {"nodes": nodes, "edges": walked}


_list_paths = lru_cache(1_000)(list_paths)


def bounds_of(hop: Hop | Expand, params: Mapping[str, object]) -> tuple[int, float]:
    """The least and the greatest distance of a walk; without end it is infinite."""
    high = math.inf if hop.high is None else _bound_of(hop.high, params)
    return int(_bound_of(hop.low, params)), high


def _bound_of(bound: HopBound, params: Mapping[str, object]) -> float:
    return bound if isinstance(bound, int) else int(value_of(bound, {}, params))


def _ends(edge: Entity, direction: Direction) -> Iterator[tuple[str, str]]:
    if direction is not Direction.IN:
        yield edge["src"], edge["dst"]
    if direction is not Direction.OUT:
        yield edge["dst"], edge["src"]


def matching_edges(
    graph: ModelGraph, hop: Hop | Expand, pair: tuple[str, str], params: Mapping[str, object]
) -> list[Entity]:
    """The edges of a hop between two nodes; of several types each tells its own."""
    tag = "|" in hop.edge
    return [
        {**edge, TYPE: kind} if tag else edge
        for kind, edge in walked_edges(graph, hop, params)
        if pair in _ends(edge, hop.direction)
    ]


# ---- the meaning of a query, straight from the checked pattern


def meaning(read: CheckedRead, graph: ModelGraph, params: Mapping[str, object]) -> list[Values]:
    """The rows of a query by trying every assignment."""
    if not read.union:
        return [
            values
            for _, values in _part_rows(read, _base_rows(read, graph, params), read, graph, params)
        ]
    alone = replace(read, union=(), order=(), limit=None, offset=None)
    found = meaning(alone, graph, params)
    for every, other in read.union:
        found += meaning(replace(other, variables=read.variables), graph, params)
        found = found if every else list(dict.fromkeys(found))
    names = [one.name for one in read.columns]
    if read.order:
        found = sorted(found, key=lambda values: [null_first(one) for one in values])
    for key in reversed(read.order):
        place = names.index(str(key.key))
        found = sorted(
            found,
            key=lambda values, place=place: null_first(values[place]),  # type: ignore[misc]
            reverse=key.descending,
        )
    return windowed(found, read.limit, read.offset, params)


def _base_rows(read: CheckedRead, graph: ModelGraph, params: Mapping[str, object]) -> list[Row]:
    """The rows that the last stage leaves."""
    rows: list[Row] = [{}]
    for stage in read.stages:
        found = _part_rows(stage, rows, read, graph, params)
        names = [one.name for one in stage.columns]
        rows = []
        for row, values in found:
            left: dict[str, Any] = {one: row[one] for one in stage.entities.values()}
            left |= {n: v for n, v in zip(names, values, strict=True) if n not in stage.entities}
            rows.append(left)
    return rows


def _part_rows(
    part: CheckedRead | CheckedStage,
    base: list[Row],
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> list[tuple[Row, Values]]:
    """The rows of one pattern and its result: what each binds, and its columns."""
    rows = [
        _with_blocks(part.blocks, row, read, graph, params)
        for start in base
        for row in _matches(part.pattern, start, read, graph, params)
    ]
    if not part.is_aggregate:
        rows = [row for row in rows if all(truth(one, row, params) for one in part.having)]
    per = part.per if isinstance(part, CheckedStage) else ()
    if part.is_aggregate or part.distinct:
        return _cut(_meant_groups(part, rows, per, params), part, params)
    rows = _meant_order(part, rows, params)
    shown = [
        (
            tuple(_key_of(one, row, params) for one in per),
            row,
            tuple(value_of(one.expr, row, params) for one in part.columns),
        )
        for row in rows
    ]
    return _cut(shown, part, params)


def _cut(
    rows: list[tuple[Values, Row, Values]],
    part: CheckedRead | CheckedStage,
    params: Mapping[str, object],
) -> list[tuple[Row, Values]]:
    """The window of the rows, or of those that are equal in what it counts by."""
    alike: dict[Values, list[int]] = defaultdict(list)
    for number, (by, _, _) in enumerate(rows):
        alike[by].append(number)
    kept = {n for group in alike.values() for n in windowed(group, part.limit, part.offset, params)}
    return [(row, values) for n, (_, row, values) in enumerate(rows) if n in kept]


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
    pools = [
        [{**node, TYPE: name} for name in one.types for node in graph.nodes.get(name, ())]
        for one in own
    ]
    for chosen in itertools.product(*pools):
        nodes: Row = outer | {one.name: node for one, node in zip(own, chosen, strict=True)}
        for row in _with_edges(pattern.hops, nodes, read, graph, params):
            for found in _with_optionals(pattern.optionals, row, read, graph, params):
                full = _with_blocks(pattern.blocks, found, read, graph, params)
                if _passes(pattern, full, read, graph, params):
                    yield full


def _with_blocks(
    blocks: Sequence[BlockValue],
    row: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> Row:
    """A row with what the blocks of its conditions come to."""
    found: dict[str, Any] = dict(row)
    for block in blocks:
        matches = list(_matches(block.pattern, row, read, graph, params))
        if block.function == "exists":
            found[block.name] = bool(matches)
            continue
        names = sorted(_name_entities(block.pattern))
        matches.sort(key=lambda one: [id_order(one[name]) for name in names])
        cells = [(value_of(block.argument, one, params), 1) for one in matches]
        fraction = fraction_of(block, params)
        found[block.name] = tallied(
            block.function, cells, distinct=block.distinct, fraction=fraction
        )
    return found


def _name_entities(pattern: Pattern) -> list[str]:
    shown = (one for one in pattern.row_variables if not one.anonymous)
    return [one.name for one in shown if one.kind is not VariableKind.PATH]


def _with_edges(
    hops: Sequence[Hop],
    row: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> Iterator[Row]:
    if not hops:
        yield row
        return
    hop, rest = hops[0], hops[1:]
    left, right = row[hop.left], row[hop.right]
    if left is None or right is None:
        return
    if hop.any_edge:
        yield from _with_any_edge(hop, rest, row, read, graph, params)
        return
    if _lacks_types(hop, left, right, graph):
        return
    pair = (left["id"], right["id"])
    same_type = read.variables[hop.left].type_name == read.variables[hop.right].type_name
    if not same_type and bounds_of(hop, params)[0] > 1:
        return
    if hop.edge_variable is not None:
        for edge in matching_edges(graph, hop, pair, params):
            yield from _with_edges(rest, row | {hop.edge_variable: edge}, read, graph, params)
    elif hop.path is not None:
        for found in find_paths(graph, hop, pair, params):
            yield from _with_edges(rest, row | {hop.path.variable: found}, read, graph, params)
    elif _connected(graph, hop, pair, same_type, params):
        yield from _with_edges(rest, row, read, graph, params)


def _lacks_types(hop: Hop, left: Entity, right: Entity, graph: ModelGraph) -> bool:
    """Whether a variable of several types stands for an entity that the edge does not connect."""
    ends = graph.ends.get(hop.edge.partition("|")[0])
    if ends is None:
        return False
    near, far = ends if hop.direction is not Direction.IN else ends[::-1]
    return (left[TYPE], right[TYPE]) != (near, far)


def _with_any_edge(
    hop: Hop,
    rest: Sequence[Hop],
    row: Row,
    read: CheckedRead,
    graph: ModelGraph,
    params: Mapping[str, object],
) -> Iterator[Row]:
    left, right = row[hop.left], row[hop.right]
    assert left is not None
    assert right is not None
    found = [
        {**edge, TYPE: name}
        for name in hop.edge.split("|")
        for edge in graph.edges.get(name, ())
        if _joins(graph.ends[name], edge, left, right)
        or _joins(graph.ends[name], edge, right, left)
    ]
    if hop.edge_variable is None:
        if found:
            yield from _with_edges(rest, row, read, graph, params)
        return
    for edge in found:
        yield from _with_edges(rest, row | {hop.edge_variable: edge}, read, graph, params)


def _joins(ends: tuple[str, str], edge: Entity, source: Entity, target: Entity) -> bool:
    types = (source[TYPE], target[TYPE])
    return types == ends and (edge["src"], edge["dst"]) == (source["id"], target["id"])


def _connected(
    graph: ModelGraph,
    hop: Hop,
    pair: tuple[str, str],
    same_type: bool,
    params: Mapping[str, object],
) -> bool:
    if same_type and pair[0] == pair[1] and bounds_of(hop, params)[0] == 0:
        return True
    if same_type:
        return pair in reached(graph, hop, params)
    return bool(matching_edges(graph, hop, pair, params))


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
    if not all(truth(one, row, params) is True for one in conditions):
        return False

    def exists(block: Pattern) -> bool:
        return next(_matches(block, row, read, graph, params), None) is not None

    return not any(map(exists, pattern.negations)) and all(map(exists, pattern.existences))


def _meant_order(
    read: CheckedRead | CheckedStage, rows: list[Row], params: Mapping[str, object]
) -> list[Row]:
    if not read.order:
        return rows
    by_name = {column.name: column.expr for column in read.columns}
    shown = _list_shown(read, rows)
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
            key=lambda row, expr=expr: _place_of(expr, row, params),  # type: ignore[misc]
            reverse=key.descending,
        )
    return rows


def _place_of(expr: Any, row: Row, params: Mapping[str, object]) -> tuple[bool, Any]:
    """Place a row by a key: an entity by its id; equal ids are ties, which types break."""
    if isinstance(expr, EntityRef):
        entity = row[expr.variable]
        return null_first(None if entity is None else entity["id"])
    return null_first(value_of(expr, row, params))


def null_first(value: object) -> tuple[bool, Any]:
    if isinstance(value, tuple):
        return (True, tuple(map(null_first, value)))
    return (value is not None, value if value is not None else 0)


def id_order(entity: Entity | None) -> tuple[bool, Any]:
    return null_first(None if entity is None else (entity["id"], str(entity.get(TYPE))))


def _meant_groups(
    read: CheckedRead | CheckedStage,
    rows: list[Row],
    per: Sequence[Any],
    params: Mapping[str, object],
) -> list[tuple[Values, Row, Values]]:
    keys = [one for one in read.columns if not has_aggregate(one.expr)]
    shown = _list_shown(read, rows)
    rows = sorted(rows, key=lambda row: [id_order(row[name]) for name in shown])
    groups: dict[Values, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(_key_of(one.expr, row, params) for one in keys)].append(row)
    if not keys:
        groups.setdefault((), [])
    conditions = [find_condition(strip_spans(one.expr)) for one in keys]

    def cell(expr: Any, group: Values) -> Any:
        if strip_spans(expr) in (strip_spans(one.expr) for one in keys):
            found = [strip_spans(one.expr) for one in keys].index(strip_spans(expr))
            key = group[found]
            return key.id if isinstance(key, _Known) else key
        if (at := _find_entity_key(expr, keys)) is not None:
            key = group[at]
            return key.id if isinstance(key, _Known) else None
        if strip_spans(expr) in conditions:
            return group[conditions.index(strip_spans(expr))]
        if isinstance(expr, Aggregate):
            argument = expr.argument
            cells = [(value_of(argument, row, params), 1) for row in groups[group]]
            if expr.function == "count" and isinstance(argument, EntityRef):
                cells = [(_identify(row[argument.variable]), 1) for row in groups[group]]
            fraction = fraction_of(expr, params)
            return tallied(expr.function, cells, distinct=expr.distinct, fraction=fraction)
        parts = {part: _as_fixed(part, cell(part, group)) for part in _parts(expr)}
        known = replace_parts(expr, parts)
        return truth(known, {}, params) if _is_condition(known) else value_of(known, {}, params)

    def key_of(expr: Any, group: Values) -> object:
        """A value of a group; an entity as the key that it is."""
        bare = [strip_spans(one.expr) for one in keys]
        if isinstance(expr, EntityRef) and strip_spans(expr) in bare:
            return group[bare.index(strip_spans(expr))]
        return freeze(cell(expr, group))

    def _parts(expr: Any) -> list[Any]:
        """The aggregates and group keys inside of an expression."""
        known = [*(strip_spans(one.expr) for one in keys), *conditions]
        is_id = _find_entity_key(expr, keys) is not None
        if is_id or isinstance(expr, Aggregate) or strip_spans(expr) in known:
            return [expr]
        return [part for held in list_children(expr) for part in _parts(held)]

    kept = [group for group in groups if all(cell(one, group) for one in read.having)]
    order = sorted(kept, key=lambda group: [_group_order(value) for value in group])
    by_name = {column.name: column.expr for column in read.columns}
    for key in reversed(read.order):
        expr = by_name[key.key] if isinstance(key.key, str) else key.key
        order = sorted(
            order,
            key=lambda group, expr=expr: _value_order(key_of(expr, group)),  # type: ignore[misc]
            reverse=key.descending,
        )
    return [
        (
            tuple(key_of(one, group) for one in per),
            groups[group][0] if groups[group] else {},
            tuple(cell(one.expr, group) for one in read.columns),
        )
        for group in order
    ]


def _find_entity_key(expr: Any, keys: Sequence[Column]) -> int | None:
    """The place of the entity among the keys whose id is read."""
    if not isinstance(expr, PropertyRef) or expr.property != "id":
        return None
    names = [one.expr.variable if isinstance(one.expr, EntityRef) else None for one in keys]
    return names.index(expr.variable) if expr.variable in names else None


def _as_fixed(part: Any, value: Any) -> Any:
    """What stands for a part of an expression whose value is known."""
    if not _is_condition(part):
        return Const(value=value, type=part.type)
    truths = PropertyType(scalar=Scalar.BOOL, nullable=True)
    known, true = Const(value=value, type=truths), Const(value=True, type=truths)
    return Compare(left=known, op="=", right=true)


@dataclass(frozen=True)
class _Known:
    """An entity as a group key: equal ids of two types are two keys."""

    id: str
    type: str


def _key_of(expr: Any, row: Row, params: Mapping[str, object]) -> object:
    if isinstance(expr, EntityRef) and (entity := row[expr.variable]) is not None:
        return _Known(entity["id"], str(entity.get(TYPE)))
    return freeze(value_of(expr, row, params))


def _group_order(value: object) -> tuple[bool, Any]:
    return null_first((value.id, value.type) if isinstance(value, _Known) else value)


def _value_order(value: object) -> tuple[bool, Any]:
    """Place a group by a key: an entity by its id; equal ids are ties, which types break."""
    return null_first(value.id if isinstance(value, _Known) else value)


def _list_shown(read: CheckedRead | CheckedStage, rows: list[Row]) -> list[str]:
    """The entities whose ids order rows: those that have a name."""
    anonymous = {one.name for one in read.pattern.row_variables if one.anonymous}
    return [name for name in _list_entities(rows) if name not in anonymous]


def _list_entities(rows: list[Row]) -> list[str]:
    """The variables of rows, by name; what rows carry besides is no entity."""
    names = sorted({name for row in rows for name in row if not name.startswith("#")})
    return [n for n in names if any(isinstance(row[n], Mapping) and "id" in row[n] for row in rows)]  # type: ignore[operator]


def _is_condition(part: object) -> bool:
    return isinstance(part, Compare | IsNull | InList | AllOf | AnyOf | Not)


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


def tallied(
    function: str,
    values: list[tuple[Any, int]],
    *,
    distinct: bool = False,
    fraction: float | None = None,
) -> object:
    """One aggregate over values and how often each occurs."""
    known = [(value, weight) for value, weight in values if value is not None]
    if distinct:
        known = [(value, 1) for value in dict.fromkeys(value for value, _ in known)]
    if function == "count":
        return sum(weight for _, weight in known)
    if function == "collect":
        return tuple(value for value, weight in known for _ in range(weight))
    if not known:
        return None
    whole = all(isinstance(value, int) for value, _ in known)
    total = (
        math.fsum(value * weight for value, weight in known) if function in ("sum", "avg") else 0
    )
    match function:
        case "sum" if whole:
            return sum(value * weight for value, weight in known)
        case "sum":
            return total
        case "stddev":
            every = [float(value) for value, weight in known for _ in range(weight)]
            return statistics.stdev(every) if len(every) > 1 else None
        case "percentile":
            every = sorted(float(value) for value, weight in known for _ in range(weight))
            assert fraction is not None
            place = fraction * (len(every) - 1)
            below, above = every[math.floor(place)], every[math.ceil(place)]
            return below + (above - below) * (place - math.floor(place))
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
