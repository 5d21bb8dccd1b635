"""The items of a return: columns, their names and types, aggregates and group keys."""

from dataclasses import replace

from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.check.context import Context, Scope
from omnigraph.compile.check.expressions import (
    check_operand,
    function_name,
    is_null,
    refuse_blob,
    render_expression,
    render_type,
)
from omnigraph.compile.check.ranking import check_ranking, check_text_match
from omnigraph.compile.checked import (
    Aggregate,
    Bm25,
    Column,
    Const,
    EntityRef,
    ItemExpr,
    Nearest,
    Operand,
    ParamRef,
    PropertyRef,
    Rrf,
    TextMatch,
)
from omnigraph.language.query import tree

COUNT = PropertyType(scalar=Scalar.I64)
SCORE = PropertyType(scalar=Scalar.F64)
VERDICT = PropertyType(scalar=Scalar.BOOL)


def check_columns(read: tree.Read, scope: Scope, context: Context) -> tuple[Column, ...]:
    """Check the items in order; those that are wrong have been reported and are left out."""
    grouped = any(isinstance(item.expr, tree.AggregateExpr) for item in read.items)
    found: list[Column] = []
    named: set[str] = set()
    for item in read.items:
        if context.findings.full:
            break
        column = _check_column(item, grouped, scope, context)
        if isinstance(item.expr, tree.RrfExpr) and read.limit is None:
            message = "rrf needs a limit: it fuses the first rows of two rankings, as many as the limit says"
            context.findings.report("T21", item.expr.span, message, fix="limit 10")
        name = output_name(item)
        if name in named:
            context.findings.report(
                "T34",
                item.alias.span if item.alias else item.span,
                f"two items produce the column '{name}'; give one of them another name with 'as'",
            )
        elif column is not None:
            found.append(column)
        named.add(name)
    return tuple(found)


def output_name(item: tree.Item) -> str:
    """The name of a column: the alias, else derived from the expression."""
    if item.alias is not None:
        return item.alias.text
    match item.expr:
        case tree.PropertyExpr() as expr:
            return f"{expr.variable}.{expr.property}"
        case tree.VariableExpr() | tree.AliasExpr() as expr:
            return expr.name
        case tree.LiteralExpr():
            return "literal"
        case tree.NowExpr():
            return "now"
        case tree.AggregateExpr() as expr:
            return expr.function
        case tree.TextExpr() | tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr() as expr:
            return function_name(expr)


def _check_column(item: tree.Item, grouped: bool, scope: Scope, context: Context) -> Column | None:
    found = _check_item(item.expr, scope, context)
    if found is None:
        return None
    if grouped and not isinstance(found, Aggregate | PropertyRef | EntityRef):
        context.findings.report(
            "T9",
            item.span,
            f"'{render_expression(item.expr)}' stands beside an aggregate; only '$x.property' and '$x' can form"
            " the group key",
        )
        return None
    return Column(name=output_name(item), expr=found, type=_type(found))


def _type(found: ItemExpr) -> PropertyType:
    match found:
        case TextMatch():
            return VERDICT
        case Nearest():
            # A row without a vector has no distance.
            return PropertyType(scalar=Scalar.F64, nullable=True)
        case Bm25() | Rrf():
            return SCORE
        case _:
            return found.type


def _check_item(expr: tree.Expr, scope: Scope, context: Context) -> ItemExpr | None:
    match expr:
        case tree.LiteralExpr() if is_null(expr):
            context.findings.report("T36", expr.span, "null has no type of its own to return")
            return None
        case tree.LiteralExpr() | tree.VariableExpr() | tree.PropertyExpr() | tree.NowExpr():
            return _readable(check_operand(expr, scope, context), context)
        case tree.AggregateExpr():
            return check_aggregate(expr, scope, context)
        case tree.AliasExpr():
            context.findings.report(
                "T36",
                expr.span,
                f"'{expr.name}' is a bare word; return takes properties, variables, parameters,"
                " literals and aggregates, and one item cannot name another",
            )
            return None
        case tree.TextExpr():
            return check_text_match(expr, scope, context)
        case tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr():
            return check_ranking(expr, scope, context)


def _readable(found: Operand | None, context: Context) -> Operand | None:
    if isinstance(found, PropertyRef | ParamRef) and refuse_blob(found, context):
        return None
    return found


# ---- aggregates


def check_aggregate(expr: tree.AggregateExpr, scope: Scope, context: Context) -> Aggregate | None:
    """Check an aggregate and give it its type."""
    argument = _check_argument(expr, scope, context)
    if argument is None:
        return None
    result = _result(expr, argument, context)
    if result is None:
        return None
    return Aggregate(function=expr.function, argument=argument, type=result, span=expr.span)


def _check_argument(
    expr: tree.AggregateExpr, scope: Scope, context: Context
) -> PropertyRef | EntityRef | ParamRef | Const | None:
    match expr.argument:
        case tree.LiteralExpr() | tree.VariableExpr() | tree.PropertyExpr() as argument:
            found = _readable(check_operand(argument, scope, context), context)
            return found if isinstance(found, PropertyRef | EntityRef | ParamRef | Const) else None
        case tree.TextExpr() | tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr() as call:
            message = f"{function_name(call)} cannot be aggregated"
            context.findings.report("T38", call.span, message)
        case tree.AggregateExpr() as inner:
            message = f"{inner.function} stands inside {expr.function}; aggregates cannot nest"
            context.findings.report("T36", inner.span, message)
        case tree.AliasExpr() | tree.NowExpr() as other:
            message = f"{expr.function} takes a property, a variable, a parameter or a literal, not '{render_expression(other)}'"
            context.findings.report("T36", other.span, message)
    return None


def _result(
    expr: tree.AggregateExpr,
    argument: PropertyRef | EntityRef | ParamRef | Const,
    context: Context,
) -> PropertyType | None:
    given = argument.type
    is_value = not isinstance(argument, EntityRef) and not _null(argument)
    if expr.function == "count":
        return COUNT
    if expr.function in ("sum", "avg"):
        wanted, fits = "a number", given.is_numeric
        result = PropertyType(scalar=Scalar.F64, nullable=True)
    else:
        wanted, fits = "a number or a String", given.is_numeric or given.is_text
        result = replace(given, nullable=True)
    if fits and is_value:
        return result
    actual = "null" if _null(argument) else render_type(argument, context)
    context.findings.report(
        "T8",
        expr.argument.span,
        f"{expr.function} takes {wanted}, '{render_expression(expr.argument)}' is {actual}",
    )
    return None


def _null(argument: object) -> bool:
    return isinstance(argument, Const) and argument.value is None
