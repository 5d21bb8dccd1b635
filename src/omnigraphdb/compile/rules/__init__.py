"""The rewrites that make a plan fast: one function each, right by itself, applied in this order."""

from collections.abc import Callable, Mapping
from datetime import datetime

from omnigraphdb.compile.checked import Const, Now, ParamRef
from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.compile.plan.plan import Plan, change_leaves
from omnigraphdb.compile.plan.visit import Change, Fixed
from omnigraphdb.compile.rules.predicates import (
    coerce_literals,
    coerce_test,
    fold_constants,
    fold_test,
    keys_to_ids,
    merge_alternatives,
    negations_to_filters,
    push_negations,
)
from omnigraphdb.compile.rules.pruning import count_matches, prune_bindings
from omnigraphdb.compile.rules.pushdown import (
    begin_blocks_at_tests,
    join_on_equality,
    push_filters,
    push_into_scans,
    push_limits,
)

Rule = Callable[[Plan], Plan]

RULES: tuple[Rule, ...] = (
    push_negations,
    negations_to_filters,
    keys_to_ids,
    coerce_literals,
    fold_constants,
    merge_alternatives,
    push_filters,
    begin_blocks_at_tests,
    push_into_scans,
    join_on_equality,
    prune_bindings,
    count_matches,
    push_limits,
)
"""First rules that normalise predicates, then rules that move them, then rules that drop columns and rows."""


def optimize(plan: Plan) -> Plan:
    """Apply every rule once, in order."""
    for rule in RULES:
        plan = rule(plan)
    return plan


def fill(plan: Plan, values: Mapping[str, object], now: datetime) -> Plan:
    """Replace parameters and `now()` by constants, then coerce and fold the tests that they take part in.

    `values` holds every declared parameter as a typed Python value, None for NULL. The plan itself is
    not changed; a plan without parameters or `now()` is given back as it is.
    """

    def fixed(leaf: Fixed) -> Fixed:
        if isinstance(leaf, ParamRef):
            return Const(value=values[leaf.name], type=leaf.type)
        return leaf

    def instant(leaf: Now) -> Const:
        return Const(value=now, type=leaf.type)

    def settle(test: Test) -> Test:
        return fold_test(coerce_test(test), plan.by_name)

    return change_leaves(plan, Change(fixed=fixed, now=instant), settle)
