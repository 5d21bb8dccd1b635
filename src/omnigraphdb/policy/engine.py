"""One loaded policy: decides, explains and guards; safe to use from many threads."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from omnigraphdb.errors import PolicyDenied, shorten
from omnigraphdb.policy.actions import BranchScope, PolicyAction, PolicyKind, ResourceScope
from omnigraphdb.policy.cedar import CompiledRules
from omnigraphdb.policy.rules import PolicyRules, Rule, read_rules
from omnigraphdb.values import dataclass

DEFAULT_GRAPH = "default"
SERVER = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a request: whether it is allowed, by which rule, and a sentence for people."""

    allowed: bool
    message: str
    matched_rule_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "decision": "allow" if self.allowed else "deny",
            "matched_rule": self.matched_rule_id,
            "message": self.message,
        }


class PolicyChecker(Protocol):
    """A guard of a graph; a `PolicyEngine` is one, and so is any object with this method."""

    def check(self, action: PolicyAction, scope: ResourceScope, actor: str | None) -> None:
        """Return when the actor may, raise `PolicyDenied` when not, `PolicyEvaluationError` when nobody knows."""


class PolicyEngine:
    """The rules of one file, compiled."""

    def __init__(self, rules: PolicyRules, resource_id: str) -> None:
        self.rules = rules
        self._actors = frozenset(rules.actors)
        self._compiled = CompiledRules(rules, resource_id)

    @classmethod
    def load_graph(cls, source: str | Path, graph_id: str = DEFAULT_GRAPH) -> Self:
        """Read the policy of a graph: a path is a file, a text the policy itself."""
        return cls(read_rules(source, PolicyKind.GRAPH), graph_id)

    @classmethod
    def load_server(cls, source: str | Path) -> Self:
        """Read the policy of a server."""
        return cls(read_rules(source, PolicyKind.SERVER), SERVER)

    def authorize(
        self,
        actor: str | None,
        action: PolicyAction | str,
        branch: str | None = None,
        target_branch: str | None = None,
        query: str | None = None,
    ) -> Decision:
        """Decide one request; reads nothing and changes nothing."""
        scope = ResourceScope(branch_name=branch, target_name=target_branch, query_name=query)
        return self.decide(actor, PolicyAction(action), scope)

    def decide(self, actor: str | None, action: PolicyAction, scope: ResourceScope) -> Decision:
        """Decide one request."""
        if actor is None or not actor.strip():
            return _deny(f"no actor was given, and {_word_request(action, scope)} needs one")
        if actor not in self._actors:
            return _deny(f"actor '{shorten(actor)}' is not in any group of this policy")
        matches = self._compiled.find_matches(actor, action, self._context(scope))
        actor_text, request = f"actor '{shorten(actor)}'", _word_request(action, scope)
        if not matches:
            return _deny(f"{actor_text} may not {request}")
        rule = self.rules.rules[matches[0]]
        return Decision(
            allowed=True, message=f"allowed: {actor_text} may {request}", matched_rule_id=rule.id
        )

    def check(self, action: PolicyAction, scope: ResourceScope, actor: str | None) -> None:
        """Return when the actor may; raise `PolicyDenied` when not."""
        decision = self.decide(actor, action, scope)
        if not decision.allowed:
            raise PolicyDenied(
                decision.message,
                action=action.value,
                branch=scope.branch_name,
                target_branch=scope.target_name,
                hint=_hint(actor, action, scope),
            )

    def may_somewhere(self, actor: str | None, action: PolicyAction) -> bool:
        """Whether a rule lets the actor do this on some branch, or with some stored query."""
        return any(
            action in rule.actions and actor in self.rules.groups[rule.group]
            for rule in self.rules.rules
        )

    def explain_denial(
        self, actor: str | None, action: PolicyAction, scope: ResourceScope
    ) -> Iterator[str]:
        """Say of every rule that names the action why it does not allow the request."""
        rules = [rule for rule in self.rules.rules if action in rule.actions]
        if not rules:
            yield f"no rule allows {action}"
        for rule in rules:
            reasons = list(self._list_mismatches(rule, actor, scope))
            if reasons:
                yield f"rule '{rule.id}' allows {action}, but {' and '.join(reasons)}"

    def _list_mismatches(
        self, rule: Rule, actor: str | None, scope: ResourceScope
    ) -> Iterator[str]:
        if actor not in self.rules.groups[rule.group]:
            reason = "no actor was given" if actor is None else f"'{shorten(actor)}' is not in it"
            yield f"it is for group '{rule.group}', and {reason}"
        for branch_scope, name, what in (
            (rule.branch_scope, scope.branch_name, "branch"),
            (rule.target_branch_scope, scope.target_name, "target branch"),
        ):
            if branch_scope is BranchScope.ANY:
                continue
            if name is None:
                yield f"it is for {branch_scope} branches, and no {what} was named"
            elif (name in self.rules.protected_branches) != (branch_scope is BranchScope.PROTECTED):
                yield f"it is for {branch_scope} branches, which '{name}' is not"
        if rule.queries and scope.query_name not in rule.queries:
            yield f"it is for the stored queries {', '.join(rule.queries)}"

    def _context(self, scope: ResourceScope) -> Mapping[str, Any]:
        protected = self.rules.protected_branches
        return {
            "has_branch": scope.branch_name is not None,
            "branch": scope.branch_name or "",
            "branch_is_protected": scope.branch_name in protected,
            "has_target_branch": scope.target_name is not None,
            "target_branch": scope.target_name or "",
            "target_branch_is_protected": scope.target_name in protected,
            "has_query": scope.query_name is not None,
            "query": scope.query_name or "",
        }


def _deny(why: str) -> Decision:
    return Decision(allowed=False, message=f"denied: {why}")


def _word_request(action: PolicyAction, scope: ResourceScope) -> str:
    """Word a request: `change branch 'main'`, `branch_merge 'x' into 'main'`."""
    if scope.branch_name is not None and scope.target_name is not None:
        between = "into" if action is PolicyAction.BRANCH_MERGE else "to"
        return f"{action} '{scope.branch_name}' {between} '{scope.target_name}'"
    if scope.query_name is not None:
        return f"{action} '{scope.query_name}'"
    branch = scope.branch_name if scope.target_name is None else scope.target_name
    return str(action) if branch is None else f"{action} branch '{branch}'"


def _hint(actor: str | None, action: PolicyAction, scope: ResourceScope) -> str:
    if actor is None:
        return "say who acts: actor=…"
    flags = [f"--actor {actor}", f"--action {action}"]
    flags += [f"--branch {scope.branch_name}"] if scope.branch_name else []
    flags += [f"--target-branch {scope.target_name}"] if scope.target_name else []
    flags += [f"--query {scope.query_name}"] if scope.query_name else []
    return f"omnigraphdb policy explain --policy FILE {' '.join(flags)} says which rules come near"
