"""Expectations of a policy, kept in a file beside it and run as tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraphdb.errors import PolicyConfigError, did_you_mean, suggestion
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.policy.engine import PolicyEngine
from omnigraphdb.policy.rules import (
    VERSION,
    list_repeated,
    list_unknown_keys,
    read_mapping,
    read_source,
)
from omnigraphdb.values import dataclass

_CASE_KEYS = ("id", "actor", "action", "branch", "target_branch", "query", "expect")
_EXPECTED = ("allow", "deny")
_WHAT = "file of cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """One request and what the policy must say to it."""

    id: str
    actor: str
    action: PolicyAction
    allowed: bool
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFailure:
    """A case that the policy decides otherwise."""

    id: str
    expected: str
    actual: str
    matched_rule_id: str | None

    def __str__(self) -> str:
        rule = f"rule '{self.matched_rule_id}'" if self.matched_rule_id else "no rule matched"
        return f"{self.id}: expected {self.expected} but got {self.actual} ({rule})"


def read_cases(source: str | Path) -> tuple[PolicyCase, ...]:
    """Read a file of cases; every problem of it is in the error."""
    name, text = read_source(source, _WHAT)
    found = read_mapping(name, text)
    problems = list(list_unknown_keys(found, ("version", "cases"), ""))
    if found.get("version") != VERSION:
        problems.append(f"version must be {VERSION}, it is {found.get('version')!r}")
    listed = found.get("cases") or []
    if not isinstance(listed, list):
        raise PolicyConfigError(name, [*problems, "cases: it is a list of cases"], _WHAT)
    cases = [_read_case(number, one, problems) for number, one in enumerate(listed, 1)]
    ids = [one.id for one in cases if one is not None]
    problems += [f"case '{one}': the id is used more than once" for one in list_repeated(ids)]
    if problems:
        raise PolicyConfigError(name, problems, _WHAT)
    return tuple(one for one in cases if one is not None)


def run_cases(engine: PolicyEngine, cases: tuple[PolicyCase, ...]) -> list[CaseFailure]:
    """Decide every case; give those that come out otherwise."""
    failures = []
    for case in cases:
        decision = engine.authorize(
            case.actor, case.action, case.branch, case.target_branch, case.query
        )
        if decision.allowed != case.allowed:
            failures.append(
                CaseFailure(
                    id=case.id,
                    expected=_EXPECTED[not case.allowed],
                    actual=_EXPECTED[not decision.allowed],
                    matched_rule_id=decision.matched_rule_id,
                )
            )
    return failures


def _read_case(number: int, found: Any, problems: list[str]) -> PolicyCase | None:
    if not isinstance(found, Mapping):
        problems.append(f"case {number}: it is a mapping of keys")
        return None
    where = f"case '{found['id']}': " if found.get("id") else f"case {number}: "
    wrong = list(list_unknown_keys(found, _CASE_KEYS, where))
    wrong += [
        f"{where}{key} is blank or no text"
        for key in _CASE_KEYS
        if (key in found or key in ("id", "actor", "action", "expect"))
        and not (isinstance(found.get(key), str) and found[key].strip())
    ]
    actions = [one.value for one in PolicyAction]
    if isinstance(found.get("action"), str) and found["action"] not in actions:
        near = suggestion(did_you_mean(found["action"], actions))
        wrong.append(f"{where}unknown action '{found['action']}'{near}")
    if found.get("expect") not in _EXPECTED:
        wrong.append(f"{where}expect is allow or deny, not {found.get('expect')!r}")
    problems += wrong
    if wrong:
        return None
    return PolicyCase(
        id=found["id"],
        actor=found["actor"],
        action=PolicyAction(found["action"]),
        allowed=found["expect"] == "allow",
        branch=found.get("branch"),
        target_branch=found.get("target_branch"),
        query=found.get("query"),
    )
