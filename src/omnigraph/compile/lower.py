"""From a checked read to its plan, in the plainest form that is right; the rules make it fast."""

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import PropertyType
from omnigraph.compile.checked import (
    Aggregate,
    Bm25,
    CheckedRead,
    Column,
    Const,
    EntityRef,
    ItemExpr,
    Nearest,
    Pattern,
    PropertyRef,
    Ranking,
    Rrf,
    SortKey,
    TextMatch,
    Variable,
    VariableKind,
)
from omnigraph.compile.pattern import BARE, Setting, lower_pattern
from omnigraph.compile.plan.operators import (
    Field,
    Group,
    Operator,
    Output,
    Project,
    Rank,
    Slice,
    Sort,
    SortBy,
    Tally,
    Window,
    ranked_variable,
)
from omnigraph.compile.plan.plan import Plan, Slot
from omnigraph.compile.plan.visit import change_part, variables_of
from omnigraph.language.source import NOWHERE


def lower(read: CheckedRead, catalog: Catalog) -> Plan:
    """Turn a checked read into a plan."""
    variables = {variable.name: variable for variable in _all_variables(read.pattern)}
    columns = tuple(_output(column) for column in read.columns)
    wanted = _list_read_variables(columns, variables) if read.is_aggregate else None
    setting = Setting(catalog=catalog, variables=variables, wanted=wanted)
    rows = lower_pattern(read.pattern, setting)
    if read.is_aggregate:
        root = _lower_group(rows, read, columns, variables)
    else:
        root = Project(_lower_slice(_lower_order(rows, read, columns), read), columns)
    return Plan(
        name=read.name,
        params=tuple(replace(param, span=NOWHERE) for param in read.params.values()),
        slots=tuple(_slot(variables[name], catalog) for name in sorted(variables)),
        root=root,
    )


def _all_variables(pattern: Pattern) -> Iterator[Variable]:
    yield from pattern.variables
    for block in (*pattern.negations, *pattern.optionals):
        yield from _all_variables(block)


def _slot(variable: Variable, catalog: Catalog) -> Slot:
    key = None
    if variable.kind is VariableKind.NODE:
        node = catalog.nodes[variable.type_name]
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
    return Output(name=column.name, expr=change_part(column.expr, BARE), type=column.type)


def _lower_slice(rows: Operator, read: CheckedRead) -> Operator:
    window = _window(read)
    return rows if window is None else Slice(rows, window)


def _window(read: CheckedRead) -> Window | None:
    if read.limit is None and read.offset is None:
        return None
    offset = None if read.offset is None else replace(read.offset, span=NOWHERE)
    limit = None if read.limit is None else replace(read.limit, span=NOWHERE)
    return Window(offset=offset, limit=limit)


# ---- rows shown one by one


def _lower_order(rows: Operator, read: CheckedRead, columns: tuple[Output, ...]) -> Operator:
    if not read.order:
        return rows
    by_name = {column.name: column.expr for column in columns}
    keys = tuple(_resolve_key(key, by_name) for key in read.order)
    shown = sorted(
        (one for one in read.pattern.row_variables if not one.anonymous), key=lambda one: one.name
    )
    if isinstance(keys[0], Nearest | Bm25 | Rrf):
        return _lower_rank(rows, keys[0], shown, _window(read))
    by = tuple(key for key in keys if isinstance(key, SortBy))
    return Sort(input=rows, keys=by, ties=tuple(one.name for one in shown))


def _resolve_key(key: SortKey, columns: dict[str, ItemExpr | Field]) -> SortBy | Ranking | None:
    """Give what a key sorts by; a constant sorts nothing and is None."""
    expr = columns[key.key] if isinstance(key.key, str) else change_part(key.key, BARE)
    match expr:
        case PropertyRef() | EntityRef() | TextMatch():
            return SortBy(expr=expr, descending=key.descending)
        case Nearest() | Bm25() | Rrf():
            return expr
        case _:
            return None


def _lower_rank(
    rows: Operator, ranking: Ranking, shown: list[Variable], window: Window | None
) -> Rank:
    """Rank rows; those of one entity come by edge ids, then by the ids of its other nodes."""
    subject = ranked_variable(ranking)
    others = sorted(shown, key=lambda one: one.kind is VariableKind.NODE)
    return Rank(
        input=rows,
        ranking=ranking,
        ties=tuple(one.name for one in others if one.name != subject),
        depth=window if isinstance(ranking, Rrf) else None,
    )


# ---- groups


def _list_read_variables(
    columns: tuple[Output, ...], variables: dict[str, Variable]
) -> frozenset[str]:
    """Name the variables a grouped result reads, beyond counting their rows."""
    read = (
        variables_of(column.expr)
        for column in columns
        if not (isinstance(column.expr, Aggregate) and _counts_rows(column.expr, variables))
    )
    return frozenset().union(*read)


def _counts_rows(aggregate: Aggregate, variables: dict[str, Variable]) -> bool:
    """Whether every row counts: the argument is never NULL."""
    if aggregate.function != "count":
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
    read: CheckedRead,
    columns: tuple[Output, ...],
    variables: dict[str, Variable],
) -> Project:
    keys = tuple(column for column in columns if not isinstance(column.expr, Aggregate))
    names = {column.expr: column.name for column in reversed(columns)}
    hidden = _list_hidden_aggregates(read.order, names)
    tallies = (
        _tally(column.name, column.expr, column.type, variables)
        for column in (*columns, *hidden)
        if isinstance(column.expr, Aggregate)
    )
    root: Operator = Group(input=rows, keys=keys, tallies=tuple(tallies))
    if keys:
        names |= {column.expr: column.name for column in hidden}
        root = Sort(input=root, keys=_group_order(read.order, keys, names))
    shown = (Output(name=one.name, expr=Field(one.name), type=one.type) for one in columns)
    return Project(_lower_slice(root, read), tuple(shown))


def _list_hidden_aggregates(
    order: tuple[SortKey, ...], names: dict[ItemExpr | Field, str]
) -> tuple[Output, ...]:
    """Name the aggregates that only the order uses; `#` keeps them apart from every column."""
    wanted = (change_part(one.key, BARE) for one in order if isinstance(one.key, Aggregate))
    missing = dict.fromkeys(one for one in wanted if one not in names)
    return tuple(
        Output(name=f"#{number}", expr=one, type=one.type)
        for number, one in enumerate(missing, start=1)
    )


def _tally(
    name: str, aggregate: Aggregate, type_: PropertyType, variables: dict[str, Variable]
) -> Tally:
    argument = None if _counts_rows(aggregate, variables) else aggregate.argument
    return Tally(name=name, function=aggregate.function, argument=argument, type=type_)


def _group_order(
    order: tuple[SortKey, ...], keys: tuple[Output, ...], names: dict[ItemExpr | Field, str]
) -> tuple[SortBy, ...]:
    """Sort groups by the keys of the query, then by the group keys it does not mention."""
    asked: dict[Field, SortBy] = {}
    for key in order:
        name = key.key if isinstance(key.key, str) else names[change_part(key.key, BARE)]
        asked.setdefault(Field(name), SortBy(expr=Field(name), descending=key.descending))
    rest = (Field(key.name) for key in keys)
    return (*asked.values(), *(SortBy(expr=field) for field in rest if field not in asked))
