"""The rewrites that make a plan fast: one per module, each right by itself, applied in this order."""

from collections.abc import Callable

from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.rules.coerce_literals import coerce_literals
from omnigraph.compile.rules.count_matches import count_matches
from omnigraph.compile.rules.fold_constants import fold_constants
from omnigraph.compile.rules.join_on_equality import join_on_equality
from omnigraph.compile.rules.keys_to_ids import keys_to_ids
from omnigraph.compile.rules.merge_alternatives import merge_alternatives
from omnigraph.compile.rules.negations_to_filters import negations_to_filters
from omnigraph.compile.rules.prune_bindings import prune_bindings
from omnigraph.compile.rules.push_filters import push_filters
from omnigraph.compile.rules.push_into_scans import push_into_scans
from omnigraph.compile.rules.push_limits import push_limits
from omnigraph.compile.rules.push_negations import push_negations

Rule = Callable[[Plan], Plan]

RULES: tuple[Rule, ...] = (
    push_negations,
    negations_to_filters,
    keys_to_ids,
    coerce_literals,
    fold_constants,
    merge_alternatives,
    push_filters,
    push_into_scans,
    join_on_equality,
    prune_bindings,
    count_matches,
    push_limits,
)
"""Tests take their final form first, then their place, then the rows they leave are made lighter."""


def optimize(plan: Plan) -> Plan:
    """Apply every rule once, in order."""
    for rule in RULES:
        plan = rule(plan)
    return plan
