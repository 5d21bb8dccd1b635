"""The command line among other programs: closed pipes, full disks, odd names, an interrupt; never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.commands import PROGRAM, look

SCHEMA = "node Person { name: String @key }"
ROWS = 5_000
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph whose export is larger than any buffer of a pipe."""
    home = tmp_path_factory.mktemp("streams")
    (home / "people.pg").write_text(SCHEMA)
    with omnigraphdb.init(home / "g", SCHEMA) as graph:
        rows = [{"type": "Person", "data": {"name": f"{n:050}"}} for n in range(ROWS)]
        graph.load(rows, mode="append")
    return home


def shell(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    text = command.replace("omnigraphdb", " ".join(PROGRAM), 1)
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {text}"], cwd=home, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", ["export g", "export g --type Person", "--help"])
def test_a_reader_that_leaves_is_no_failure(home: Path, command: str) -> None:
    done = shell(f"omnigraphdb {command} | head -n 1", home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_command_runs_without_any_output_to_write_to(home: Path) -> None:
    done = shell("omnigraphdb snapshot g >&- 2>&-", home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("command", ["snapshot g", "export g"])
@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_a_full_disk_under_the_output_is_told(home: Path, command: str) -> None:
    done = shell(f"omnigraphdb {command} > {FULL}", home)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the result could not be printed: No space left on device; what was done stands\n"
    )


def test_a_write_lands_though_nobody_reads_what_is_said_about_it(home: Path) -> None:
    query = """'query q() { insert Person { name: "heard" } }'"""
    done = shell(f"omnigraphdb mutate --store g -e {query} 2> >(exec true) > /dev/null", home)
    assert done.returncode == 0
    with omnigraphdb.open(home / "g", read_only=True) as graph:
        assert graph.entity("Person", "heard") is not None


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_every_name_and_value_can_be_printed_whatever_the_terminal_speaks(
    home: Path, encoding: str
) -> None:
    def run_command(*arguments: str) -> bytes:
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [*PROGRAM, *arguments, "--json"], cwd=home, capture_output=True, env=environment
        )
        assert b"Traceback" not in done.stderr
        return done.stdout

    no_text = json.loads(
        run_command("snapshot", os.fsdecode(b"caf\xe9")).decode(errors="surrogateescape")
    )
    assert no_text["kind"] == "user_input"
    elsewhere = json.loads(run_command("snapshot", "日本"))
    assert elsewhere["missing"]["name"].endswith("日本")


def test_an_interrupted_command_says_so_and_leaves_the_graph_as_it_was(
    home: Path, tmp_path: Path
) -> None:
    """The signal comes while the write stands at a failpoint, so that it always comes at the same place."""
    program = (
        "import signal\n"
        "from omnigraphdb.failpoints import Failpoint, armed\n"
        "from omnigraphdb.surfaces.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with armed(Failpoint.PREPARED, lambda: signal.raise_signal(signal.SIGINT)):\n"
        "    main()\n"
    )
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        query = 'query q() { insert Person { name: "late" } }'
        done = subprocess.run(
            [sys.executable, "-c", program, "mutate", "--store", graph.uri, "-e", query],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 130
        assert done.stderr.endswith("interrupted\n")
        assert "Traceback" not in done.stderr
        assert graph.table("Person").num_rows == 0
        assert graph.doctor() == []


# ---- on a terminal


ASK = ("query", "--store", "g", "-e", "query q() { match { $p: Person } return { $p.name } }")


@pytest.mark.parametrize("typed", [("commit", "list", "g"), ASK])
def test_a_pager_shows_what_the_terminal_would_show(home: Path, typed: tuple[str, ...]) -> None:
    plain = look(home, *typed, PAGER="sed s/^/paged:/")
    assert (plain.code, "paged:" in plain.out) == (0, False)
    assert typed == ASK or "lately" in plain.out
    paged = look(home, *typed, "--pager", PAGER="sed s/^/paged:/")
    assert paged.code == 0
    assert paged.out == "".join(f"paged:{line}\n" for line in plain.out.splitlines())


def test_nothing_is_paged_into_a_pipe(home: Path) -> None:
    done = shell("omnigraphdb commit list g --pager", home)
    assert (done.returncode, done.stderr) == (0, "")
    paged = subprocess.run(
        [*PROGRAM, "commit", "list", "g", "--pager"],
        cwd=home,
        env=os.environ | {"PAGER": "sed s/^/paged:/"},
        capture_output=True,
        text=True,
    )
    assert paged.stdout == done.stdout


@pytest.mark.parametrize("pager", ["head -n 1", "true", "sed 's"])
def test_a_pager_that_leaves_or_is_not_there_is_no_failure(home: Path, pager: str) -> None:
    done = look(home, *ASK, "--pager", PAGER=pager)
    assert (done.code, "Traceback" in done.out) == (0, False)
    known = {"head -n 1": 1, "true": 0}
    lines = known[pager] if pager in known else 3 + int(done.out.partition(" ")[0])
    assert len(done.out.splitlines()) == lines
