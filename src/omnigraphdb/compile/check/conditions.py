"""Checks of values and conditions: every expression of a query gets a type, every error is reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraphdb.catalog.mixed import is_mixed, number_types
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraphdb.compile.check.context import Bound, Context, Scope, find_aggregated_paths
from omnigraphdb.compile.check.expressions import (
    check_operand,
    comparable,
    function_name,
    is_null,
    member_of,
    order_properties,
    refuse_blob,
    render_expression,
    render_type,
    report_path_misuse,
)
from omnigraphdb.compile.check.functions import (
    RULES,
    TEXT,
    TRUTH,
    WHOLE,
    find_common_type,
    give_type,
    is_duration,
    is_moment,
    is_nothing,
    parse_duration,
    type_arithmetic,
    type_call,
)
from omnigraphdb.compile.check.ranking import check_text_match
from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Condition,
    Const,
    EntityRef,
    InList,
    IsNull,
    ItemExpr,
    Not,
    Operand,
    ParamRef,
    PathValue,
    PropertyRef,
    TextMatch,
    Truth,
    Variable,
    VariableKind,
    has_aggregate,
    read_id,
)
from omnigraphdb.language.query import tree
from omnigraphdb.later import Later
from omnigraphdb.limits import EXPRESSION_STEPS_MAX
from omnigraphdb.values import replace

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = Later("pyarrow"), Later("pyarrow.compute")

_TRUE = Const(value=True, type=TRUTH)


# ---- conditions


def check_condition(written: tree.Expr, scope: Scope, context: Context) -> Condition | None:
    """Check an expression that must be true, false or unknown; return None when it has an error, which is reported."""
    match written:
        case tree.Compare():
            return _check_comparison(written, scope, context)
        case tree.TextExpr():
            return check_text_match(written, scope, context)
        case tree.IsNull():
            return _check_null_test(written, scope, context)
        case tree.InList():
            return _check_membership(written, scope, context)
        case tree.Between():
            return _check_range(written, scope, context)
        case tree.AllOf():
            return AllOf(parts=_check_parts(written.parts, scope, context))
        case tree.AnyOf():
            return AnyOf(parts=_check_parts(written.parts, scope, context))
        case tree.Not():
            part = check_condition(written.part, scope, context)
            return Not(part=part) if part is not None else None
        case _:
            return _check_truth(written, scope, context)


def _check_parts(
    written: tuple[tree.Expr, ...], scope: Scope, context: Context
) -> tuple[Condition, ...]:
    # A part that is wrong has been reported, so the thinner condition is never used.
    checked = [check_condition(part, scope, context) for part in written]
    return tuple(part for part in checked if part is not None)


def _check_truth(written: tree.Expr, scope: Scope, context: Context) -> Condition | None:
    """Check a value that stands as a condition."""
    operand = check_value(written, scope, context)
    if operand is None:
        return None
    if operand.type.is_plain and operand.type.scalar is Scalar.BOOL and not is_nothing(operand):
        return Compare(left=operand, op="=", right=_TRUE)
    context.findings.report(
        "T50",
        written.span,
        f"'{render_expression(written)}' is {render_type(operand, context)}, and a condition is a Bool:"
        " compare it with something",
        # A literal null cannot be tested for null.
        fix=None if is_null(written) else f"{render_expression(written)} is not null",
    )
    return None


def _check_comparison(
    written: tree.Compare, scope: Scope, context: Context
) -> Compare | InList | TextMatch | None:
    for side, other in ((written.left, written.right), (written.right, written.left)):
        if isinstance(side, tree.TextExpr):
            return _text_equals_true(side, written.op, other, scope, context)
    left = _check_compared(written.left, scope, context)
    right = _check_compared(written.right, scope, context)
    if left is None or right is None:
        return None
    if _compares_null(written, context):
        return None
    if not _fits(written, left, right, context):
        _mismatch(written, left, right, context)
        return None
    if written.op == "matches" and not _check_pattern(written.right, right, context):
        return None
    if left.type.is_list and isinstance(left, Const | ParamRef):
        # A given list that contains a value is the value in the list: one test, of one meaning.
        return InList(operand=right, choices=left)
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


def _check_compared(expr: tree.Expr, scope: Scope, context: Context) -> Operand | None:
    """Check a side of a comparison, where an entity is itself and not its id."""
    if isinstance(expr, tree.VariableExpr):
        return check_operand(expr, scope, context)
    return check_value(expr, scope, context)


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


def _fits(written: tree.Compare, left: Operand, right: Operand, context: Context) -> bool:
    op, sides = written.op, ((written.left, left), (written.right, right))
    if any(isinstance(a, tree.VariableExpr) and isinstance(b, EntityRef) for a, b in sides):
        return op in ("=", "!=") and _same_kind(left, right, context)
    if is_duration(left) or is_duration(right):
        return False
    if op == "contains" and left.type.is_list:
        return _is_empty_list(left) or member_of(right.type, left.type)
    if op in ("contains", "starts_with", "ends_with", "matches"):
        return left.type.is_text and right.type.is_text
    return comparable(left.type, right.type)


def _same_kind(left: Operand, right: Operand, context: Context) -> bool:
    """Whether both are entities that may be of one type."""
    if not isinstance(left, EntityRef) or not isinstance(right, EntityRef):
        return False
    variable, other = context.variables[left.variable], context.variables[right.variable]
    return variable.kind is other.kind and not set(variable.types).isdisjoint(other.types)


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
        case "starts_with" | "ends_with" | "matches":
            return f"{op} takes two Strings"
        case "=" | "!=":
            return f"'{op}' compares two scalars of one type, two numbers, or two nodes of one type"
        case _:
            return f"'{op}' compares two scalars of one type, or two numbers"


def _check_pattern(written: tree.Expr, operand: Operand, context: Context) -> bool:
    """Check the regular expression of `matches`: the same for all rows, and of linear time."""
    if isinstance(operand, ParamRef):
        return True
    if not isinstance(operand, Const):
        message = (
            "the regular expression of 'matches' is a literal or a parameter, the same for all rows"
        )
        context.findings.report("T54", written.span, message)
        return False
    problem = find_pattern_problem(str(operand.value))
    if problem is not None:
        context.findings.report("T54", written.span, problem)
    return problem is None


def find_pattern_problem(pattern: str) -> str | None:
    """Return the reason why a text is not a regular expression of linear time, else None."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return f"this is not a regular expression (RE2, of linear time): {error}"
    return None


