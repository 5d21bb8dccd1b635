"""Mark hops whose equal rows need only be counted, or only be found: degrees then replace the rows."""

from dataclasses import replace

from omnigraph.compile.plan.operators import Anti, Expand, Group, Multiplicity, Operator
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.visit import change_inputs

_WEIGHABLE = frozenset({"count", "min", "max"})
"""Sums are left out: adding a product instead of its terms rounds differently."""


def count_matches(plan: Plan) -> Plan:
    """Mark hops below a count as counted and hops inside a negation as any, where variables end."""
    return plan.with_root(lambda root: _mark_counted(root, Multiplicity.EACH))


def _mark_counted(operator: Operator, wanted: Multiplicity) -> Operator:
    match operator:
        case Group(tallies=tallies) if all(one.function in _WEIGHABLE for one in tallies):
            return change_inputs(operator, lambda below: _mark_counted(below, Multiplicity.COUNTED))
        case Anti(input=below, inner=inner):
            marked = _mark_counted(inner, Multiplicity.ANY)
            return replace(operator, input=_mark_counted(below, wanted), inner=marked)
        case Expand(input=below, keep=keep):
            below = _mark_counted(below, wanted)
            mark = Multiplicity.EACH if keep is None else wanted
            return replace(operator, input=below, multiplicity=mark)
        case _:
            return change_inputs(operator, lambda below: _mark_counted(below, wanted))
