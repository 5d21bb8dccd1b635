"""Property matches: `name: value` inside the block of a binding."""

from omnigraphdb.catalog.model import NodeType
from omnigraphdb.catalog.types import NUMBERS, PropertyType
from omnigraphdb.compile.check.context import Context
from omnigraphdb.compile.check.expressions import (
    INSTANT,
    check_parameter,
    comparable,
    member_of,
    read_constant,
    render_expression,
    suggest_date_literal,
)
from omnigraphdb.compile.checked import Compare, Const, Now, ParamRef, PropertyRef
from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree


def check_property_match(
    written: tree.PropertyMatch, variable: str, node: NodeType, context: Context
) -> Compare | None:
    """Check one match: equality, or membership when the property is a list."""
    name = written.name.text
    declared = node.properties.get(name)
    if declared is None:
        _report_unknown(written, node, context)
        return None
    value = _value(written, node, declared.type, context)
    if value is None:
        return None
    left = PropertyRef(variable=variable, property=name, type=declared.type, span=written.name.span)
    return Compare(left=left, op="contains" if declared.type.is_list else "=", right=value)


def _report_unknown(written: tree.PropertyMatch, node: NodeType, context: Context) -> None:
    name = written.name.text
    reason = list_alternatives(name, node.properties, "it has")
    if name == "id":
        reason = "; the id of an entity is not a property, match the key properties instead"
    context.findings.report(
        "T2",
        written.name.span,
        f"node type '{node.name}' has no property '{name}'{reason}",
        fix=nearest_name(name, node.properties),
        type_name=node.name,
        property_name=name,
    )


def _value(
    written: tree.PropertyMatch, node: NodeType, expected: PropertyType, context: Context
) -> Const | ParamRef | Now | None:
    expr = written.value
    match expr:
        case tree.LiteralExpr():
            return _literal(written, expr, node, expected, context)
        case tree.VariableExpr() if expr.name not in context.params:
            message = f"'${expr.name}' is not a declared parameter, and a property match takes no variable"
            reason = list_alternatives(expr.name, context.params, "parameters")
            context.findings.report("T33", expr.span, message + reason)
            return None
        case tree.VariableExpr():
            operand: ParamRef | Now = check_parameter(expr, context)
        case tree.NowExpr():
            operand = Now(type=INSTANT, span=expr.span)
        case _:
            message = f"'{render_expression(expr)}' cannot be matched; use a literal, a parameter or now()"
            context.findings.report("T36", expr.span, message)
            return None
    return operand if _matches(written, operand, node, expected, context) else None


def _matches(
    written: tree.PropertyMatch,
    operand: ParamRef | Now,
    node: NodeType,
    expected: PropertyType,
    context: Context,
) -> bool:
    if comparable(operand.type, expected) or member_of(operand.type, expected):
        return True
    label = f"{node.name}.{written.name.text}"
    got = f"'{render_expression(written.value)}' is {operand.type}"
    context.findings.report(
        "T3" if expected.is_blob else "T7",
        written.value.span,
        f"'{label}' is {expected}, {got}{_why(expected)}",
        type_name=node.name,
        property_name=written.name.text,
    )
    return False


def _why(expected: PropertyType) -> str:
    if expected.is_blob:
        return "; a Blob cannot be matched"
    if expected.is_vector:
        return "; vectors are not comparable, rank them with nearest(…)"
    return (
        f"; one {expected.scalar} is needed, to look for it in the list" if expected.is_list else ""
    )


# ---- literals of property matches


def _literal(
    written: tree.PropertyMatch,
    expr: tree.LiteralExpr,
    node: NodeType,
    expected: PropertyType,
    context: Context,
) -> Const | None:
    constant = read_constant(expr, context.findings)
    if constant is None:
        return None
    problem = _problem(constant, expected)
    if problem is None:
        return constant
    code, reason = problem
    name = written.name.text
    context.findings.report(
        code,
        expr.span,
        f"'{node.name}.{name}' is {expected}, {reason}",
        fix=suggest_date_literal(constant, expected),
        type_name=node.name,
        property_name=name,
    )
    return None


def _problem(constant: Const, expected: PropertyType) -> tuple[str, str] | None:
    if constant.value is None:
        return "T3", "and matching null is never true; filter with 'is null' instead"
    if expected.is_blob:
        return "T3", f"got {constant.type}; a Blob cannot be matched"
    if expected.is_vector:
        return _vector_problem(constant, expected)
    if expected.is_list:
        fits = member_of(constant.type, expected)
        return (
            None if fits else ("T3", f"got {constant.type}; give one {expected.scalar} to look for")
        )
    if not comparable(constant.type, expected):
        return "T3", f"got {constant.type} '{shorten(constant.value)}'"
    return enum_problem(constant, expected)


def _vector_problem(constant: Const, expected: PropertyType) -> tuple[str, str]:
    items = constant.value if isinstance(constant.value, tuple) else None
    if items is None or constant.type.scalar not in NUMBERS:
        return "T3", f"got {constant.type}"
    if len(items) != expected.dimension:
        return "T3", f"got a list of {len(items)} numbers"
    return "T7", f"got a list of {len(items)} numbers; vectors are not comparable, use nearest(…)"


def enum_problem(constant: Const, expected: PropertyType) -> tuple[str, str] | None:
    """Return a code and the reason why a literal is not in the set of an enum; None when it fits."""
    value = constant.value
    if not expected.is_enum or value in expected.enum_values:
        return None
    spellings = [v for v in expected.enum_values if v.lower() == str(value).lower()]
    hint = f"; it differs only by case from '{spellings[0]}'" if spellings else ""
    return "T3", f"got '{shorten(value)}', which is not in the set{hint}"
