"""A traversal: its edges, its direction, its variables, its length, and the paths that it binds."""

from collections.abc import Iterator, Sequence

from omnigraphdb.catalog.mixed import is_mixed, join_types, list_steps, split_types
from omnigraphdb.catalog.model import Catalog, EdgeType
from omnigraphdb.compile.check.conditions import check_condition
from omnigraphdb.compile.check.context import (
    ANONYMOUS,
    Block,
    Bound,
    Context,
    Scope,
    introduce,
    introduce_walked,
    poison,
)
from omnigraphdb.compile.check.expressions import (
    check_count_parameter,
    check_property,
    list_properties,
    render_expression,
    report_edge_misuse,
    report_path_misuse,
    tell_unshared,
)
from omnigraphdb.compile.checked import (
    Choice,
    Condition,
    Direction,
    Hop,
    HopBound,
    PropertyRef,
    Variable,
    VariableKind,
)
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.values import replace

_WALKED = "#walked"
"""The name of the edge in the condition of a walk: no query can spell it."""


def check_traversal(clause: tree.Traversal, block: Block, context: Context) -> None:
    """Check a traversal and add its hop; ends without a type get the one the edge demands."""
    if clause.is_any_edge:
        _check_any_edge(clause, block, context)
        return
    before = len(context.findings.found)
    left = _end(clause.left, block, context)
    name = _name_walked(clause, block, context)
    edges = _find_edges(clause, context)
    low, high = _check_bounds(clause.hops, edges, context)
    if edges:
        _refuse_lone_path(clause, name, edges[0], context)
    right = _end(clause.right, block, context)
    direction = _direction(clause, edges[0], left, right, context) if edges else None
    poisoned = any(end is not None and end.variable is None for end in (left, right))
    if not edges or direction is None or poisoned or len(context.findings.found) > before:
        for bound_name in (clause.left, clause.right, name):
            poison(block, bound_name)
        return
    joined = _ends(clause, edges[0], direction, block, context)
    if joined is None:
        return
    edge_type = join_types(edge.name for edge in edges)
    hop = Hop(
        left=joined[0].name,
        right=joined[1].name,
        edge=edge_type,
        direction=direction,
        low=low,
        high=high,
    )
    block.hops.append(_bind_walk(clause, name, hop, block, context))


def _bind_walk(
    clause: tree.Traversal, name: tree.Name | None, hop: Hop, block: Block, context: Context
) -> Hop:
    """Bind the edge or the path of a walk, and check the conditions on the edges on its way."""
    hops, binds_path = clause.hops, name is not None and is_path(clause.hops)
    edge_name = None
    if name is not None and not binds_path:
        edge_name = introduce(block, name, VariableKind.EDGE, hop.edge, context).name
    if hops is None or not (binds_path or hops.where is not None):
        return hop if edge_name is None else replace(hop, edge_variable=edge_name)
    walked = introduce_walked(block, hop.edge, context)
    where = () if hops.where is None else _check_where(hops.where, walked, context)
    choice = None
    if name is not None and binds_path:
        variable = introduce(block, name, VariableKind.PATH, hop.edge, context)
        block.scope.names[name.text] = Bound(variable, walked=walked)
        choice = Choice(
            variable=variable.name,
            by=None if hops.by is None else _check_weight(hops.by, walked, context),
            best=_check_count("best", hops.best, hops, context),
            every=hops.every,
        )
    return replace(hop, edge_variable=edge_name, walked=walked.name, where=where, path=choice)


def is_path(hops: tree.Hops | None) -> bool:
    """Whether a variable on a walk with these bounds stands for a path: only `{1,1}` written out is an edge."""
    return hops is not None and (hops.low, hops.high) != (1, 1)


