"""Traversals: which edge, which way, between which variables."""

from collections.abc import Iterator

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.compile.check.block import Block, introduce, poison
from omnigraph.compile.check.context import ANONYMOUS, Bound, Context
from omnigraph.compile.check.expressions import report_edge_misuse
from omnigraph.compile.checked import Direction, Hop, Variable, VariableKind
from omnigraph.language.diagnostics import list_alternatives, nearest_name
from omnigraph.language.query import tree


def check_traversal(clause: tree.Traversal, block: Block, context: Context) -> None:
    """Check a traversal and add its hop; ends without a type get the one the edge demands."""
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


def _ends(
    clause: tree.Traversal, edge: EdgeType, direction: Direction, block: Block, context: Context
) -> tuple[Variable, Variable] | None:
    """The variables at both ends, introduced where they are new."""
    types = (edge.source, edge.target)
    left_type, right_type = types if direction is not Direction.IN else types[::-1]
    left = _variable(clause.left, left_type, block, context)
    # Only now is it certain what a name at both ends stands for.
    right = _variable(clause.right, right_type, block, context)
    if right.type_name == right_type:
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
        refuse_optional(name, context)
    return bound


def refuse_optional(name: tree.Name, context: Context) -> None:
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
    start, finish = left and left.variable, right and right.variable
    for name, end in ((clause.left, start), (clause.right, finish)):
        if (
            end
            and end.kind is VariableKind.NODE
            and end.type_name not in (edge.source, edge.target)
        ):
            _wrong_end(name, end, edge, context)
            return None
    if clause.undirected:
        return Direction.BOTH
    if edge.source == edge.target:
        return Direction.OUT
    backward = (start and start.type_name == edge.target) or (
        not start and finish and finish.type_name == edge.source
    )
    return Direction.IN if backward else Direction.OUT


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
