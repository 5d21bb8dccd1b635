"""The items of a return: columns, their names and types, and group keys."""

from collections.abc import Container, Iterable, Iterator

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check.conditions import check_value
from omnigraphdb.compile.check.context import Context, Scope, aggregates_rows
from omnigraphdb.compile.check.expressions import (
    function_name,
    is_null,
    order_properties,
    refuse_blob,
    render_expression,
)
from omnigraphdb.compile.check.functions import is_duration
from omnigraphdb.compile.check.ranking import check_ranking, check_text_match
from omnigraphdb.compile.checked import (
    Aggregate,
    Bm25,
    Column,
    Compare,
    Condition,
    Const,
    EntityRef,
    Field,
    ItemExpr,
    Nearest,
    Operand,
    ParamRef,
    PathValue,
    PropertyRef,
    Rrf,
    TextMatch,
    Truth,
    VariableKind,
    find_condition,
    has_aggregate,
    read_id,
)
from omnigraphdb.compile.plan.visit import list_children, strip_spans, walk
from omnigraphdb.language.query import tree

SCORE = PropertyType(scalar=Scalar.F64)
VERDICT = PropertyType(scalar=Scalar.BOOL)


def check_columns(
    read: tree.Read | tree.Stage, scope: Scope, context: Context
) -> tuple[Column, ...]:
    """Check the items in order; items with an error are reported and left out."""
    scope.aliases = {}
    grouped = any(aggregates_rows(item.expr, scope) for item in read.items)
    columns: list[Column] = []
    names: set[str] = set()
    for item in read.items:
        if context.findings.full:
            break
        if isinstance(item.expr, tree.RrfExpr) and read.limit is None:
            message = "rrf needs a limit: it fuses the first rows of two rankings, as many as the limit says"
            context.findings.report("T21", item.expr.span, message, fix="limit 10")
        stays = isinstance(read, tree.Stage)
        for name, expr in _check_item_columns(item, scope, context, stays=stays):
            if name in names:
                context.findings.report(
                    "T34",
                    item.alias.span if item.alias else item.span,
                    f"two items produce the column '{name}'; give one of them another name with 'as'",
                )
            elif expr is not None:
                columns.append(Column(name=name, expr=expr, type=_type(expr)))
            names.add(name)
            if item.alias is not None:
                scope.aliases[item.alias.text] = expr
    if grouped:
        _check_group_keys(read, columns, context)
    return tuple(columns)


def _find_kept_edge(item: tree.Item, scope: Scope) -> EntityRef | None:
    """Find the edge that a stage keeps as an item; a result shows an edge by its values alone."""
    if not isinstance(item.expr, tree.VariableExpr) or item.alias is not None:
        return None
    bound = scope.find(item.expr.name)
    if bound is None or bound.variable is None or bound.variable.kind is not VariableKind.EDGE:
        return None
    text = PropertyType(scalar=Scalar.STRING, nullable=bound.nullable)
    return EntityRef(variable=bound.variable.name, type=text, span=item.expr.span)


def _check_item_columns(
    item: tree.Item, scope: Scope, context: Context, *, stays: bool
) -> Iterator[tuple[str, ItemExpr | None]]:
    """List the columns of an item: one, or all properties of an entity."""
    if not isinstance(item.expr, tree.StarExpr):
        edge = _find_kept_edge(item, scope) if stays else None
        yield output_name(item), edge or _check_item(item.expr, scope, context)
        return
    bound = scope.find(item.expr.variable)
    if bound is None or item.alias is not None:
        message = f"'${item.expr.variable}.*' takes a variable of the pattern, and no alias"
        context.findings.report("T61", item.span, message)
    if bound is None or bound.variable is None:
        return
    context.open_forms.add(f"${item.expr.variable}.*")
    for declared in order_properties(bound.variable, context):
        if not declared.type.is_blob:
            yield (
                f"{item.expr.variable}.{declared.name}",
                PropertyRef(
                    variable=bound.variable.name,
                    property=declared.name,
                    type=declared.type.with_nullable(declared.type.nullable or bound.nullable),
                    span=item.span,
                ),
            )


