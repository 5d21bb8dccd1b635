"""The pattern of a match: its clauses in text order, nested blocks included."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from omnigraph.catalog.mixed import (
    find_node_type,
    join_types,
    list_implementing,
    list_steps,
    split_types,
)
from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.compile.check.conditions import check_aggregate, check_condition
from omnigraph.compile.check.context import (
    ANONYMOUS,
    Block,
    Bound,
    Context,
    Scope,
    introduce,
    list_introductions,
    poison,
)
from omnigraph.compile.check.expressions import report_edge_misuse
from omnigraph.compile.check.functions import TRUTH
from omnigraph.compile.check.matches import check_property_match
from omnigraph.compile.checked import (
    Bind,
    BlockValue,
    Compare,
    Condition,
    Const,
    Direction,
    Field,
    Hop,
    Not,
    Operand,
    Pattern,
    Truth,
    Variable,
    VariableKind,
)
from omnigraph.language.diagnostics import list_alternatives, nearest_name
from omnigraph.language.query import tree
from omnigraph.language.source import Span

_TRUE = Const(value=True, type=TRUTH)


def check_pattern(
    clauses: Iterable[tree.Clause], context: Context, before: Scope | None = None
) -> tuple[Pattern, Scope]:
    """Check a match block after what a stage left; also give the names that its result may use."""
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
                _check_traversal(clause, block, context)
            case tree.Filter(condition=tree.BlockExpr(kind="exists") as written):
                inner = _check_inner("exists", written, block.scope, context)
                block.existences.append(inner.pattern())
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
    bound = block.binds.get(variable.name) or Bind(variable=variable.name, type_name=node.name)
    block.binds[variable.name] = replace(bound, matches=(*bound.matches, *matches))


def _find_bound_type(name: tree.Name, context: Context) -> str | None:
    """Find the type of a binding; an interface stands for the types that implement it."""
    if name.text in context.catalog.nodes:
        return name.text
    found = list_implementing(context.catalog, name.text)
    if not found:
        _not_a_node(name, context)
    return join_types(found) or None


def _not_a_node(name: tree.Name, context: Context) -> None:
    catalog = context.catalog
    if name.text in catalog.edges:
        why = "is an edge type; a binding takes a node type, edges are traversed"
    elif name.text in catalog.interfaces:
        why = "is an interface that no node type implements, so nothing can match"
    else:
        known = [*catalog.nodes, *catalog.interfaces]
        why = f"is not a node type{list_alternatives(name.text, known, 'node types')}"
    context.findings.report(
        "T1",
        name.span,
        f"'{name.text}' {why}",
        fix=nearest_name(name.text, catalog.nodes),
        type_name=name.text,
    )


def _bound_variable(
    clause: tree.Binding, type_name: str, block: Block, context: Context
) -> Variable | None:
    """The variable a binding is about: a new one, or one that is of the type already."""
    name = clause.variable
    found = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if found is None:
        return introduce(block, name, VariableKind.NODE, type_name, context)
    if found.variable is None:
        return None
    is_node = found.variable.kind is VariableKind.NODE
    if not is_node or not set(found.variable.types) <= set(split_types(type_name)):
        narrower = is_node and type_name in found.variable.types
        context.findings.report(
            "T26",
            name.span,
            f"'${name.text}' is bound to {found.variable.kind} type '{found.variable.type_name}'"
            f" and cannot be '{clause.type_name.text}' as well",
            label="type(…) tells which of them an entity is" if narrower else None,
            fix=f'type(${name.text}) = "{type_name}"' if narrower else None,
        )
        return None
    if found.nullable and block.scope.holds(name.text):
        _refuse_optional(name, context)
        return None
    return found.variable


# ---- nested blocks


def _check_negation(clause: tree.Negation, block: Block, context: Context) -> None:
    block.negations.append(_check_inner("not", clause, block.scope, context).pattern())


def _check_inner(
    word: str, written: tree.Negation | tree.BlockExpr, scope: Scope, context: Context
) -> Block:
    """Check a block whose variables are its own."""
    inner = Block(scope=Scope(parent=scope), inside=list_introductions(written.clauses))
    _check_clauses(written.clauses, inner, context)
    _require_outer(word, inner, written.span, context)
    return inner


def check_block(expr: tree.BlockExpr, scope: Scope, context: Context) -> Operand | None:
    """Check a block inside an expression; it becomes a value of every row around it."""
    word = expr.kind if isinstance(expr.kind, str) else expr.kind.function
    inner = _check_inner(word, expr, scope, context)
    name = context.namer.block()
    if isinstance(expr.kind, str):
        asked = BlockValue(
            name=name, function="exists", argument=None, pattern=inner.pattern(), type=TRUTH
        )
    else:
        aggregate = check_aggregate(expr.kind, inner.scope, context)
        if aggregate is None:
            return None
        asked = BlockValue(
            name=name,
            function=aggregate.function,
            argument=aggregate.argument,
            pattern=inner.pattern(),
            type=aggregate.type,
            distinct=aggregate.distinct,
            fraction=aggregate.fraction,
        )
    scope.blocks.append(asked)
    found = Field(name, asked.type)
    if expr.kind != "not":
        return found
    return Truth(condition=Not(part=Compare(left=found, op="=", right=_TRUE)), type=TRUTH)


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


# ---- traversals
# Which edge, which way, between which variables.


def _check_traversal(clause: tree.Traversal, block: Block, context: Context) -> None:
    """Check a traversal and add its hop; ends without a type get the one the edge demands."""
    if clause.is_any_edge:
        _check_any_edge(clause, block, context)
        return
    before = len(context.findings.found)
    left = _end(clause.left, block, context)
    edge_name = _edge_name(clause, block, context)
    edge = _edge(clause, context)
    low, high = _bounds(clause.hops, context)
    right = _end(clause.right, block, context)
    direction = _direction(clause, edge, left, right, context) if edge else None
    poisoned = any(end is not None and end.variable is None for end in (left, right))
    if edge is None or direction is None or poisoned or len(context.findings.found) > before:
        for name in (clause.left, clause.right, edge_name):
            poison(block, name)
        return
    joined = _ends(clause, edge, direction, block, context)
    if joined is None:
        return
    named = (
        introduce(block, edge_name, VariableKind.EDGE, edge.name, context) if edge_name else None
    )
    block.hops.append(
        Hop(
            left=joined[0].name,
            right=joined[1].name,
            edge=edge.name,
            direction=direction,
            low=low,
            high=high,
            edge_variable=named.name if named else None,
        )
    )


def _check_any_edge(clause: tree.Traversal, block: Block, context: Context) -> None:
    """Check `$a -- $b`: ends without a type get all types that an edge connects with the other end."""
    before = len(context.findings.found)
    left, right = (_end(name, block, context) for name in (clause.left, clause.right))
    edge_name = _edge_name(clause, block, context)
    low, high = _bounds(clause.hops, context)
    if (low, high) != (1, 1):
        message = "any edge is walked once; bounds take one edge type"
        context.findings.report("T65", clause.span, message, fix=f"${clause.left.text} -- …")
    poisoned = any(end is not None and end.variable is None for end in (left, right))
    near, far = (_types_of(end, context) for end in (left, right))
    edges = list_steps(context.catalog, near, far)
    if clause.left.text == clause.right.text != ANONYMOUS:
        edges = tuple(one for one in edges if one.source == one.target)
    if not edges and not poisoned:
        message = f"no edge type connects {_name_end(left)} with {_name_end(right)}"
        context.findings.report("T65", clause.span, message)
    if poisoned or len(context.findings.found) > before:
        for name in (clause.left, clause.right, edge_name):
            poison(block, name)
        return
    pairs = [pair for one in edges for pair in ((one.source, one.target), (one.target, one.source))]
    fitting = [(a, b) for a, b in pairs if a in split_types(near) and b in split_types(far)]
    start = _variable(clause.left, join_types(a for a, _ in fitting), block, context)
    finish = _variable(clause.right, join_types(b for _, b in fitting), block, context)
    edge_type = join_types(one.name for one in edges)
    named = (
        introduce(block, edge_name, VariableKind.EDGE, edge_type, context) if edge_name else None
    )
    block.hops.append(
        Hop(
            left=start.name,
            right=finish.name,
            edge=edge_type,
            direction=Direction.BOTH,
            edge_variable=named.name if named else None,
            any_edge=True,
        )
    )


def _types_of(end: Bound | None, context: Context) -> str:
    """The types that an end may have: all, unless it is bound."""
    if end is not None and end.variable is not None and end.variable.kind is VariableKind.NODE:
        return end.variable.type_name
    return join_types(context.catalog.nodes)


def _name_end(end: Bound | None) -> str:
    return "anything" if end is None or end.variable is None else end.variable.type_name


def _ends(
    clause: tree.Traversal, edge: EdgeType, direction: Direction, block: Block, context: Context
) -> tuple[Variable, Variable] | None:
    """The variables at both ends, introduced where they are new."""
    types = (edge.source, edge.target)
    left_type, right_type = types if direction is not Direction.IN else types[::-1]
    left = _variable(clause.left, left_type, block, context)
    # Only now is it certain what a name at both ends stands for.
    right = _variable(clause.right, right_type, block, context)
    if right_type in right.types:
        return left, right
    _wrong_end(clause.right, right, edge, context)
    return None


# ---- the edge


def _edge(clause: tree.Traversal, context: Context) -> EdgeType | None:
    word = clause.edge.text
    edge = context.catalog.edge(word)
    if edge is None:
        words = sorted(_words(context.catalog))
        message = f"there is no edge '{word}'{list_alternatives(word, words, 'edges')}"
        context.findings.report("T4", clause.edge.span, message, fix=nearest_name(word, words))
    elif clause.undirected and edge.source != edge.target:
        context.findings.report(
            "T22",
            clause.edge.span,
            f"edge '{edge.name}' leads from {edge.source} to {edge.target};"
            " only an edge between equal types can be walked both ways",
            fix=word,
        )
        return None
    return edge


def _words(catalog: Catalog) -> Iterator[str]:
    return (name[0].lower() + name[1:] for name in catalog.edges)


def _bounds(hops: tree.Hops | None, context: Context) -> tuple[int, int]:
    if hops is None:
        return 1, 1
    problem = None
    if hops.high is None:
        problem = f"{{{hops.low},}} have no maximum"
    elif hops.low < 1:
        problem = f"{{{hops.low},{hops.high}}} begin below 1"
    elif hops.high < hops.low:
        problem = f"{{{hops.low},{hops.high}}} end before they begin"
    if problem is None and hops.high is not None:
        return hops.low, hops.high
    context.findings.report(
        "T15", hops.span, f"hop bounds {problem}; they need 1 <= minimum <= maximum"
    )
    return 1, 1


def _edge_name(clause: tree.Traversal, block: Block, context: Context) -> tree.Name | None:
    """The name of the edge when it may be bound; `$_` binds nothing."""
    name = clause.edge_variable
    if name is None or name.text == ANONYMOUS:
        return None
    hops = clause.hops
    if name.text in (clause.left.text, clause.right.text):
        report_edge_misuse(
            name.text, name.span, "names an end of this traversal, not its edge", context
        )
    elif block.scope.find(name.text) is not None:
        report_edge_misuse(
            name.text, name.span, "is bound already and cannot name another edge", context
        )
    elif hops is not None and (hops.low, hops.high) != (1, 1):
        bounds = f"{{{hops.low},{'' if hops.high is None else hops.high}}}"
        how = f"names one edge, and {bounds} walks over several"
        report_edge_misuse(name.text, name.span, how, context)
    return name


# ---- the ends


def _end(name: tree.Name, block: Block, context: Context) -> Bound | None:
    bound = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if bound is None or bound.variable is None:
        return bound
    if bound.variable.kind is VariableKind.EDGE:
        report_edge_misuse(
            name.text, name.span, "stands for an edge and cannot be an end of one", context
        )
    elif bound.nullable and block.scope.holds(name.text):
        _refuse_optional(name, context)
    return bound


def _refuse_optional(name: tree.Name, context: Context) -> None:
    """Report a variable of an optional block that the pattern outside would make mandatory."""
    context.findings.report(
        "T26",
        name.span,
        f"'${name.text}' belongs to an optional block and may be missing; the pattern outside can"
        " test it, but not bind or traverse it. Move this clause into an optional block",
    )


def _direction(
    clause: tree.Traversal,
    edge: EdgeType,
    left: Bound | None,
    right: Bound | None,
    context: Context,
) -> Direction | None:
    start = None if left is None else left.variable
    finish = None if right is None else right.variable
    for name, end in ((clause.left, start), (clause.right, finish)):
        if (
            end
            and end.kind is VariableKind.NODE
            and set(end.types).isdisjoint((edge.source, edge.target))
        ):
            _wrong_end(name, end, edge, context)
            return None
    if clause.undirected:
        return Direction.BOTH
    if edge.source == edge.target:
        return Direction.OUT
    return Direction.IN if _is_backward(edge, start, finish) else Direction.OUT


def _is_backward(edge: EdgeType, start: Variable | None, finish: Variable | None) -> bool:
    """Whether the ends fit the edge only the other way round; a mixed end may fit both ways."""
    if start is None:
        return finish is not None and edge.target not in finish.types
    if edge.source not in start.types:
        return True
    fits_only_so = finish is not None and edge.target not in finish.types
    return fits_only_so and edge.target in start.types


def _wrong_end(name: tree.Name, end: Variable, edge: EdgeType, context: Context) -> None:
    context.findings.report(
        "T5",
        name.span,
        f"'${name.text}' is a {end.type_name}, which edge '{edge.name}' does not have at this end:"
        f" it leads from {edge.source} to {edge.target}",
        type_name=end.type_name,
    )


def _variable(name: tree.Name, type_name: str, block: Block, context: Context) -> Variable:
    bound = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if bound is not None and bound.variable is not None:
        return bound.variable
    return introduce(block, name, VariableKind.NODE, type_name, context)
