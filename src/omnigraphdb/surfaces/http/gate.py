"""The gate: whether an actor may do something; the one place that asks policies for requests, and logs what they say."""

from collections.abc import Callable
from enum import StrEnum

from omnigraphdb.api.guard import Guard
from omnigraphdb.errors import NotFoundError, OmniError, PolicyDenied
from omnigraphdb.logs import get_logger
from omnigraphdb.policy import Decision, PolicyAction, PolicyEngine, ResourceScope
from omnigraphdb.values import dataclass

_log = get_logger("omnigraphdb.policy")
Refusal = Callable[[], OmniError]
"""Makes the refusal of something unknown."""


class RuntimeState(StrEnum):
    """Who is let in: everyone; actors with a token, who may only read; or whom policies allow."""

    OPEN = "Open"
    DEFAULT_DENY = "DefaultDeny"
    POLICY_ENABLED = "PolicyEnabled"


@dataclass(frozen=True, slots=True)
class Ask:
    """One question about a request: what is done, and to which branches or query."""

    action: PolicyAction
    scope: ResourceScope
    hidden: Refusal | None = None
    """The refusal of something unknown, where a denial must not tell that it is there."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides for requests; the engine asks the same policies again before it writes."""

    has_tokens: bool
    read_only: bool = False
    server_policy: PolicyEngine | None = None

    def state_of(self, guard: Guard) -> RuntimeState:
        """Who is let in to a graph."""
        if guard.is_set:
            return RuntimeState.POLICY_ENABLED
        return RuntimeState.DEFAULT_DENY if self.has_tokens else RuntimeState.OPEN

    def may_somewhere(
        self, action: PolicyAction, actor: str | None, guard: Guard | None, *, writes: bool
    ) -> bool:
        """Whether the actor may do this on some branch, or with some stored query."""
        if self.read_only and writes:
            return False
        if guard is None:
            policy = self.server_policy
            return policy is not None and policy.may_somewhere(actor, action)
        match self.state_of(guard):
            case RuntimeState.OPEN:
                return True
            case RuntimeState.DEFAULT_DENY:
                return action is PolicyAction.READ
            case RuntimeState.POLICY_ENABLED:
                return guard.may_somewhere(actor, action)

    def allows(self, ask: Ask, actor: str | None, guard: Guard) -> bool:
        """Whether the actor may do this; for what is only shown, so that nothing is logged."""
        decision = self._decide(ask, actor, guard)
        return decision is None or decision.allowed

    def require_possible(
        self, action: PolicyAction, actor: str | None, guard: Guard | None, *, writes: bool
    ) -> None:
        """Refuse what no branch could make allowed, before the body of the request is read."""
        if not self.may_somewhere(action, actor, guard, writes=writes):
            hidden = unknown_query if action is PolicyAction.INVOKE_QUERY else None
            self._refuse(Ask(action, ResourceScope.graph(), hidden), actor, guard, writes=writes)

    def require(self, ask: Ask, actor: str | None, guard: Guard | None, graph: str | None) -> None:
        """Refuse what may not be done; log the decision."""
        decision = self._decide(ask, actor, guard)
        if decision is None:
            return
        _log_decision(ask, actor, decision, graph)
        if not decision.allowed:
            raise _make_refusal(ask, decision.message)

    def _decide(self, ask: Ask, actor: str | None, guard: Guard | None) -> Decision | None:
        """Decide; None where everyone may."""
        if guard is None:
            if self.server_policy is None:
                return _deny("no policy of the server allows to list its graphs")
            return self.server_policy.decide(actor, ask.action, ask.scope)
        decision = guard.decide(actor, ask.action, ask.scope)
        return decision if decision is not None else self._decide_unguarded(ask)

    def note_unguarded(self, ask: Ask, actor: str | None, graph: str | None) -> None:
        """Log what is allowed in a graph without a policy, as `require` does."""
        decision = self._decide_unguarded(ask)
        if decision is not None:
            _log_decision(ask, actor, decision, graph)

    def _decide_unguarded(self, ask: Ask) -> Decision | None:
        """Decide where the graph has no policy; None where everyone may."""
        if not self.has_tokens:
            return None
        if ask.action is PolicyAction.READ:
            return Decision(allowed=True, message="allowed: actors with tokens may read")
        return _deny(
            f"the server has tokens and no policy, so that actors may only read; this is '{ask.action}'"
        )

    def _refuse(self, ask: Ask, actor: str | None, guard: Guard | None, *, writes: bool) -> None:
        if self.read_only and writes:
            decision = _deny(f"the server is read-only; this is '{ask.action}'")
        else:
            decision = self._decide(ask, actor, guard) or _deny(f"nobody may {ask.action}")
        _log_decision(ask, actor, decision, None)
        raise _make_refusal(ask, decision.message)


def _deny(why: str) -> Decision:
    return Decision(allowed=False, message=f"denied: {why}")


def _make_refusal(ask: Ask, message: str) -> OmniError:
    if ask.hidden is not None:
        return ask.hidden()
    scope = ask.scope
    return PolicyDenied(
        message, action=ask.action, branch=scope.branch_name, target_branch=scope.target_name
    )


def _log_decision(ask: Ask, actor: str | None, decision: Decision, graph: str | None) -> None:
    _log.info(
        "policy.decision",
        actor=actor,
        action=str(ask.action),
        branch=ask.scope.branch_name,
        target_branch=ask.scope.target_name,
        query=ask.scope.query_name,
        decision="allow" if decision.allowed else "deny",
        rule=decision.matched_rule_id,
        graph=graph,
    )


def unknown_query() -> NotFoundError:
    """The refusal of a stored query that is not there, or that the actor may not see."""
    return NotFoundError("stored query not found")
