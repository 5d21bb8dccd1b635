"""A read query: pattern, columns, order and bounds."""

from dataclasses import replace

from omnigraph.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraph.compile.check.context import Context
from omnigraph.compile.check.expressions import parameter
from omnigraph.compile.check.items import columns
from omnigraph.compile.check.order import sort_keys
from omnigraph.compile.check.pattern import pattern
from omnigraph.compile.checked import CheckedRead, Const, ParamRef
from omnigraph.compile.demands import demands_of
from omnigraph.language.diagnostics import list_alternatives
from omnigraph.language.query import tree

_ROWS = PropertyType(scalar=Scalar.I64)


def check_read(query: tree.Query, read: tree.Read, context: Context) -> CheckedRead:
    """Check a read; what it returns counts only when nothing was reported."""
    matched, scope = pattern(read.clauses, context)
    projected = columns(read, scope, context)
    order = sort_keys(read, projected, scope, context)
    checked = CheckedRead(
        name=query.name.text,
        params=context.params,
        pattern=matched,
        variables=context.variables,
        columns=projected,
        order=order,
        limit=_bound("limit", read.limit, context),
        offset=_bound("offset", read.offset, context),
        description=query.description,
        instruction=query.instruction,
    )
    return replace(checked, demands=demands_of(checked))


def _bound(
    word: str, expr: tree.LiteralExpr | tree.VariableExpr | None, context: Context
) -> Const | ParamRef | None:
    match expr:
        case None:
            return None
        case tree.LiteralExpr() if expr.form == "int":
            return Const(value=expr.value, type=_ROWS, span=expr.span)
        case tree.LiteralExpr():
            context.findings.report("T7", expr.span, f"{word} takes an integer, not {expr.form}")
        case tree.VariableExpr() if expr.name not in context.params:
            reason = list_alternatives(expr.name, context.params, "parameters")
            message = (
                f"{word} takes an integer or a parameter, '${expr.name}' is not declared{reason}"
            )
            context.findings.report("T25", expr.span, message)
        case tree.VariableExpr():
            return _integer_parameter(word, expr, context)
    return None


def _integer_parameter(word: str, expr: tree.VariableExpr, context: Context) -> ParamRef | None:
    found = parameter(expr, context)
    if found.type.is_plain and found.type.scalar in INTEGERS:
        return found
    message = f"{word} takes an integer parameter (I64), '${expr.name}' is {found.type}"
    context.findings.report("T7", expr.span, message)
    return None
