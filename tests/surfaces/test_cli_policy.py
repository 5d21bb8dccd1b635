"""Policies, algorithms and proposed schemas by command."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.policy import list_grants, read_cases, run_cases
from tests.support.commands import Run, runner

POLICY = """
version: 1
groups: { team: [bob], idle: [eve] }
protected_branches: [main]
rules:
  - id: drafts
    allow: { actors: { group: team }, actions: [change, read], branch_scope: unprotected }
  - id: asks
    allow: { actors: { group: team }, actions: [invoke_query], queries: [weekly] }
"""
CASES = """
version: 1
cases:
  - { id: bob-main, actor: bob, action: change, branch: main, expect: deny }
  - { id: bob-draft, actor: bob, action: change, branch: draft, expect: allow }
"""
ADD = 'query add() { insert Port { code: "B" } }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # A call with --policy sets the variable; monkeypatch restores what it was.
    monkeypatch.setenv("OMNIGRAPH_POLICY_FILE", "")
    monkeypatch.delenv("OMNIGRAPH_POLICY_FILE")
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cases.yaml").write_text(CASES)
    with omnigraphdb.init(
        "g",
        "node Port { code: String @key  rank: F64?  name: String?  depth: I32? }\nedge Feeds: Port -> Port",
    ) as graph:
        graph.load(
            [{"type": "Port", "data": {"code": code}} for code in "XYZ"]
            + [{"edge": "Feeds", "from": "X", "to": to} for to in "YZ"],
            mode="append",
        )
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def test_a_policy_is_checked_tested_and_explained(run: Run, folder: Path) -> None:
    valid = run("policy", "validate", "--policy", "policy.yaml")
    assert (valid.code, valid.out) == (0, "policy valid: policy.yaml [2 actors, 2 rules]\n")
    assert "group 'idle' is used by no rule" in valid.err
    passed = run("policy", "test", "--policy", "policy.yaml", "--tests", "cases.yaml")
    assert (passed.code, passed.out) == (0, "policy tests passed: 2 cases\n")
    (folder / "cases.yaml").write_text(CASES.replace("expect: deny", "expect: allow"))
    failed = run("policy", "test", "--policy", "policy.yaml", "--tests", "cases.yaml")
    assert failed.code == 1
    assert failed.out == "bob-main: expected allow but got deny (no rule matched)\n"
    asked = ("policy", "explain", "--policy", "policy.yaml", "--actor", "bob", "--action", "change")
    denied = run(*asked, "--branch", "main")
    assert denied.code == 0
    assert "rule 'drafts' allows change, but it is for unprotected branches" in denied.out
    assert run(*asked, "--branch", "main", "--check").code == 1
    assert run(*asked, "--branch", "x", "--json").json["matched_rule"] == "drafts"
    rows = [
        line.split() for line in run("policy", "matrix", "--policy", "policy.yaml").out.splitlines()
    ]
    assert rows[0] == ["actor", "branch", "read", "change", "invoke_query"]
    assert rows[1] == ["bob", "main", "-", "-", "some"]


def test_the_policy_of_a_graph_is_checked_tested_and_explained(run: Run, folder: Path) -> None:
    without = run("policy", "validate", "g")
    assert (without.code, "policy set" in without.err) == (1, True)
    (folder / "kept.yaml").write_text(
        POLICY.replace(
            "rules:",
            "rules:\n  - { id: own, allow: { actors: { group: idle }, actions: [policy_change] } }",
        )
    )
    assert run("policy", "set", "g", "--from", "kept.yaml", "--as", "eve").code == 0
    assert run("policy", "validate", "g").out == "policy valid: policy [2 actors, 3 rules]\n"
    assert (
        run("policy", "test", "g", "--tests", "cases.yaml").out == "policy tests passed: 2 cases\n"
    )
    asked = ("--actor", "bob", "--action", "change", "--branch", "main", "--check")
    denied = run("policy", "explain", "--store", "g", *asked)
    assert (denied.code, "rule 'drafts' allows change" in denied.out) == (1, True)
    # A file is meant only where no graph is named.
    grants = run("policy", "matrix", "g", "--policy", "policy.yaml", "--json").json["grants"]
    assert [one["policy_change"] for one in grants if one["branch"] == "main"] == ["-", "yes"]
    assert run("policy", "validate", "g", "--kind", "server").code == 2
    kept = omnigraphdb.open("g", read_only=True).policy()
    assert kept is not None
    engine = kept.load()
    assert run_cases(engine, read_cases(folder / "cases.yaml")) == []
    assert [row.actor for row in list_grants(engine, ["main"])] == ["bob", "eve"]


def test_every_problem_of_a_policy_is_told(run: Run, folder: Path) -> None:
    assert run("policy", "validate").code == 2
    (folder / "policy.yaml").write_text(POLICY.replace("branch_scope", "branch_scpoe"))
    wrong = run("policy", "validate", "--policy", "policy.yaml")
    assert wrong.code == 1
    assert "did you mean 'branch_scope'" in wrong.err
    assert (
        "did you mean 'change'"
        in run(
            "policy", "explain", "--policy", "policy.yaml", "--actor", "bob", "--action", "chnge"
        ).err
    )


def test_a_write_asks_the_policy_of_the_call(run: Run) -> None:
    write = ("mutate", "--store", "g", "-e", ADD, "--policy", "policy.yaml")
    denied = run(*write, "--as", "bob")
    assert denied.code == 1
    assert "denied: actor 'bob' may not change branch 'main'; no changes were made" in denied.err
    assert "--as" in run(*write).err
    with omnigraphdb.open("g") as graph:
        graph.branch_create("draft")
    assert run(*write, "--as", "bob", "--branch", "draft").code == 0


def test_an_algorithm_is_shown_and_written(run: Run) -> None:
    shown = run("analyze", "pagerank", "g", "--edges", "Feeds", "--top", "1", "--json").json
    assert (shown["nodes"], shown["edges"], shown["written"]) == (3, 2, None)
    written = run("analyze", "pagerank", "g", "--write", "Port.rank", "--as", "nightly")
    assert written.out.endswith("wrote Port.rank of 3 nodes on branch main\n")
    with omnigraphdb.open("g", read_only=True) as graph:
        assert graph.commits()[0].actor == "nightly"
    near = run("analyze", "pagernk", "g")
    assert (near.code, "did you mean 'pagerank'" in near.err) == (2, True)
    assert "property of Feeds" in run("analyze", "wcc", "g", "--weight", "load").err


def test_distances_are_those_from_a_node(run: Run) -> None:
    found = run("analyze", "bfs", "g", "--from", "Port", "X", "--json").json
    assert {"type": "Port", "id": "X", "value": 0} in found["top"]
    assert "needs --from TYPE ID" in run("analyze", "dijkstra", "g").err
    assert "takes no --from" in run("analyze", "wcc", "g", "--from", "Port", "X").err
    assert "Port 'W' not found" in run("analyze", "bfs", "g", "--from", "Port", "W").err


@pytest.mark.parametrize(
    ("target", "fact"),
    [
        ("Port", "names no property"),
        ("Port.nope", "property of Port 'nope' not found"),
        ("Port.name", "it is not a number"),
        (
            "Port.depth",
            "values of pagerank have fractions and do not fit Port.depth, which is I32?",
        ),
    ],
)
def test_a_property_that_ranks_do_not_fit_is_refused_before_they_are_computed(
    run: Run, target: str, fact: str
) -> None:
    # Any algorithm that began would have ended with its bound.
    refused = run("analyze", "pagerank", "g", "--write", target, "--seconds-max", "0")
    assert refused.code == 1
    assert fact in refused.err
    assert "no changes were made" in refused.err or "not found" in refused.err


def test_an_algorithm_ends_at_its_bound(run: Run) -> None:
    ended = run("analyze", "pagerank", "g", "--write", "Port.rank", "--seconds-max", "0")
    assert ended.code == 1
    assert "pagerank has not ended after 0 s: nothing is done; nothing was written" in ended.err


def test_a_schema_is_proposed_from_files(run: Run, folder: Path) -> None:
    (folder / "town.csv").write_text("zip,people\n01234,5\n98765,\n")
    (folder / "road.csv").write_text("town_a,town_b\n01234,98765\n")
    proposed = run("schema", "infer", "town.csv", "road.csv", "--evidence")
    assert "edge Road: Town -> Town" in proposed.out
    assert "// Town.zip: String @key: 2 different texts" in proposed.out
    assert "rename the columns 'town_a' to 'from', 'town_b' to 'to'" in proposed.err
    (folder / "town.pg").write_text(run("schema", "infer", "town.csv").out)
    assert run("init", "t", "--schema", "town.pg").code == 0
    assert run("load", "t", "--data", "town.csv", "--type", "Town", "--mode", "append").code == 0
    assert run("schema", "infer", "town.csv", "--json").json["rows_read"] == {"Town": 2}
    assert "cannot be read" in run("schema", "infer", "nowhere.csv").err
