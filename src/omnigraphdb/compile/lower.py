"""From a checked read to its plan, in the plainest form that is right; the rules make it fast."""

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraphdb.catalog.mixed import find_node_type
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    Aggregate,
    Bm25,
    CheckedRead,
    CheckedStage,
    Column,
    Compare,
    Condition,
    Const,
    EntityRef,
    Field,
    ItemExpr,
    Nearest,
    Now,
    ParamRef,
    PathValue,
    Pattern,
    PropertyRef,
    Ranking,
    Rrf,
    SortKey,
    Variable,
    VariableKind,
    find_condition,
    has_aggregate,
    read_id,
)
from omnigraphdb.compile.pattern import LoweringContext, attach_blocks, list_ties, lower_pattern
from omnigraphdb.compile.plan.operators import (
    Filter,
    Group,
    Operator,
    Output,
    Project,
    Rank,
    Slice,
    Sort,
    SortBy,
    Stage,
    Tally,
    Union,
    Window,
    ranked_variable,
)
from omnigraphdb.compile.plan.plan import Plan, Slot
from omnigraphdb.compile.plan.visit import (
    list_bound_variables,
    list_children,
    replace_parts,
    strip_spans,
    walk,
)
from omnigraphdb.language.source import NOWHERE
from omnigraphdb.values import replace

_Part = CheckedRead | CheckedStage


def lower(read: CheckedRead, catalog: Catalog) -> Plan:
    """Turn a checked read into a plan."""
    variables = {
        variable.name: variable for pattern in read.patterns for variable in _all_variables(pattern)
    }
    root = (
        _lower_union(read, catalog, variables)
        if read.union
        else Project(*_lower_single(read, catalog, variables))
    )
    return Plan(
        name=read.name,
        params=tuple(replace(param, span=NOWHERE) for param in read.params.values()),
        slots=tuple(_slot(variables[name], catalog) for name in sorted(variables)),
        root=root,
    )


def _lower_union(read: CheckedRead, catalog: Catalog, variables: dict[str, Variable]) -> Project:
    """Put the rows of several reads after one another; without `all`, each row once."""
    first_read = replace(read, union=(), order=(), limit=None, offset=None)
    root = _stage_result(first_read, catalog, variables)
    for every, other in read.union:
        root = Union((root, _stage_result(other, catalog, variables)))
        if not every:
            root = _stage_distinct(root, read)
    fields = {column.name: Field(column.name, column.type) for column in read.columns}
    outputs = tuple(Output(name=n, expr=field, type=field.type) for n, field in fields.items())
    keys = []
    for key in read.order:
        assert isinstance(key.key, str), "the checker lets a union order by its columns"
        keys.append(SortBy(expr=fields[key.key], descending=key.descending))
    if keys:
        rest = (SortBy(expr=field) for field in fields.values())
        root = Sort(input=root, keys=(*keys, *rest))
    return Project(_lower_slice(root, read), outputs)


def _stage_result(read: CheckedRead, catalog: Catalog, variables: dict[str, Variable]) -> Operator:
    rows, columns = _lower_single(read, catalog, variables)
    return Stage(input=rows, entities=(), values=columns)


def _stage_distinct(root: Operator, read: CheckedRead) -> Operator:
    keys = tuple(
        Output(name=column.name, expr=Field(column.name, column.type), type=column.type)
        for column in read.columns
    )
    return Stage(input=Group(input=root, keys=keys, tallies=()), entities=(), values=keys)


def _lower_single(
    read: CheckedRead, catalog: Catalog, variables: dict[str, Variable]
) -> tuple[Operator, tuple[Output, ...]]:
    """Lower the stages of a read, each on the rows of the one before, and its result."""
    base: Operator | None = None
    for stage in read.stages:
        rows, columns = _lower_part(stage, base, catalog, variables)
        values = tuple(column for column in columns if column.name not in stage.entities)
        base = Stage(input=rows, entities=tuple(stage.entities.values()), values=values)
    return _lower_part(read, base, catalog, variables)


def _lower_part(
    part: _Part, base: Operator | None, catalog: Catalog, variables: dict[str, Variable]
) -> tuple[Operator, tuple[Output, ...]]:
    """Lower one pattern and the result of it."""
    columns = tuple(_output(column) for column in part.columns)
    read_variables = _list_read_variables(part, columns, variables) if part.is_aggregate else None
    setting = LoweringContext(catalog=catalog, variables=variables, wanted=read_variables)
    rows = attach_blocks(lower_pattern(part.pattern, setting, base), part.blocks, setting)
    if part.is_aggregate or part.distinct:
        return _lower_group(rows, part, columns, variables)
    having = tuple(strip_spans(condition) for condition in part.having)
    rows = Filter(rows, having) if having else rows
    return _lower_slice(_lower_order(rows, part, columns, variables), part), columns


