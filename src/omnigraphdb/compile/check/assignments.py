"""The values that a statement assigns, each held to the type of its property."""

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.catalog.types import INTEGERS, PropertyType
from omnigraphdb.catalog.values import Misfit, fit, item_type, key_text
from omnigraphdb.compile.check.conditions import check_value
from omnigraphdb.compile.check.context import Context, Scope
from omnigraphdb.compile.check.expressions import (
    INSTANT,
    check_parameter,
    comparable,
    read_constant,
    render_expression,
    render_type,
    storable,
    suggest_date_literal,
)
from omnigraphdb.compile.check.functions import is_duration
from omnigraphdb.compile.check.matches import enum_problem
from omnigraphdb.compile.check.target import ENDS, ID, Target, find_type
from omnigraphdb.compile.checked import Assign, Const, EntityRef, Now, Operand, VariableKind
from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import list_alternatives
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Span
from omnigraphdb.values import dataclass, replace


def check_assignments(
    written: tuple[tree.PropertyMatch, ...], target: Target, scope: Scope, context: Context
) -> tuple[Assign, ...]:
    """Check the assignments of a statement, each property once."""
    assignments: list[Assign] = []
    seen: set[str] = set()
    for assignment in written:
        name = assignment.name
        expected = find_type(name, target, context)
        if name.text in seen:
            message = f"'{target.name}.{name.text}' is assigned twice; one of them must go"
            context.findings.report(
                "T13", name.span, message, type_name=target.name, property_name=name.text
            )
            continue
        seen.add(name.text)
        if expected is None:
            continue
        target_property = find_target_property(target, name.text, expected, context)
        value = _check_assigned(assignment.value, target_property, scope, context)
        if value is not None:
            column = target.column_of(name.text)
            assignments.append(
                Assign(property=column, value=value, type=expected, span=assignment.span)
            )
    return tuple(assignments)


@dataclass(frozen=True, slots=True)
class TargetProperty:
    """The property a value is meant for; `key` is the type of the key of the nodes at an end, `node` their type."""

    target: Target
    name: str
    type: PropertyType
    key: PropertyType | None = None
    node: str | None = None

    @property
    def label(self) -> str:
        """The property as messages name it."""
        return f"{self.target.name}.{self.name}"

    def report(
        self, code: str, span: Span, message: str, context: Context, literal: Const | None = None
    ) -> None:
        """Report a problem of this property; `literal` is the literal to mend, if there is one."""
        context.findings.report(
            code,
            span,
            message,
            fix=suggest_date_literal(literal, self.type) if literal else None,
            type_name=self.target.name,
            property_name=self.name,
        )


def find_target_property(
    target: Target, name: str, type_: PropertyType, context: Context
) -> TargetProperty:
    """Find the property behind a name; an end of an edge takes ids of nodes."""
    edge = target.table
    if name not in ENDS or not isinstance(edge, EdgeType):
        return TargetProperty(target, name, type_)
    key = context.catalog.end_key_type(edge, ENDS[name])
    node = edge.source if ENDS[name] == "src" else edge.target
    return TargetProperty(target, name, type_, key, node)


def _check_assigned(
    expr: tree.Expr, target_property: TargetProperty, scope: Scope, context: Context
) -> Operand | None:
    operand = check_plain_value(expr, target_property, scope, context)
    if operand is None:
        return None
    if isinstance(operand, EntityRef):
        return _check_end(expr, operand, target_property, context)
    if is_key_value(operand, target_property):
        return make_id(operand, target_property)
    if isinstance(operand, Const) and not is_duration(operand):
        return _fit_constant(operand, target_property, context)
    if not is_duration(operand) and storable(operand.type, target_property.type):
        return operand
    report_mismatch(expr, operand, target_property, context)
    return None


def _check_end(
    expr: tree.Expr, entity: EntityRef, target_property: TargetProperty, context: Context
) -> Operand | None:
    """Check a variable of the match: it is the node at an end of an edge, elsewhere `id($v)` gives its text."""
    variable = context.variables[entity.variable]
    is_node = variable.kind is VariableKind.NODE and variable.type_name == target_property.node
    if is_node:
        return entity
    expected = f"a {target_property.node}" if target_property.node else str(target_property.type)
    target_property.report(
        "T7",
        expr.span,
        f"'{target_property.label}' is {expected}, '{render_expression(expr)}' is {render_type(entity, context)};"
        " id($v) gives the id of an entity",
        context,
    )
    return None


