"""The row that a statement writes: its properties as words, the condition that selects it, and the returned values."""

from collections.abc import Mapping
from types import MappingProxyType

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check.assignments import (
    TargetProperty,
    check_plain_value,
    find_target_property,
    is_key_value,
    make_id,
    report_mismatch,
)
from omnigraphdb.compile.check.conditions import check_condition, check_value
from omnigraphdb.compile.check.context import Bound, Context, Scope
from omnigraphdb.compile.check.expressions import (
    comparable,
    is_null,
    refuse_blob,
    render_expression,
)
from omnigraphdb.compile.check.functions import is_duration
from omnigraphdb.compile.check.items import output_name
from omnigraphdb.compile.check.matches import enum_problem
from omnigraphdb.compile.check.target import ENDS, Target, find_type
from omnigraphdb.compile.checked import (
    CREATED,
    ROW,
    AllOf,
    AnyOf,
    Column,
    Compare,
    Condition,
    Const,
    Field,
    Not,
    Operand,
    ParamRef,
    PropertyRef,
    Variable,
    VariableKind,
)
from omnigraphdb.errors import shorten
from omnigraphdb.language.query import tree
from omnigraphdb.values import replace

_RELATIONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
NO_WORDS: Mapping[str, tree.Expr] = MappingProxyType({})
_OF_MATCHES = (
    tree.BlockExpr
    | tree.AggregateExpr
    | tree.StarExpr
    | tree.TextExpr
    | tree.NearestExpr
    | tree.Bm25Expr
    | tree.RrfExpr
)
_FLAG = PropertyType(scalar=Scalar.BOOL)


def open_row(
    target: Target, context: Context, *, nullable: bool = False, flag: bool = False
) -> Scope:
    """Open the scope in which `$.p` is a property of the row; with `flag`, `created` tells whether it is new."""
    variable = Variable(name=ROW, kind=target.kind, type_name=target.name, nullable=nullable)
    context.variables[ROW] = variable
    outer_scope = Scope(scalars={CREATED: Field(CREATED, _FLAG)} if flag else {})
    return Scope(parent=outer_scope, names={ROW: Bound(variable, nullable=nullable)})


def refuse_blocks(expr: tree.Expr, context: Context) -> bool:
    """Report expressions that only a match can evaluate; return whether there was any."""
    if isinstance(expr, _OF_MATCHES):
        context.findings.report(
            "T71",
            expr.span,
            f"'{render_expression(expr)}' needs a match before the statement, and this one has none",
            label="find the entities first: match { $v: Type … } update $v set { … }",
        )
        return True
    return any(refuse_blocks(part, context) for part in tree.list_parts(expr))


def _bind_words(
    expr: tree.Expr, target: Target, context: Context, words: Mapping[str, tree.Expr] = NO_WORDS
) -> tree.Expr | None:
    """Read bare words as properties of the row, or as expressions of `words`; return None if a word is unknown."""
    unknown: list[tree.AliasExpr] = []

    def bind(leaf: tree.Expr) -> tree.Expr:
        if not isinstance(leaf, tree.AliasExpr):
            return leaf
        if leaf.name in words:
            return replace(words[leaf.name], span=leaf.span)
        name = tree.Name(leaf.name, leaf.span)
        if find_type(name, target, context) is None:
            unknown.append(leaf)
            return leaf
        return _refer_to(leaf, target)

    bound = tree.change_leaves(expr, bind)
    return None if unknown or refuse_blocks(expr, context) else bound


def _refer_to(word: tree.AliasExpr, target: Target) -> tree.Expr:
    if word.name in ENDS and target.kind is VariableKind.EDGE:
        row = tree.VariableExpr(name=ROW, span=word.span)
        return tree.CallExpr(function=word.name, arguments=(row,), span=word.span)
    return tree.PropertyExpr(variable=ROW, property=word.name, span=word.span)


# ---- conditions


def check_where(
    written: tree.Expr, target: Target, scope: Scope, context: Context
) -> Condition | None:
    """Check the condition of an update or delete."""
    match written:
        case tree.AllOf(parts=parts):
            return AllOf(parts=_check_parts(parts, target, scope, context))
        case tree.AnyOf(parts=parts):
            return AnyOf(parts=_check_parts(parts, target, scope, context))
        case tree.Not(part=part):
            condition = check_where(part, target, scope, context)
            return None if condition is None else Not(part=condition)
        case tree.Compare(
            left=tree.AliasExpr(),
            op=op,
            right=tree.LiteralExpr() | tree.VariableExpr() | tree.NowExpr(),
        ) if op in _RELATIONS:
            return _check_relation(written, target, scope, context)
        case _:
            bound = _bind_words(written, target, context)
            return None if bound is None else check_condition(bound, scope, context)


