"""Names inside expressions: properties, parameters, entities, literals and the clock."""

from collections.abc import Mapping

from omnigraphdb.catalog.mixed import find_edge_type, find_node_type, is_mixed
from omnigraphdb.catalog.model import Property, TableType, order_columns
from omnigraphdb.catalog.types import INTEGERS, NUMBERS, PropertyType, Scalar
from omnigraphdb.catalog.values import parse_date, parse_datetime
from omnigraphdb.compile.check.context import ANONYMOUS, Context, Scope
from omnigraphdb.compile.checked import (
    Const,
    EntityRef,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    Variable,
    VariableKind,
)
from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import Findings, list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Span
from omnigraphdb.values import replace

NULL_TYPE = PropertyType(scalar=Scalar.STRING, nullable=True)

INSTANT = PropertyType(scalar=Scalar.DATETIME)

Simple = tree.LiteralExpr | tree.VariableExpr | tree.PropertyExpr | tree.NowExpr


def check_operand(expr: Simple, scope: Scope, context: Context) -> Operand | None:
    """Resolve an expression that is one value; return None when it has an error, which is reported."""
    match expr:
        case tree.LiteralExpr():
            return read_constant(expr, context.findings)
        case tree.VariableExpr():
            return check_variable(expr, scope, context)
        case tree.PropertyExpr():
            return check_property(expr, scope, context)
        case tree.NowExpr():
            return Now(type=INSTANT, span=expr.span)


def check_property(expr: tree.PropertyExpr, scope: Scope, context: Context) -> PropertyRef | None:
    """Resolve `$x.p`: the variable must be bound, the property declared on its type."""
    bound = scope.find(expr.variable)
    if bound is None:
        context.findings.report("T6", expr.span, _unbound(expr, scope, context))
        return None
    if bound.variable is None:
        return None
    if bound.variable.kind is VariableKind.PATH:
        report_path_misuse(expr.variable, expr.span, context)
        return None
    declared = list_properties(bound.variable, context).get(expr.property)
    if declared is None:
        _report_unknown_property(expr, bound.variable, context)
        return None
    return PropertyRef(
        variable=bound.variable.name,
        property=expr.property,
        type=declared.type.with_nullable(declared.type.nullable or bound.nullable),
        span=expr.span,
    )


def check_variable(
    expr: tree.VariableExpr, scope: Scope, context: Context
) -> ParamRef | EntityRef | None:
    """Resolve a bare `$x`: a parameter, or a bound node."""
    if expr.name in context.params:
        return check_parameter(expr, context)
    bound = scope.find(expr.name)
    if bound is None:
        reason = _not_here(expr.name, context) or _bound_here(expr.name, scope, context)
        message = f"'${expr.name}' is neither a bound variable nor a parameter{reason}"
        context.findings.report("T25", expr.span, message)
        return None
    if bound.variable is None:
        return None
    if bound.variable.kind is VariableKind.EDGE:
        problem = (
            f"stands for an edge and has no value by itself; use its properties, ${expr.name}.…"
        )
        report_edge_misuse(expr.name, expr.span, problem, context)
        return None
    if bound.variable.kind is VariableKind.PATH:
        report_path_misuse(expr.name, expr.span, context)
        return None
    entity = PropertyType(scalar=Scalar.STRING, nullable=bound.nullable)
    return EntityRef(variable=bound.variable.name, type=entity, span=expr.span)


def check_parameter(expr: tree.VariableExpr, context: Context) -> ParamRef:
    """Refer to a declared parameter."""
    declared = context.params[expr.name]
    return ParamRef(name=declared.name, type=declared.type, span=expr.span)


def check_count_parameter(word: str, expr: tree.VariableExpr, context: Context) -> ParamRef | None:
    """Check a parameter that gives a number of rows, hops or paths."""
    if expr.name not in context.params:
        reason = list_alternatives(expr.name, context.params, "parameters")
        message = f"{word} takes an integer or a parameter, '${expr.name}' is not declared{reason}"
        context.findings.report("T25", expr.span, message)
        return None
    parameter = check_parameter(expr, context)
    if parameter.type.is_plain and parameter.type.scalar in INTEGERS:
        return parameter
    message = f"{word} takes an integer parameter (I64), '${expr.name}' is {parameter.type}"
    context.findings.report("T7", expr.span, message)
    return None


def list_properties(bound: Variable, context: Context) -> Mapping[str, Property]:
    """Return the declared properties of the type of a variable."""
    return _find_type(bound, context).properties


def order_properties(bound: Variable, context: Context) -> list[Property]:
    """Return the declared properties of the type of a variable, in the order of the schema."""
    type_ = _find_type(bound, context)
    return [type_.properties[name] for name in order_columns(type_, type_.properties)]


def _find_type(bound: Variable, context: Context) -> TableType:
    if bound.kind is VariableKind.NODE:
        return find_node_type(context.catalog, bound.type_name)
    return find_edge_type(context.catalog, bound.type_name)


def report_edge_misuse(name: str, span: Span, problem: str, context: Context) -> None:
    """Report a wrong use of an edge binding."""
    context.findings.report("T23", span, f"'${name}' {problem}")


