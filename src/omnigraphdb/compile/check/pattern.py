"""The pattern of a match: its clauses in text order, nested blocks included."""

from collections import Counter
from collections.abc import Iterable

from omnigraphdb.catalog.mixed import (
    find_node_type,
    join_types,
    list_implementing,
    split_types,
)
from omnigraphdb.compile.check.conditions import check_aggregate, check_condition
from omnigraphdb.compile.check.context import (
    ANONYMOUS,
    Block,
    Context,
    Scope,
    introduce,
    list_introductions,
    poison,
)
from omnigraphdb.compile.check.functions import TRUTH
from omnigraphdb.compile.check.matches import check_property_match
from omnigraphdb.compile.check.traversal import check_traversal, refuse_optional
from omnigraphdb.compile.checked import (
    Bind,
    BlockValue,
    Compare,
    Condition,
    Const,
    Field,
    Not,
    Operand,
    Pattern,
    Truth,
    Variable,
    VariableKind,
)
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Span
from omnigraphdb.values import replace

_TRUE = Const(value=True, type=TRUTH)


def check_pattern(
    clauses: Iterable[tree.Clause], context: Context, before: Scope | None = None
) -> tuple[Pattern, Scope]:
    """Check a match block after the names of a stage; also return the names that its result may use."""
    block = Block(scope=Scope(parent=before))
    _check_clauses(clauses, block, context)
    return block.pattern(), block.scope


def _check_clauses(clauses: Iterable[tree.Clause], block: Block, context: Context) -> None:
    for clause in clauses:
        if context.findings.full:
            return
        match clause:
            case tree.Binding():
                _check_binding(clause, block, context)
            case tree.Traversal():
                check_traversal(clause, block, context)
            case tree.Filter(condition=tree.BlockExpr(kind="exists") as written):
                inner = _check_inner("exists", written, block.scope, context)
                block.existences.append(inner.pattern())
            case tree.Filter():
                condition = check_condition(clause.condition, block.scope, context)
                if condition is not None:
                    block.conditions.append(condition)
            case tree.Negation():
                _check_negation(clause, block, context)
            case tree.Optional():
                _check_optional(clause, block, context)


# ---- bindings


def _check_binding(clause: tree.Binding, block: Block, context: Context) -> None:
    type_name = _find_bound_type(clause.type_name, context)
    if type_name is None:
        poison(block, clause.variable)
        return
    variable = _bound_variable(clause, type_name, block, context)
    if variable is None:
        return
    node = find_node_type(context.catalog, variable.type_name)
    checked = [check_property_match(m, variable.name, node, context) for m in clause.matches]
    matches: tuple[Condition, ...] = tuple(m for m in checked if m is not None)
    before = block.binds.get(variable.name)
    if before is not None:
        matches = (*before.matches, *matches)
    bound = Bind(variable=variable.name, type_name=node.name, matches=matches)
    block.binds[variable.name] = bound


def _find_bound_type(name: tree.Name, context: Context) -> str | None:
    """Find the type of a binding; an interface stands for the types that implement it."""
    if name.text in context.catalog.nodes:
        return name.text
    names = list_implementing(context.catalog, name.text)
    context.open_forms.add(name.text)
    if not names:
        _not_a_node(name, context)
    return join_types(names) or None


def _not_a_node(name: tree.Name, context: Context) -> None:
    catalog = context.catalog
    if name.text in catalog.edges:
        reason = "is an edge type; a binding takes a node type, edges are traversed"
    elif name.text in catalog.interfaces:
        reason = "is an interface that no node type implements, so nothing can match"
    else:
        names = [*catalog.nodes, *catalog.interfaces]
        reason = f"is not a node type{list_alternatives(name.text, names, 'node types')}"
    context.findings.report(
        "T1",
        name.span,
        f"'{name.text}' {reason}",
        fix=nearest_name(name.text, catalog.nodes),
        type_name=name.text,
    )


def _bound_variable(
    clause: tree.Binding, type_name: str, block: Block, context: Context
) -> Variable | None:
    """Return the variable of a binding: a new variable, or a bound variable of the type."""
    name = clause.variable
    bound = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if bound is None:
        return introduce(block, name, VariableKind.NODE, type_name, context)
    if bound.variable is None:
        return None
    is_node = bound.variable.kind is VariableKind.NODE
    if not is_node or not set(bound.variable.types) <= set(split_types(type_name)):
        narrower = is_node and type_name in bound.variable.types
        context.findings.report(
            "T26",
            name.span,
            f"'${name.text}' is bound to {bound.variable.kind} type '{bound.variable.type_name}'"
            f" and cannot be '{clause.type_name.text}' as well",
            label="type(…) tells which of them an entity is" if narrower else None,
            fix=f'type(${name.text}) = "{type_name}"' if narrower else None,
        )
        return None
    if bound.nullable and block.scope.holds(name.text):
        refuse_optional(name, context)
        return None
    return bound.variable


# ---- nested blocks


def _check_negation(clause: tree.Negation, block: Block, context: Context) -> None:
    block.negations.append(_check_inner("not", clause, block.scope, context).pattern())


def _check_inner(
    word: str, written: tree.Negation | tree.BlockExpr, scope: Scope, context: Context
) -> Block:
    """Check a block whose variables are its own."""
    inner = Block(scope=Scope(parent=scope), inside=Counter(list_introductions(written.clauses)))
    _check_clauses(written.clauses, inner, context)
    _require_outer(word, inner, written.span, context)
    return inner


def check_block(expr: tree.BlockExpr, scope: Scope, context: Context) -> Operand | None:
    """Check a block inside an expression; it becomes a value of every row around it."""
    word = expr.kind if isinstance(expr.kind, str) else expr.kind.function
    inner = _check_inner(word, expr, scope, context)
    name = context.namer.block()
    if isinstance(expr.kind, str):
        block_value = BlockValue(
            name=name, function="exists", argument=None, pattern=inner.pattern(), type=TRUTH
        )
    else:
        aggregate = check_aggregate(expr.kind, inner.scope, context)
        if aggregate is None:
            return None
        block_value = BlockValue(
            name=name,
            function=aggregate.function,
            argument=aggregate.argument,
            pattern=inner.pattern(),
            type=aggregate.type,
            distinct=aggregate.distinct,
            fraction=aggregate.fraction,
        )
    scope.blocks.append(block_value)
    field = Field(name, block_value.type)
    if expr.kind != "not":
        return field
    return Truth(condition=Not(part=Compare(left=field, op="=", right=_TRUE)), type=TRUTH)


def _check_optional(clause: tree.Optional, block: Block, context: Context) -> None:
    inner = block.nested(inside=block.inside, optional=True)
    _check_clauses(clause.clauses, inner, context)
    _require_outer("optional", inner, clause.span, context)
    block.optionals.append(inner.pattern())
    for name, bound in inner.scope.names.items():
        block.scope.names[name] = replace(bound, nullable=True)


def _require_outer(word: str, inner: Block, span: Span, context: Context) -> None:
    if not inner.scope.uses_outer:
        context.findings.report(
            "T9",
            span,
            f"this '{word}' block uses no variable from outside, so it says the same of every row;"
            " mention one in a traversal, a filter or a binding",
        )
