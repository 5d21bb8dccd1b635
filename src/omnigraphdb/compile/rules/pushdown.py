"""Rewrites that move tests, joins and limits down a plan, before rows multiply."""

from collections.abc import Callable

from omnigraphdb.catalog.mixed import is_mixed
from omnigraphdb.catalog.types import FLOATS
from omnigraphdb.compile.checked import Compare, Direction, EntityRef, PropertyRef, TextMatch
from omnigraphdb.compile.plan.algebra import Test
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
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
)
from omnigraphdb.compile.plan.plan import Plan, add_filter
from omnigraphdb.compile.plan.visit import (
    change_inputs,
    fields_of,
    has_text,
    list_attached,
    list_bound_variables,
    rewrite,
    variables_of,
)
from omnigraphdb.values import replace

Tests = tuple[Test, ...]


# ---- filters
# Test each condition as soon as its variables are bound, before rows multiply.


def push_filters(plan: Plan) -> Plan:
    """Let every filter sink through the operators that do not bind its variables."""
    return plan.with_root(lambda root: _push_down(root, ()))


def _push_down(operator: Operator, tests: Tests) -> Operator:
    """Rebuild an operator with tests on its rows, each as far down as it may go."""
    match operator:
        case Filter(input=below, conditions=conditions):
            return _push_down(below, (*conditions, *tests))
        case Scan() | Argument():
            return add_filter(operator, tests)
        case Expand(input=below) | FindPaths(input=below):
            lower, remaining = _split(tests, below)
            return add_filter(replace(operator, input=_push_down(below, lower)), remaining)
        case Product(left=left, right=right):
            first, rest = _split(tests, left)
            second, remaining = _split(rest, right)
            product = replace(
                operator, left=_push_down(left, first), right=_push_down(right, second)
            )
            return add_filter(product, remaining)
        case Anti(input=below, inner=inner) | Semi(input=below, inner=inner):
            return replace(operator, input=_push_down(below, tests), inner=_push_down(inner, ()))
        case Attach(input=below, inner=inner, name=name):
            remaining, lower = _divide(tests, lambda test: name in fields_of(test))
            attached = replace(
                operator, input=_push_down(below, lower), inner=_push_down(inner, ())
            )
            return add_filter(attached, remaining)
        case OptionalJoin(input=below, inner=inner):
            lower, remaining = _split(tests, below)
            joined = replace(operator, input=_push_down(below, lower), inner=_push_down(inner, ()))
            return add_filter(joined, remaining)
        case _:
            return add_filter(change_inputs(operator, lambda below: _push_down(below, ())), tests)


def _split(tests: Tests, operator: Operator) -> tuple[Tests, Tests]:
    """Divide tests into those about an operator's rows and the others."""
    bound, attached = list_bound_variables(operator), list_attached(operator)
    return _divide(tests, lambda test: variables_of(test) <= bound and fields_of(test) <= attached)


def _divide(tests: Tests, fits: Callable[[Test], bool]) -> tuple[Tests, Tests]:
    """Divide tests into fitting tests and others, each looked at once: they may be thousands."""
    fitting: list[Test] = []
    others: list[Test] = []
    for test in tests:
        (fitting if fits(test) else others).append(test)
    return tuple(fitting), tuple(others)


# ---- blocks
# Begin a counted block at the end that is tested, if it is counted for all nodes of a type anyway.


def begin_blocks_at_tests(plan: Plan) -> Plan:
    """Turn a hop from all nodes to tested ones around: fewer pairs are walked, and none is tested after the hop."""
    return plan.with_root(
        lambda root: rewrite(root, lambda operator: _begin_at_test(operator, plan))
    )


