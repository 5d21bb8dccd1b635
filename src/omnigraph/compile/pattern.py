"""Lower a pattern: scans, then hops, then filters, then nested blocks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.checked import Direction, EntityRef, Hop, Pattern, Variable, VariableKind
from omnigraph.compile.joins import (
    Traits,
    choose_first_variable,
    choose_next_hop,
    estimate_selectivities,
    find_components,
    find_links,
)
from omnigraph.compile.plan.algebra import NEVER, Test, is_present, split_conjunction
from omnigraph.compile.plan.operators import (
    Anti,
    Argument,
    Expand,
    Filter,
    Operator,
    OptionalJoin,
    Product,
    Scan,
)
from omnigraph.compile.plan.visit import Change, change_part, list_bound_variables, variables_of
from omnigraph.language.source import NOWHERE
from omnigraph.values import dataclass

UNIT = Argument(())
"""One row that binds nothing."""

BARE = Change(
    reference=lambda leaf: replace(leaf, span=NOWHERE),
    field=lambda leaf: replace(leaf, span=NOWHERE),
    fixed=lambda leaf: replace(leaf, span=NOWHERE),
    now=lambda leaf: replace(leaf, span=NOWHERE),
)
"""Forgets places in the text, so that one plan serves every spelling of a query."""

_ID = PropertyType(scalar=Scalar.STRING, nullable=True)

_REVERSED = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What lowering needs to know besides the pattern; `wanted` as in `Traits`."""

    catalog: Catalog
    variables: Mapping[str, Variable]
    wanted: frozenset[str] | None = None

    def node_type(self, variable: str) -> NodeType:
        """The type of a node variable."""
        return self.catalog.nodes[self.variables[variable].type_name]

    def is_node(self, variable: str) -> bool:
        """Whether a variable stands for a node."""
        return self.variables[variable].kind is VariableKind.NODE


def lower_pattern(pattern: Pattern, setting: Setting) -> Operator:
    """Lower the outermost pattern of a query."""
    return _lower_block(pattern, setting, within=None)


def _lower_block(pattern: Pattern, setting: Setting, within: "Traits | None") -> Operator:
    tests = (*_tests(pattern), *_presence(pattern, setting))
    names = (*(variable.name for variable in pattern.variables), *sorted(pattern.outer))
    nodes = {name: setting.node_type(name) for name in names if setting.is_node(name)}
    traits = Traits(selectivity=estimate_selectivities(tests, nodes), wanted=setting.wanted)
    root = _join_components(pattern, setting, traits, within, find_links(tests))
    root, tests = _apply_bound_tests(root, tests)
    root, negations = _without(root, pattern.negations, setting, traits)
    for block in pattern.optionals:
        root = _with_optional(root, block, setting, traits)
    # What tests a variable of an optional block has waited for it.
    root, tests = _apply_bound_tests(root, tests)
    root, negations = _without(root, negations, setting, traits)
    assert not tests, "the checker binds every variable a filter uses"
    assert not negations, "the checker binds every variable a negation uses"
    return root


def _tests(pattern: Pattern) -> tuple[Test, ...]:
    matches = (match for bind in pattern.binds for match in bind.matches)
    found = (change_part(condition, BARE) for condition in (*matches, *pattern.conditions))
    return tuple(part for condition in found for part in split_conjunction(condition))


def _presence(pattern: Pattern, setting: Setting) -> Iterator[Test]:
    """Say that an outer variable which is bound here again has an entity: NULL is of no type."""
    for bind in pattern.binds:
        if bind.variable in pattern.outer and setting.variables[bind.variable].nullable:
            yield is_present(EntityRef(variable=bind.variable, type=_ID))


# ---- scans and hops


def _join_components(
    pattern: Pattern,
    setting: Setting,
    traits: Traits,
    within: Traits | None,
    pairs: frozenset[frozenset[str]],
) -> Operator:
    """Bind every variable of the block, walking from the rows around it where that is better."""
    alone = _stands_alone(pattern, traits, within)
    outer = () if alone else tuple(sorted(pattern.outer))
    own = [one.name for one in pattern.variables if one.kind is VariableKind.NODE]
    parts: list[Operator] = []
    hops = pattern.hops
    if outer:
        root, hops = _walk(Argument(outer), frozenset(outer), hops, setting, traits)
        parts.append(root)
    seen = frozenset[str]().union(*map(list_bound_variables, parts))
    free = [name for name in (*own, *sorted(pattern.outer)) if name not in seen]
    for component in find_components(free, hops):
        scan = _scan(choose_first_variable(component, hops, traits), setting)
        tree, hops = _walk(scan, list_bound_variables(scan), hops, setting, traits)
        parts.append(tree)
    assert not hops, "every hop is connected to a scan or to an outer variable"
    return _product(parts, pairs)


