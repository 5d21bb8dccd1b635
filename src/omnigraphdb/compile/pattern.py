"""Lower a pattern: scans, then hops, then filters, then nested blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from omnigraphdb.catalog.mixed import find_node_type, split_types
from omnigraphdb.catalog.model import Catalog, NodeType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    BlockValue,
    Compare,
    Const,
    Direction,
    EntityRef,
    Hop,
    InList,
    Operand,
    Pattern,
    PropertyRef,
    TextMatch,
    Variable,
    VariableKind,
)
from omnigraphdb.compile.plan.algebra import NEVER, Test, is_fixed, is_present, split_conjunction
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Operator,
    OptionalJoin,
    Product,
    Scan,
    Semi,
    Tally,
)
from omnigraphdb.compile.plan.visit import (
    fields_of,
    list_attached,
    list_bound_variables,
    strip_spans,
    variables_of,
)
from omnigraphdb.values import dataclass, replace


class _Selectivity(IntEnum):
    """An estimate of the nodes that a variable's own tests leave, judged by their form alone; smaller is fewer."""

    KEY = 0
    UNIQUE = 1
    EQUAL = 2
    AMONG = 3
    RANGE = 4
    OTHER = 5
    NONE = 6

    @property
    def is_point(self) -> bool:
        """Whether at most one node remains."""
        return self <= _Selectivity.UNIQUE


@dataclass(frozen=True, slots=True, kw_only=True)
class _PatternFacts:
    """The facts that decide the order of a pattern's hops.

    `wanted` are the variables a grouped result reads: starting at one of them leaves the others at the
    ends of the pattern, where they are only counted. It is None when every row is shown.
    """

    selectivity: Mapping[str, _Selectivity]
    wanted: frozenset[str] | None = None

    def of(self, variable: str) -> _Selectivity:
        """Return the selectivity of a variable's own tests."""
        return self.selectivity.get(variable, _Selectivity.NONE)

    def is_counted(self, variable: str) -> bool:
        """Whether only the number of its nodes matters."""
        return self.wanted is not None and variable not in self.wanted


UNIT = Argument(())
"""One row that binds nothing."""

_ID = PropertyType(scalar=Scalar.STRING, nullable=True)

_REVERSED = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweringContext:
    """The facts that lowering needs besides the pattern; `wanted` as in `_PatternFacts`."""

    catalog: Catalog
    variables: Mapping[str, Variable]
    wanted: frozenset[str] | None = None

    def node_type(self, variable: str) -> NodeType:
        """Return the type of a node variable."""
        return find_node_type(self.catalog, self.variables[variable].type_name)

    def is_node(self, variable: str) -> bool:
        """Whether a variable stands for a node."""
        return self.variables[variable].kind is VariableKind.NODE


def lower_pattern(
    pattern: Pattern, setting: LoweringContext, base: Operator | None = None
) -> Operator:
    """Lower the outermost pattern of a query, or of a stage: then it goes on from the rows of `base`."""
    return _lower_block(pattern, setting, within=None, base=base)


def _lower_block(
    pattern: Pattern,
    setting: LoweringContext,
    within: _PatternFacts | None,
    base: Operator | None = None,
) -> Operator:
    tests = (*_tests(pattern), *_presence(pattern, setting))
    names = (*(variable.name for variable in pattern.variables), *sorted(pattern.outer))
    nodes = {name: setting.node_type(name) for name in names if setting.is_node(name)}
    traits = _PatternFacts(selectivity=_estimate_selectivities(tests, nodes), wanted=setting.wanted)
    root = _join_components(pattern, setting, traits, within, _find_links(tests), base)
    waiting = _Waiting(
        tests=tests,
        negations=pattern.negations,
        existences=pattern.existences,
        blocks=pattern.blocks,
    )
    root, waiting = _apply_bound(root, waiting, setting, traits)
    if pattern.optionals:
        for block in pattern.optionals:
            root = _with_optional(root, block, setting, traits)
        # Tests of variables of optional blocks waited for these blocks.
        root, waiting = _apply_bound(root, waiting, setting, traits)
    assert waiting == _Waiting(), "the checker binds every variable a filter or a block uses"
    return root


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """The tests and blocks that are still to be applied to the rows of a block, once their variables are bound."""

    tests: tuple[Test, ...] = ()
    negations: tuple[Pattern, ...] = ()
    existences: tuple[Pattern, ...] = ()
    blocks: tuple[BlockValue, ...] = ()


