"""Decisions: the table of the guide, thousands of generated policies beside a plain oracle, and bad files."""

import textwrap
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.errors import PolicyConfigError, PolicyDenied, PolicyEvaluationError
from omnigraphdb.policy import PolicyAction, PolicyEngine, ResourceScope
from omnigraphdb.policy.actions import PolicyKind
from omnigraphdb.policy.cases import read_cases, run_cases

POLICY = textwrap.dedent(
    """
    version: 1
    groups:
      admins: [act-alice]
      team:   [act-alice, act-bob]
    protected_branches: [main, release]
    rules:
      - id: team-reads
        allow: { actors: { group: team }, actions: [read, export], branch_scope: any }
      - id: team-writes-drafts
        allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
      - id: admins-promote
        allow:
          actors: { group: admins }
          actions: [branch_merge, branch_create, branch_delete, schema_apply]
          target_branch_scope: any
      - id: team-asks
        allow: { actors: { group: team }, actions: [invoke_query], queries: [weekly] }
    """
)


@pytest.fixture(scope="module")
def engine() -> PolicyEngine:
    return PolicyEngine.load_graph(POLICY)


@pytest.mark.parametrize(
    ("actor", "action", "branch", "target", "rule"),
    [
        ("act-bob", "read", "main", None, "team-reads"),
        ("act-bob", "change", "main", None, None),
        ("act-bob", "change", "feature/x", None, "team-writes-drafts"),
        ("act-bob", "branch_merge", "feature/x", "main", None),
        ("act-alice", "branch_merge", "feature/x", "main", "admins-promote"),
        ("act-alice", "schema_apply", None, "main", "admins-promote"),
        ("act-alice", "invoke_query", None, None, None),
        ("act-mallory", "read", "main", None, None),
        (None, "change", "main", None, None),
        ("  ", "change", "main", None, None),
    ],
)
def test_decision_table(
    engine: PolicyEngine,
    actor: str | None,
    action: str,
    branch: str | None,
    target: str | None,
    rule: str | None,
) -> None:
    decision = engine.authorize(actor, action, branch, target)
    assert (decision.allowed, decision.matched_rule_id) == (rule is not None, rule)
    assert decision.message.startswith("allowed: " if rule else "denied: ")
    if actor and actor.strip() and actor != "act-mallory":
        assert actor in decision.message
        assert action in decision.message
        assert all(f"'{name}'" in decision.message for name in (branch, target) if name)


@pytest.mark.parametrize("name", ["{branch}", "{}", "{0.__class__}", "{", "}", "%s"])
def test_names_are_told_as_they_are(engine: PolicyEngine, name: str) -> None:
    allowed = engine.authorize("act-bob", "change", name)
    denied = engine.authorize("act-bob", "branch_create", name, name)
    asked = engine.authorize("act-alice", "invoke_query", query=name)
    assert (allowed.allowed, denied.allowed, asked.allowed) == (True, False, False)
    assert all(name in one.message for one in (allowed, denied, asked))


def test_stored_queries_are_bounded_by_name(engine: PolicyEngine) -> None:
    asked = [engine.authorize("act-bob", "invoke_query", query=name) for name in ("weekly", "all")]
    assert [one.allowed for one in asked] == [True, False]


def test_check_raises_what_was_denied(engine: PolicyEngine) -> None:
    scope = ResourceScope.transition("draft", "main")
    engine.check(PolicyAction.BRANCH_MERGE, scope, "act-alice")
    with pytest.raises(PolicyDenied) as caught:
        engine.check(PolicyAction.BRANCH_MERGE, scope, "act-bob")
    body = caught.value.to_dict()
    assert body["denied"] == {"action": "branch_merge", "branch": "draft", "target_branch": "main"}
    assert body["code"] == body["kind"] == "forbidden"
    assert "--actor act-bob --action branch_merge" in str(caught.value.hint)
    with pytest.raises(PolicyDenied, match="no actor") as missing:
        engine.check(PolicyAction.CHANGE, ResourceScope.branch("draft"), None)
    assert "actor=" in str(missing.value.hint)


def test_denial_says_which_rules_come_near(engine: PolicyEngine) -> None:
    scope = ResourceScope.branch("main")
    near = list(engine.explain_denial("act-bob", PolicyAction.CHANGE, scope))
    assert near == [
        "rule 'team-writes-drafts' allows change, but it is for unprotected branches, which 'main' is not"
    ]
    assert list(engine.explain_denial("act-bob", PolicyAction.MAINTAIN, scope)) == [
        "no rule allows maintain"
    ]


