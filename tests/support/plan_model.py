"""What a plan does over a model graph, one operator and one row at a time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Multiplicity,
    Operator,
    OptionalJoin,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    Stage,
    Tally,
    Union,
    Window,
)
from omnigraphdb.compile.plan.plan import Plan
from tests.support.query_model import (
    Entity,
    ModelGraph,
    Row,
    Values,
    id_order,
    matching_edges,
    null_first,
    ranked,
    reached,
    tallied,
    truth,
    value_of,
    window_end,
    windowed,
)

Weighted = tuple[Row, int]


@dataclass(frozen=True)
class Run:
    """What the operators of one plan share; `around` are the rows a nested block is for."""

    plan: Plan
    graph: ModelGraph
    params: Mapping[str, object]
    around: tuple[Row, ...] = ({},)

    def value(self, expr: Any, row: Row) -> Any:
        return value_of(expr, row, self.params)

    def passes(self, tests: Iterable[Test], row: Row) -> bool:
        return all(truth(test, row, self.params) is True for test in tests)

    def end(self, window: Window | None) -> int | None:
        return None if window is None else window_end(window.limit, window.offset, self.params)

    def nodes(self, variable: str) -> Mapping[str, Entity]:
        type_name = self.plan.by_name[variable].type_name
        return {node["id"]: node for node in self.graph.nodes.get(type_name, ())}


def execute(plan: Plan, graph: ModelGraph, params: Mapping[str, object]) -> list[Values]:
    """The rows of a plan."""
    run = Run(plan, graph, params)
    rows = _each(_rows(plan.root.input, run))
    return [tuple(run.value(one.expr, row) for one in plan.columns) for row in rows]


def _each(rows: Iterable[Weighted]) -> list[Row]:
    """Rows that nothing may have merged."""
    found = list(rows)
    assert all(weight == 1 for _, weight in found), "only groups understand weights"
    return [row for row, _ in found]


def _rows(operator: Operator, run: Run) -> list[Weighted]:
    match operator:
        case Scan(variable=variable, filter=tests, search=search):
            nodes: list[Row] = [{variable: node} for node in run.nodes(variable).values()]
            return [(row, 1) for row in nodes if run.passes((*tests, *search), row)]
        case Argument(variables=variables):
            return _argument(variables, run)
        case Filter(input=below, conditions=tests):
            return [one for one in _rows(below, run) if run.passes(tests, one[0])]
        case Product(left=left, right=right, on=on):
            pairs = [(a | b, m * n) for a, m in _rows(left, run) for b, n in _rows(right, run)]
            return [one for one in pairs if run.passes(on, one[0])]
        case Expand():
            return _expanded(operator, run)
        case FindPaths():
            raise AssertionError("paths have a model of their own")
        case Anti(input=below, inner=inner, on=on):
            rows = _rows(below, run)
            found = {_ids(row, on) for row, _ in _inner(inner, rows, run)}
            return [one for one in rows if _ids(one[0], on) not in found]
        case Semi(input=below, inner=inner, on=on):
            rows = _rows(below, run)
            found = {_ids(row, on) for row, _ in _inner(inner, rows, run)}
            return [one for one in rows if _ids(one[0], on) in found]
        case Attach():
            return _attached(operator, run)
        case OptionalJoin():
            return _optional(operator, run)
        case Group():
            return _grouped(operator, run)
        case Rank(input=below, ranking=ranking, ties=ties, depth=depth):
            order = ranked(_each(_rows(below, run)), ranking, ties, run.end(depth), run.params)
            return [(row, 1) for row in order][: run.end(operator.window)]
        case Sort():
            return _sorted(operator, run)
        case Slice(input=below, window=window):
            return windowed(_rows(below, run), window.limit, window.offset, run.params)
        case Stage():
            return _staged(operator, run)
        case Union(inputs=inputs):
            return [one for below in inputs for one in _rows(below, run)]
        case Project():
            raise AssertionError("a projection is the root of a plan")


def _ids(row: Row, names: Iterable[str]) -> Values:
    return tuple(None if (entity := row[name]) is None else entity["id"] for name in names)


def _argument(variables: tuple[str, ...], run: Run) -> list[Weighted]:
    distinct = {_ids(row, variables): row for row in run.around}
    return [({name: row[name] for name in variables}, 1) for row in distinct.values()]


def _inner(inner: Operator, rows: list[Weighted], run: Run) -> list[Weighted]:
    around = tuple(row for row, _ in rows)
    return _rows(inner, Run(run.plan, run.graph, run.params, around))


def _optional(join: OptionalJoin, run: Run) -> list[Weighted]:
    rows = _rows(join.input, run)
    matches: dict[Values, list[Weighted]] = defaultdict(list)
    for row, weight in _inner(join.inner, rows, run):
        matches[_ids(row, join.on)].append(({name: row[name] for name in join.binds}, weight))
    missing: list[Weighted] = [(dict.fromkeys(join.binds), 1)]
    return [
        (row | more, weight * times)
        for row, weight in rows
        for more, times in matches.get(_ids(row, join.on), missing)
    ]


def _staged(stage: Stage, run: Run) -> list[Weighted]:
    found: list[Weighted] = []
    for row in _each(_rows(stage.input, run)):
        left: Row = {}
        for name in stage.entities:
            # A group has the id of an entity, rows have the entity.
            entity: Any = row[name]
            left[name] = run.nodes(name).get(entity) if isinstance(entity, str) else entity
        values = {one.name: run.value(one.expr, row) for one in stage.values}
        found.append((left | values, 1))
    return found


def _attached(attach: Attach, run: Run) -> list[Weighted]:
    rows, tally = _rows(attach.input, run), attach.tally
    matches: dict[Values, list[Weighted]] = defaultdict(list)
    for one in _inner(attach.inner, rows, run):
        matches[_ids(one[0], attach.on)].append(one)
    found: list[Weighted] = []
    for row, weight in rows:
        mine = matches.get(_ids(row, attach.on), [])
        mine = _in_order(tally, mine)
        value: Any = bool(mine)
        if tally is not None:
            cells = [
                (True if tally.argument is None else run.value(tally.argument, inner), times)
                for inner, times in mine
            ]
            value = tallied(tally.function, cells, distinct=tally.distinct)
        found.append((row | {attach.name: value}, weight))
    return found


def _in_order(tally: Tally | None, rows: list[Weighted]) -> list[Weighted]:
    """Rows in the order in which a tally lists their values."""
    names = [] if tally is None else [one.variable for one in tally.ties]
    return sorted(rows, key=lambda row: [id_order(row[0][name]) for name in names])


def _expanded(expand: Expand, run: Run) -> list[Weighted]:
    pairs = reached(run.graph, expand, run.params)
    targets = run.nodes(expand.target)
    found: list[Weighted] = []
    for row, weight in _rows(expand.input, run):
        source = row[expand.source]
        if source is None:
            continue
        for identity in sorted(far for near, far in pairs if near == source["id"]):
            if expand.closes and _ids(row, [expand.target]) != (identity,):
                continue
            if identity not in targets:
                continue
            full = row | {expand.target: targets[identity]}
            found += _with_edges(expand, full, (source["id"], identity), weight, run)
    return _kept(expand, found)


def _with_edges(
    expand: Expand, row: Row, pair: tuple[str, str], weight: int, run: Run
) -> list[Weighted]:
    if expand.edge_variable is None:
        return [(row, weight)]
    edges = matching_edges(run.graph, expand, pair, run.params)
    return [(row | {expand.edge_variable: edge}, weight) for edge in edges]


def _kept(expand: Expand, rows: list[Weighted]) -> list[Weighted]:
    """Forget what is not kept, and merge what only has to be counted or found."""
    if expand.keep is None:
        assert expand.multiplicity is Multiplicity.EACH, "no variable ends here, so none merge"
        return rows
    rows = [
        ({n: row[n] for n in row if n in expand.keep or n.startswith("#")}, weight)
        for row, weight in rows
    ]
    if expand.multiplicity is Multiplicity.EACH:
        return rows
    merged: Counter[Values] = Counter()
    samples: dict[Values, Row] = {}
    for row, weight in rows:
        carried = tuple(row[name] for name in row if name.startswith("#"))
        key = (*_ids(row, expand.keep), *carried)
        merged[key] += weight
        samples.setdefault(key, row)
    is_counted = expand.multiplicity is Multiplicity.COUNTED
    return [(samples[key], merged[key] if is_counted else 1) for key in samples]


def _grouped(group: Group, run: Run) -> list[Weighted]:
    groups: dict[Values, list[Weighted]] = defaultdict(list)
    for row, weight in _rows(group.input, run):
        key = tuple(run.value(key.expr, row) for key in group.keys)
        groups[tuple(tuple(one) if isinstance(one, list) else one for one in key)].append(
            (row, weight)
        )
    if not group.keys:
        groups.setdefault((), [])
    found: list[Weighted] = []
    for values, rows in groups.items():
        named: dict[str, Any] = dict(zip((key.name for key in group.keys), values, strict=True))
        for tally in group.tallies:
            cells = [
                (True if tally.argument is None else run.value(tally.argument, row), weight)
                for row, weight in _in_order(tally, rows)
            ]
            named[tally.name] = tallied(tally.function, cells, distinct=tally.distinct)
        found.append((named, 1))
    return found


def _sorted(sort: Sort, run: Run) -> list[Weighted]:
    rows = sorted(
        _rows(sort.input, run), key=lambda one: [id_order(one[0][name]) for name in sort.ties]
    )
    for key in reversed(sort.keys):
        rows = sorted(
            rows,
            key=lambda one, expr=key.expr: null_first(run.value(expr, one[0])),  # type: ignore[misc]
            reverse=key.descending,
        )
    return rows[: run.end(sort.window)]