def _check_null_test(written: tree.IsNull, scope: Scope, context: Context) -> IsNull | None:
    operand = _check_compared(written.operand, scope, context)
    if operand is None or _refuse_blob(operand, context):
        return None
    return IsNull(operand=operand, negated=written.negated)


def _refuse_blob(operand: Operand, context: Context) -> bool:
    return isinstance(operand, PropertyRef | ParamRef) and refuse_blob(operand, context)


# ---- lists and ranges


def _check_membership(written: tree.InList, scope: Scope, context: Context) -> Condition | None:
    operand = check_value(written.operand, scope, context)
    if operand is None or _refuse_blob(operand, context):
        return None
    if isinstance(written.choices, tree.ListExpr):
        return _check_listed(written, written.choices, operand, scope, context)
    choices = check_value(written.choices, scope, context)
    if choices is None:
        return None
    if _is_empty_list(choices) or member_of(operand.type, choices.type):
        if isinstance(choices, Const | ParamRef):
            return InList(operand=operand, choices=choices)
        return Compare(left=choices, op="contains", right=operand)
    _not_a_member(written, operand, choices, context)
    return None


def _check_listed(
    written: tree.InList, listed: tree.ListExpr, operand: Operand, scope: Scope, context: Context
) -> Condition | None:
    """Check a list of values that are not all literals: one equality for each."""
    items = [check_value(item, scope, context) for item in listed.items]
    parts: list[Condition] = []
    for item in items:
        if item is None:
            return None
        if not comparable(operand.type, item.type):
            _not_a_member(written, operand, item, context)
            return None
        parts.append(Compare(left=operand, op="=", right=item))
    return AnyOf(parts=tuple(parts)) if len(parts) > 1 else parts[0]