def _check_any_edge(clause: tree.Traversal, block: Block, context: Context) -> None:
    """Check `$a -- $b`: ends without a type get all types that an edge connects with the other end."""
    before = len(context.findings.found)
    context.open_forms.add("--")
    left, right = (_end(name, block, context) for name in (clause.left, clause.right))
    edge_name = _name_walked(clause, block, context)
    if is_path(clause.hops) or (clause.hops is not None and clause.hops.where is not None):
        message = "any edge is walked once, without conditions; bounds take edge types by name"
        context.findings.report("T65", clause.span, message, fix=f"${clause.left.text} -- …")
    poisoned = any(end is not None and end.variable is None for end in (left, right))
    near, far = (_types_of(end, context) for end in (left, right))
    edges = list_steps(context.catalog, near, far)
    if clause.left.text == clause.right.text != ANONYMOUS:
        edges = tuple(edge for edge in edges if edge.source == edge.target)
    if not edges and not poisoned:
        message = f"no edge type connects {_name_end(left)} with {_name_end(right)}"
        context.findings.report("T65", clause.span, message)
    if poisoned or len(context.findings.found) > before:
        for name in (clause.left, clause.right, edge_name):
            poison(block, name)
        return
    pairs = [
        pair for edge in edges for pair in ((edge.source, edge.target), (edge.target, edge.source))
    ]
    fitting = [(a, b) for a, b in pairs if a in split_types(near) and b in split_types(far)]
    start = _variable(clause.left, join_types(a for a, _ in fitting), block, context)
    finish = _variable(clause.right, join_types(b for _, b in fitting), block, context)
    edge_type = join_types(edge.name for edge in edges)
    edge_variable = (
        introduce(block, edge_name, VariableKind.EDGE, edge_type, context) if edge_name else None
    )
    block.hops.append(
        Hop(
            left=start.name,
            right=finish.name,
            edge=edge_type,
            direction=Direction.BOTH,
            edge_variable=edge_variable.name if edge_variable else None,
            any_edge=True,
        )
    )


def _types_of(end: Bound | None, context: Context) -> str:
    """Return the types that an end may have: all, unless it is bound."""
    if end is not None and end.variable is not None and end.variable.kind is VariableKind.NODE:
        return end.variable.type_name
    return join_types(context.catalog.nodes)


def _name_end(end: Bound | None) -> str:
    return "anything" if end is None or end.variable is None else end.variable.type_name


def _ends(
    clause: tree.Traversal, edge: EdgeType, direction: Direction, block: Block, context: Context
) -> tuple[Variable, Variable] | None:
    """Return the variables at both ends, introduced where they are new."""
    types = (edge.source, edge.target)
    left_type, right_type = types if direction is not Direction.IN else types[::-1]
    left = _variable(clause.left, left_type, block, context)
    # A name at both ends has its type only now.
    right = _variable(clause.right, right_type, block, context)
    if right_type in right.types:
        return left, right
    _wrong_end(clause.right, right, edge, context)
    return None


# ---- the edge


def _find_edges(clause: tree.Traversal, context: Context) -> tuple[EdgeType, ...]:
    """Find the edge types of a walk; return none when an error was reported."""
    names = (clause.edge, *clause.others)
    candidates = [_find_edge(edge_name, clause.undirected, context) for edge_name in names]
    by_name = {edge.name: edge for edge in candidates if edge is not None}
    if None in candidates:
        return ()
    edges = tuple(by_name.values())
    other = next((edge for edge in edges if _ends_of(edge) != _ends_of(edges[0])), None)
    if other is None:
        return edges
    first = edges[0]
    context.findings.report(
        "T67",
        clause.edge.span,
        f"a walk over several edge types takes types between the same ends: '{first.name}' leads from {first.source} to"
        f" {first.target}, '{other.name}' from {other.source} to {other.target}",
        label="write one traversal for each, joined by union or by or with exists { … }",
    )
    return ()


def _ends_of(edge: EdgeType) -> tuple[str, str]:
    return edge.source, edge.target


def _find_edge(name: tree.Name, undirected: bool, context: Context) -> EdgeType | None:
    word = name.text
    edge = context.catalog.edge(word)
    if edge is None:
        words = sorted(_words(context.catalog))
        message = f"there is no edge '{word}'{list_alternatives(word, words, 'edges')}"
        context.findings.report("T4", name.span, message, fix=nearest_name(word, words))
    elif undirected and edge.source != edge.target:
        context.findings.report(
            "T22",
            name.span,
            f"edge '{edge.name}' leads from {edge.source} to {edge.target};"
            " only an edge between equal types can be walked both ways",
            fix=word,
        )
        return None
    return edge


