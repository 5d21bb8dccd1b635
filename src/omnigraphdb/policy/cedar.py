"""The rules as Cedar policies: compiled once, strictly checked, asked once per decision.

One rule and one action become one policy. Names of users never enter Cedar's text: ids are structured values.
"""

import json
from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from omnigraphdb.errors import PolicyConfigError, PolicyEvaluationError
from omnigraphdb.packages import load_package
from omnigraphdb.policy.actions import BranchScope, PolicyAction, PolicyKind
from omnigraphdb.policy.rules import PolicyRules, Rule

if TYPE_CHECKING:
    from cedarpy import Entities, PolicySet

SCHEMA = """
namespace Omnigraph {
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  type About = {
    has_branch: Bool, branch: String, branch_is_protected: Bool,
    has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool,
    has_query: Bool, query: String,
  };
  action %(graph)s appliesTo { principal: [Actor], resource: [Graph], context: About };
  action %(server)s appliesTo { principal: [Actor], resource: [Server], context: About };
}
"""
_ID = "Omnigraph::"


class CompiledRules:
    """A policy that Cedar has checked.

    A decision evaluates only the policies of its action that name a group of its actor: others cannot apply, and a
    thousand rules would take longer to evaluate than a small write takes.
    """

    def __init__(self, rules: PolicyRules, resource_id: str) -> None:
        kind = "Graph" if rules.kind is PolicyKind.GRAPH else "Server"
        self._rules = rules
        self._resource = {"type": f"{_ID}{kind}", "id": resource_id}
        self._groups = _list_groups(rules)
        self._requests: dict[tuple[str, PolicyAction], tuple[PolicySet, Entities]] = {}
        self._validate()

    def find_matches(
        self, actor: str, action: PolicyAction, context: Mapping[str, Any]
    ) -> Sequence[int]:
        """Ask Cedar for the positions of the rules that allow the request, in file order."""
        request = {
            "principal": _id("Actor", actor),
            "action": _id("Action", action.value),
            "resource": self._resource,
            "context": dict(context),
        }
        try:
            policies, entities = self._select(actor, action)
            answer = _cedar().is_authorized(request, policies, entities, _schema())
        except Exception as error:
            raise PolicyEvaluationError(action.value, str(error)) from error
        if answer.diagnostics.errors:
            failures = "; ".join(map(str, answer.diagnostics.errors))
            raise PolicyEvaluationError(action.value, failures)
        if not answer.allowed:
            return ()
        return sorted(int(position) for position in answer.diagnostics.reasons)

    def _select(self, actor: str, action: PolicyAction) -> "tuple[PolicySet, Entities]":
        selection = self._requests.get((actor, action))
        if selection is None:
            groups = self._groups.get(actor, ())
            policies = self._policies(action, frozenset(groups))
            entities = [
                {
                    "uid": _id("Actor", actor),
                    "attrs": {},
                    "parents": [_id("Group", group) for group in groups],
                }
            ]
            selection = (
                _cedar().PolicySet.from_json_str(policies),
                _cedar().Entities.from_json_str(json.dumps(entities)),
            )
            self._requests[actor, action] = selection
        return selection

    def _policies(self, action: PolicyAction, groups: Container[str]) -> str:
        """Write the policies of an action that name one of the groups; each has the position of its rule as id."""
        policies = {
            str(position): _policy(rule, action, self._resource)
            for position, rule in enumerate(self._rules.rules)
            if action in rule.actions and rule.group in groups
        }
        return json.dumps({"staticPolicies": policies, "templates": {}, "templateLinks": []})

    def _validate(self) -> None:
        cedar = _cedar()
        for action in {action for rule in self._rules.rules for action in rule.actions}:
            text = cedar.policies_from_json_str(self._policies(action, self._rules.groups))
            checked = cedar.validate_policies(text, _schema())
            if not checked.validation_passed:
                raise PolicyConfigError(self._rules.name, [str(error) for error in checked.errors])


def _policy(rule: Rule, action: PolicyAction, resource: Mapping[str, str]) -> dict[str, Any]:
    conditions = [
        *_scope_conditions(rule.branch_scope, "branch"),
        *_scope_conditions(rule.target_branch_scope, "target_branch"),
        *([_is_one_of("query", rule.queries)] if rule.queries else []),
    ]
    return {
        "effect": "permit",
        "principal": {"op": "in", "entity": _id("Group", rule.group)},
        "action": {"op": "==", "entity": _id("Action", action.value)},
        "resource": {"op": "==", "entity": dict(resource)},
        "conditions": [{"kind": "when", "body": condition} for condition in conditions],
    }


def _scope_conditions(scope: BranchScope, name: str) -> list[dict[str, Any]]:
    protected = _attribute(f"{name}_is_protected")
    match scope:
        case BranchScope.ANY:
            return []
        case BranchScope.PROTECTED:
            return [_attribute(f"has_{name}"), protected]
        case BranchScope.UNPROTECTED:
            return [_attribute(f"has_{name}"), {"!": {"arg": protected}}]


def _is_one_of(name: str, values: Sequence[str]) -> dict[str, Any]:
    allowed = {"Set": [{"Value": value} for value in values]}
    return {"contains": {"left": allowed, "right": _attribute(name)}}


def _attribute(name: str) -> dict[str, Any]:
    return {".": {"left": {"Var": "context"}, "attr": name}}


def _list_groups(rules: PolicyRules) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, members in rules.groups.items():
        for actor in members:
            groups.setdefault(actor, []).append(group)
    return groups


def _id(kind: str, name: str) -> dict[str, str]:
    return {"type": f"{_ID}{kind}", "id": name}


@cache
def _schema() -> Any:
    names = {
        kind.value: ", ".join(
            action.value for action in PolicyAction if action.resource_kind is kind
        )
        for kind in PolicyKind
    }
    return _cedar().Schema.from_str(SCHEMA % names)


def _cedar() -> Any:
    return load_package("cedarpy", "a policy", state="nothing was done")