def _check_parts(
    parts: tuple[tree.Expr, ...], target: Target, scope: Scope, context: Context
) -> tuple[Condition, ...]:
    # A part that is wrong has been reported, so the thinner condition is never used.
    checked = [check_where(part, target, scope, context) for part in parts]
    return tuple(part for part in checked if part is not None)


def _check_relation(
    written: tree.Compare, target: Target, scope: Scope, context: Context
) -> Compare | None:
    """Check a property that is compared with a given value: the value is held to the type of the property."""
    assert isinstance(written.left, tree.AliasExpr)
    name = tree.Name(written.left.name, written.left.span)
    expected = find_type(name, target, context)
    if expected is None:
        return None
    target_property = find_target_property(target, name.text, expected, context)
    if expected.is_blob:
        target_property.report(
            "T11", name.span, f"'{target_property.label}' is a Blob and cannot be compared", context
        )
        return None
    value = _check_compared(written, target_property, scope, context)
    if value is None:
        return None
    column = target.column_of(name.text)
    left = PropertyRef(variable=ROW, property=column, type=expected, span=name.span)
    return Compare(left=left, op=written.op, right=value)


def _check_compared(
    written: tree.Compare, target_property: TargetProperty, scope: Scope, context: Context
) -> Operand | None:
    operand = check_plain_value(written.right, target_property, scope, context)
    if operand is None:
        return None
    if written.op in ("=", "!=") and is_key_value(operand, target_property):
        return make_id(operand, target_property)
    if isinstance(operand, Const):
        problem = _predicate_problem(operand, written.op, target_property.type)
        if problem is None:
            return operand
        code, reason = problem
        message = f"'{target_property.label}' is {target_property.type}, {reason}"
        target_property.report(code, operand.span, message, context, operand)
        return None
    if comparable(operand.type, target_property.type):
        return operand
    report_mismatch(written.right, operand, target_property, context)
    return None


def _predicate_problem(constant: Const, op: str, expected: PropertyType) -> tuple[str, str] | None:
    if constant.value is None:
        return "T3", "and comparing it with null is never true; write 'is null'"
    if not expected.is_plain:
        return "T7", f"got {constant.type}; lists and vectors are not comparable"
    if not comparable(constant.type, expected):
        return "T3", f"got {constant.type} '{shorten(constant.value)}'"
    return enum_problem(constant, expected) if op in ("=", "!=") else None


# ---- returned columns


def check_returning(
    items: tuple[tree.Item, ...], target: Target, context: Context, *, flag: bool
) -> tuple[Column, ...]:
    """Check the values that a statement returns of every row that it wrote; with `flag`, whether the row is new."""
    scope = open_row(target, context, flag=flag)
    columns: list[Column] = []
    for item in items:
        name = output_name(item)
        if any(column.name == name for column in columns):
            message = (
                f"two items return the column '{name}'; give one of them another name with 'as'"
            )
            context.findings.report("T74", item.span, message)
            continue
        value = _check_returned(item.expr, target, scope, context, flag=flag)
        if value is not None:
            columns.append(Column(name=name, expr=value, type=value.type))
    return tuple(columns)


def _check_returned(
    expr: tree.Expr, target: Target, scope: Scope, context: Context, *, flag: bool
) -> Operand | None:
    words = {"id": _ID_OF_ROW} | ({"created": tree.AliasExpr(name=CREATED)} if flag else {})
    if _asks_for_flag(expr) and not flag and target.type_of("created") is None:
        message = "'created' tells of an upsert, or of an insert with 'if absent', what was new"
        context.findings.report("T74", expr.span, message)
        return None
    bound = _bind_words(expr, target, context, words)
    operand = None if bound is None else check_value(bound, scope, context)
    if operand is None or (
        isinstance(operand, PropertyRef | ParamRef) and refuse_blob(operand, context)
    ):
        return None
    if is_duration(operand) or is_null(expr):
        message = f"'{render_expression(expr)}' is not a value that can be returned"
        context.findings.report("T74", expr.span, message)
        return None
    return operand


_ID_OF_ROW: tree.Expr = tree.CallExpr(function="id", arguments=(tree.VariableExpr(name=ROW),))


def _asks_for_flag(expr: tree.Expr) -> bool:
    return isinstance(expr, tree.AliasExpr) and expr.name == "created"