def _begin_at_test(operator: Operator, plan: Plan) -> Operator:
    match operator:
        case Attach(
            input=Scan(variable=outer, filter=(), search=()),
            inner=Filter(input=Expand(input=Argument(variables=names)) as hop, conditions=tests),
            tally=tally,
        ) if (
            names == operator.on == (outer,)
            and (tally is None or tally.function in _ORDERLESS)
            and _is_reversible(hop, tests, plan)
        ):
            scan = Scan(variable=hop.target, type_name=hop.target_type)
            reversed_hop = replace(
                hop,
                input=add_filter(scan, tests),
                source=hop.target,
                target=hop.source,
                target_type=plan.by_name[hop.source].type_name,
                direction=_REVERSED[hop.direction],
            )
            return replace(operator, inner=reversed_hop)
        case _:
            return operator


_ORDERLESS = frozenset({"count", "min", "max"})
"""Aggregates that do not depend on the order of their values."""
_REVERSED = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


def _is_reversible(hop: Expand, tests: Tests, plan: Plan) -> bool:
    """Whether a hop is one edge between two types, and its tests are about its far end alone."""
    is_single = (hop.low, hop.high) == (1, 1) and not (hop.closes or hop.any_edge or hop.where)
    types = (hop.target_type, plan.by_name[hop.source].type_name, hop.edge)
    is_about_target = [variables_of(test) == {hop.target} and not fields_of(test) for test in tests]
    return is_single and not any(map(is_mixed, types)) and all(is_about_target)


# ---- scans
# Hand the tests of a scanned variable to its scan, so that storage and its indexes answer them.


def push_into_scans(plan: Plan) -> Plan:
    """Split each filter on a scan into the tests of storage, the searches of the text index, and the rest."""
    return plan.with_root(lambda root: rewrite(root, _push_into_scan))


def _push_into_scan(operator: Operator) -> Operator:
    match operator:
        case Filter(input=Scan() as scan, conditions=tests):
            search = tuple(test for test in tests if isinstance(test, TextMatch))
            plain, texts = _divide(tests, lambda test: not has_text(test))
            mixed = tuple(test for test in texts if not isinstance(test, TextMatch))
            scan = replace(
                scan, filter=_add_tests(scan.filter, plain), search=(*scan.search, *search)
            )
            return add_filter(scan, mixed)
        case _:
            return operator


def _add_tests(tests: tuple[Test, ...], more: tuple[Test, ...]) -> tuple[Test, ...]:
    return tuple(dict.fromkeys((*tests, *more)))


# ---- joins
# Join the two sides of a product on an equality between them, so that it need not pair all rows.


def join_on_equality(plan: Plan) -> Plan:
    """Move equalities of equal types from a filter into the product below it, left side first."""
    return plan.with_root(lambda root: rewrite(root, _join_operator))


def _join_operator(operator: Operator) -> Operator:
    match operator:
        case Filter(input=Product() as product, conditions=tests):
            sides = list_bound_variables(product.left), list_bound_variables(product.right)
            equalities = {test: on for test in tests if (on := _equality(test, *sides)) is not None}
            rest = tuple(test for test in tests if test not in equalities)
            return add_filter(replace(product, on=(*product.on, *equalities.values())), rest)
        case _:
            return operator


def _equality(test: Test, left: frozenset[str], right: frozenset[str]) -> Compare | None:
    match test:
        case Compare(
            left=(PropertyRef() | EntityRef()) as one,
            op="=",
            right=(PropertyRef() | EntityRef()) as other,
        ) if one.type.scalar is other.type.scalar and one.type.scalar not in FLOATS:
            # Floats stay a filter: a hash would tell the two zeros apart.
            if one.variable in left and other.variable in right:
                return test
            if other.variable in left and one.variable in right:
                return Compare(left=other, op="=", right=one)
    return None


# ---- limits
# Tell an order how many of its rows are wanted, so that it can select instead of sorting them all.


def push_limits(plan: Plan) -> Plan:
    """Copy the window of a limited slice onto the order below it."""
    return plan.with_root(lambda root: rewrite(root, _push_limit))


def _push_limit(operator: Operator) -> Operator:
    match operator:
        case Slice(input=(Sort() | Rank()) as below, window=window, per=()) if (
            window.limit is not None
        ):
            return replace(operator, input=replace(below, window=window))
        case _:
            return operator
