"""History as people read it: commits, their changes, and how long ago they were."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.moments import spell_age
from tests.support.commands import Run, runner

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands on a graph of three commits."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA, actor="ada") as graph:
        rows = [{"type": "Person", "data": {"name": name}} for name in ("Ada", "Bo")]
        graph.load([*rows, {"edge": "Knows", "from": "Ada", "to": "Bo"}], mode="append")
        graph.mutate('query q() { update Person set { age: 4 } where name = "Bo" }', actor="eve")
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMNIGRAPH_STORE", str(tmp_path / "g"))
    return runner(monkeypatch, capsys)


def test_commits_are_listed_with_who_what_and_when(run: Run) -> None:
    newest, load, _ = run("commit", "list").out.splitlines()
    assert newest.split()[3:] == ["mutation", "eve", "Person"]
    assert load.split()[3:] == ["load", "ada", "Knows,", "Person"]
    identity = newest.split()[0]
    assert run("commit", "list", "--reverse", "--limit", "1").out.startswith(identity)
    assert "1 " not in run("commit", "list", "--filter", "actor=nobody").out


def test_commits_are_counted_by_type(run: Run) -> None:
    newest, load, _ = run("commit", "list", "--stat").out.splitlines()
    assert newest.endswith("Person ~1")
    assert load.endswith("Knows +1, Person +2")
    counts = run("commit", "list", "--stat", "--json").json["commits"][1]["counts"]
    assert counts["Person"] == {"inserts": 2, "updates": 0, "deletes": 0}


def test_a_commit_is_shown_without_what_it_lacks(run: Run) -> None:
    identity = run("commit", "list", "--json").json["commits"][0]["graph_commit_id"]
    shown = run("commit", "show", identity).out
    facts = {name: value.strip() for name, _, value in map(split_fact, shown.splitlines())}
    assert (facts["commit"], facts["actor"], facts["changes"]) == (identity, "eve", "Person ~1")
    assert "None" not in shown
    assert "merged" not in facts
    assert facts["created"].endswith("Z")


def split_fact(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def test_the_history_of_an_entity_is_listed(run: Run) -> None:
    update, insert = run("history", "Person", "Bo").out.splitlines()
    assert update.split()[3:] == ["eve", "main", "update", "age:", "null", "→", "4"]
    assert insert.split()[3:] == ["ada", "main", "insert"]
    assert "raise --limit" in run("history", "Person", "Bo", "--limit", "1").err
    assert len(run("history", "Person", "Bo", "--json").json["changes"]) == 2
    assert "no commit of branch 'main' changed" in run("history", "Person", "Nobody").err
    wrong = run("history", "Persn", "Bo")
    assert (wrong.code, "did you mean 'Person'" in wrong.err) == (1, True)


def test_values_of_updates_are_shown_old_and_new(run: Run) -> None:
    newest, load, _ = (
        one["graph_commit_id"] for one in run("commit", "list", "--json").json["commits"]
    )
    assert run("diff", load, newest).out.splitlines()[1:] == ["Person", "  ~ Bo  age: null → 4"]
    body = run("diff", load, newest, "--json", "--images").json
    assert body["changes"][0]["after"]["age"] == 4
    assert body["stats"]["types"] == {"Person": {"inserts": 0, "updates": 1, "deletes": 0}}
    assert run("diff", load, load).out == f"{load}..{load}: no differences\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "just now"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (7300, "2 hours ago"),
        (90_000, "1 day ago"),
        (40 * 86_400, "1 month ago"),
        (800 * 86_400, "2 years ago"),
    ],
)
def test_ages_are_spelled(seconds: int, said: str) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    assert spell_age(now - timedelta(seconds=seconds), now) == said