def _apply_bound(
    root: Operator, waiting: _Waiting, setting: LoweringContext, traits: _PatternFacts
) -> tuple[Operator, _Waiting]:
    """Apply tests and blocks whose variables are bound: cheap tests first, then blocks, then tests of block values."""
    root, tests = _apply_bound_tests(root, waiting.tests)
    root, negations = _join_blocks(root, waiting.negations, Anti, setting, traits)
    root, existences = _join_blocks(root, waiting.existences, Semi, setting, traits)
    root, blocks = _attach_bound(root, waiting.blocks, setting, traits)
    root, tests = _apply_bound_tests(root, tests)
    return root, _Waiting(tests=tests, negations=negations, existences=existences, blocks=blocks)


def attach_blocks(
    root: Operator, blocks: tuple[BlockValue, ...], setting: LoweringContext
) -> Operator:
    """Give the rows of a whole pattern the values that its result asks of blocks."""
    root, waiting = _attach_bound(root, blocks, setting, _PatternFacts(selectivity={}))
    assert not waiting, "the checker binds every variable a block uses"
    return root


def _attach_bound(
    root: Operator, blocks: tuple[BlockValue, ...], setting: LoweringContext, traits: _PatternFacts
) -> tuple[Operator, tuple[BlockValue, ...]]:
    if not blocks:
        return root, ()
    bound, waiting = list_bound_variables(root), []
    for block in blocks:
        if not block.pattern.outer <= bound:
            waiting.append(block)
            continue
        inner = _lower_block(block.pattern, _count_only(setting, block), traits)
        root = Attach(
            input=root,
            inner=inner,
            on=tuple(sorted(block.pattern.outer)),
            tally=_make_tally(block, setting, list_bound_variables(inner)),
            name=block.name,
        )
    return root, tuple(waiting)


def _count_only(setting: LoweringContext, block: BlockValue) -> LoweringContext:
    read_variables = block.pattern.outer | variables_of(block.argument)
    return replace(setting, wanted=read_variables)


def list_ties(
    function: str, names: Iterable[str], variables: Mapping[str, Variable]
) -> tuple[EntityRef, ...]:
    """List the variables by whose ids an aggregate orders its list: all variables with a name, read or not."""
    if function != "collect":
        return ()
    bound = [variables[name] for name in sorted(names)]
    named_variables = (
        variable
        for variable in bound
        if not variable.anonymous and variable.kind is not VariableKind.PATH
    )
    return tuple(EntityRef(variable=variable.name, type=_ID) for variable in named_variables)


def _make_tally(block: BlockValue, setting: LoweringContext, bound: frozenset[str]) -> Tally | None:
    if block.function == "exists":
        return None
    argument = strip_spans(block.argument)
    is_present_value = isinstance(argument, Const) and argument.value is not None
    if isinstance(argument, EntityRef):
        is_present_value = not setting.variables[argument.variable].nullable
    counts = block.function == "count" and is_present_value and not block.distinct
    return Tally(
        name=block.name,
        function=block.function,
        argument=None if counts else argument,
        type=block.type,
        distinct=block.distinct,
        fraction=block.fraction,
        ties=list_ties(block.function, bound - block.pattern.outer, setting.variables),
    )


def _tests(pattern: Pattern) -> tuple[Test, ...]:
    matches = (match for bind in pattern.binds for match in bind.matches)
    conditions = (strip_spans(condition) for condition in (*matches, *pattern.conditions))
    return tuple(part for condition in conditions for part in split_conjunction(condition))