def _words(catalog: Catalog) -> Iterator[str]:
    return (name[0].lower() + name[1:] for name in catalog.edges)


def _check_bounds(
    hops: tree.Hops | None, edges: Sequence[EdgeType], context: Context
) -> tuple[HopBound, HopBound | None]:
    """Check the bounds of a walk; None is as far as there are edges."""
    if hops is None:
        return 1, 1
    problem = _find_bounds_problem(hops, edges)
    if problem is not None:
        message = f"hop bounds {problem}; they need 0 <= minimum <= maximum"
        context.findings.report("T15", hops.span, message)
        return 1, 1
    low = _check_count("a hop bound", hops.low, hops, context)
    high = _check_count("a hop bound", hops.high, hops, context)
    return 1 if low is None else low, high


def _find_bounds_problem(hops: tree.Hops, edges: Sequence[EdgeType]) -> str | None:
    low, high = hops.low, hops.high
    bounds = f"{{{_show_bound(low)},{_show_bound(high)}}}"
    if high is None and not hops.unbounded:
        return f"{bounds} have no maximum, which is written {{{_show_bound(low)},*}} where there is none"
    if isinstance(low, int) and isinstance(high, int) and high < low:
        return f"{bounds} end before they begin"
    other = next((edge for edge in edges if edge.source != edge.target), None)
    if other is None:
        return None
    leads = f"edge '{other.name}' leads from {other.source} to {other.target} and is walked once"
    if low == 0:
        return f"{bounds} begin below 1, and {leads}: its start is not a {other.target}"
    if not isinstance(low, int) or isinstance(high, tree.VariableExpr):
        return f"{bounds} have a parameter, and {leads}"
    return None


def _refuse_lone_path(
    clause: tree.Traversal, name: tree.Name | None, edge: EdgeType, context: Context
) -> None:
    """Report a path over an edge that has no second hop: the edge itself can be named."""
    if name is None or not is_path(clause.hops) or edge.source == edge.target:
        return
    assert clause.hops is not None, "a path has bounds"
    context.findings.report(
        "T68",
        clause.hops.span,
        f"edge '{edge.name}' leads from {edge.source} to {edge.target} and is walked once, so there is no path of it",
        fix=f"${name.text}:{clause.edge.text}",
    )


def _show_bound(bound: tree.HopBound | None) -> str:
    if bound is None:
        return ""
    return str(bound) if isinstance(bound, int) else f"${bound.name}"


def _check_count(
    word: str, written: tree.HopBound | None, hops: tree.Hops, context: Context
) -> HopBound | None:
    if isinstance(written, tree.VariableExpr):
        return check_count_parameter(word, written, context)
    if word == "best" and written == 0:
        _refuse_choice(hops, "best 0 selects no path; it takes a number from 1", context)
    return written


# ---- names of edges and paths


def _name_walked(clause: tree.Traversal, block: Block, context: Context) -> tree.Name | None:
    """Return the name of the edge or of the path when it may be bound; `$_` binds nothing."""
    name = clause.edge_variable
    if name is not None and name.text == ANONYMOUS:
        name = None
    if clause.hops is not None:
        _check_choice(clause.hops, name, context)
    if name is None:
        return None
    kind = "path" if is_path(clause.hops) else "edge"
    if name.text in (clause.left.text, clause.right.text):
        problem = f"names an end of this traversal, not its {kind}"
        report_edge_misuse(name.text, name.span, problem, context)
    elif block.scope.find(name.text) is not None:
        problem = f"is bound already and cannot name another {kind}"
        report_edge_misuse(name.text, name.span, problem, context)
    return name