def _all_variables(pattern: Pattern) -> Iterator[Variable]:
    yield from (*pattern.variables, *pattern.walked)
    for block in pattern.nested:
        yield from _all_variables(block)


def _slot(variable: Variable, catalog: Catalog) -> Slot:
    key = None
    if variable.kind is VariableKind.NODE:
        node = find_node_type(catalog, variable.type_name)
        if len(node.key_columns) == 1 and node.properties[node.key_columns[0]].type.is_text:
            key = node.key_columns[0]
    return Slot(
        name=variable.name,
        kind=variable.kind,
        type_name=variable.type_name,
        anonymous=variable.anonymous,
        optional=variable.nullable,
        key=key,
    )


def _output(column: Column) -> Output:
    return Output(name=column.name, expr=strip_spans(column.expr), type=column.type)


def _lower_slice(rows: Operator, read: _Part, fields: Mapping[Any, Any] | None = None) -> Operator:
    window = _window(read)
    if window is None:
        return rows
    per = read.per if isinstance(read, CheckedStage) else ()
    counted = tuple(replace_parts(strip_spans(expr), fields or {}) for expr in per)
    return Slice(rows, window, counted)


def _window(read: _Part) -> Window | None:
    if read.limit is None and read.offset is None:
        return None
    offset = None if read.offset is None else replace(read.offset, span=NOWHERE)
    limit = None if read.limit is None else replace(read.limit, span=NOWHERE)
    return Window(offset=offset, limit=limit)


# ---- rows shown one by one


def _lower_order(
    rows: Operator, read: _Part, columns: tuple[Output, ...], variables: dict[str, Variable]
) -> Operator:
    if not read.order:
        return rows
    by_name = {column.name: column.expr for column in columns}
    keys = tuple(_resolve_key(key, by_name) for key in read.order)
    bound = (variables[name] for name in sorted(list_bound_variables(rows)))
    named_variables = [variable for variable in bound if not variable.anonymous]
    if isinstance(keys[0], Nearest | Bm25 | Rrf):
        return _lower_rank(rows, keys[0], named_variables, _window(read))
    by = tuple(key for key in keys if isinstance(key, SortBy))
    # Paths come last: their order is that of the search, between the same ends.
    ties = sorted(named_variables, key=lambda variable: variable.kind is VariableKind.PATH)
    return Sort(input=rows, keys=by, ties=tuple(variable.name for variable in ties))


def _resolve_key(key: SortKey, columns: dict[str, ItemExpr]) -> SortBy | Ranking | None:
    """Return the expression that a key sorts by; a constant sorts nothing and is None."""
    expr = columns[key.key] if isinstance(key.key, str) else strip_spans(key.key)
    match expr:
        case Nearest() | Bm25() | Rrf():
            return expr
        case Const() | ParamRef() | Now():
            return None
        case _:
            return SortBy(expr=expr, descending=key.descending)


def _lower_rank(
    rows: Operator, ranking: Ranking, variables: list[Variable], window: Window | None
) -> Rank:
    """Rank rows; those of one entity come by edge ids, then by the ids of its other nodes."""
    subject = ranked_variable(ranking)
    others = sorted(variables, key=lambda variable: variable.kind is VariableKind.NODE)
    return Rank(
        input=rows,
        ranking=ranking,
        ties=tuple(variable.name for variable in others if variable.name != subject),
        depth=window if isinstance(ranking, Rrf) else None,
    )


# ---- groups


def _list_read_variables(
    read: _Part, columns: tuple[Output, ...], variables: dict[str, Variable]
) -> frozenset[str]:
    """Name the variables that a grouped result reads, beyond counting their rows."""
    exprs = [*(column.expr for column in columns), *read.having]
    exprs += [key.key for key in read.order if not isinstance(key.key, str)]
    outer = (block.pattern.outer for block in read.blocks)
    return frozenset().union(*(_list_read(expr, variables) for expr in exprs), *outer)


def _list_read(expr: object, variables: dict[str, Variable]) -> frozenset[str]:
    if isinstance(expr, Aggregate) and _counts_rows(expr, variables):
        return frozenset()
    if isinstance(expr, PropertyRef | EntityRef | PathValue):
        return frozenset({expr.variable})
    return frozenset().union(*(_list_read(child, variables) for child in list_children(expr)))