def _is_empty_list(operand: Operand) -> bool:
    """Whether this is the literal `[]`, which holds items of no type."""
    return isinstance(operand, Const) and operand.value == ()


def _not_a_member(written: tree.InList, operand: Operand, other: Operand, context: Context) -> None:
    context.findings.report(
        "T7",
        written.span,
        f"'{render_expression(written.operand)}' is {render_type(operand, context)} and"
        f" '{render_expression(written.choices)}' is {render_type(other, context)}:"
        " 'in' takes a scalar and a list of its type",
    )


def _check_range(written: tree.Between, scope: Scope, context: Context) -> Condition | None:
    bounds: tuple[tuple[tree.Comparison, tree.Expr], ...] = (
        (">=", written.low),
        ("<=", written.high),
    )
    parts = []
    for op, bound in bounds:
        test = tree.Compare(left=written.operand, op=op, right=bound, span=written.span)
        condition = _check_comparison(test, scope, context)
        if condition is None:
            return None
        parts.append(condition)
    return AllOf(parts=tuple(parts))


# ---- values


def check_value(expr: tree.Expr, scope: Scope, context: Context) -> Operand | None:
    """Check an expression that is one value of a row; return None when it has an error, which is reported."""
    match expr:
        case tree.LiteralExpr() | tree.VariableExpr() | tree.PropertyExpr() | tree.NowExpr():
            return check_operand(expr, scope, context)
        case tree.AliasExpr():
            return _check_alias(expr, scope, context)
        case tree.Arithmetic():
            return _check_arithmetic(expr, scope, context)
        case tree.Minus():
            zero = tree.LiteralExpr(form="int", value=0, span=expr.span)
            steps: tuple[tuple[tree.ArithmeticOperator, tree.Expr], ...] = (("-", expr.operand),)
            return _check_arithmetic(
                tree.Arithmetic(first=zero, steps=steps, span=expr.span), scope, context
            )
        case tree.CallExpr():
            return _check_call(expr, scope, context)
        case tree.CaseExpr():
            return _check_case(expr, scope, context)
        case tree.BlockExpr():
            return context.check_block(expr, scope, context)
        case tree.AggregateExpr() if find_aggregated_paths(expr, scope):
            return _check_path_aggregate(expr, scope, context)
        case tree.AggregateExpr() if scope.aliases is not None:
            return check_aggregate(expr, scope, context)
        case tree.AggregateExpr():
            message = f"'{render_expression(expr)}' is an aggregate, and aggregates are not comparable in a match"
            context.findings.report("T7", expr.span, message, label="count { … } counts matches")
        case tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr():
            message = f"{function_name(expr)} is not a filter operand; a ranking stands in order"
            context.findings.report("T38", expr.span, message)
        case tree.ListExpr():
            message = (
                "a list holds literals here; only 'in' takes a list with parameters or properties"
            )
            context.findings.report("T59", expr.span, message)
        case tree.StarExpr():
            message = f"'${expr.variable}.*' stands for several columns and is an item of return by itself"
            context.findings.report("T61", expr.span, message)
        case _:
            condition = check_condition(expr, scope, context)
            return None if condition is None else make_truth(condition)
    return None


def make_truth(condition: Condition) -> Operand:
    """Return a condition as a value; a comparison of a Bool with true becomes that Bool."""
    match condition:
        case Compare(left=left, op="=", right=right) if right is _TRUE:
            return left
        case _:
            return Truth(condition=condition, type=replace(TRUTH, nullable=True))


def _check_alias(expr: tree.AliasExpr, scope: Scope, context: Context) -> Operand | None:
    item: ItemExpr | None
    if scope.aliases is not None and expr.name in scope.aliases:
        item = scope.aliases[expr.name]
        if item is None or (not isinstance(item, TextMatch) and hasattr(item, "type")):
            return item  # type: ignore[return-value]
        message = f"'{expr.name}' is a ranking or a search; order by it, or put it into the match"
        context.findings.report("T38", expr.span, message)
        return None
    scalar = scope.find_scalar(expr.name)
    if scalar is not None:
        return scalar
    hint = "a filter compares properties, parameters and literals"
    if scope.aliases is not None:
        hint = "only an item above it that has this name with 'as' can be meant"
    context.findings.report("T36", expr.span, f"'{expr.name}' is a bare word; {hint}")
    return None