def _check_choice(hops: tree.Hops, name: tree.Name | None, context: Context) -> None:
    """Check that `by`, `best` and `all` have paths to choose from."""
    chooses = hops.by is not None or hops.best is not None or hops.every
    if chooses and name is None:
        _refuse_choice(hops, "by, best and all choose among paths: name the path, $w:edge", context)
    elif chooses and not is_path(hops):
        _refuse_choice(hops, "{1,1} binds an edge, and there is no path to choose", context)
    elif name is not None and hops.unbounded:
        message = f"the path '${name.text}' needs a maximum of hops; only a walk without a variable goes on without end"
        context.findings.report("T68", hops.span, message, fix=f"{{{_show_bound(hops.low)},8}}")
    elif hops.by is not None and hops.every:
        _refuse_choice(
            hops, "all takes every path of fewest hops; with by, take the best: best 3", context
        )
    elif hops.by is not None and isinstance(hops.low, int) and hops.low > 1:
        _refuse_choice(hops, "with by the minimum of hops is 0 or 1", context)


def _refuse_choice(hops: tree.Hops, message: str, context: Context) -> None:
    context.findings.report("T68", hops.span, message)


def _check_weight(name: tree.Name, walked: Variable, context: Context) -> PropertyRef | None:
    """Check the property that the cost of a path adds up."""
    weight = _check_word(tree.AliasExpr(name=name.text, span=name.span), walked, context)
    if weight is None or weight.type.is_numeric:
        return weight
    message = (
        f"a path costs the sum of a number, '{name.text}' of {walked.type_name} is {weight.type}"
    )
    context.findings.report("T68", name.span, message, property_name=name.text)
    return None


def _check_where(written: tree.Expr, walked: Variable, context: Context) -> tuple[Condition, ...]:
    """Check the condition on every edge of a walk: bare words are properties of the edge."""
    if not _is_about_edges(written, walked, context):
        return ()

    def bind(leaf: tree.Expr) -> tree.Expr:
        if not isinstance(leaf, tree.AliasExpr):
            return leaf
        return tree.PropertyExpr(variable=_WALKED, property=leaf.name, span=leaf.span)

    scope = Scope(names={_WALKED: Bound(walked)})
    condition = check_condition(tree.change_leaves(written, bind), scope, context)
    return () if condition is None else (condition,)


_OF_ROWS = (
    tree.BlockExpr, tree.AggregateExpr, tree.TextExpr, tree.NearestExpr, tree.Bm25Expr, tree.RrfExpr,
)  # fmt: skip


def _is_about_edges(written: tree.Expr, walked: Variable, context: Context) -> bool:
    """Report the parts of a condition of a walk that it cannot see; return whether it sees every part."""
    match written:
        case tree.AliasExpr():
            return _check_word(written, walked, context) is not None
        case tree.VariableExpr(name=name) if name in context.params:
            return True
        case tree.VariableExpr() | tree.PropertyExpr() | tree.StarExpr():
            pass
        case _ if not isinstance(written, _OF_ROWS):
            seen = [_is_about_edges(part, walked, context) for part in tree.list_parts(written)]
            return all(seen)
        case _:
            pass
    context.findings.report(
        "T68",
        written.span,
        f"the condition of a walk is about each edge by itself: it sees properties of {walked.type_name} as bare words,"
        f" parameters and literals, not '{render_expression(written)}'",
    )
    return False


def _check_word(word: tree.AliasExpr, walked: Variable, context: Context) -> PropertyRef | None:
    declared = list_properties(walked, context)
    if word.name not in declared:
        reason = list_alternatives(word.name, declared, "it has")
        if is_mixed(walked.type_name):
            reason = tell_unshared(word.name, walked, context)
        context.findings.report(
            "T6",
            word.span,
            f"edge type '{walked.type_name}' has no property '{word.name}'{reason}",
            fix=nearest_name(word.name, declared),
            type_name=walked.type_name,
            property_name=word.name,
        )
        return None
    written = tree.PropertyExpr(variable=_WALKED, property=word.name, span=word.span)
    return check_property(written, Scope(names={_WALKED: Bound(walked)}), context)


# ---- the ends


def _end(name: tree.Name, block: Block, context: Context) -> Bound | None:
    bound = block.scope.find(name.text) if name.text != ANONYMOUS else None
    if bound is None or bound.variable is None:
        return bound
    if bound.variable.kind is VariableKind.EDGE:
        report_edge_misuse(
            name.text, name.span, "stands for an edge and cannot be an end of one", context
        )
    elif bound.variable.kind is VariableKind.PATH:
        report_path_misuse(name.text, name.span, context)
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
