"""Merge, diff and the change feed from the command line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.main import main

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands on a graph with a branch that has work on it."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}], mode="append")
        graph.branch_create("review")
        rows = [("Ada", 2), ("Bo", 3)]
        records = [{"type": "Person", "data": {"name": n, "age": a}} for n, a in rows]
        graph.load(records, mode="merge", branch="review")

    def invoke(*arguments: str) -> tuple[int, str, str]:
        store = ["--store", str(tmp_path / "g")]
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", *arguments, *store])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return int(str(stop.value.code or 0)), told.out, told.err

    return invoke


def main_moves(run: Run, tmp_path: Path) -> None:
    with omnigraphdb.open(tmp_path / "g") as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada", "age": 9}}], mode="merge")


def parsed(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_merge_says_its_outcome_and_counts(run: Run) -> None:
    code, out, err = run("branch", "merge", "review")
    assert code == 0
    assert out.splitlines()[:2] == ["review into main: fast_forward", "  node:Person: +1 ~1 -0"]
    assert "omnigraphdb branch merge →" in err
    assert run("branch", "merge", "review")[1].startswith("review into main: already_up_to_date")


def test_a_dry_run_writes_nothing(run: Run) -> None:
    code, out, _ = run("branch", "merge", "review", "--dry-run", "--json")
    body = parsed(out)
    assert (code, body["outcome"], body["commit"], body["conflicts"]) == (
        0,
        "fast_forward",
        None,
        [],
    )
    assert parsed(run("diff", "main", "review", "--json")[1])["stats"]["inserts"] == 1


def test_conflicts_exit_with_three_and_one_line_each(run: Run, tmp_path: Path) -> None:
    main_moves(run, tmp_path)
    code, out, err = run("branch", "merge", "review")
    assert (code, out) == (3, "")
    assert "node:Person Ada divergent_update: " in err
    code, out, _ = run("branch", "merge", "review", "--json")
    assert code == 3
    assert [c["row_id"] for c in parsed(out)["merge_conflicts"]] == ["Ada"]
    assert run("branch", "merge", "review", "--dry-run")[0] == 3


def test_a_merged_branch_can_go_at_once(run: Run) -> None:
    code, out, _ = run("branch", "merge", "review", "--delete-branch", "--json")
    assert (code, parsed(out)["branch_deleted"]) == (0, True)
    assert parsed(run("branch", "list", "--json")[1])["branches"] == ["main"]


@pytest.mark.parametrize("ends", [("main", "review"), ("main..review",)])
def test_a_diff_groups_changes_by_type(run: Run, ends: tuple[str, ...]) -> None:
    code, out, _ = run("diff", *ends)
    assert code == 0
    total = "main..review: 1 inserted, 1 updated, 0 deleted in 1 type"
    assert out.splitlines() == [total, "Person", "  ~ Ada  age: 1 → 2", "  + Bo"]
    assert run("diff", *ends, "--op", "insert")[1].splitlines()[-1] == "  + Bo"
    assert run("diff", *ends, "--stat")[1].splitlines() == [total, "  Person  +1 ~1"]


def test_a_diff_needs_two_ends(run: Run) -> None:
    assert run("diff", "main")[0] == 2


def test_the_feed_prints_its_cursor_last_and_goes_on_from_it(run: Run) -> None:
    code, out, _ = run("changes", "poll", "--start", "beginning")
    *_, cursor = out.splitlines()
    assert code == 0
    assert "  + Ada" in out
    run("branch", "merge", "review")
    page = parsed(run("changes", "poll", "--cursor", cursor, "--json")[1])
    assert [change["id"] for block in page["blocks"] for change in block["changes"]] == [
        "Ada",
        "Bo",
    ]
    assert parsed(run("changes", "poll", "--json")[1])["blocks"] == []
    assert run("changes", "poll", "--start", "yesterday")[0] == 2


def test_a_commit_tells_what_it_changed(run: Run) -> None:
    run("branch", "merge", "review")
    newest = parsed(run("commit", "list", "--json")[1])["commits"][0]["graph_commit_id"]
    code, out, _ = run("commit", "changes", newest)
    assert (code, out.splitlines()[1:]) == (0, ["Person", "  ~ Ada  age: 1 → 2", "  + Bo"])


def test_a_commit_is_told_in_pages(run: Run) -> None:
    newest = parsed(run("commit", "list", "--branch", "review", "--json")[1])["commits"][0]
    commit = newest["graph_commit_id"]
    first = parsed(run("commit", "changes", commit, "--limit", "1", "--json")[1])
    token = first["next_page_token"]
    code, out, _ = run("commit", "changes", commit, "--limit", "1", "--page-token", token)
    assert (code, out.splitlines()[-1]) == (0, "  + Bo")
    assert [change["id"] for change in first["changes"]] == ["Ada"]
    code, out, _ = run("commit", "changes", commit, "--limit", "1")
    assert out.splitlines()[-1] == token
    assert run("commit", "changes", commit, "--page-token", "og1.nothing")[0] == 1


def test_a_baseline_is_written_before_its_cursor_is_told(run: Run, tmp_path: Path) -> None:
    out_file = tmp_path / "state.jsonl"
    code, out, err = run("changes", "baseline", "--out", str(out_file), "--branch", "review")
    commit, cursor = out.split()
    assert (code, "2 records" in err) == (0, True)
    assert len(out_file.read_text().splitlines()) == 2
    page = parsed(run("changes", "poll", "--cursor", cursor, "--branch", "review", "--json")[1])
    assert (page["blocks"], page["caught_up"]) == ([], True)
    told = parsed(run("changes", "baseline", "--out", str(out_file), "--json")[1])
    assert told["records"] == 1
    assert told["snapshot_commit_id"] != commit
    assert run("changes", "baseline", "--out", str(tmp_path / "no" / "x"))[0] == 1