def report_path_misuse(name: str, span: Span, context: Context) -> None:
    """Report a path where an entity or a value is expected."""
    context.findings.report(
        "T69",
        span,
        f"'${name}' stands for a path, which has no value by itself and is not an entity",
        label=f"hops(${name}), nodes(${name}), edges(${name}), or an aggregate over its edges: sum(${name}.…)",
    )


def refuse_blob(operand: PropertyRef | ParamRef, context: Context) -> bool:
    """Report a Blob where a value is read; return whether the operand is a Blob."""
    if not operand.type.is_blob:
        return False
    label = (
        f"${operand.variable}.{operand.property}"
        if isinstance(operand, PropertyRef)
        else operand.name
    )
    context.findings.report(
        "T24",
        operand.span,
        f"'{label}' is a Blob, and a Blob is not a value of a query; `graph.table` reads its bytes",
        property_name=operand.property if isinstance(operand, PropertyRef) else None,
    )
    return True


def render_type(operand: Operand, context: Context) -> str:
    """Return the type of an operand as messages write it."""
    if isinstance(operand, EntityRef):
        return f"node {context.variables[operand.variable].type_name}"
    return str(operand.type)


def render_expression(expr: tree.Expr) -> str:
    """Return an expression as messages quote it."""
    match expr:
        case tree.PropertyExpr():
            return f"${expr.variable}.{expr.property}"
        case tree.VariableExpr():
            return f"${expr.name}"
        case tree.AliasExpr():
            return expr.name
        case tree.LiteralExpr():
            return _literal_text(expr)
        case tree.NowExpr():
            return "now()"
        case tree.AggregateExpr() | tree.TextExpr():
            return f"{expr.function}(…)"
        case tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr():
            return f"{function_name(expr)}(…)"
        case tree.CallExpr():
            return f"{expr.function}(…)"
        case tree.CaseExpr():
            return "case … end"
        case tree.BlockExpr():
            return f"{_block_word(expr)} {{ … }}"
        case tree.StarExpr():
            return f"${expr.variable}.*"
        case tree.ListExpr():
            return "[…]"
        case tree.Minus():
            return f"-{render_expression(expr.operand)}"
        case tree.Arithmetic(first=first, steps=((op, second), *_)):
            return f"{render_expression(first)} {op} {render_expression(second)}"
        case tree.Compare():
            return f"{render_expression(expr.left)} {expr.op} {render_expression(expr.right)}"
        case _:
            return "…"


def _block_word(expr: tree.BlockExpr) -> str:
    return expr.kind if isinstance(expr.kind, str) else expr.kind.function


def function_name(
    expr: tree.TextExpr | tree.NearestExpr | tree.Bm25Expr | tree.RrfExpr,
) -> str:
    """Return the word by which a search or ranking function is called."""
    match expr:
        case tree.TextExpr():
            return expr.function
        case tree.NearestExpr():
            return "nearest"
        case tree.Bm25Expr():
            return "bm25"
        case tree.RrfExpr():
            return "rrf"


def _literal_text(expr: tree.LiteralExpr) -> str:
    match expr.form:
        case "list":
            return "[…]"
        case "date" | "datetime":
            return f'{expr.form}("{shorten(expr.value)}")'
        case "string":
            return f'"{shorten(expr.value)}"'
        case "null" | "bool" | "int" | "float":
            return shorten(expr.value)


def _unbound(expr: tree.PropertyExpr, scope: Scope, context: Context) -> str:
    name = expr.variable
    if not name:
        return f"'$.{expr.property}' is a property of the row that is updated, and here is none"
    if name == ANONYMOUS:
        return "'$_' is anonymous and has no properties; give the variable a name"
    if name in context.params:
        return f"'${name}' is a parameter, and parameters have no properties"
    reason = _not_here(name, context) or list_alternatives(name, scope.visible(), "bound here")
    return f"variable '${name}' is not bound, so '${name}.{expr.property}' means nothing{reason}"


def _not_here(name: str, context: Context) -> str:
    if not context.namer.introduced[name]:
        return ""
    return (
        "; it is introduced further below or inside a block,"
        " and only what stands above at the same level can be used"
    )


def _bound_here(name: str, scope: Scope, context: Context) -> str:
    return list_alternatives(name, [*scope.visible(), *context.params], "known here")


def _report_unknown_property(expr: tree.PropertyExpr, bound: Variable, context: Context) -> None:
    declared = list_properties(bound, context)
    if expr.property == "id" and bound.kind is VariableKind.NODE:
        reason = f"; the id of an entity is not a property, a bare '${expr.variable}' gives it"
        fix: str | None = f"${expr.variable}"
    elif is_mixed(bound.type_name):
        reason, fix = tell_unshared(expr.property, bound, context), None
    else:
        reason = list_alternatives(expr.property, declared, "it has")
        near = nearest_name(expr.property, declared)
        fix = f"${expr.variable}.{near}" if near else None
    context.findings.report(
        "T6",
        expr.span,
        f"{bound.kind} type '{bound.type_name}' has no property '{expr.property}'"
        f" ({bound.type_name}.{expr.property}){reason}",
        fix=fix,
        type_name=bound.type_name,
        property_name=expr.property,
    )