def _counts_rows(aggregate: Aggregate, variables: dict[str, Variable]) -> bool:
    """Whether every row counts: the argument is never NULL."""
    if aggregate.function != "count" or aggregate.distinct:
        return False
    match aggregate.argument:
        case EntityRef(variable=name):
            return not variables[name].nullable
        case PropertyRef(variable=name, type=kind):
            return not (kind.nullable or variables[name].nullable)
        case Const(value=value):
            return value is not None
        case _:
            return False


def _lower_group(
    rows: Operator,
    read: _Part,
    columns: tuple[Output, ...],
    variables: dict[str, Variable],
) -> tuple[Operator, tuple[Output, ...]]:
    keys = tuple(column for column in columns if not has_aggregate(column.expr))
    fields: dict[ItemExpr, Field] = {}
    tallies: dict[Aggregate, Tally] = {}
    for column in (*keys, *(output for output in columns if isinstance(output.expr, Aggregate))):
        fields.setdefault(column.expr, Field(column.name, column.type))
    for number, aggregate in enumerate(_list_aggregates(read, columns), start=1):
        # `#` keeps an aggregate that is only part of a column apart from every column.
        field = fields.setdefault(aggregate, Field(f"#{number}", aggregate.type))
        tallies[aggregate] = _tally(field.name, aggregate, variables, rows)
    root: Operator = Group(input=rows, keys=keys, tallies=tuple(tallies.values()))
    conditions = _name_conditions(fields)
    values: dict[Any, Any] = {**conditions, **_name_ids(fields), **fields}
    # A search that is a column is a value there, and a test in `having`.
    tests: dict[Any, Any] = {**values, **conditions}
    having = tuple(replace_parts(strip_spans(condition), tests) for condition in read.having)
    root = Filter(root, having) if having else root
    if keys:
        root = Sort(input=root, keys=_group_order(read, keys, values, columns))
    outputs = (replace(output, expr=replace_parts(output.expr, values)) for output in columns)
    return _lower_slice(root, read, values), tuple(outputs)


def _name_ids(fields: Mapping[ItemExpr, Field]) -> dict[ItemExpr, Field]:
    """Map the ids of the entities that are columns of groups to these columns."""
    entities = ((expr, field) for expr, field in fields.items() if isinstance(expr, EntityRef))
    return {read_id(entity): field for entity, field in entities}


def _name_conditions(fields: Mapping[ItemExpr, Field]) -> dict[Condition, Condition]:
    """Map the conditions whose truth a column of groups holds to tests of these columns."""
    true = Const(value=True, type=PropertyType(scalar=Scalar.BOOL))
    return {
        condition: Compare(left=field, op="=", right=true)
        for expr, field in fields.items()
        if (condition := find_condition(expr)) is not None
    }


def _list_aggregates(read: _Part, columns: tuple[Output, ...]) -> tuple[Aggregate, ...]:
    """List every aggregate of a read once: of its columns, its conditions and its order."""
    order = (strip_spans(key.key) for key in read.order if not isinstance(key.key, str))
    parts = (*(column.expr for column in columns), *map(strip_spans, read.having), *order)
    aggregates = (expr for part in parts for expr in walk(part) if isinstance(expr, Aggregate))
    return tuple(dict.fromkeys(aggregates))


def _tally(
    name: str, aggregate: Aggregate, variables: dict[str, Variable], rows: Operator
) -> Tally:
    argument = None if _counts_rows(aggregate, variables) else aggregate.argument
    return Tally(
        name=name,
        function=aggregate.function,
        argument=argument,
        type=aggregate.type,
        distinct=aggregate.distinct,
        fraction=aggregate.fraction,
        ties=list_ties(aggregate.function, list_bound_variables(rows), variables),
    )


def _group_order(
    read: _Part,
    keys: tuple[Output, ...],
    fields: Mapping[Any, Any],
    columns: tuple[Output, ...],
) -> tuple[SortBy, ...]:
    """Sort groups by the keys of the query, then by the group keys it does not mention."""
    by_name = {column.name: column.expr for column in columns}
    sort_keys: dict[ItemExpr, SortBy] = {}
    for key in read.order:
        written = by_name[key.key] if isinstance(key.key, str) else strip_spans(key.key)
        expr = replace_parts(written, fields)
        assert not isinstance(expr, Nearest | Bm25 | Rrf), "the checker ranks no groups"
        sort_keys.setdefault(expr, SortBy(expr=expr, descending=key.descending))
    rest = (fields[key.expr] for key in keys)
    return (
        *sort_keys.values(),
        *(SortBy(expr=field) for field in dict.fromkeys(rest) if field not in sort_keys),
    )