def _presence(pattern: Pattern, setting: LoweringContext) -> Iterator[Test]:
    """Say that an outer variable which is bound here again has an entity: NULL is of no type."""
    for bind in pattern.binds:
        if bind.variable in pattern.outer and setting.variables[bind.variable].nullable:
            yield is_present(EntityRef(variable=bind.variable, type=_ID))


# ---- scans and hops


def _join_components(
    pattern: Pattern,
    setting: LoweringContext,
    traits: _PatternFacts,
    within: _PatternFacts | None,
    pairs: frozenset[frozenset[str]],
    base: Operator | None = None,
) -> Operator:
    """Bind every variable of the block, walking from the rows around it where that is better."""
    is_alone = _stands_alone(pattern, traits, within)
    outer = () if is_alone else tuple(sorted(pattern.outer))
    own = [variable.name for variable in pattern.variables if variable.kind is VariableKind.NODE]
    parts: list[Operator] = []
    hops, late = _split_late(pattern.hops, traits)
    if base is not None:
        root, hops = _walk(base, list_bound_variables(base), hops, setting, traits)
        parts.append(root)
    elif outer:
        root, hops = _walk(Argument(outer), frozenset(outer), hops, setting, traits)
        parts.append(root)
    seen = frozenset[str]().union(*map(list_bound_variables, parts))
    free = [name for name in (*own, *sorted(pattern.outer)) if name not in seen]
    for component in _find_components(free, hops):
        scan = _scan(_choose_first_variable(component, hops, traits), setting)
        tree, hops = _walk(scan, list_bound_variables(scan), hops, setting, traits)
        parts.append(tree)
    assert not hops, "every hop is connected to a scan or to an outer variable"
    product = _product(parts, pairs)
    return _walk(product, list_bound_variables(product), late, setting, traits)[0]


def _split_late(
    hops: tuple[Hop, ...], traits: _PatternFacts
) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
    """Set apart the paths between two single nodes: with both ends known they are searched from both."""
    late = tuple(
        hop
        for hop in hops
        if hop.path is not None
        and hop.left != hop.right
        and all(traits.of(end).is_point for end in (hop.left, hop.right))
    )
    return tuple(hop for hop in hops if hop not in late), late


def _product(parts: list[Operator], pairs: frozenset[frozenset[str]]) -> Operator:
    """Pair unconnected parts: first the parts that an equality will join, then everything with everything."""
    product: Operator | None = None
    while parts:
        group, *parts = parts
        while (near := next((p for p in parts if _are_linked(group, p, pairs)), None)) is not None:
            parts = [part for part in parts if part is not near]
            group = Product(left=group, right=near)
        product = group if product is None else Product(left=product, right=group)
    return product or UNIT


def _are_linked(left: Operator, right: Operator, pairs: frozenset[frozenset[str]]) -> bool:
    """Whether an equality connects two parts."""
    left_variables, right_variables = list_bound_variables(left), list_bound_variables(right)
    return any(pair & left_variables and pair & right_variables for pair in pairs)


def _stands_alone(pattern: Pattern, traits: _PatternFacts, within: _PatternFacts | None) -> bool:
    """Whether a nested block is better answered from its own single node, then matched with the rows.

    It must bind every outer variable by hops from that node; and rows that start at a single node
    themselves are few, so that walking from them costs less.
    """
    if within is None or any(selectivity.is_point for selectivity in within.selectivity.values()):
        return False
    ends = tuple(dict.fromkeys(end for hop in pattern.hops for end in (hop.left, hop.right)))
    if not pattern.outer or not pattern.outer.issubset(ends):
        return False
    groups = _find_components(ends, pattern.hops)
    return len(groups) == 1 and any(traits.of(name).is_point for name in groups[0])


def _scan(variable: str, setting: LoweringContext) -> Scan:
    return Scan(variable=variable, type_name=setting.variables[variable].type_name)