# ---- arithmetic


def _check_arithmetic(expr: tree.Arithmetic, scope: Scope, context: Context) -> Operand | None:
    if len(expr.steps) > EXPRESSION_STEPS_MAX:
        message = f"an expression has more than {EXPRESSION_STEPS_MAX} operators in a row"
        context.findings.report("T56", expr.span, message)
        return None
    left = check_value(expr.first, scope, context)
    for op, part in expr.steps:
        right = check_value(part, scope, context)
        if left is None or right is None:
            return None
        left = _combine(op, left, right, expr, context)
    return left


def _combine(
    op: str, left: Operand, right: Operand, expr: tree.Arithmetic, context: Context
) -> Operand | None:
    entity = isinstance(left, EntityRef) or isinstance(right, EntityRef)
    result = None if entity else type_arithmetic(op, left, right)
    if result is None:
        texts = left.type.is_text and right.type.is_text and op == "+"
        context.findings.report(
            "T51",
            expr.span,
            f"'{op}' takes two numbers, or a Date or DateTime and a duration that fits it; here it has"
            f" {_describe(left, context)} and {_describe(right, context)}",
            fix="concat(…, …)" if texts else None,
        )
        return None
    return Call(function=op, arguments=(left, right), type=result, span=expr.span)


def _describe(operand: Operand, context: Context) -> str:
    if is_nothing(operand):
        return "null"
    return "a duration" if is_duration(operand) else render_type(operand, context)


# ---- functions


def _check_call(expr: tree.CallExpr, scope: Scope, context: Context) -> Operand | None:
    match expr.function:
        case "id" | "type" | "from" | "to" | "entity":
            return _check_entity_call(expr, scope, context)
        case "hops" | "nodes" | "edges":
            return _check_path_call(expr, scope, context)
        case "duration":
            return _check_duration(expr, context)
        case "coalesce":
            return _check_choice(expr, "coalesce", expr.arguments, scope, context)
        case _:
            return _check_plain_call(expr, scope, context)


def _check_arguments(
    expr: tree.CallExpr, scope: Scope, context: Context
) -> tuple[Operand, ...] | None:
    operands = [check_value(argument, scope, context) for argument in expr.arguments]
    arguments = tuple(operand for operand in operands if operand is not None)
    return arguments if len(arguments) == len(operands) else None


def _check_plain_call(expr: tree.CallExpr, scope: Scope, context: Context) -> Operand | None:
    arguments = _check_arguments(expr, scope, context)
    if arguments is None:
        return None
    assert expr.function in RULES, "the parser knows no other function"
    result = type_call(expr.function, arguments)
    if isinstance(result, str) or any(map(is_duration, arguments)):
        got = ", ".join(_describe(argument, context) for argument in arguments) or "nothing"
        context.findings.report("T52", expr.span, f"{expr.function} takes {result}; it has {got}")
        return None
    return Call(function=expr.function, arguments=arguments, type=result, span=expr.span)


def _check_duration(expr: tree.CallExpr, context: Context) -> Operand | None:
    match expr.arguments:
        case (tree.LiteralExpr(form="string", value=str() as text),):
            duration = parse_duration(text)
            if duration is not None:
                return Const(value=duration, type=TEXT, span=expr.span)
        case _:
            pass
    context.findings.report(
        "T55",
        expr.span,
        "a duration is written as ISO 8601 text of whole units, and only added to or taken from a Date or DateTime",
        fix='duration("P1Y2M3DT4H5M6S")',
    )
    return None


_ENDS = {"from": "src", "to": "dst"}


