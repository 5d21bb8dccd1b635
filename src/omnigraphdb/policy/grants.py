"""The grants of a policy at a glance: every actor, every branch, every action."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product

from omnigraphdb.policy.actions import PolicyAction, PolicyKind
from omnigraphdb.policy.engine import PolicyEngine
from omnigraphdb.values import dataclass

OTHER = "(any other)"
"""A branch that no policy names: it is not protected."""


class Grant(StrEnum):
    """The right of an actor to an action."""

    YES = "yes"
    NO = "-"
    SOME = "some"
    """With some stored queries."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """The rights of one actor on one branch; for forks and merges the branch is the target."""

    actor: str
    branch: str
    actions: Mapping[PolicyAction, Grant]


def list_grants(engine: PolicyEngine, branches: Sequence[str] = ()) -> Iterator[GrantRow]:
    """List the rights of every actor on these branches, else on each protected branch and on any other."""
    branch_names = branches or [*sorted(engine.rules.protected_branches), OTHER]
    actions = [action for action in PolicyAction if action.resource_kind is PolicyKind.GRAPH]
    for actor, branch in product(engine.rules.actors, branch_names):
        yield GrantRow(
            actor, branch, {action: _ask(engine, actor, action, branch) for action in actions}
        )


def _ask(engine: PolicyEngine, actor: str, action: PolicyAction, branch: str) -> Grant:
    if action.uses_target_branch_scope:
        is_allowed = engine.authorize(actor, action, target_branch=branch).allowed
        return Grant.YES if is_allowed else Grant.NO
    if engine.authorize(actor, action, branch=branch).allowed:
        return Grant.YES
    queries = {name for rule in engine.rules.rules for name in rule.queries}
    some = action.uses_queries and any(
        engine.authorize(actor, action, query=name).allowed for name in queries
    )
    return Grant.SOME if some else Grant.NO
