"""Search clauses and ranking functions: `search fuzzy match_text nearest bm25 rrf`."""

from omnigraphdb.catalog.mixed import is_mixed
from omnigraphdb.catalog.types import INTEGERS, NUMBERS, PropertyType, Scalar
from omnigraphdb.compile.check.context import Context, Scope
from omnigraphdb.compile.check.expressions import (
    check_property,
    check_variable,
    list_properties,
    read_constant,
    render_expression,
    render_type,
    report_edge_misuse,
)
from omnigraphdb.compile.checked import (
    Bm25,
    Const,
    EntityRef,
    Nearest,
    ParamRef,
    PropertyRef,
    Ranking,
    Rrf,
    TextMatch,
    VariableKind,
)
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Span

RRF_K_DEFAULT = 60
FUZZY_DISTANCE_DEFAULT = 2

_CODES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20"}
_INTEGER = PropertyType(scalar=Scalar.I64)

RankingExpr = tree.NearestExpr | tree.Bm25Expr | tree.RrfExpr


def check_text_match(expr: tree.TextExpr, scope: Scope, context: Context) -> TextMatch | None:
    """Check `search`, `fuzzy` or `match_text`."""
    field = _text_field(expr.function, expr.field, scope, context)
    query = _text_query(expr.function, expr.query, scope, context)
    distance: Const | ParamRef | None = None
    if expr.function == "fuzzy":
        distance = _distance(expr, scope, context)
        if distance is None:
            return None
    if field is None or query is None:
        return None
    return TextMatch(
        function=expr.function, field=field, query=query, distance=distance, span=expr.span
    )


def check_ranking(expr: RankingExpr, scope: Scope, context: Context) -> Ranking | None:
    """Check a ranking function, wherever it stands."""
    match expr:
        case tree.NearestExpr():
            return check_nearest(expr, scope, context)
        case tree.Bm25Expr():
            return check_bm25(expr, scope, context)
        case tree.RrfExpr():
            return check_rrf(expr, scope, context)


def check_bm25(expr: tree.Bm25Expr, scope: Scope, context: Context) -> Bm25 | None:
    """Check `bm25(f, q)`."""
    field = _text_field("bm25", expr.field, scope, context)
    query = _text_query("bm25", expr.query, scope, context)
    if field is None or query is None:
        return None
    return Bm25(field=field, query=query, span=expr.span)


def check_nearest(expr: tree.NearestExpr, scope: Scope, context: Context) -> Nearest | None:
    """Check `nearest($x.v, q)`: a vector property, and a vector of its dimension or a text."""
    field = _node_field("nearest", expr.field, scope, context)
    if field is None:
        return None
    if field.type.dimension is None:
        message = (
            f"nearest works on a Vector property, '{render_expression(expr.field)}' is {field.type}"
        )
        context.findings.report("T15", expr.field.span, message, property_name=field.property)
        return None
    query = _vector_query(expr.query, field.type.dimension, scope, context)
    if query is None:
        return None
    embed = list_properties(context.variables[field.variable], context)[field.property].embed
    return Nearest(field=field, query=query, model=embed.model if embed else None, span=expr.span)


def check_rrf(expr: tree.RrfExpr, scope: Scope, context: Context) -> Rrf | None:
    """Check `rrf(a, b, k)`: two rankings of one variable and a positive integer."""
    first, second = _check_arm(expr.first, scope, context), _check_arm(expr.second, scope, context)
    k = _k(expr, scope, context)
    if first is None or second is None or k is None:
        return None
    if first.field.variable != second.field.variable:
        context.findings.report(
            "T21",
            expr.second.span,
            f"rrf fuses two rankings of one variable, its arms rank '${first.field.variable}'"
            f" and '${second.field.variable}'",
        )
        return None
    return Rrf(first=first, second=second, k=k, span=expr.span)


def _check_arm(
    expr: tree.NearestExpr | tree.Bm25Expr, scope: Scope, context: Context
) -> Nearest | Bm25 | None:
    if isinstance(expr, tree.NearestExpr):
        return check_nearest(expr, scope, context)
    return check_bm25(expr, scope, context)


# ---- arguments


def _node_field(
    function: str, expr: tree.PropertyExpr, scope: Scope, context: Context
) -> PropertyRef | None:
    bound = scope.find(expr.variable)
    if bound and bound.variable and bound.variable.kind is VariableKind.EDGE:
        problem = f"stands for an edge, and {function} works on properties of nodes"
        report_edge_misuse(expr.variable, expr.span, problem, context)
        return None
    if bound and bound.variable and is_mixed(bound.variable.type_name):
        context.findings.report(
            "T66",
            expr.span,
            f"{function} searches one type, and '${expr.variable}' may be any of"
            f" {', '.join(bound.variable.types)}; bind it to one of them, and join the reads by union",
        )
        return None
    return check_property(expr, scope, context)


