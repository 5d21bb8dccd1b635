"""The order of a read: aliases, expressions, one leading ranking."""

from collections.abc import Mapping

from omnigraphdb.compile.check.conditions import check_value
from omnigraphdb.compile.check.context import Context, Scope, aggregates_rows
from omnigraphdb.compile.check.expressions import (
    check_variable,
    function_name,
    refuse_blob,
    render_expression,
)
from omnigraphdb.compile.check.items import can_be_key, is_grouped, list_group_values
from omnigraphdb.compile.check.ranking import RankingExpr, check_ranking
from omnigraphdb.compile.checked import (
    Bm25,
    Column,
    Nearest,
    Operand,
    PropertyRef,
    Rrf,
    SortKey,
)
from omnigraphdb.compile.plan.visit import strip_spans
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Span
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The names that a key may refer to: aliases as written, columns as checked; and whether rows are groups."""

    aliases: Mapping[str, tree.Item]
    columns: Mapping[str, Column]
    grouped: bool


def check_sort_keys(
    read: tree.Read | tree.Stage, columns: tuple[Column, ...], scope: Scope, context: Context
) -> tuple[SortKey, ...]:
    """Check the order keys; keys with an error are reported and left out."""
    rows = _Rows(
        aliases={name: item for item in read.items if (name := _find_word(item)) is not None},
        columns={column.name: column for column in columns},
        grouped=read.distinct or any(aggregates_rows(item.expr, scope) for item in read.items),
    )
    keys: list[SortKey] = []
    for key in read.order:
        if context.findings.full:
            break
        checked = _check_key(key, rows, scope, context)
        call = _ranking_call(key, rows)
        if call is not None:
            _ranking_rules(key, call, read, rows, context)
        if checked is not None:
            keys.append(checked)
    return tuple(keys)


def _find_word(item: tree.Item) -> str | None:
    """Return the bare word of an item."""
    if item.alias is not None:
        return item.alias.text
    return item.expr.name if isinstance(item.expr, tree.AliasExpr) else None


def _check_key(key: tree.OrderKey, rows: _Rows, scope: Scope, context: Context) -> SortKey | None:
    descending = key.direction == "desc"
    match key.expr:
        case tree.AliasExpr() as alias if (
            alias.name in rows.aliases or scope.find_scalar(alias.name) is None
        ):
            return _by_alias(alias, rows, descending, context)
        case tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr() as expr:
            checked = check_ranking(expr, scope, context)
            return _make_sort_key(checked) if checked is not None else None
        case tree.TextExpr() as expr:
            message = (
                f"{expr.function} filters rows and orders nothing; put it into the match block"
            )
            context.findings.report("T38", expr.span, message)
        case tree.VariableExpr() as expr if scope.is_edge(expr.name):
            check_variable(expr, scope, context)
        case tree.VariableExpr() | tree.LiteralExpr() | tree.NowExpr() as expr:
            _not_a_key(expr, "order by one of its properties or by an alias", context)
        case _:
            return _by_value(key.expr, rows, descending, scope, context)
    return None


def _not_a_key(expr: tree.Expr, advice: str, context: Context) -> None:
    context.findings.report(
        "T36", expr.span, f"'{render_expression(expr)}' is not an order key: {advice}"
    )


def _by_alias(
    alias: tree.AliasExpr, rows: _Rows, descending: bool, context: Context
) -> SortKey | None:
    if alias.name not in rows.aliases:
        reason = list_alternatives(alias.name, rows.aliases, "aliases")
        message = f"no item of return is called '{alias.name}' with 'as'{reason}"
        fix = nearest_name(alias.name, rows.aliases)
        context.findings.report("T35", alias.span, message, fix=fix)
        return None
    column = rows.columns.get(alias.name)
    if column is None:
        return None
    if isinstance(column.expr, Nearest | Bm25 | Rrf):
        return _make_sort_key(column.expr)
    if not column.type.is_plain:
        _not_a_key(alias, f"a {column.type} has no order", context)
        return None
    return SortKey(key=alias.name, descending=descending)


def _by_value(
    expr: tree.Expr, rows: _Rows, descending: bool, scope: Scope, context: Context
) -> SortKey | None:
    if aggregates_rows(expr, scope) and not rows.grouped:
        _not_a_key(expr, "project the aggregate under an alias and order by that", context)
        return None
    operand = check_value(expr, scope, context)
    if operand is None or (isinstance(operand, PropertyRef) and refuse_blob(operand, context)):
        return None
    if not operand.type.is_plain:
        _not_a_key(expr, f"a {operand.type} has no order", context)
        return None
    if rows.grouped:
        return _by_column(expr, operand, rows, descending, context)
    if not can_be_key(operand):
        _not_a_key(expr, "it is the same for every row", context)
        return None
    return SortKey(key=operand, descending=descending)


def _by_column(
    expr: tree.Expr, operand: Operand, rows: _Rows, descending: bool, context: Context
) -> SortKey | None:
    """Order groups by a column, or by an expression of aggregates and columns."""
    name = _find_projected(operand, rows)
    if name is not None:
        return SortKey(key=name, descending=descending)
    if is_grouped(strip_spans(operand), list_group_values(rows.columns.values())):
        return SortKey(key=operand, descending=descending)
    advice = "with aggregates or distinct, order only by what return projects; add it there"
    _not_a_key(expr, advice, context)
    return None


def _find_projected(operand: Operand, rows: _Rows) -> str | None:
    expression = strip_spans(operand)
    for column in rows.columns.values():
        if strip_spans(column.expr) == expression:
            return column.name
    return None


# ---- rankings


def _make_sort_key(ranking: Nearest | Bm25 | Rrf) -> SortKey:
    # Distances rank from the smallest, relevance from the largest.
    return SortKey(key=ranking, descending=not isinstance(ranking, Nearest))


def _ranking_call(key: tree.OrderKey, rows: _Rows) -> RankingExpr | None:
    expr = key.expr
    if isinstance(expr, tree.AliasExpr) and expr.name in rows.aliases:
        expr = rows.aliases[expr.name].expr
    return expr if isinstance(expr, tree.NearestExpr | tree.Bm25Expr | tree.RrfExpr) else None


def _ranking_rules(
    key: tree.OrderKey,
    call: RankingExpr,
    read: tree.Read | tree.Stage,
    rows: _Rows,
    context: Context,
) -> None:
    name = function_name(call)
    report = context.findings.report
    _direction_rule(key, name, context)
    if rows.grouped:
        _not_a_key(call, "rows of an aggregate query have no rank", context)
    if read.limit is None and not isinstance(call, tree.Bm25Expr):
        code = "T17" if isinstance(call, tree.NearestExpr) else "T21"
        message = (
            f"ordering by {_call(call)} needs a limit: it ranks the best rows, not all of them"
        )
        report(code, key.expr.span, message, fix="limit 10")
    others = [other for other in read.order if other is not key]
    if not others:
        return
    has_alias = any(isinstance(o.expr, tree.AliasExpr) for o in others)
    if isinstance(call, tree.NearestExpr) and has_alias:
        span = _alias_span(others)
        report("T18", span, "ordering by nearest cannot be combined with ordering by an alias")
    else:
        message = f"{name} ranks the rows by itself; it must be the first and only order key"
        report("T38", key.expr.span, message)


def _call(call: RankingExpr) -> str:
    field = f"{render_expression(call.field)}, " if isinstance(call, tree.NearestExpr) else ""
    return f"{function_name(call)}({field}…)"


def _direction_rule(key: tree.OrderKey, name: str, context: Context) -> None:
    refused = "desc" if name == "nearest" else "asc"
    if key.direction == refused:
        best = "smallest distance" if name == "nearest" else "highest score"
        message = f"{name} always puts the {best} first; leave out '{refused}'"
        context.findings.report("T38", key.span, message)


def _alias_span(keys: list[tree.OrderKey]) -> Span:
    return next(key.expr.span for key in keys if isinstance(key.expr, tree.AliasExpr))