def check_having(
    read: tree.Read | tree.Stage, columns: tuple[Column, ...], scope: Scope, context: Context
) -> tuple[Condition, ...]:
    """Check the conditions on the rows of the result; conditions on groups may use only values of the groups."""
    checked = []
    is_grouped_read = read.distinct or any(has_aggregate(column.expr) for column in columns)
    keys = list_group_values(column for column in columns if not has_aggregate(column.expr))
    for written in read.having:
        expression = _check_result(written, scope, context)
        condition = None if expression is None else _require_truth(written, expression, context)
        if condition is None:
            continue
        if not is_grouped_read and has_aggregate(condition):
            advice = "project the aggregate under a name and test that"
        elif is_grouped_read and not is_grouped(strip_spans(condition), keys):
            advice = (
                "with aggregates or distinct, having tests only what return projects; add it there"
            )
        else:
            checked.append(condition)
            continue
        message = f"'{render_expression(written)}' is not a condition of having: {advice}"
        context.findings.report("T36", written.span, message)
    return tuple(checked)


def _require_truth(written: tree.Expr, expression: ItemExpr, context: Context) -> Condition | None:
    if isinstance(expression, TextMatch):
        return expression
    if isinstance(expression, Truth):
        return expression.condition
    if _type(expression).is_plain and _type(expression).scalar is Scalar.BOOL:
        assert not isinstance(expression, Nearest | Bm25 | Rrf)
        return Compare(left=expression, op="=", right=Const(value=True, type=VERDICT))
    message = f"'{render_expression(written)}' is {_type(expression)}, and a condition of having is a Bool"
    context.findings.report("T50", written.span, message)
    return None


# ---- the names that a stage leaves


def check_left_names(
    stage: tree.Stage, columns: tuple[Column, ...], scope: Scope, context: Context
) -> tuple[Scope, dict[str, str]]:
    """Return the scope after a stage: entities keep their variable, every other item is a bare word."""
    after = Scope(scalars={})
    assert after.scalars is not None
    by_name = {column.name: column for column in columns}
    entities: dict[str, str] = {}
    for item in stage.items:
        column = by_name.get(output_name(item))
        bound = scope.find(item.expr.name) if isinstance(item.expr, tree.VariableExpr) else None
        if bound is not None and item.alias is None:
            assert isinstance(item.expr, tree.VariableExpr)
            after.names[item.expr.name] = bound
            if bound.variable is not None:
                entities[item.expr.name] = bound.variable.name
        elif bound is not None or not _leaves_word(item):
            hint = "an entity keeps its name" if bound is not None else "give it a name with 'as'"
            message = f"'{render_expression(item.expr)}' cannot be used behind this 'with': {hint}"
            context.findings.report("T63", item.span, message)
        elif column is not None:
            after.scalars[column.name] = Field(column.name, column.type)
    return after, entities


def _leaves_word(item: tree.Item) -> bool:
    return item.alias is not None or isinstance(item.expr, tree.AliasExpr)


def check_per(
    stage: tree.Stage, columns: tuple[Column, ...], scope: Scope, context: Context
) -> tuple[Operand, ...]:
    """Check the values by which the limit of a stage counts: they are items of the stage."""
    operands = []
    items = {strip_spans(column.expr) for column in columns}
    for written in stage.per:
        value = check_value(written, scope, context)
        if value is None:
            continue
        if strip_spans(value) not in items:
            message = (
                f"'{render_expression(written)}' is not an item of this 'with'; per takes its items"
            )
            context.findings.report("T63", written.span, message)
        else:
            operands.append(value)
    if stage.per and stage.limit is None:
        context.findings.report("T63", stage.per[0].span, "per belongs to a limit: limit 3 per $g")
    return tuple(operands)


# ---- group keys


