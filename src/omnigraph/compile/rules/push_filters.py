"""Test each condition as soon as its variables are bound, before rows multiply."""

from dataclasses import replace

from omnigraph.compile.plan.algebra import Test
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
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import add_filter
from omnigraph.compile.plan.visit import change_inputs, list_bound_variables, variables_of

Tests = tuple[Test, ...]


def push_filters(plan: Plan) -> Plan:
    """Let every filter sink through the operators that do not bind what it tests."""
    return plan.with_root(lambda root: _push_down(root, ()))


def _push_down(operator: Operator, tests: Tests) -> Operator:
    """Rebuild an operator with tests on its rows, each as far down as it may go."""
    match operator:
        case Filter(input=below, conditions=conditions):
            return _push_down(below, (*conditions, *tests))
        case Scan() | Argument():
            return add_filter(operator, tests)
        case Expand(input=below):
            lower, here = _split(tests, below)
            return add_filter(replace(operator, input=_push_down(below, lower)), here)
        case Product(left=left, right=right):
            first, rest = _split(tests, left)
            second, here = _split(rest, right)
            sunk = replace(operator, left=_push_down(left, first), right=_push_down(right, second))
            return add_filter(sunk, here)
        case Anti(input=below, inner=inner):
            return replace(operator, input=_push_down(below, tests), inner=_push_down(inner, ()))
        case OptionalJoin(input=below, inner=inner):
            lower, here = _split(tests, below)
            joined = replace(operator, input=_push_down(below, lower), inner=_push_down(inner, ()))
            return add_filter(joined, here)
        case _:
            return add_filter(change_inputs(operator, lambda below: _push_down(below, ())), tests)


def _split(tests: Tests, operator: Operator) -> tuple[Tests, Tests]:
    """Divide tests into those about an operator's rows and the others."""
    here = list_bound_variables(operator)
    own = tuple(test for test in tests if variables_of(test) <= here)
    return own, tuple(test for test in tests if test not in own)
