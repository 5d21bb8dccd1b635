"""A read: its stages and its result, the reads of a union, and its demands on parameters."""

from collections.abc import Iterator

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check.context import Context, Scope
from omnigraphdb.compile.check.expressions import check_count_parameter
from omnigraphdb.compile.check.items import (
    check_columns,
    check_having,
    check_left_names,
    check_per,
)
from omnigraphdb.compile.check.order import check_sort_keys
from omnigraphdb.compile.check.pattern import check_pattern
from omnigraphdb.compile.checked import (
    Aggregate,
    Bm25,
    CheckedRead,
    CheckedStage,
    Const,
    HopBound,
    Nearest,
    ParameterRule,
    ParamRef,
    Pattern,
    Rrf,
    TextMatch,
)
from omnigraphdb.compile.plan.visit import walk
from omnigraphdb.language.query import tree
from omnigraphdb.values import replace

_ROWS = PropertyType(scalar=Scalar.I64)


def check_read(query: tree.Query, read: tree.Read, context: Context) -> CheckedRead:
    """Check a read; the result is complete only when nothing was reported."""
    first = _check_single(query, read, context)
    joined = tuple(
        (every, _check_single(query, union_read, context)) for every, union_read in read.union
    )
    for (_, other), (_, written) in zip(joined, read.union, strict=True):
        _check_joined(first, other, written, context)
    if read.bounded is not None:
        _refuse_ends(read.bounded, context)
    if read.union:
        _check_union_order(read, first, context)
    if not joined and not context.open_forms:
        return add_demands(first)
    return add_demands(replace(first, union=joined, open_forms=tuple(sorted(context.open_forms))))


def _check_single(query: tree.Query, read: tree.Read, context: Context) -> CheckedRead:
    """Check the stages of a read and its result."""
    stages, matched, scope = check_stages(read, context)
    block_count = len(scope.blocks)
    projected = check_columns(read, scope, context)
    return CheckedRead(
        name=query.name.text,
        params=context.params,
        pattern=matched,
        variables=context.variables,
        columns=projected,
        distinct=read.distinct,
        having=check_having(read, projected, scope, context),
        order=check_sort_keys(read, projected, scope, context),
        blocks=tuple(scope.blocks[block_count:]),
        limit=_check_bound("limit", read.limit, context),
        offset=_check_bound("offset", read.offset, context),
        description=query.description,
        instruction=query.instruction,
        stages=stages,
    )


def check_stages(
    part: tree.Read | tree.Matched, context: Context
) -> tuple[tuple[CheckedStage, ...], Pattern, Scope]:
    """Check the stages of a read and the match behind them; also return the names that it leaves."""
    before: Scope | None = None
    stages = []
    for written in part.stages:
        stage, before = _check_stage(written, before, context)
        stages.append(stage)
    matched, scope = check_pattern(part.clauses, context, before)
    return tuple(stages), matched, scope


def _check_stage(
    written: tree.Stage, before: Scope | None, context: Context
) -> tuple[CheckedStage, Scope]:
    """Check a stage; also return the names that it leaves."""
    matched, scope = check_pattern(written.clauses, context, before)
    block_count = len(scope.blocks)
    columns = check_columns(written, scope, context)
    having = check_having(written, columns, scope, context)
    order = check_sort_keys(written, columns, scope, context)
    after, entities = check_left_names(written, columns, scope, context)
    stage = CheckedStage(
        pattern=matched,
        columns=columns,
        entities=entities,
        distinct=written.distinct,
        having=having,
        order=order,
        per=check_per(written, columns, scope, context),
        blocks=tuple(scope.blocks[block_count:]),
        limit=_check_bound("limit", written.limit, context),
        offset=_check_bound("offset", written.offset, context),
    )
    return stage, after


def _check_joined(
    first: CheckedRead, other: CheckedRead, written: tree.Read, context: Context
) -> None:
    """Check that a read of a union gives the columns of the first, and leaves order and bounds to the whole."""
    columns, others = (
        [
            (column.name, replace(column.type, nullable=True, enum_values=()))
            for column in read.columns
        ]
        for read in (first, other)
    )
    if columns != others:
        context.findings.report(
            "T62",
            written.span,
            f"the reads of a union have equal columns; the first has {_list_columns(first)},"
            f" this one {_list_columns(other)}",
        )
    if written.order or written.limit or written.offset:
        _refuse_ends(written, context)


def _refuse_ends(written: tree.Read, context: Context) -> None:
    message = "order, offset and limit stand behind the last read of a union, for all of its rows"
    context.findings.report("T62", written.span, message)


def _check_union_order(read: tree.Read, first: CheckedRead, context: Context) -> None:
    """Check that the rows of a union are ordered by columns: entities of one read mean nothing in another."""
    for written, key in zip(read.order, first.order, strict=False):
        if not isinstance(key.key, str):
            message = f"the rows of a union are ordered by its columns: {_list_columns(first)}"
            context.findings.report("T62", written.span, message)


def _list_columns(read: CheckedRead) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in read.columns) or "none"


def _check_bound(
    word: str, expr: tree.LiteralExpr | tree.VariableExpr | None, context: Context
) -> Const | ParamRef | None:
    match expr:
        case None:
            return None
        case tree.LiteralExpr() if expr.form == "int":
            return Const(value=expr.value, type=_ROWS, span=expr.span)
        case tree.LiteralExpr():
            context.findings.report("T7", expr.span, f"{word} takes an integer, not {expr.form}")
        case tree.VariableExpr():
            return check_count_parameter(word, expr, context)
    return None


# ---- demands


_Use = tuple[HopBound | None, str, int | None]


def add_demands(read: CheckedRead) -> CheckedRead:
    """Return the read with its demands on parameters."""
    demands = _list_demands(read) if read.params else ()
    return replace(read, demands=demands) if demands else read


def _list_demands(read: CheckedRead) -> tuple[ParameterRule, ...]:
    return tuple(
        ParameterRule(parameter=used, word=word, least=minimum)
        for used, word, minimum in _uses(read)
        if isinstance(used, ParamRef)
    )


def _uses(read: CheckedRead) -> Iterator[_Use]:
    parts: tuple[CheckedStage | CheckedRead, ...] = (*read.stages, read)
    for part in parts:
        yield part.limit, "limit", 0
        yield part.offset, "offset", 0
        yield from _expression_uses(part.having)
        for column in part.columns:
            yield from _expression_uses(column.expr)
        for key in part.order:
            if not isinstance(key.key, str):
                yield from _expression_uses(key.key)
    for pattern in read.patterns:
        yield from _pattern_uses(pattern)
    for _, other in read.union:
        yield from _uses(other)


def _pattern_uses(pattern: Pattern) -> Iterator[_Use]:
    for hop in pattern.hops:
        yield hop.low, "the minimum of hops", 0
        yield hop.high, "the maximum of hops", 0
        yield None if hop.path is None else hop.path.best, "the number of best paths", 1
    for condition in pattern.conditions:
        yield from _expression_uses(condition)
    for block in pattern.nested:
        yield from _pattern_uses(block)


def _expression_uses(expr: object) -> Iterator[_Use]:
    for part in walk(expr):
        match part:
            case TextMatch():
                yield part.query, f"the query text of {part.function}", None
                yield part.distance, "the edit distance of fuzzy", 0
            case Nearest():
                yield part.query, "the query of nearest", None
            case Bm25():
                yield part.query, "the query text of bm25", None
            case Rrf():
                yield part.k, "the constant k of rrf", 1
            case Aggregate():
                yield part.fraction, "the fraction of percentile", 0
            case _:
                pass