def _walk(
    root: Operator,
    seen: frozenset[str],
    hops: tuple[Hop, ...],
    setting: LoweringContext,
    traits: _PatternFacts,
) -> tuple[Operator, tuple[Hop, ...]]:
    """Follow every hop that is connected to the bound variables; return the other hops."""
    while (hop := _choose_next_hop(hops, seen, traits)) is not None:
        hops = tuple(other for other in hops if other is not hop)
        root = _lower_hop(root, hop, seen, setting)
        seen |= {hop.left, hop.right}
    return root, hops


def _lower_hop(
    root: Operator, hop: Hop, seen: frozenset[str], setting: LoweringContext
) -> Operator:
    forward = hop.left in seen
    source, target = (hop.left, hop.right) if forward else (hop.right, hop.left)
    edge = setting.catalog.edges[split_types(hop.edge)[0]]
    chains = edge.source == edge.target or hop.any_edge
    where = tuple(part for test in hop.where for part in split_conjunction(strip_spans(test)))
    if hop.path is not None:
        assert hop.walked is not None, "a walk that binds paths names their edges"
        paths = FindPaths(
            input=root,
            source=source,
            target=target,
            target_type=setting.variables[target].type_name,
            edge=hop.edge,
            direction=hop.direction if forward else _REVERSED[hop.direction],
            choice=strip_spans(hop.path),
            low=strip_spans(hop.low) if chains else 1,
            high=strip_spans(hop.high) if chains else 1,
            walked=hop.walked,
            where=where,
            closes=target in seen,
            backward=not forward,
        )
        return paths if chains or hop.low == 1 else Filter(paths, (NEVER,))
    expand = Expand(
        input=root,
        source=source,
        target=target,
        target_type=setting.variables[target].type_name,
        edge=hop.edge,
        direction=hop.direction if forward else _REVERSED[hop.direction],
        low=strip_spans(hop.low) if chains else 1,
        high=strip_spans(hop.high) if chains else 1,
        edge_variable=hop.edge_variable,
        closes=target in seen,
        any_edge=hop.any_edge,
        walked=hop.walked,
        where=where,
    )
    # An edge between different types has no second hop, so a minimum above one is met by nothing.
    return expand if chains or hop.low == 1 else Filter(expand, (NEVER,))


# ---- filters and nested blocks


def _apply_bound_tests(
    root: Operator, tests: tuple[Test, ...]
) -> tuple[Operator, tuple[Test, ...]]:
    """Apply the tests whose variables are bound and whose blocks are attached; return the others."""
    if not tests:
        return root, ()
    bound, attached = list_bound_variables(root), list_attached(root)
    ready: list[Test] = []
    waiting: list[Test] = []
    for test in tests:
        is_ready = variables_of(test) <= bound and fields_of(test) <= attached
        (ready if is_ready else waiting).append(test)
    return (Filter(root, tuple(ready)) if ready else root), tuple(waiting)


def _join_blocks(
    root: Operator,
    blocks: tuple[Pattern, ...],
    join: type[Anti] | type[Semi],
    setting: LoweringContext,
    traits: _PatternFacts,
) -> tuple[Operator, tuple[Pattern, ...]]:
    """Apply the blocks whose variables are bound; return the others."""
    if not blocks:
        return root, ()
    bound, waiting = list_bound_variables(root), []
    for block in blocks:
        if block.outer <= bound:
            inner = _lower_block(block, _drop_counts(setting), traits)
            root = join(input=root, inner=inner, on=tuple(sorted(block.outer)))
        else:
            waiting.append(block)
    return root, tuple(waiting)


def _drop_counts(setting: LoweringContext) -> LoweringContext:
    return setting if setting.wanted is None else replace(setting, wanted=None)


def _with_optional(
    root: Operator, block: Pattern, setting: LoweringContext, traits: _PatternFacts
) -> Operator:
    binds = tuple(sorted(variable.name for variable in block.row_variables))
    inner = _lower_block(block, setting, traits)
    return OptionalJoin(input=root, inner=inner, on=tuple(sorted(block.outer)), binds=binds)


# ---- the order of hops
# The start of a pattern and its next hop: selective first, and the same choice every time.