def _check_entity_call(expr: tree.CallExpr, scope: Scope, context: Context) -> Operand | None:
    """Check a function of an entity: its id, its type, its ends, all of it."""
    argument = expr.arguments[0] if len(expr.arguments) == 1 else None
    bound = scope.find(argument.name) if isinstance(argument, tree.VariableExpr) else None
    if bound is None or (bound.variable is None and argument is None):
        expected = "an edge variable" if expr.function in _ENDS else "a variable of the pattern"
        message = f"{expr.function} takes {expected}, such as {expr.function}($x)"
        context.findings.report("T52", expr.span, message)
        return None
    if bound.variable is None:
        return None
    if bound.variable.kind is VariableKind.PATH:
        report_path_misuse(bound.variable.name, expr.span, context)
        return None
    if expr.function in _ENDS and bound.variable.kind is not VariableKind.EDGE:
        message = f"{expr.function} takes an edge variable, '${bound.variable.name}' is a node"
        context.findings.report("T52", expr.span, message)
        return None
    return _read_entity(expr, bound, context)


def _read_entity(expr: tree.CallExpr, bound: Bound, context: Context) -> Operand:
    variable = bound.variable
    assert variable is not None
    text = replace(TEXT, nullable=bound.nullable)
    entity = EntityRef(variable=variable.name, type=text, span=expr.span)
    match expr.function:
        case "id":
            return read_id(entity)
        case "from" | "to":
            end = _ENDS[expr.function]
            return PropertyRef(variable=variable.name, property=end, type=text, span=expr.span)
        case "type":
            context.open_forms.add("type")
            name = name_types(variable, context.catalog)
            return Call(function="type", arguments=(entity, name), type=text, span=expr.span)
        case _:
            return _make_struct(expr, entity, bound, context)


def name_types(variable: Variable, catalog: Catalog) -> Const:
    """Name the type of a variable; of a mixed one all types of its kind, by their numbers."""
    if not is_mixed(variable.type_name):
        return Const(value=variable.type_name, type=TEXT)
    names = number_types(catalog, variable.kind is VariableKind.NODE)
    return Const(value=names, type=replace(TEXT, is_list=True))


def _make_struct(expr: tree.CallExpr, entity: EntityRef, bound: Bound, context: Context) -> Operand:
    variable = bound.variable
    assert variable is not None
    context.open_forms.add(expr.function)
    fields: list[tuple[str, Operand]] = [("id", entity)]
    if variable.kind is VariableKind.EDGE:
        fields += [(word, _refer(entity, end, TEXT)) for word, end in _ENDS.items()]
    for declared in order_properties(variable, context):
        if not declared.type.is_blob:
            fields.append((declared.name, _refer(entity, declared.name, declared.type)))
    return Call(
        function="entity",
        arguments=tuple(value for _, value in fields),
        type=PropertyType(
            scalar=Scalar.STRING,
            nullable=bound.nullable,
            fields=tuple((name, value.type) for name, value in fields),
        ),
        span=expr.span,
    )


def _refer(entity: EntityRef, name: str, type_: PropertyType) -> PropertyRef:
    nullable = type_.nullable or entity.type.nullable
    return PropertyRef(
        variable=entity.variable, property=name, type=replace(type_, nullable=nullable)
    )


# ---- paths


def _check_path_call(expr: tree.CallExpr, scope: Scope, context: Context) -> Operand | None:
    """Check a function of a path: its hops, its nodes, its edges."""
    argument = expr.arguments[0] if len(expr.arguments) == 1 else None
    bound = scope.find(argument.name) if isinstance(argument, tree.VariableExpr) else None
    if bound is not None and bound.variable is None:
        return None
    if bound is None or bound.variable is None or bound.walked is None:
        message = (
            f"{expr.function} takes a path, the variable of a walk with bounds: $w:edge{{1,8}}"
        )
        context.findings.report("T69", expr.span, message)
        return None
    path = PathValue(
        variable=bound.variable.name,
        function=expr.function,  # type: ignore[arg-type]
        walked=bound.walked.name,
        type=replace(WHOLE, nullable=bound.nullable),
        span=expr.span,
    )
    if expr.function == "hops":
        return path
    if expr.function == "nodes":
        return replace(path, type=replace(TEXT, is_list=True, nullable=bound.nullable))
    return _list_edges(expr, path, Bound(bound.walked), context)


