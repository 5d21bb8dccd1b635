"""Changing plans: all tests, or all expressions, with whatever stays the same shared."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from omnigraph.compile.plan.algebra import Test, all_of, split_conjunction
from omnigraph.compile.plan.operators import Filter, Operator, Scan
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.visit import Change, change_part, rewrite


def add_filter(operator: Operator, tests: Iterable[Test]) -> Operator:
    """Put a filter on an operator, unless there is nothing to test."""
    wanted = split_conjunction(all_of(tests))
    return Filter(operator, wanted) if wanted else operator


def change_tests(plan: Plan, change: Callable[[Test], Test]) -> Plan:
    """Change every test of the filters and scans; filters left without one disappear."""

    def visit(operator: Operator) -> Operator:
        match operator:
            case Filter(input=below, conditions=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else add_filter(below, changed)
            case Scan(filter=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else replace(operator, filter=changed)
            case _:
                return operator

    return plan.with_root(lambda root: rewrite(root, visit))


def _conjoin(tests: tuple[Test, ...], change: Callable[[Test], Test]) -> tuple[Test, ...]:
    return split_conjunction(all_of(map(change, tests))) if tests else tests


def _itself(test: Test) -> Test:
    return test


def change_leaves(plan: Plan, change: Change, simplify: Callable[[Test], Test] = _itself) -> Plan:
    """Change every leaf of every expression of the plan, and simplify the tests that this changes."""

    def visit(operator: Operator) -> Operator:
        changed = change_part(operator, change)
        match operator, changed:
            case Filter(input=below, conditions=tests), Filter(conditions=new) if new is not tests:
                return add_filter(below, _simplify(tests, new, simplify))
            case Scan(filter=tests), Scan(filter=new) if new is not tests:
                return replace(changed, filter=_simplify(tests, new, simplify))
            case _:
                return changed

    return plan.with_root(lambda root: rewrite(root, visit))


def _simplify(
    old: tuple[Test, ...], new: tuple[Test, ...], simplify: Callable[[Test], Test]
) -> tuple[Test, ...]:
    """Conjoin tests; those that changed are simplified first."""
    pairs = zip(new, old, strict=True)
    return split_conjunction(
        all_of(one if one is before else simplify(one) for one, before in pairs)
    )