def _text_field(
    function: str, expr: tree.Expr, scope: Scope, context: Context
) -> PropertyRef | None:
    if not isinstance(expr, tree.PropertyExpr):
        _wrong_field(function, expr, "not a property", context)
        return None
    field = _node_field(function, expr, scope, context)
    if field is not None and not field.type.is_text:
        _wrong_field(function, expr, str(field.type), context)
        return None
    return field


def _wrong_field(function: str, expr: tree.Expr, actual: str, context: Context) -> None:
    context.findings.report(
        _CODES[function],
        expr.span,
        f"{function} searches a String property of a node, '{render_expression(expr)}' is {actual}",
    )


def _text_query(
    function: str, expr: tree.Expr, scope: Scope, context: Context
) -> Const | ParamRef | None:
    argument = _argument(expr, scope, context)
    if argument is None or (not isinstance(argument, str) and argument.type.is_text):
        return argument
    context.findings.report(
        _CODES[function],
        expr.span,
        f"{function} takes its query text as a String literal or parameter, not {_kind(argument)}",
    )
    return None


def _vector_query(
    expr: tree.Expr, dimension: int, scope: Scope, context: Context
) -> Const | ParamRef | None:
    argument = _argument(expr, scope, context)
    if argument is None:
        return None
    actual = _kind(argument)
    if not isinstance(argument, str):
        if argument.type.is_text or argument.type.dimension == dimension:
            return argument
        numbers = _numbers(argument)
        if numbers is not None and len(numbers) == dimension:
            vector = PropertyType(scalar=Scalar.F32, dimension=dimension)
            return Const(value=numbers, type=vector, span=argument.span)
        if numbers is not None:
            actual = f"a list of {len(numbers)} numbers"
    message = f"nearest takes a Vector({dimension}) or a String to embed, not {actual}"
    context.findings.report("T15", expr.span, message)
    return None


def _numbers(argument: Const | ParamRef) -> tuple[float, ...] | None:
    if isinstance(argument, ParamRef) or not isinstance(argument.value, tuple):
        return None
    is_numeric = argument.type.scalar in NUMBERS or not argument.value
    return tuple(float(item) for item in argument.value) if is_numeric else None


def _distance(expr: tree.TextExpr, scope: Scope, context: Context) -> Const | ParamRef | None:
    if expr.distance is None:
        return _number(FUZZY_DISTANCE_DEFAULT, expr.span)
    argument = _argument(expr.distance, scope, context)
    if argument is None or (not isinstance(argument, str) and _is_integer(argument)):
        return argument
    message = f"fuzzy takes its edit distance as an integer, not {_kind(argument)}"
    context.findings.report("T19", expr.distance.span, message)
    return None


def _k(expr: tree.RrfExpr, scope: Scope, context: Context) -> Const | ParamRef | None:
    if expr.k is None:
        return _number(RRF_K_DEFAULT, expr.span)
    k = _argument(expr.k, scope, context)
    if k is None or (not isinstance(k, str) and _is_integer(k) and _positive(k)):
        return k
    value = k.value if isinstance(k, Const) else _kind(k)
    message = f"rrf takes its constant k as an integer above zero, not {value}"
    context.findings.report("T21", expr.k.span, message)
    return None


def _argument(expr: tree.Expr, scope: Scope, context: Context) -> Const | ParamRef | str | None:
    """Return a literal or parameter, the text of any other expression, or None when an error is reported."""
    match expr:
        case tree.LiteralExpr():
            literal = read_constant(expr, context.findings)
            return "null" if literal is not None and literal.value is None else literal
        case tree.VariableExpr():
            operand = check_variable(expr, scope, context)
            return render_type(operand, context) if isinstance(operand, EntityRef) else operand
        case _:
            return render_expression(expr)


def _kind(argument: Const | ParamRef | str) -> str:
    return argument if isinstance(argument, str) else str(argument.type)


def _is_integer(argument: Const | ParamRef) -> bool:
    return argument.type.is_plain and argument.type.scalar in INTEGERS


def _positive(k: Const | ParamRef) -> bool:
    return isinstance(k, ParamRef) or (isinstance(k.value, int) and k.value > 0)


def _number(value: int, span: Span) -> Const:
    return Const(value=value, type=_INTEGER, span=span)
