"""Commands about files on this machine: configuration, profiles, completion, checks of schemas and queries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.commands import Run, runner

SCHEMA = "node Person { name: String @key }\n"
QUERIES = "query everyone() { match { $p: Person } return { $p.name } }\n"
CONFIG = """\
profiles:
  dev: { store: g }
  both: { store: g, server: prod }
aliases:
  all: { file: people.gq, query: everyone }
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    for name, text in (("people.pg", SCHEMA), ("people.gq", QUERIES), ("omnigraph.yaml", CONFIG)):
        (tmp_path / name).write_text(text)
    return runner(monkeypatch, capsys)


def test_the_configuration_is_found_shown_and_checked(run: Run, tmp_path: Path) -> None:
    found = run("config", "path", "--json").json
    assert found == {
        "user": str(tmp_path / "home" / "config.yaml"),
        "project": str(tmp_path / "omnigraph.yaml"),
    }
    assert f"store: {tmp_path / 'g'}" in run("config", "show").out
    checked = run("config", "check")
    assert (checked.code, "profile 'both' binds server and store" in checked.out) == (1, True)
    (tmp_path / "omnigraph.yaml").write_text("profile: {}\n")
    assert "did you mean 'profiles'?" in run("config", "check").out


def test_profiles_are_listed_with_the_active_one_and_invalid_ones(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "dev")
    dev, both = run("profile", "list").out.splitlines()
    assert dev.split() == ["*", "dev", "store", str(tmp_path / "g")]
    assert both.split()[:2] == ["both", "invalid"]
    assert run("profile", "show", "--json").json["target"] == str(tmp_path / "g")
    wrong = run("profile", "show", "dvv")
    assert (wrong.code, "did you mean 'dev'?" in wrong.err) == (2, True)


def test_queries_are_checked_against_a_graph_or_a_schema(run: Run) -> None:
    omnigraphdb.init("g", SCHEMA).close()
    good = run("lint", "g", "--query", "people.gq")
    assert (good.code, "OK    people.gq everyone" in good.out) == (0, True)
    alone = run("lint", "--schema", "people.pg")
    assert alone.out == "OK people.pg: 1 node type, 0 edge types\n"
    wrong = QUERIES.replace("Person", "Persn")
    refused = run(
        "lint", "--schema", "people.pg", "--query", "-", "--format", "github", stdin=wrong
    )
    assert refused.code == 1
    assert refused.out.startswith("::error file=<stdin>,line=1,col=")
    both = run("lint", "g", "--schema", "people.pg", "--query", "people.gq")
    assert (both.code, "not both" in both.err) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_a_shell_is_given_its_script(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert (done.code, "_OMNIGRAPHDB_COMPLETE" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("omnigraphdb sch", {"schema"}),
        ("omnigraphdb branch m", {"merge"}),
        ("omnigraphdb query --query people.gq e", {"everyone"}),
        ("omnigraphdb alias a", {"all"}),
        ("omnigraphdb profile show d", {"dev"}),
        ("omnigraphdb load --mode o", {"overwrite"}),
        ("omnigraphdb snapshot --branch re --store nowhere", set()),
        ("omnigraphdb snapshot --store g --branch re", {"review"}),
        ("omnigraphdb branch merge --store g e", {"etl/review"}),
        ("omnigraphdb branch merge --store g --into m", {"main"}),
        ("omnigraphdb diff --store g main re", {"review"}),
        ("omnigraphdb load g --from re", {"review"}),
    ],
)
def test_a_shell_completes_commands_names_and_values(
    run: Run, tmp_path: Path, typed: str, expected: set[str]
) -> None:
    if "--store g" in typed or "load g" in typed:
        with omnigraphdb.init("g", SCHEMA) as graph:
            graph.branch_create("review")
            graph.branch_create("etl/review")
    words = typed.split()
    asked = {
        "_OMNIGRAPHDB_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "omnigraphdb"],
        cwd=tmp_path,
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert set(done.stdout.split()) == expected
