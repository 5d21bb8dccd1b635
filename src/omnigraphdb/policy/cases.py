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
    """One request and the decision that the policy must make about it."""

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
    document = read_mapping(name, text)
    problems = list(list_unknown_keys(document, ("version", "cases"), ""))
    if document.get("version") != VERSION:
        problems.append(f"version must be {VERSION}, it is {document.get('version')!r}")
    listed = document.get("cases") or []
    if not isinstance(listed, list):
        raise PolicyConfigError(name, [*problems, "cases: it is a list of cases"], _WHAT)
    cases = [_read_case(number, entry, problems) for number, entry in enumerate(listed, 1)]
    ids = [case.id for case in cases if case is not None]
    problems += [f"case '{id_}': the id is used more than once" for id_ in list_repeated(ids)]
    if problems:
        raise PolicyConfigError(name, problems, _WHAT)
    return tuple(case for case in cases if case is not None)


def run_cases(engine: PolicyEngine, cases: tuple[PolicyCase, ...]) -> list[CaseFailure]:
    """Decide every case; return the cases with another decision than the expected one."""
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


def _read_case(number: int, entry: Any, problems: list[str]) -> PolicyCase | None:
    if not isinstance(entry, Mapping):
        problems.append(f"case {number}: it is a mapping of keys")
        return None
    where = f"case '{entry['id']}': " if entry.get("id") else f"case {number}: "
    wrong = list(list_unknown_keys(entry, _CASE_KEYS, where))
    wrong += [
        f"{where}{key} is blank or no text"
        for key in _CASE_KEYS
        if (key in entry or key in ("id", "actor", "action", "expect"))
        and not (isinstance(entry.get(key), str) and entry[key].strip())
    ]
    actions = [action.value for action in PolicyAction]
    if isinstance(entry.get("action"), str) and entry["action"] not in actions:
        near = suggestion(did_you_mean(entry["action"], actions))
        wrong.append(f"{where}unknown action '{entry['action']}'{near}")
    if entry.get("expect") not in _EXPECTED:
        wrong.append(f"{where}expect is allow or deny, not {entry.get('expect')!r}")
    problems += wrong
    if wrong:
        return None
    return PolicyCase(
        id=entry["id"],
        actor=entry["actor"],
        action=PolicyAction(entry["action"]),
        allowed=entry["expect"] == "allow",
        branch=entry.get("branch"),
        target_branch=entry.get("target_branch"),
        query=entry.get("query"),
    )