def _list_edges(expr: tree.CallExpr, path: PathValue, walked: Bound, context: Context) -> Operand:
    """Return the edges of a path as structs; they have a field `type` where the path has several types."""
    assert walked.variable is not None
    entity = EntityRef(variable=walked.variable.name, type=TEXT, span=expr.span)
    struct = _make_struct(expr, entity, walked, context)
    assert isinstance(struct, Call), "an entity as a struct is a call"
    fields, arguments = struct.type.fields, struct.arguments
    if is_mixed(walked.variable.type_name):
        names = name_types(walked.variable, context.catalog)
        kind = Call(function="type", arguments=(entity, names), type=TEXT, span=expr.span)
        fields, arguments = (("type", TEXT), *fields), (kind, *arguments)
    return replace(
        path,
        argument=replace(struct, arguments=arguments, type=replace(struct.type, fields=fields)),
        type=replace(struct.type, fields=fields, is_list=True, nullable=path.type.nullable),
    )


def _check_path_aggregate(
    expr: tree.AggregateExpr, scope: Scope, context: Context
) -> PathValue | None:
    """Check an aggregate over the edges of a path, which is a value of its row."""
    paths = find_aggregated_paths(expr, scope)
    leaves = tree.list_leaves(expr.argument)
    others = {leaf.variable for leaf in leaves if isinstance(leaf, tree.PropertyExpr)} - {*paths}
    if len(paths) > 1 or others:
        names = ", ".join(f"${variable}" for variable in sorted({*paths, *others}))
        message = f"{expr.function} of a path is about its edges alone, this one reads {names}"
        context.findings.report("T69", expr.span, message)
        return None
    ((name, bound),) = paths.items()
    aggregate = check_aggregate(expr, Scope(names={name: Bound(bound.walked)}), context)
    if aggregate is None:
        return None
    assert bound.variable is not None
    assert bound.walked is not None
    return PathValue(
        variable=bound.variable.name,
        function=aggregate.function,
        walked=bound.walked.name,
        argument=aggregate.argument,
        type=replace(aggregate.type, nullable=aggregate.type.nullable or bound.nullable),
        distinct=aggregate.distinct,
        fraction=aggregate.fraction,
        span=expr.span,
    )


# ---- choices


def _check_case(expr: tree.CaseExpr, scope: Scope, context: Context) -> Operand | None:
    tests = [check_condition(test, scope, context) for test, _ in expr.branches]
    results = [result for _, result in expr.branches]
    if expr.otherwise is not None:
        results.append(expr.otherwise)
    choice = _check_choice(expr, "case", results, scope, context)
    truths = [make_truth(test) for test in tests if test is not None]
    if choice is None or len(truths) < len(tests):
        return None
    assert isinstance(choice, Call)
    nullable = choice.type.nullable or expr.otherwise is None
    return replace(
        choice, arguments=(*truths, *choice.arguments), type=replace(choice.type, nullable=nullable)
    )


def _check_choice(
    expr: tree.Expr, function: str, written: Sequence[tree.Expr], scope: Scope, context: Context
) -> Operand | None:
    """Check values from which `function` selects one: they need a type that holds them all."""
    operands = [check_value(part, scope, context) for part in written]
    values = [operand for operand in operands if operand is not None]
    if len(values) < len(operands):
        return None
    types = [value.type for value in values if not is_nothing(value)]
    is_bare = any(isinstance(value, EntityRef) or is_duration(value) for value in values)
    common = find_common_type(types) if types and not is_bare else None
    if common is None:
        kinds = ", ".join(dict.fromkeys(_describe(value, context) for value in values)) or "nothing"
        context.findings.report(
            "T53",
            expr.span,
            f"the values of {function} need one type, these are {kinds}",
            label="id($v) gives the id of an entity" if is_bare else None,
        )
        return None
    nullable = [value.type.nullable or is_nothing(value) for value in values]
    result = replace(common, nullable=all(nullable) if function == "coalesce" else any(nullable))
    arguments = tuple(give_type(value, common) for value in values)
    return Call(function=function, arguments=arguments, type=result, span=expr.span)


# ---- aggregates


