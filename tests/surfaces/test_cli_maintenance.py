"""Maintenance on the command line: what it prints, and with which exit code."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.main import main
from tests.support.maintenance import appended, compacted, drifted, scattered

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    scattered(tmp_path / "g").close()

    def invoke(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return int(str(stop.value.code or 0)), told.out, told.err

    return invoke


def as_json(run: Run, *arguments: str) -> Any:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_indexes_are_shown_and_built(run: Run) -> None:
    code, out, _ = run("index", "status", "g")
    assert code == 0
    assert "node:Person.age btree partial: 7 of 13 rows" in out
    assert as_json(run, "index", "build", "g")["built"] == 0
    assert run("index", "build", "g")[1] == "0 built, 0 pending\n"


def test_optimize_tells_what_became_of_each_table(run: Run) -> None:
    code, out, err = run("optimize", "g")
    assert code == 0
    assert "fragments became 1" in out
    assert out.endswith("1 of 3 tables changed\n")
    assert "omnigraphdb optimize →" in err
    assert not any(one["committed"] for one in as_json(run, "optimize", "g")["tables"])


def test_cleanup_previews_unless_it_is_confirmed(run: Run) -> None:
    code, out, err = run("cleanup", "g", "--keep", "1")
    assert (code, "would remove" in out) == (0, True)
    assert "warning: --keep 1" in err
    preview = as_json(run, "cleanup", "g", "--keep", "5", "--older-than", "0s", "-q")
    assert preview["confirmed"] is False
    done = as_json(run, "cleanup", "g", "--keep", "5", "--older-than", "0s", "--confirm", "-q")
    assert done["tables"] == preview["tables"]
    assert run("cleanup", "g", "--keep", "5", "--confirm")[1].count("removed 0 versions") == 3


@pytest.mark.parametrize("wrong", [(), ("--older-than", "a while"), ("--keep", "0", "--confirm")])
def test_cleanup_wants_to_know_what_to_keep(run: Run, wrong: tuple[str, ...]) -> None:
    code, out, err = run("cleanup", "g", *wrong)
    assert code in (1, 2)
    assert "keep" in err or "age" in err
    assert out == ""


def test_repair_shows_heals_refuses_and_forces(run: Run, tmp_path: Path) -> None:
    assert "no_drift, no_op" in run("repair", "g")[1]
    with omnigraphdb.open(tmp_path / "g") as graph:
        drifted(graph, compacted)
    assert "verified_maintenance, preview" in run("repair", "g")[1]
    code, out, _ = run("repair", "g", "--confirm")
    assert (code, "verified_maintenance, healed" in out) == (0, True)
    with omnigraphdb.open(tmp_path / "g") as graph:
        drifted(graph, appended)
    assert run("optimize", "g")[1].count("drift_needs_repair") == 1
    code, out, _ = run("repair", "g", "--confirm")
    assert (code, "suspicious, refused" in out) == (1, True)
    assert run("repair", "g", "--force")[0] == 1
    code, out, _ = run("repair", "g", "--confirm", "--force")
    assert (code, "suspicious, forced" in out) == (0, True)
    assert run("doctor", "g")[0] == 0
