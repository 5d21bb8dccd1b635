"""Conditions of a match: comparisons, text clauses, property matches, and the connectives of the extended dialect."""

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.types import NUMBERS, PropertyType
from omnigraph.compile.check.context import Context, Scope
from omnigraph.compile.check.expressions import (
    INSTANT,
    check_operand,
    check_parameter,
    comparable,
    function_name,
    is_null,
    member_of,
    read_constant,
    refuse_blob,
    render_expression,
    render_type,
    suggest_date_literal,
)
from omnigraph.compile.check.ranking import check_text_match
from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Condition,
    Const,
    EntityRef,
    IsNull,
    Not,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    TextMatch,
)
from omnigraph.errors import shorten
from omnigraph.language.diagnostics import list_alternatives, nearest_name
from omnigraph.language.query import tree


def check_condition(written: tree.Condition, scope: Scope, context: Context) -> Condition | None:
    """Check a condition; None when it was wrong and is reported."""
    match written:
        case tree.Compare():
            return _check_comparison(written, scope, context)
        case tree.TextExpr():
            return check_text_match(written, scope, context)
        case tree.IsNull():
            return _check_null_test(written, scope, context)
        case tree.Among():
            return _check_membership(written, scope, context)
        case tree.AllOf():
            return AllOf(parts=_check_parts(written.parts, scope, context))
        case tree.AnyOf():
            return AnyOf(parts=_check_parts(written.parts, scope, context))
        case tree.Not():
            part = check_condition(written.part, scope, context)
            return Not(part=part) if part is not None else None


def _check_parts(
    written: tuple[tree.Condition, ...], scope: Scope, context: Context
) -> tuple[Condition, ...]:
    # A part that is wrong has been reported, so the thinner condition is never used.
    checked = [check_condition(part, scope, context) for part in written]
    return tuple(part for part in checked if part is not None)


# ---- comparisons


def _check_comparison(
    written: tree.Compare, scope: Scope, context: Context
) -> Compare | Among | TextMatch | None:
    for side, other in ((written.left, written.right), (written.right, written.left)):
        if isinstance(side, tree.TextExpr):
            return _text_equals_true(side, written.op, other, scope, context)
    left = _check_operand(written.left, scope, context)
    right = _check_operand(written.right, scope, context)
    if left is None or right is None:
        return None
    if _compares_null(written, context):
        return None
    if not _fits(written.op, left, right):
        _mismatch(written, left, right, context)
        return None
    if left.type.is_list and isinstance(left, Const | ParamRef) and isinstance(right, PropertyRef):
        # The items take the precision of the column, as every given value does.
        return Among(operand=right, choices=left)
    return Compare(left=left, op=written.op, right=right)


def _text_equals_true(
    call: tree.TextExpr, op: str, other: tree.Expr, scope: Scope, context: Context
) -> TextMatch | None:
    is_true = isinstance(other, tree.LiteralExpr) and other.value is True
    if op == "=" and is_true:
        return check_text_match(call, scope, context)
    name = call.function
    context.findings.report(
        "T38",
        call.span,
        f"{name} is a clause by itself and compares only as '{name}(…) = true';"
        f" to exclude rows write 'not {{ {name}(…) }}'",
    )
    return None


def _check_operand(expr: tree.Expr, scope: Scope, context: Context) -> Operand | None:
    match expr:
        case tree.LiteralExpr() | tree.VariableExpr() | tree.PropertyExpr() | tree.NowExpr():
            return check_operand(expr, scope, context)
        case tree.AggregateExpr():
            message = f"'{render_expression(expr)}' is an aggregate, and aggregates are not comparable in a match"
            context.findings.report("T7", expr.span, message)
        case tree.AliasExpr():
            message = f"'{expr.name}' is a bare word; a filter compares properties, parameters and literals"
            context.findings.report("T36", expr.span, message)
        case tree.TextExpr() | tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr():
            message = f"{function_name(expr)} is not a filter operand; a ranking stands in order"
            context.findings.report("T38", expr.span, message)
    return None


def _compares_null(written: tree.Compare, context: Context) -> bool:
    for side, other in ((written.right, written.left), (written.left, written.right)):
        if is_null(side):
            word = "is not null" if written.op == "!=" else "is null"
            context.findings.report(
                "T7",
                side.span,
                f"'{render_expression(other)} {written.op} null' is never true, whatever the value",
                fix=f"{render_expression(other)} {word}",
            )
            return True
    return False


def _fits(op: str, left: Operand, right: Operand) -> bool:
    if isinstance(left, EntityRef) or isinstance(right, EntityRef):
        return False
    if op == "contains" and left.type.is_list:
        return member_of(right.type, left.type)
    if op in ("contains", "starts_with"):
        return left.type.is_text and right.type.is_text
    return comparable(left.type, right.type)


