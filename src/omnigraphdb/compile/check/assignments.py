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
    """Check what a statement assigns, each property once."""
    found: list[Assign] = []
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
            found.append(Assign(property=column, value=value, type=expected, span=assignment.span))
    return tuple(found)


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
        self, code: str, span: Span, message: str, context: Context, found: Const | None = None
    ) -> None:
        """Report a problem of this property; `found` is the literal to mend, if it is one."""
        context.findings.report(
            code,
            span,
            message,
            fix=suggest_date_literal(found, self.type) if found else None,
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
    found = check_plain_value(expr, target_property, scope, context)
    if found is None:
        return None
    if isinstance(found, EntityRef):
        return _check_end(expr, found, target_property, context)
    if is_key_value(found, target_property):
        return make_id(found, target_property)
    if isinstance(found, Const) and not is_duration(found):
        return _fit_constant(found, target_property, context)
    if not is_duration(found) and storable(found.type, target_property.type):
        return found
    report_mismatch(expr, found, target_property, context)
    return None


def _check_end(
    expr: tree.Expr, found: EntityRef, target_property: TargetProperty, context: Context
) -> Operand | None:
    """Check a variable of the match: it is the node at an end of an edge, elsewhere `id($v)` gives its text."""
    variable = context.variables[found.variable]
    is_node = variable.kind is VariableKind.NODE and variable.type_name == target_property.node
    if is_node:
        return found
    wanted = f"a {target_property.node}" if target_property.node else str(target_property.type)
    target_property.report(
        "T7",
        expr.span,
        f"'{target_property.label}' is {wanted}, '{render_expression(expr)}' is {render_type(found, context)};"
        " id($v) gives the id of an entity",
        context,
    )
    return None


def is_key_value(found: Operand, target_property: TargetProperty) -> bool:
    """Whether a value of an end is of the type of the key, not the text of an id."""
    key = target_property.key
    if key is None or key.is_text or (isinstance(found, Const) and found.value is None):
        return False
    if isinstance(found, Const):
        return storable(found.type, key) and not isinstance(fit(found.value, key), Misfit)
    # Any other value becomes an id by its own type, so that type must spell values as the key does.
    is_plain = found.type.is_plain
    return is_plain and (
        found.type.scalar is key.scalar or {found.type.scalar, key.scalar} <= INTEGERS
    )


def make_id(found: Operand, target_property: TargetProperty) -> Operand:
    """The id that a literal stands for; any other value becomes an id when it is known."""
    if not isinstance(found, Const) or target_property.key is None:
        return found
    return replace(
        found, value=key_text(fit(found.value, target_property.key), target_property.key), type=ID
    )


def _fit_constant(found: Const, target_property: TargetProperty, context: Context) -> Const | None:
    problem = _literal_problem(found, target_property.type)
    if problem is None:
        value = fit(found.value, target_property.type)
        if not isinstance(value, Misfit):
            return replace(found, value=value, type=target_property.type)
        problem = value.rule, value.reason
    code, reason = problem
    target_property.report(
        code,
        found.span,
        f"'{target_property.label}' is {target_property.type}, {reason}",
        context,
        found,
    )
    return None


def _literal_problem(found: Const, expected: PropertyType) -> tuple[str, str] | None:
    if found.value is None or (found.value == () and expected.is_list):
        return None
    if expected.is_vector and found.type.is_list:
        return _vector_problem(found, expected)
    if not storable(found.type, expected):
        return "T3", f"got {found.type} '{shorten(found.value)}'"
    return enum_problem(found, expected)


def _vector_problem(found: Const, expected: PropertyType) -> tuple[str, str] | None:
    items = found.value if isinstance(found.value, tuple) else ()
    if items and not comparable(item_type(found.type), item_type(expected)):
        return "T3", f"got {found.type}"
    if len(items) != expected.dimension:
        return "T3", f"got a list of {len(items)} numbers"
    return None


def check_plain_value(
    expr: tree.Expr, target_property: TargetProperty, scope: Scope, context: Context
) -> Operand | None:
    """Check a value, not yet compared with what the property takes."""
    match expr:
        case tree.LiteralExpr():
            return read_constant(expr, context.findings)
        case tree.VariableExpr() if expr.name in context.params:
            return check_parameter(expr, context)
        case tree.VariableExpr() if scope.find(expr.name) is None:
            known = [*context.params, *(name for name in scope.visible() if name)]
            reason = list_alternatives(expr.name, known, "known here")
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
    """Report bare words that name no value of a stage or a list; tell whether there was any."""
    leaves = (one for one in tree.list_leaves(expr) if isinstance(one, tree.AliasExpr))
    unknown = [one for one in leaves if scope.find_scalar(one.name) is None]
    for one in unknown:
        message, fix = f"'{one.name}' is a bare word, and a value has none", None
        if target_property.target.type_of(one.name) is not None:
            fix = f"$.{one.name}"
            message += f"; the property of the row, as it was before, is '{fix}'"
        context.findings.report("T36", one.span, message, fix=fix)
    return bool(unknown)


def report_mismatch(
    expr: tree.Expr, found: Operand, target_property: TargetProperty, context: Context
) -> None:
    """Report a value of a type that the property does not take."""
    actual = "a duration" if is_duration(found) else render_type(found, context)
    message = f"'{target_property.label}' is {target_property.type}, '{render_expression(expr)}' is {actual}"
    target_property.report("T7", expr.span, message, context)
