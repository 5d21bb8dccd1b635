"""The guard of a handle: the policy that it was opened with and the policy that the graph keeps; both must allow.

Packages of policies are loaded when there is a policy, so that graphs without one pay nothing.
"""

from typing import TYPE_CHECKING

from omnigraphdb.engine.policing import find_newest
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import InternalError, PolicyConfigError, PolicyDenied
from omnigraphdb.ids import MAIN
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraphdb.api.rights import Right
    from omnigraphdb.manifest.records import PolicyVersion
    from omnigraphdb.policy import (
        Decision,
        PolicyAction,
        PolicyChecker,
        PolicyEngine,
        ResourceScope,
    )


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may do what was asked, and which version of the graph's policy said so: 0 without one, None if nobody was asked."""

    actor: str | None
    policy: int | None = None


class Guard:
    """Decides what actors may do with one graph; every writer asks it first."""

    def __init__(self, engine: Engine, given: "PolicyChecker | None") -> None:
        self._engine = engine
        self.given = given
        """The policy that the handle was opened with."""
        self._compiled: tuple[PolicyVersion, PolicyEngine] | None = None

    def on(self, engine: Engine) -> "Guard":
        """The same policies over a graph that was opened again."""
        return Guard(engine, self.given)

    def with_policy(self, given: "PolicyChecker | None") -> "Guard":
        """The guard of the same graph with another policy beside the graph's own."""
        made = Guard(self._engine, given)
        made._compiled = self._compiled
        return made

    @property
    def is_set(self) -> bool:
        """Whether there is a policy, as far as this process has seen; without one everything is allowed."""
        return self.given is not None or self._find_kept("read", fresh=False) is not None

    def require(self, rights: "Sequence[Right]", actor: str | None) -> Permission:
        """Give the permission when the actor has every right; raise `PolicyDenied` when not, `PolicyEvaluationError` when nobody knows.

        One version of the graph's policy decides about all of them.
        """
        # What is no change is not compared again when it becomes visible.
        action = next((one.action for one in rights if one.action != "change"), "change")
        newest = self._find_newest(action)
        kept = _without_removed(newest)
        permission = Permission(actor, 0 if newest is None else newest.number)
        if self.given is None and kept is None:
            return permission
        from omnigraphdb.policy import PolicyAction, ResourceScope

        for right in rights:
            scope = ResourceScope(branch_name=right.branch, target_name=right.target)
            for policy in self._list_policies(kept, right.action):
                policy.check(PolicyAction(right.action), scope, actor)
        return permission

    def decide(
        self, actor: str | None, action: "PolicyAction", scope: "ResourceScope"
    ) -> "Decision | None":
        """Decide without doing anything: the first denial, else what the first policy says; None without a policy."""
        found = None
        for policy in self._list_policies(self._find_kept(action), action):
            decision = _decide(policy, actor, action, scope)
            if not decision.allowed:
                return decision
            found = found or decision
        return found

    def may_somewhere(self, actor: str | None, action: "PolicyAction") -> bool:
        """Whether some branch or stored query exists, or could, for which the actor may do this."""
        policies = self._list_policies(self._find_kept(action, fresh=False), action)
        return all(_may_somewhere(one, actor, action) for one in policies)

    def makes_branch(self, target: str, base: str | None) -> bool:
        """Whether a load into a branch would make it first, for which there is a right of its own."""
        if base is None or target == MAIN:
            return False
        asked = self.given is not None or self._find_kept("branch_create") is not None
        return asked and target not in self._engine.manifest.rows.branches()

    def _list_policies(
        self, kept: "PolicyVersion | None", action: str
    ) -> "Iterator[PolicyChecker]":
        if self.given is not None:
            yield self.given
        if kept is not None:
            yield self._compile(kept, action)

    def _find_kept(self, action: str, *, fresh: bool = True) -> "PolicyVersion | None":
        return _without_removed(self._find_newest(action, fresh=fresh))

    def _find_newest(self, action: str, *, fresh: bool = True) -> "PolicyVersion | None":
        # What changes rows is compared again when it becomes visible; nothing else is looked at so often.
        try:
            return find_newest(
                self._engine.require_open(), fresh=fresh, is_checked_later=action == "change"
            )
        except InternalError as error:
            raise _deny(action, error) from error

    def _compile(self, kept: "PolicyVersion", action: str) -> "PolicyEngine":
        """The engine of a version; it is made once, and one that cannot be made allows nothing."""
        known = self._compiled
        if known is not None and known[0] == kept:
            return known[1]
        from omnigraphdb.policy import PolicyEngine

        try:
            engine = PolicyEngine.load_graph(kept.text or "")
        except PolicyConfigError as error:
            raise _deny(action, error) from error
        self._compiled = (kept, engine)
        return engine


def _without_removed(newest: "PolicyVersion | None") -> "PolicyVersion | None":
    return None if newest is None or newest.text is None else newest


def _decide(
    policy: "PolicyChecker", actor: str | None, action: "PolicyAction", scope: "ResourceScope"
) -> "Decision":
    from omnigraphdb.policy import Decision, PolicyEngine

    if isinstance(policy, PolicyEngine):
        return policy.decide(actor, action, scope)
    try:
        policy.check(action, scope, actor)
    except PolicyDenied as error:
        return Decision(allowed=False, message=str(error))
    return Decision(allowed=True, message=f"allowed: actor '{actor}' may {action}")


def _may_somewhere(policy: "PolicyChecker", actor: str | None, action: "PolicyAction") -> bool:
    from omnigraphdb.policy import PolicyEngine

    # What is no file of rules cannot say where it would allow something; it is asked again for each request.
    return not isinstance(policy, PolicyEngine) or policy.may_somewhere(actor, action)


def _deny(action: str, error: Exception) -> PolicyDenied:
    return PolicyDenied(
        f"denied: the policy that the graph keeps cannot be read, so that it allows nothing ({error})",
        action=action,
        hint="restore the graph's manifest from a copy, or open it with a release that reads the policy",
    )