def tell_unshared(name: str, bound: Variable, context: Context) -> str:
    """Tell why several types do not share a property: some lack it, or its types differ."""
    types = [_find_type(replace(bound, type_name=type_name), context) for type_name in bound.types]
    property_types = {
        type_.name: type_.properties[name].type for type_ in types if name in type_.properties
    }
    if not property_types:
        return list_alternatives(name, list_properties(bound, context), "they share")
    texts = [f"{type_.name} has {property_types.get(type_.name, 'none')}" for type_ in types]
    return f"; only properties that all types have with one type are shared: {', '.join(texts)}"


# ---- literals
# The value each one has for a type, and which types compare with one another.


def read_constant(expr: tree.LiteralExpr, findings: Findings) -> Const | None:
    """Give a literal its value and natural type; None when it was malformed and is reported."""
    match expr.form:
        case "string":
            return _plain(expr, expr.value, Scalar.STRING)
        case "int":
            return _plain(expr, expr.value, Scalar.I64)
        case "float":
            return _plain(expr, expr.value, Scalar.F64)
        case "bool":
            return _plain(expr, expr.value, Scalar.BOOL)
        case "date":
            day = parse_date(str(expr.value))
            return _check_dated(expr, day, Scalar.DATE, "YYYY-MM-DD", findings)
        case "datetime":
            instant = parse_datetime(str(expr.value))
            expected = "RFC 3339 text such as 2026-02-14T08:00:00Z"
            return _check_dated(expr, instant, Scalar.DATETIME, expected, findings)
        case "list":
            return _list(expr, findings)
        case "null":
            return Const(value=None, type=NULL_TYPE, span=expr.span)


def _plain(expr: tree.LiteralExpr, value: object, scalar: Scalar) -> Const:
    return Const(value=value, type=PropertyType(scalar=scalar), span=expr.span)


def _check_dated(
    expr: tree.LiteralExpr, value: object, scalar: Scalar, expected: str, findings: Findings
) -> Const | None:
    if value is not None:
        return _plain(expr, value, scalar)
    word = "date" if scalar is Scalar.DATE else "datetime"
    findings.report("T37", expr.span, f"'{expr.value}' is not a {word}: expected {expected}")
    return None


def _list(expr: tree.LiteralExpr, findings: Findings) -> Const | None:
    written = expr.value if isinstance(expr.value, tuple) else ()
    for item in written:
        if item.form in ("list", "null"):
            kind = "another list" if item.form == "list" else "null"
            findings.report("T27", item.span, f"a list holds plain values, not {kind}")
            return None
    items = [read_constant(item, findings) for item in written]
    constants = [item for item in items if item is not None]
    if len(constants) < len(items):
        return None
    scalar = _common([item.type.scalar for item in constants])
    if scalar is None:
        kinds = ", ".join(dict.fromkeys(str(item.type) for item in constants))
        findings.report(
            "T27", expr.span, f"a list holds values of one type, this one mixes {kinds}"
        )
        return None
    values = tuple(_as(item.value, scalar) for item in constants)
    return Const(value=values, type=PropertyType(scalar=scalar, is_list=True), span=expr.span)


def _common(scalars: list[Scalar]) -> Scalar | None:
    distinct = set(scalars)
    if len(distinct) <= 1:
        return scalars[0] if scalars else Scalar.STRING
    return Scalar.F64 if distinct <= NUMBERS else None


def _as(value: object, scalar: Scalar) -> object:
    return float(value) if scalar is Scalar.F64 and isinstance(value, int) else value


def suggest_date_literal(constant: Const, expected: PropertyType) -> str | None:
    """Return the date literal for a text that stands where a date belongs; None for other values."""
    if not isinstance(constant.value, str) or expected.is_list:
        return None
    if expected.scalar is Scalar.DATE and parse_date(constant.value):
        return f'date("{constant.value}")'
    if expected.scalar is Scalar.DATETIME and parse_datetime(constant.value):
        return f'datetime("{constant.value}")'
    return None


def is_null(expr: tree.Expr) -> bool:
    """Whether an expression is the literal `null`."""
    return isinstance(expr, tree.LiteralExpr) and expr.form == "null"


def comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether two types compare: one scalar each, equal or both numeric; an enum is text."""
    return left.is_plain and right.is_plain and _akin(left, right)


def member_of(item: PropertyType, container: PropertyType) -> bool:
    """Whether a value can be an item of a list type."""
    is_list = container.is_list and not container.is_blob and not container.fields
    return is_list and item.is_plain and _akin(item, container)


def storable(source: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be assigned to a property of another."""
    if source.fields:
        return False
    if target.is_vector or source.is_vector:
        return target.dimension == source.dimension
    if target.is_list or source.is_list:
        return target.is_list and source.is_list and _akin(source, target)
    if target.is_blob:
        return source.scalar in (Scalar.STRING, Scalar.BLOB)
    return comparable(source, target)


def _akin(left: PropertyType, right: PropertyType) -> bool:
    return left.scalar is right.scalar or {left.scalar, right.scalar} <= NUMBERS