def _mismatch(written: tree.Compare, left: Operand, right: Operand, context: Context) -> None:
    context.findings.report(
        "T7",
        written.span,
        f"'{render_expression(written.left)}' is {render_type(left, context)} and '{render_expression(written.right)}'"
        f" is {render_type(right, context)}: {_expectation(written.op)}",
        property_name=left.property if isinstance(left, PropertyRef) else None,
    )


def _expectation(op: str) -> str:
    match op:
        case "contains":
            return "contains takes a list and one of its items, or two Strings"
        case "starts_with":
            return "starts_with takes two Strings"
        case _:
            return f"'{op}' compares two scalars of one type, or two numbers"


# ---- the extended dialect


def _simple(expr: tree.Expr, scope: Scope, context: Context) -> Operand | None:
    found = _check_operand(expr, scope, context)
    if isinstance(found, PropertyRef | ParamRef) and refuse_blob(found, context):
        return None
    return found


def _check_null_test(written: tree.IsNull, scope: Scope, context: Context) -> IsNull | None:
    found = _simple(written.operand, scope, context)
    return IsNull(operand=found, negated=written.negated) if found is not None else None


def _check_membership(written: tree.Among, scope: Scope, context: Context) -> Among | None:
    found = _simple(written.operand, scope, context)
    choices = _check_operand(written.choices, scope, context)
    if found is None or choices is None:
        return None
    is_choice = isinstance(choices, Const | ParamRef) and not isinstance(found, EntityRef)
    empty = isinstance(choices, Const) and choices.value == ()
    if is_choice and (empty or member_of(found.type, choices.type)):
        assert isinstance(choices, Const | ParamRef)
        return Among(operand=found, choices=choices)
    context.findings.report(
        "T7",
        written.span,
        f"'{render_expression(written.operand)}' is {render_type(found, context)} and"
        f" '{render_expression(written.choices)}' is {render_type(choices, context)}:"
        " 'in' takes a scalar and a list literal or list parameter of its type",
    )
    return None


# ---- property matches
# The form is `name: value` inside the block of a binding.


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
        reason = "; the id of an entity is no property, match the key properties instead"
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
            found: ParamRef | Now = check_parameter(expr, context)
        case tree.NowExpr():
            found = Now(type=INSTANT, span=expr.span)
        case _:
            message = f"'{render_expression(expr)}' cannot be matched; use a literal, a parameter or now()"
            context.findings.report("T36", expr.span, message)
            return None
    return found if _matches(written, found, node, expected, context) else None


def _matches(
    written: tree.PropertyMatch,
    found: ParamRef | Now,
    node: NodeType,
    expected: PropertyType,
    context: Context,
) -> bool:
    if comparable(found.type, expected) or member_of(found.type, expected):
        return True
    label = f"{node.name}.{written.name.text}"
    got = f"'{render_expression(written.value)}' is {found.type}"
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
    found = read_constant(expr, context.findings)
    if found is None:
        return None
    problem = _problem(found, expected)
    if problem is None:
        return found
    code, reason = problem
    name = written.name.text
    context.findings.report(
        code,
        expr.span,
        f"'{node.name}.{name}' is {expected}, {reason}",
        fix=suggest_date_literal(found, expected),
        type_name=node.name,
        property_name=name,
    )
    return None


def _problem(found: Const, expected: PropertyType) -> tuple[str, str] | None:
    if found.value is None:
        return "T3", "and matching null is never true; filter with 'is null' instead"
    if expected.is_blob:
        return "T3", f"got {found.type}; a Blob cannot be matched"
    if expected.is_vector:
        return _vector_problem(found, expected)
    if expected.is_list:
        fits = member_of(found.type, expected)
        return None if fits else ("T3", f"got {found.type}; give one {expected.scalar} to look for")
    if not comparable(found.type, expected):
        return "T3", f"got {found.type} '{shorten(found.value)}'"
    return enum_problem(found, expected)


def _vector_problem(found: Const, expected: PropertyType) -> tuple[str, str]:
    items = found.value if isinstance(found.value, tuple) else None
    if items is None or found.type.scalar not in NUMBERS:
        return "T3", f"got {found.type}"
    if len(items) != expected.dimension:
        return "T3", f"got a list of {len(items)} numbers"
    return "T7", f"got a list of {len(items)} numbers; vectors are not comparable, use nearest(…)"


def enum_problem(found: Const, expected: PropertyType) -> tuple[str, str] | None:
    """Why a literal is not in the set of an enum, with its code; None when it is, or there is none."""
    value = found.value
    if not expected.is_enum or value in expected.enum_values:
        return None
    folded = [v for v in expected.enum_values if v.lower() == str(value).lower()]
    hint = f"; it differs only by case from '{folded[0]}'" if folded else ""
    return "T3", f"got '{shorten(value)}', which is not in the set{hint}"
