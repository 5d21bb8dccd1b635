"""What a policy allows at a glance: every actor, every branch, every action."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product

from omnigraphdb.policy.actions import PolicyAction, PolicyKind
from omnigraphdb.policy.engine import PolicyEngine
from omnigraphdb.values import dataclass

OTHER = "(any other)"
"""A branch that no policy names: it is not protected."""


class Grant(StrEnum):
    """Whether an actor may do something."""

    YES = "yes"
    NO = "-"
    SOME = "some"
    """With some stored queries."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """What one actor may do on one branch; for forks and merges the branch is the target."""

    actor: str
    branch: str
    actions: Mapping[PolicyAction, Grant]


def list_grants(engine: PolicyEngine, branches: Sequence[str] = ()) -> Iterator[GrantRow]:
    """List what every actor may do on these branches, else on each protected one and on any other."""
    named = branches or [*sorted(engine.rules.protected_branches), OTHER]
    actions = [one for one in PolicyAction if one.resource_kind is PolicyKind.GRAPH]
    for actor, branch in product(engine.rules.actors, named):
        yield GrantRow(actor, branch, {one: _ask(engine, actor, one, branch) for one in actions})


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