def _product(parts: list[Operator], pairs: frozenset[frozenset[str]]) -> Operator:
    """Pair unconnected parts: first those that an equality will join, then everything with everything."""
    whole: Operator | None = None
    while parts:
        group, *parts = parts
        while (near := next((p for p in parts if _are_linked(group, p, pairs)), None)) is not None:
            parts = [part for part in parts if part is not near]
            group = Product(left=group, right=near)
        whole = group if whole is None else Product(left=whole, right=group)
    return whole or UNIT


def _are_linked(left: Operator, right: Operator, pairs: frozenset[frozenset[str]]) -> bool:
    """Whether an equality connects two parts."""
    mine, theirs = list_bound_variables(left), list_bound_variables(right)
    return any(pair & mine and pair & theirs for pair in pairs)


def _stands_alone(pattern: Pattern, traits: Traits, within: Traits | None) -> bool:
    """Whether a nested block is better answered from its own single node, then matched with the rows.

    It must bind every outer variable by hops from that node; and rows that start at a single node
    themselves are few, so that walking from them costs less.
    """
    if within is None or any(one.is_point for one in within.selectivity.values()):
        return False
    ends = tuple(dict.fromkeys(end for hop in pattern.hops for end in (hop.left, hop.right)))
    if not pattern.outer or not pattern.outer.issubset(ends):
        return False
    groups = find_components(ends, pattern.hops)
    return len(groups) == 1 and any(traits.of(name).is_point for name in groups[0])


def _scan(variable: str, setting: Setting) -> Scan:
    return Scan(variable=variable, type_name=setting.variables[variable].type_name)


def _walk(
    root: Operator, seen: frozenset[str], hops: tuple[Hop, ...], setting: Setting, traits: Traits
) -> tuple[Operator, tuple[Hop, ...]]:
    """Follow every hop that is connected to what is bound; give those that are not."""
    while (hop := choose_next_hop(hops, seen, traits)) is not None:
        hops = tuple(one for one in hops if one is not hop)
        root = _lower_hop(root, hop, seen, setting)
        seen |= {hop.left, hop.right}
    return root, hops


def _lower_hop(root: Operator, hop: Hop, seen: frozenset[str], setting: Setting) -> Operator:
    forward = hop.left in seen
    source, target = (hop.left, hop.right) if forward else (hop.right, hop.left)
    edge = setting.catalog.edges[hop.edge]
    chains = edge.source == edge.target
    expand = Expand(
        input=root,
        source=source,
        target=target,
        target_type=setting.variables[target].type_name,
        edge=hop.edge,
        direction=hop.direction if forward else _REVERSED[hop.direction],
        low=hop.low if chains else 1,
        high=hop.high if chains else 1,
        edge_variable=hop.edge_variable,
        closes=target in seen,
    )
    # An edge between different types has no second hop, so a minimum above one is met by nothing.
    return expand if chains or hop.low == 1 else Filter(expand, (NEVER,))


# ---- filters and nested blocks


def _apply_bound_tests(root: Operator, tests: Iterable[Test]) -> tuple[Operator, tuple[Test, ...]]:
    """Apply the tests whose variables are bound; give the others."""
    here = list_bound_variables(root)
    ready: list[Test] = []
    waiting: list[Test] = []
    for test in tests:
        (ready if variables_of(test) <= here else waiting).append(test)
    return (Filter(root, tuple(ready)) if ready else root), tuple(waiting)


def _without(
    root: Operator, blocks: Iterable[Pattern], setting: Setting, traits: Traits
) -> tuple[Operator, tuple[Pattern, ...]]:
    """Apply the negations whose variables are bound; give the others."""
    here, waiting = list_bound_variables(root), []
    for block in blocks:
        if block.outer <= here:
            inner = _lower_block(block, _drop_counts(setting), traits)
            root = Anti(input=root, inner=inner, on=tuple(sorted(block.outer)))
        else:
            waiting.append(block)
    return root, tuple(waiting)


def _drop_counts(setting: Setting) -> Setting:
    return setting if setting.wanted is None else replace(setting, wanted=None)


def _with_optional(root: Operator, block: Pattern, setting: Setting, traits: Traits) -> Operator:
    binds = tuple(sorted(variable.name for variable in block.row_variables))
    inner = _lower_block(block, setting, traits)
    return OptionalJoin(input=root, inner=inner, on=tuple(sorted(block.outer)), binds=binds)
