"""The pattern of a match: its clauses in text order, nested blocks included."""

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.compile.check.block import Block, introduce, poison
from omnigraph.compile.check.conditions import check_condition
from omnigraph.compile.check.context import ANONYMOUS, Bound, Context, Scope, list_introductions
from omnigraph.compile.check.matches import check_property_match
from omnigraph.compile.check.traversal import check_traversal, refuse_optional
from omnigraph.compile.checked import Bind, Condition, Pattern, Variable, VariableKind
from omnigraph.language.diagnostics import list_alternatives, nearest_name
from omnigraph.language.query import tree
from omnigraph.language.source import Span


def check_pattern(clauses: Iterable[tree.Clause], context: Context) -> tuple[Pattern, Scope]:
    """Check a match block; also give the names that return and order may use."""
    block = Block()
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
            case tree.Filter():
                found = check_condition(clause.condition, block.scope, context)
                if found is not None:
                    block.conditions.append(found)
            case tree.Negation():
                _check_negation(clause, block, context)
            case tree.Optional():
                _check_optional(clause, block, context)


# ---- bindings


def _check_binding(clause: tree.Binding, block: Block, context: Context) -> None:
    node = context.catalog.nodes.get(clause.type_name.text)
    if node is None:
        _not_a_node(clause.type_name, context)
        poison(block, clause.variable)
        return
    variable = _bound_variable(clause, block, context)
    if variable is None:
        return
    checked = [check_property_match(m, variable.name, node, context) for m in clause.matches]
    matches: tuple[Condition, ...] = tuple(m for m in checked if m is not None)
    bound = block.binds.get(variable.name) or Bind(variable=variable.name, type_name=node.name)
    block.binds[variable.name] = replace(bound, matches=(*bound.matches, *matches))


def _not_a_node(name: tree.Name, context: Context) -> None:
    catalog = context.catalog
    if name.text in catalog.edges:
        why = "is an edge type; a binding takes a node type, edges are traversed"
    elif name.text in catalog.interfaces:
        why = "is an interface and has no entities; bind a node type that implements it"
    else:
        why = f"is not a node type{list_alternatives(name.text, catalog.nodes, 'node types')}"
    context.findings.report(
        "T1",
        name.span,
        f"'{name.text}' {why}",
        fix=nearest_name(name.text, catalog.nodes),
        type_name=name.text,
    )


def _bound_variable(clause: tree.Binding, block: Block, context: Context) -> Variable | None:
    """The variable a binding is about: a new one, or one that has the same type already."""
    name, type_name = clause.variable, clause.type_name.text
    found = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if found is None:
        return introduce(block, name, VariableKind.NODE, type_name, context)
    if found.variable is None:
        return None
    if found.variable.kind is VariableKind.EDGE or found.variable.type_name != type_name:
        context.findings.report(
            "T26",
            name.span,
            f"'${name.text}' is bound to {found.variable.kind} type '{found.variable.type_name}'"
            f" and cannot be '{type_name}' as well",
        )
        return None
    if found.nullable and block.scope.holds(name.text):
        refuse_optional(name, context)
        return None
    return found.variable


# ---- nested blocks


def _check_negation(clause: tree.Negation, block: Block, context: Context) -> None:
    inner = block.nested(inside=list_introductions(clause.clauses), optional=False)
    _check_clauses(clause.clauses, inner, context)
    _require_outer("not", inner, clause.span, context)
    block.negations.append(inner.pattern())


def _check_optional(clause: tree.Optional, block: Block, context: Context) -> None:
    inner = block.nested(inside=block.inside, optional=True)
    _check_clauses(clause.clauses, inner, context)
    _require_outer("optional", inner, clause.span, context)
    block.optionals.append(inner.pattern())
    for name, bound in inner.scope.names.items():
        block.scope.names[name] = Bound(bound.variable, nullable=True)


def _require_outer(word: str, inner: Block, span: Span, context: Context) -> None:
    if not inner.scope.uses_outer:
        context.findings.report(
            "T9",
            span,
            f"this '{word}' block uses no variable from outside, so it says the same of every row;"
            " mention one in a traversal, a filter or a binding",
        )
