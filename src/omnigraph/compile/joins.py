"""Where a pattern starts and which hop comes next: selective first, and the same choice every time."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from omnigraph.catalog.model import NodeType
from omnigraph.compile.checked import Among, Compare, Hop, Operand, PropertyRef, TextMatch
from omnigraph.compile.plan.algebra import Test, is_fixed
from omnigraph.compile.plan.visit import variables_of
from omnigraph.values import dataclass


class Selectivity(IntEnum):
    """How few nodes a variable's own tests leave, judged by their form alone; smaller is fewer."""

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
        return self <= Selectivity.UNIQUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What decides the order of a pattern's hops.

    `wanted` are the variables a grouped result reads: starting at one of them leaves the others at the
    ends of the pattern, where they are only counted. It is None when every row is shown.
    """

    selectivity: Mapping[str, Selectivity]
    wanted: frozenset[str] | None = None

    def of(self, variable: str) -> Selectivity:
        """The selectivity of a variable's own tests."""
        return self.selectivity.get(variable, Selectivity.NONE)

    def is_counted(self, variable: str) -> bool:
        """Whether only the number of its nodes matters."""
        return self.wanted is not None and variable not in self.wanted


def estimate_selectivities(
    tests: Iterable[Test], types: Mapping[str, NodeType]
) -> Mapping[str, Selectivity]:
    """Judge every node variable by the tests that mention nothing else."""
    own: dict[str, list[Test]] = {}
    for test in tests:
        mentioned = variables_of(test)
        if len(mentioned) == 1:
            own.setdefault(next(iter(mentioned)), []).append(test)
    return {name: _estimate_selectivity(own[name], types[name]) for name in own if name in types}


def _estimate_selectivity(tests: Sequence[Test], node: NodeType) -> Selectivity:
    equal = {name for test in tests if (name := _equal_property(test)) is not None}
    if node.key is not None and equal.issuperset(node.key.columns):
        return Selectivity.KEY
    if any(equal.issuperset(group.columns) for group in node.unique):
        return Selectivity.UNIQUE
    return min(_strength(test) for test in tests)


def _equal_property(test: Test) -> str | None:
    match test:
        case Compare(left=PropertyRef(property=name), op="=", right=other) if is_fixed(other):
            return name
        case Compare(left=other, op="=", right=PropertyRef(property=name)) if is_fixed(other):
            return name
        case _:
            return None


def _strength(test: Test) -> Selectivity:
    match test:
        case Compare(op="=", left=left, right=right) if _is_column_test(left, right):
            return Selectivity.EQUAL
        case Among() | TextMatch():
            return Selectivity.AMONG
        case Compare(op="<" | "<=" | ">" | ">=" | "starts_with", left=left, right=right) if (
            _is_column_test(left, right)
        ):
            return Selectivity.RANGE
        case _:
            return Selectivity.OTHER


def _is_column_test(left: Operand, right: Operand) -> bool:
    return is_fixed(left) != is_fixed(right)


def find_components(variables: Sequence[str], hops: Iterable[Hop]) -> tuple[tuple[str, ...], ...]:
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


def choose_first_variable(component: Sequence[str], hops: Sequence[Hop], traits: Traits) -> str:
    """Choose where a connected pattern is scanned."""

    def place(name: str) -> tuple[int, bool, int]:
        ends = sum((hop.left == name) + (hop.right == name) for hop in hops)
        return traits.of(name), traits.is_counted(name), -ends if traits.wanted is not None else 0

    return min(component, key=place)


def choose_next_hop(hops: Sequence[Hop], seen: frozenset[str], traits: Traits) -> Hop | None:
    """Choose the next hop from what is bound: tests first, then towards few nodes, counted ends last."""

    def place(hop: Hop) -> tuple[bool, int, bool, bool]:
        target = hop.right if hop.left in seen else hop.left
        closes = target in seen
        return not closes, traits.of(target), traits.is_counted(target), hop.high > 1

    reachable = [hop for hop in hops if hop.left in seen or hop.right in seen]
    return min(reachable, key=place, default=None)


def find_links(tests: Iterable[Test]) -> frozenset[frozenset[str]]:
    """Name the pairs of variables that an equality connects."""
    equal = (variables_of(one) for one in tests if isinstance(one, Compare) and one.op == "=")
    return frozenset(pair for pair in equal if len(pair) == 2)