def is_key_value(operand: Operand, target_property: TargetProperty) -> bool:
    """Whether a value of an end is of the type of the key, not the text of an id."""
    key = target_property.key
    if key is None or key.is_text or (isinstance(operand, Const) and operand.value is None):
        return False
    if isinstance(operand, Const):
        return storable(operand.type, key) and not isinstance(fit(operand.value, key), Misfit)
    # Any other value becomes an id by its own type, so that type must spell values as the key does.
    is_plain = operand.type.is_plain
    return is_plain and (
        operand.type.scalar is key.scalar or {operand.type.scalar, key.scalar} <= INTEGERS
    )


def make_id(operand: Operand, target_property: TargetProperty) -> Operand:
    """Return the id that a literal stands for; any other value becomes an id when it is known."""
    if not isinstance(operand, Const) or target_property.key is None:
        return operand
    return replace(
        operand,
        value=key_text(fit(operand.value, target_property.key), target_property.key),
        type=ID,
    )


def _fit_constant(
    constant: Const, target_property: TargetProperty, context: Context
) -> Const | None:
    problem = _literal_problem(constant, target_property.type)
    if problem is None:
        value = fit(constant.value, target_property.type)
        if not isinstance(value, Misfit):
            return replace(constant, value=value, type=target_property.type)
        problem = value.rule, value.reason
    code, reason = problem
    target_property.report(
        code,
        constant.span,
        f"'{target_property.label}' is {target_property.type}, {reason}",
        context,
        constant,
    )
    return None


def _literal_problem(constant: Const, expected: PropertyType) -> tuple[str, str] | None:
    if constant.value is None or (constant.value == () and expected.is_list):
        return None
    if expected.is_vector and constant.type.is_list:
        return _vector_problem(constant, expected)
    if not storable(constant.type, expected):
        return "T3", f"got {constant.type} '{shorten(constant.value)}'"
    return enum_problem(constant, expected)


def _vector_problem(constant: Const, expected: PropertyType) -> tuple[str, str] | None:
    items = constant.value if isinstance(constant.value, tuple) else ()
    if items and not comparable(item_type(constant.type), item_type(expected)):
        return "T3", f"got {constant.type}"
    if len(items) != expected.dimension:
        return "T3", f"got a list of {len(items)} numbers"
    return None


def check_plain_value(
    expr: tree.Expr, target_property: TargetProperty, scope: Scope, context: Context
) -> Operand | None:
    """Check a value, before it is compared with the type of the property."""
    match expr:
        case tree.LiteralExpr():
            return read_constant(expr, context.findings)
        case tree.VariableExpr() if expr.name in context.params:
            return check_parameter(expr, context)
        case tree.VariableExpr() if scope.find(expr.name) is None:
            names = [*context.params, *(name for name in scope.visible() if name)]
            reason = list_alternatives(expr.name, names, "known here")
            message = f"'${expr.name}' is neither a declared parameter nor bound here{reason}"
            target_property.report("T14", expr.span, message, context)
            return None
        case tree.NowExpr():
            return Now(type=INSTANT, span=expr.span)
        case _ if _refuse_words(expr, target_property, scope, context):
            return None
        case _:
            return check_value(expr, scope, context)


def _refuse_words(
    expr: tree.Expr, target_property: TargetProperty, scope: Scope, context: Context
) -> bool:
    """Report bare words that name no value of a stage or a list; return whether there was any."""
    leaves = (word for word in tree.list_leaves(expr) if isinstance(word, tree.AliasExpr))
    unknown = [word for word in leaves if scope.find_scalar(word.name) is None]
    for word in unknown:
        message, fix = f"'{word.name}' is a bare word, and a value has none", None
        if target_property.target.type_of(word.name) is not None:
            fix = f"$.{word.name}"
            message += f"; the property of the row, as it was before, is '{fix}'"
        context.findings.report("T36", word.span, message, fix=fix)
    return bool(unknown)


def report_mismatch(
    expr: tree.Expr, operand: Operand, target_property: TargetProperty, context: Context
) -> None:
    """Report a value of a type that the property does not take."""
    actual = "a duration" if is_duration(operand) else render_type(operand, context)
    message = f"'{target_property.label}' is {target_property.type}, '{render_expression(expr)}' is {actual}"
    target_property.report("T7", expr.span, message, context)
