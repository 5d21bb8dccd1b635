"""`omnigraphdb schema` as its users meet it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraphdb.surfaces.cli.main import main
from tests.support.schema_changes import BASE, VARIANTS, made

Told = tuple[int, str, str]
Run = Callable[..., Told]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands beside a graph and two schemas: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "g").close()
    (tmp_path / "new.pg").write_text(VARIANTS["mixed"])
    (tmp_path / "bad.pg").write_text(BASE.replace("age: I32?", "age: I64?"))

    def invoke(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return int(str(stop.value.code or 0)), told.out, told.err

    return invoke


def test_a_plan_for_a_graph_changes_nothing(run: Run) -> None:
    code, out, _ = run("schema", "plan", "g", "--schema", "new.pg")
    assert code == 0
    assert out.startswith("supported: yes\n  add_property node City.size\n  rename_type")
    assert run("schema", "show", "g")[1].strip() == BASE.strip()


def test_a_plan_that_is_not_supported_says_why_and_fails_on_request(run: Run) -> None:
    code, out, _ = run("schema", "plan", "g", "--schema", "bad.pg")
    assert (code, "OG-MF-106" in out) == (0, True)
    assert run("schema", "plan", "g", "--schema", "bad.pg", "--check")[0] == 1


def test_an_apply_prints_its_steps_and_its_commit(run: Run) -> None:
    code, out, err = run("schema", "apply", "g", "--schema", "new.pg", "--as", "ann")
    assert code == 0
    assert out.startswith("applied: yes\n  add_property node City.size\n  rename_type")
    assert "omnigraphdb schema apply →" in err
    _, listed, _ = run("commit", "list", "g", "--json")
    newest = json.loads(listed)["commits"][0]
    assert (newest["kind"], newest["actor_id"]) == ("schema_apply", "ann")
    assert out.endswith(f"commit {newest['graph_commit_id']}\n")
    assert run("schema", "apply", "g", "--schema", "new.pg")[1] == "applied: no\n"


def test_an_apply_answers_in_json(run: Run) -> None:
    told = json.loads(run("schema", "apply", "g", "--schema", "new.pg", "--json")[1])
    assert (told["supported"], told["applied"], told["step_count"]) == (
        True,
        True,
        len(told["steps"]),
    )
    assert told["commit"]["manifest_version"] == told["manifest_version"]


@pytest.mark.parametrize(
    ("arguments", "code", "mention"),
    [
        (["apply", "g", "--schema", "bad.pg"], 1, "OG-MF-106"),
        (["apply", "g"], 2, "--schema"),
        (["plan", "--from", "new.pg"], 2, "--to"),
        (["apply", "nowhere", "--schema", "new.pg"], 1, "nowhere"),
    ],
)
def test_a_refused_call_says_what_is_wrong(
    run: Run, arguments: list[str], code: int, mention: str
) -> None:
    told = run("schema", *arguments)
    assert (told[0], mention in told[2]) == (code, True)


def test_an_apply_is_refused_while_a_branch_lives(run: Run) -> None:
    run("branch", "create", "side", "--store", "g")
    code, _, err = run("schema", "apply", "g", "--schema", "new.pg")
    assert (code, "side" in err) == (3, True)


def test_a_schema_can_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("new.pg").open() as text:
        monkeypatch.setattr(sys, "stdin", text)
        assert run("schema", "apply", "g", "--schema", "-")[1].startswith("applied: yes")