def test_evaluation_error_is_no_permission(
    engine: PolicyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cedarpy

    def fail(*_args: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(cedarpy, "is_authorized", fail)
    with pytest.raises(PolicyEvaluationError, match="out of order") as caught:
        engine.check(PolicyAction.READ, ResourceScope.branch("main"), "act-bob")
    assert (caught.value.kind, caught.value.http_code) == ("policy_error", "internal")


# ---- an oracle

NAMES = st.sampled_from(["main", "release", 'a"b', "agent/x", "entwurf-ü", "line\nbreak"])
ACTORS = st.sampled_from(["ann", "bob", 'o"brien', "x\\y", 'Actor::"ann"', "új"])
GROUPS = ("readers", "writers", 'odd"group')
GRAPH_ACTIONS = [one for one in PolicyAction if one.resource_kind is PolicyKind.GRAPH]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    actions = draw(st.lists(st.sampled_from(GRAPH_ACTIONS), min_size=1, max_size=3, unique=True))
    allow: dict[str, Any] = {
        "actors": {"group": draw(st.sampled_from(GROUPS))},
        "actions": [one.value for one in actions],
    }
    scope = draw(st.sampled_from([None, "any", "protected", "unprotected"]))
    if scope and all(one.uses_branch_scope for one in actions):
        allow["branch_scope"] = scope
    elif scope and all(one.uses_target_branch_scope for one in actions):
        allow["target_branch_scope"] = scope
    elif scope and actions == [PolicyAction.INVOKE_QUERY]:
        allow["queries"] = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    return allow


def _covers(scope: str | None, name: str | None, protected: list[str]) -> bool:
    if scope in (None, "any"):
        return True
    return name is not None and (name in protected) == (scope == "protected")


def _expect(policy: Mapping[str, Any], actor: str, request: Mapping[str, Any]) -> str | None:
    """The first rule that allows the request, found by reading the rules one by one."""
    for rule in policy["rules"]:
        allow = rule["allow"]
        if (
            actor in policy["groups"][allow["actors"]["group"]]
            and request["action"] in allow["actions"]
            and _covers(allow.get("branch_scope"), request["branch"], policy["protected_branches"])
            and _covers(
                allow.get("target_branch_scope"),
                request["target_branch"],
                policy["protected_branches"],
            )
            and ("queries" not in allow or request["query"] in allow["queries"])
        ):
            return str(rule["id"])
    return None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_cedar_decides_as_the_rules_read(data: st.DataObject) -> None:
    policy = {
        "version": 1,
        "groups": {
            name: data.draw(st.lists(ACTORS, min_size=1, max_size=3, unique=True))
            for name in GROUPS
        },
        "protected_branches": data.draw(st.lists(NAMES, max_size=3, unique=True)),
        "rules": [
            {"id": f"r{i}", "allow": allow}
            for i, allow in enumerate(data.draw(st.lists(rules(), max_size=6)))
        ],
    }
    engine = PolicyEngine.load_graph(yaml.safe_dump(policy, allow_unicode=True))
    for _ in range(20):
        actor = data.draw(ACTORS)
        request: dict[str, Any] = {
            "action": data.draw(st.sampled_from(GRAPH_ACTIONS)),
            "branch": data.draw(st.none() | NAMES),
            "target_branch": data.draw(st.none() | NAMES),
            "query": data.draw(st.none() | NAMES),
        }
        decision = engine.authorize(actor, **request)
        assert decision.matched_rule_id == _expect(policy, actor, request)
        assert decision.allowed == (decision.matched_rule_id is not None)


# ---- files that mean nothing

WRONG: dict[str, tuple[str, str, str]] = {
    "misspelt key": ("branch_scope: any", "branch_scpoe: any", "did you mean 'branch_scope'"),
    "unknown group": ("group: admins }", "group: admin }", "group 'admin' is not defined"),
    "scope of another action": (
        "actions: [change], branch_scope",
        "actions: [branch_merge], branch_scope",
        "branch_scope means nothing for action 'branch_merge'",
    ),
    "server action": ("[read, export]", "[read, graph_list]", "'graph_list' belongs in a server"),
    "repeated id": ("id: team-asks", "id: team-reads", "'team-reads': the id is used more"),
    "repeated key": ("version: 1", "version: 1\nversion: 1", "'version' is given twice"),
    "repeated action": ("[change]", "[change, change]", "'change' is given twice"),
    "unknown action": ("[change]", "[chnge]", "did you mean 'change'"),
    "no action": ("[change]", "[]", "actions is empty"),
    "version": ("version: 1", "version: 2", "version must be 1, it is 2"),
    "reserved actor": ("[act-alice]", "['omnigraph:recovery']", "is reserved"),
    "empty group": ("[act-alice]\n", "[]\n", "it has no members"),
    "blank actor": ("[act-alice]", "[' ']", "' ' is blank"),
    "scope value": ("branch_scope: any", "branch_scope: all", "unknown scope 'all'"),
    "server file": ("version: 1", "version: 1\nkind: server", "used as a graph policy"),
    "no yaml": ("rules:", "rules: [", "line "),
    "a list": ("version: 1", "- 1", ""),
    "two scopes": (
        "branch_scope: any",
        "branch_scope: any, target_branch_scope: any",
        "not both",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_refused(name: str) -> None:
    old, new, fact = WRONG[name]
    assert old in POLICY or name == "unknown group"
    text = POLICY.replace(old, new, 1).replace(
        "group: admins", "group: admin" if name == "unknown group" else "group: admins"
    )
    with pytest.raises(PolicyConfigError) as caught:
        PolicyEngine.load_graph(text)
    assert fact in str(caught.value)
    assert "the policy was not used" in str(caught.value)


def test_every_problem_is_listed_at_once() -> None:
    text = POLICY.replace("[change]", "[chnge]").replace("branch_scope: any", "branch_scpoe: any")
    with pytest.raises(PolicyConfigError) as caught:
        PolicyEngine.load_graph(text)
    assert len(caught.value.problems) == 3


def test_warnings_name_what_has_no_effect() -> None:
    text = POLICY.replace("[main, release]", "[]").replace(
        "[read, export]", "[read, export, admin]"
    )
    text = text.replace(", branch_scope: any", "").replace("  team:", "  idle: [act-eve]\n  team:")
    text += "  - { id: again, allow: { actors: { group: team }, actions: [read] } }\n"
    warnings = "\n".join(PolicyEngine.load_graph(text).rules.warnings)
    for fact in (
        "'admin' has no effect",
        "'idle' is used by no rule",
        "protected_branches is empty",
    ):
        assert fact in warnings
    assert "rule 'again': rule 'team-reads' allows all of it already" in warnings


def test_a_rule_without_a_scope_speaks_of_every_branch() -> None:
    engine = PolicyEngine.load_graph(
        "version: 1\nkind: graph\ngroups: { team: [ann] }\nprotected_branches: [main]\n"
        "rules: [{ id: all, allow: { actors: { group: team }, actions: [change, branch_merge] } }]"
    )
    for branch in ("main", "draft", None):
        assert engine.authorize("ann", "change", branch).allowed
        assert engine.authorize("ann", "branch_merge", "x", branch).allowed


def test_removing_all_rules_denies_everything() -> None:
    engine = PolicyEngine.load_graph(POLICY[: POLICY.index("rules:")])
    assert not any(engine.authorize("act-alice", one, "x", "y").allowed for one in GRAPH_ACTIONS)


def test_cases_of_a_file(engine: PolicyEngine) -> None:
    cases = """
version: 1
cases:
  - { id: bob, actor: act-bob, action: change, branch: main, expect: deny }
  - { id: wrong, actor: act-bob, action: change, branch: main, expect: allow }
"""
    failures = run_cases(engine, read_cases(cases))
    assert [str(one) for one in failures] == [
        "wrong: expected allow but got deny (no rule matched)"
    ]
    wrong = cases.replace("id: wrong", "id: bob").replace("expect: allow", "expect: maybe, who: me")
    with pytest.raises(PolicyConfigError) as caught:
        read_cases(wrong)
    assert len(caught.value.problems) == 2


def test_thousand_rules_and_actors_load_and_decide_quickly() -> None:
    from time import process_time

    text = yaml.safe_dump(
        {
            "version": 1,
            "groups": {f"g{i}": [f"a{i}"] for i in range(1000)},
            "rules": [
                {"id": f"r{i}", "allow": {"actors": {"group": f"g{i}"}, "actions": ["read"]}}
                for i in range(1000)
            ],
        }
    )
    start = process_time()
    engine = PolicyEngine.load_graph(text)
    loaded = process_time()
    assert all(engine.authorize(f"a{i % 10}", "read", "main").allowed for i in range(200))
    assert loaded - start < 2
    assert (process_time() - loaded) / 200 < 0.002