def _check_group_keys(
    read: tree.Read | tree.Stage, columns: list[Column], context: Context
) -> None:
    """Require that everything beside an aggregate is a group key, or made of group keys."""
    keys = list_group_values(column for column in columns if not has_aggregate(column.expr))
    spans = {output_name(item): item for item in read.items}
    for column in columns:
        item = spans.get(column.name)
        if item is None:
            continue
        if has_aggregate(column.expr):
            fits = is_grouped(strip_spans(column.expr), keys)
            reason = (
                "an expression with an aggregate takes only group keys besides: add them as items"
            )
        else:
            fits = can_be_key(column.expr)
            reason = "only properties, variables and what is made of them can form the group key"
        if not fits:
            context.findings.report(
                "T9",
                item.span,
                f"'{render_expression(item.expr)}' stands beside an aggregate; {reason}",
            )


def list_group_values(columns: Iterable[Column]) -> set[object]:
    """List the values that groups have: of columns, the ids of entities, and the conditions behind truths."""
    values: set[object] = set()
    for expr in (strip_spans(column.expr) for column in columns):
        ids = [read_id(expr)] if isinstance(expr, EntityRef) else []
        condition = find_condition(expr)
        values |= {expr, *ids} if condition is None else {expr, condition}
    return values


def can_be_key(expr: ItemExpr) -> bool:
    """Whether an expression may differ from row to row, and is not a score."""
    if isinstance(expr, TextMatch | Nearest | Bm25 | Rrf):
        return False
    return any(isinstance(part, PropertyRef | EntityRef | Field | PathValue) for part in walk(expr))


def is_grouped(expr: object, keys: Container[object]) -> bool:
    """Whether an expression is made of aggregates, group keys and constants."""
    if isinstance(expr, Aggregate) or expr in keys:
        return True
    if isinstance(expr, PropertyRef | EntityRef | Field | PathValue):
        return False
    return all(is_grouped(part, keys) for part in list_children(expr))


def output_name(item: tree.Item) -> str:
    """Return the name of a column: the alias, else a name derived from the expression."""
    if item.alias is not None:
        return item.alias.text
    match item.expr:
        case tree.PropertyExpr() as expr:
            return f"{expr.variable}.{expr.property}"
        case tree.VariableExpr() | tree.AliasExpr() as expr:
            return expr.name
        case tree.LiteralExpr():
            return "literal"
        case tree.NowExpr():
            return "now"
        case tree.AggregateExpr() as expr:
            return expr.function
        case tree.TextExpr() | tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr() as expr:
            return function_name(expr)
        case tree.CallExpr() as expr:
            return expr.function
        case tree.CaseExpr():
            return "case"
        case tree.BlockExpr() as expr:
            return expr.kind if isinstance(expr.kind, str) else expr.kind.function
        case _:
            return "value"


def _type(expression: ItemExpr) -> PropertyType:
    match expression:
        case TextMatch():
            return VERDICT
        case Nearest():
            # A row without a vector has no distance.
            return PropertyType(scalar=Scalar.F64, nullable=True)
        case Bm25() | Rrf():
            return SCORE
        case _:
            return expression.type


def _check_item(expr: tree.Expr, scope: Scope, context: Context) -> ItemExpr | None:
    if is_null(expr):
        context.findings.report("T36", expr.span, "null has no type of its own to return")
        return None
    expression = _check_result(expr, scope, context)
    if isinstance(expression, PropertyRef | ParamRef) and refuse_blob(expression, context):
        return None
    if isinstance(expression, Const) and is_duration(expression):
        context.findings.report("T55", expr.span, "a duration is only added to a Date or DateTime")
        return None
    return expression


def _check_result(expr: tree.Expr, scope: Scope, context: Context) -> ItemExpr | None:
    """Check an expression of a result: it may aggregate, search and rank."""
    match expr:
        case tree.TextExpr():
            return check_text_match(expr, scope, context)
        case tree.NearestExpr() | tree.Bm25Expr() | tree.RrfExpr():
            return check_ranking(expr, scope, context)
        case tree.AliasExpr() if scope.aliases is not None and expr.name in scope.aliases:
            return scope.aliases[expr.name]
        case _:
            return check_value(expr, scope, context)