def check_aggregate(expr: tree.AggregateExpr, scope: Scope, context: Context) -> Aggregate | None:
    """Check an aggregate and give it its type."""
    argument = _check_aggregated(expr, scope, context)
    if argument is None or not _check_form(expr, context):
        return None
    result = _type_aggregate(expr, argument, context)
    fraction = _check_fraction(expr, scope, context)
    if result is None or (expr.fraction is not None and fraction is None):
        return None
    return Aggregate(
        function=expr.function,
        argument=argument,
        type=result,
        distinct=expr.distinct,
        fraction=fraction,
        span=expr.span,
    )


def _check_aggregated(expr: tree.AggregateExpr, scope: Scope, context: Context) -> Operand | None:
    match expr.argument:
        case tree.TextExpr() | tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr() as call:
            message = f"{function_name(call)} cannot be aggregated"
            context.findings.report("T38", call.span, message)
            return None
        case tree.NowExpr() as other:
            message = f"{expr.function} takes a value of the rows, not '{render_expression(other)}'"
            context.findings.report("T36", other.span, message)
            return None
        case _:
            pass
    if tree.has_aggregate(expr.argument):
        message = f"an aggregate stands inside {expr.function}; aggregates cannot nest"
        context.findings.report("T36", expr.argument.span, message)
        return None
    operand = check_value(expr.argument, scope, context)
    if operand is None or _refuse_blob(operand, context):
        return None
    if has_aggregate(operand):
        message = (
            f"'{render_expression(expr.argument)}' is an aggregate already; aggregates cannot nest"
        )
        context.findings.report("T36", expr.argument.span, message)
        return None
    return operand


def _check_form(expr: tree.AggregateExpr, context: Context) -> bool:
    """Check the forms that only some aggregates take: `distinct`, and the fraction of a percentile."""
    problem = None
    if expr.distinct and expr.function not in ("count", "collect", "sum", "avg"):
        problem = f"{expr.function} takes no 'distinct'; count, collect, sum and avg do"
    elif expr.function == "percentile" and expr.fraction is None:
        problem = "percentile takes a value and a fraction from 0 to 1"
    elif expr.function != "percentile" and expr.fraction is not None:
        problem = f"{expr.function} takes one argument"
    if problem is not None:
        context.findings.report("T60", expr.span, problem)
    return problem is None


def _check_fraction(
    expr: tree.AggregateExpr, scope: Scope, context: Context
) -> Const | ParamRef | None:
    if expr.fraction is None:
        return None
    fraction = check_value(expr.fraction, scope, context)
    match fraction:
        case Const(value=int() | float() as value) if 0 <= value <= 1:
            return fraction
        case ParamRef(type=type_) if type_.is_numeric:
            return fraction
        case None:
            return None
        case _:
            pass
    message = "the fraction of percentile is a number from 0 to 1, or a parameter"
    context.findings.report("T60", expr.fraction.span, message)
    return None


_COUNT = PropertyType(scalar=Scalar.I64)
_SUM = PropertyType(scalar=Scalar.I64, nullable=True)
_MEAN = PropertyType(scalar=Scalar.F64, nullable=True)


def _type_aggregate(
    expr: tree.AggregateExpr, argument: Operand, context: Context
) -> PropertyType | None:
    type_ = argument.type
    is_value = not isinstance(argument, EntityRef) and not is_nothing(argument)
    kinds, fits, result = "a number", is_value and type_.is_numeric, _MEAN
    match expr.function:
        case "count":
            return _COUNT
        case "sum":
            result = _SUM if type_.scalar in INTEGERS else _MEAN
        case "avg" | "stddev" | "percentile":
            pass
        case "collect":
            kinds, fits = "a plain value or a node", type_.is_plain and not is_nothing(argument)
            result = PropertyType(scalar=type_.scalar, is_list=True)
        case "min" | "max":
            kinds = "a number, a String, a Date or a DateTime"
            ordered = type_.is_numeric or type_.is_text or is_moment(type_)
            fits, result = is_value and ordered, replace(type_, nullable=True)
    if fits:
        return result
    actual = "null" if is_nothing(argument) else render_type(argument, context)
    context.findings.report(
        "T8",
        expr.argument.span,
        f"{expr.function} takes {kinds}, '{render_expression(expr.argument)}' is {actual}",
    )
    return None