def _estimate_selectivities(
    tests: Iterable[Test], types: Mapping[str, NodeType]
) -> Mapping[str, _Selectivity]:
    """Judge every node variable by the tests that mention nothing else."""
    own: dict[str, list[Test]] = {}
    for test in tests:
        mentioned = variables_of(test)
        if len(mentioned) == 1:
            own.setdefault(next(iter(mentioned)), []).append(test)
    return {name: _estimate_selectivity(own[name], types[name]) for name in own if name in types}


def _estimate_selectivity(tests: Sequence[Test], node: NodeType) -> _Selectivity:
    if any(map(_is_identity, tests)):
        return _Selectivity.KEY
    equal = {name for test in tests if (name := _equal_property(test)) is not None}
    if node.key is not None and equal.issuperset(node.key.columns):
        return _Selectivity.KEY
    if any(equal.issuperset(group.columns) for group in node.unique):
        return _Selectivity.UNIQUE
    return min(_strength(test) for test in tests)


def _is_identity(test: Test) -> bool:
    match test:
        case (
            Compare(left=PropertyRef(property="id"), op="=", right=other)
            | Compare(left=other, op="=", right=PropertyRef(property="id"))
        ):
            return is_fixed(other)
        case _:
            return False


def _equal_property(test: Test) -> str | None:
    match test:
        case Compare(left=PropertyRef(property=name), op="=", right=other) if is_fixed(other):
            return name
        case Compare(left=other, op="=", right=PropertyRef(property=name)) if is_fixed(other):
            return name
        case _:
            return None


def _strength(test: Test) -> _Selectivity:
    match test:
        case Compare(op="=", left=left, right=right) if _is_column_test(left, right):
            return _Selectivity.EQUAL
        case InList() | TextMatch():
            return _Selectivity.AMONG
        case Compare(op="<" | "<=" | ">" | ">=" | "starts_with", left=left, right=right) if (
            _is_column_test(left, right)
        ):
            return _Selectivity.RANGE
        case _:
            return _Selectivity.OTHER


def _is_column_test(left: Operand, right: Operand) -> bool:
    return is_fixed(left) != is_fixed(right)


def _find_components(variables: Sequence[str], hops: Iterable[Hop]) -> tuple[tuple[str, ...], ...]:
    """Split variables into groups connected by hops, in the order of their first members."""
    group = {name: {name} for name in variables}
    for hop in hops:
        left, right = group[hop.left], group[hop.right]
        if left is not right:
            left |= right
            group |= dict.fromkeys(right, left)
    distinct = {id(members): members for members in group.values()}
    return tuple(
        tuple(name for name in variables if name in members) for members in distinct.values()
    )


def _choose_first_variable(
    component: Sequence[str], hops: Sequence[Hop], traits: _PatternFacts
) -> str:
    """Choose where a connected pattern is scanned."""

    def rank(name: str) -> tuple[int, bool, int]:
        ends = sum((hop.left == name) + (hop.right == name) for hop in hops)
        return traits.of(name), traits.is_counted(name), -ends if traits.wanted is not None else 0

    return min(component, key=rank)


def _choose_next_hop(
    hops: Sequence[Hop], seen: frozenset[str], traits: _PatternFacts
) -> Hop | None:
    """Choose the next hop from the bound variables: tests first, then towards few nodes, counted ends last."""

    def rank(hop: Hop) -> tuple[bool, int, bool, bool]:
        target = hop.right if hop.left in seen else hop.left
        closes = target in seen
        return not closes, traits.of(target), traits.is_counted(target), hop.high != 1

    reachable = [hop for hop in hops if hop.left in seen or hop.right in seen]
    return min(reachable, key=rank, default=None)


def _find_links(tests: Iterable[Test]) -> frozenset[frozenset[str]]:
    """Name the pairs of variables that an equality connects."""
    equal = (variables_of(test) for test in tests if isinstance(test, Compare) and test.op == "=")
    return frozenset(pair for pair in equal if len(pair) == 2)
