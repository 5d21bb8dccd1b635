"""The target of a statement, and the values that the statement assigns to it or finds it by."""

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.catalog.model import EdgeType, Property, TableType
from omnigraph.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraph.catalog.values import Misfit, fit, item_type, key_text
from omnigraph.compile.check.context import Context
from omnigraph.compile.check.expressions import (
    INSTANT,
    check_parameter,
    comparable,
    read_constant,
    render_expression,
    storable,
    suggest_date_literal,
)
from omnigraph.compile.check.matches import enum_problem
from omnigraph.compile.checked import (
    Assign,
    AssignedValue,
    Const,
    Now,
    ParamRef,
    VariableKind,
    Where,
)
from omnigraph.errors import shorten
from omnigraph.language.diagnostics import list_alternatives, nearest_name
from omnigraph.language.query import tree
from omnigraph.language.source import Span
from omnigraph.values import dataclass

# ---- the target


ENDS: Mapping[str, str] = {"from": "src", "to": "dst"}
"""How the ends of an edge are written, and the columns that hold them."""

_ID = PropertyType(scalar=Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Target:
    """The type a statement writes."""

    table: TableType

    @property
    def name(self) -> str:
        """Its declared name."""
        return self.table.name

    @property
    def kind(self) -> VariableKind:
        """Node or edge."""
        return VariableKind.EDGE if isinstance(self.table, EdgeType) else VariableKind.NODE

    @property
    def properties(self) -> Mapping[str, Property]:
        """Its declared properties."""
        return self.table.properties

    def type_of(self, name: str) -> PropertyType | None:
        """The type of what a statement may name: a property, or an end of an edge."""
        if name in ENDS and self.kind is VariableKind.EDGE:
            return _ID
        declared = self.properties.get(name)
        return declared.type if declared else None

    def column_of(self, name: str) -> str:
        """The physical column behind a name."""
        return ENDS.get(name, name) if self.kind is VariableKind.EDGE else name

    def words(self) -> list[str]:
        """Everything a statement may name."""
        ends = list(ENDS) if self.kind is VariableKind.EDGE else []
        return [*ends, *self.properties]


def find_target(name: tree.Name, context: Context) -> Target | None:
    """Find the type by its exact name; a node type wins over an edge type of that name."""
    catalog = context.catalog
    table = catalog.nodes.get(name.text) or catalog.edges.get(name.text)
    if table is not None:
        return Target(table)
    known = [*catalog.nodes, *catalog.edges]
    if name.text in catalog.interfaces:
        why = "is an interface and has no entities; name a node type that implements it"
    else:
        why = f"is not a type of this graph{list_alternatives(name.text, known, 'types')}"
    context.findings.report(
        "T10",
        name.span,
        f"'{name.text}' {why}",
        fix=nearest_name(name.text, known),
        type_name=name.text,
    )
    return None


def find_type(name: tree.Name, target: Target, context: Context) -> PropertyType | None:
    """The type behind a name of the statement; an unknown one is reported."""
    found = target.type_of(name.text)
    if found is None:
        reason = list_alternatives(name.text, target.words(), "it has")
        fix = nearest_name(name.text, target.words())
        if name.text == "id":
            reason, fix = "; the id of an entity is no property, it follows from the key", None
        if target.kind is VariableKind.EDGE and name.text in ENDS.values():
            written = next(word for word, column in ENDS.items() if column == name.text)
            reason, fix = f"; this end of an edge is written '{written}'", written
        context.findings.report(
            "T11",
            name.span,
            f"{target.kind} type '{target.name}' has no property '{name.text}'{reason}",
            fix=fix,
            type_name=target.name,
            property_name=name.text,
        )
    return found


# ---- the values


def check_assignments(
    written: tuple[tree.PropertyMatch, ...], target: Target, context: Context
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
        target_property = _find_target_property(target, name.text, expected, context)
        value = _check_assigned(assignment.value, target_property, context)
        if value is not None:
            column = target.column_of(name.text)
            found.append(Assign(property=column, value=value, type=expected, span=assignment.span))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _TargetProperty:
    """The property a value is meant for; `key` is the type of the key of the nodes at an end."""

    target: Target
    name: str
    type: PropertyType
    key: PropertyType | None = None

    @property
    def label(self) -> str:
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


def _find_target_property(
    target: Target, name: str, type_: PropertyType, context: Context
) -> _TargetProperty:
    if name not in ENDS or not isinstance(target.table, EdgeType):
        return _TargetProperty(target, name, type_)
    return _TargetProperty(
        target, name, type_, context.catalog.end_key_type(target.table, ENDS[name])
    )


def _check_assigned(
    expr: tree.Expr, target_property: _TargetProperty, context: Context
) -> AssignedValue | None:
    found = _check_value(expr, target_property, context)
    if found is not None and _is_key_value(found, target_property):
        return _make_id(found, target_property)
    if isinstance(found, Const):
        return _fit_constant(found, target_property, context)
    if found is None or storable(found.type, target_property.type):
        return found
    _mismatch(expr, found, target_property, context)
    return None


def _is_key_value(found: AssignedValue, target_property: _TargetProperty) -> bool:
    """Whether a value of an end is of the type of the key, not the text of an id."""
    key = target_property.key
    if key is None or key.is_text or (isinstance(found, Const) and found.value is None):
        return False
    if isinstance(found, Const):
        return storable(found.type, key) and not isinstance(fit(found.value, key), Misfit)
    # A parameter becomes an id by its own type, so that type must spell values as the key does.
    return found.type.scalar is key.scalar or {found.type.scalar, key.scalar} <= INTEGERS


def _make_id(found: AssignedValue, target_property: _TargetProperty) -> AssignedValue:
    """The id that a literal stands for; a parameter becomes an id when it has a value."""
    if not isinstance(found, Const) or target_property.key is None:
        return found
    return replace(
        found, value=key_text(fit(found.value, target_property.key), target_property.key), type=_ID
    )


def _fit_constant(found: Const, target_property: _TargetProperty, context: Context) -> Const | None:
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


# ---- predicates


def check_where(predicate: tree.Predicate, target: Target, context: Context) -> Where | None:
    """Check the one comparison of an update or delete."""
    name = predicate.property
    expected = find_type(name, target, context)
    if expected is None:
        return None
    target_property = _find_target_property(target, name.text, expected, context)
    if expected.is_blob:
        target_property.report(
            "T11", name.span, f"'{target_property.label}' is a Blob and cannot be compared", context
        )
        return None
    value = _check_compared(predicate, target_property, context)
    if value is None:
        return None
    return Where(column=target.column_of(name.text), op=predicate.op, value=value, type=expected)


def _check_compared(
    predicate: tree.Predicate, target_property: _TargetProperty, context: Context
) -> AssignedValue | None:
    found = _check_value(predicate.value, target_property, context)
    if found is None:
        return None
    if predicate.op in ("=", "!=") and _is_key_value(found, target_property):
        return _make_id(found, target_property)
    if isinstance(found, Const):
        problem = _predicate_problem(found, predicate.op, target_property.type)
        if problem is None:
            return found
        code, reason = problem
        message = f"'{target_property.label}' is {target_property.type}, {reason}"
        target_property.report(code, found.span, message, context, found)
        return None
    if comparable(found.type, target_property.type):
        return found
    _mismatch(predicate.value, found, target_property, context)
    return None


def _predicate_problem(found: Const, op: str, expected: PropertyType) -> tuple[str, str] | None:
    if found.value is None:
        return "T3", "and comparing it with null is never true"
    if not expected.is_plain:
        return "T7", f"got {found.type}; lists and vectors are not comparable"
    if not comparable(found.type, expected):
        return "T3", f"got {found.type} '{shorten(found.value)}'"
    return enum_problem(found, expected) if op in ("=", "!=") else None


# ---- values


def _check_value(
    expr: tree.Expr, target_property: _TargetProperty, context: Context
) -> AssignedValue | None:
    """A literal, parameter or now(), not yet compared with what the property takes."""
    match expr:
        case tree.LiteralExpr():
            return read_constant(expr, context.findings)
        case tree.VariableExpr() if expr.name in context.params:
            return check_parameter(expr, context)
        case tree.VariableExpr():
            reason = list_alternatives(expr.name, context.params, "parameters")
            message = f"'${expr.name}' is not a declared parameter{reason}"
            target_property.report("T14", expr.span, message, context)
        case tree.NowExpr():
            return Now(type=INSTANT, span=expr.span)
        case _:
            message = f"'{render_expression(expr)}' cannot be written; use a literal, a parameter or now()"
            target_property.report("T36", expr.span, message, context)
    return None


def _mismatch(
    expr: tree.Expr, found: ParamRef | Now, target_property: _TargetProperty, context: Context
) -> None:
    message = f"'{target_property.label}' is {target_property.type}, '{render_expression(expr)}' is {found.type}"
    target_property.report("T7", expr.span, message, context)
