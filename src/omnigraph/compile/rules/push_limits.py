"""Tell an order how many of its rows are wanted, so that it can select instead of sorting them all."""

from dataclasses import replace

from omnigraph.compile.plan.operators import Operator, Rank, Slice, Sort
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.visit import rewrite


def push_limits(plan: Plan) -> Plan:
    """Copy the window of a limited slice onto the order below it."""
    return plan.with_root(lambda root: rewrite(root, _push_operator))


def _push_operator(operator: Operator) -> Operator:
    match operator:
        case Slice(input=(Sort() | Rank()) as below, window=window) if window.limit is not None:
            return replace(operator, input=replace(below, window=window))
        case _:
            return operator
