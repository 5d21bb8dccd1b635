"""Every command called wrongly: no traceback, the right exit code, one sentence that helps."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.tree import COMMANDS, GROUPS, TASKS, find_function, list_commands
from tests.support.commands import Outcome, Run, runner

SCHEMA = "node Person { name: String @key }\n"
ALL = sorted(" ".join(words) for words in list_commands())
PLAIN = ("config path", "config show", "config check", "profile list", "version", "demo")
"""Commands that need nothing: they are right without arguments."""
READS_GRAPH = tuple(
    one
    for one in ALL
    if one not in PLAIN
    and one.split()[0]
    not in (
        "init",
        "alias",
        "profile",
        "graphs",
        "completion",
        "fmt",
        "serve",
        "login",
        "logout",
        "policy",
    )
    and one != "schema infer"
)
FILLED = {
    "query": ("-e", "query q() { match { $p: Person } return { $p.name } }"),
    "mutate": ("-e", 'query q() { insert Person { name: "x" } }'),
    "load": ("--data", "people.jsonl", "--mode", "append"),
    "lint": ("--query", "people.gq"),
    "schema plan": ("--schema", "people.pg"),
    "schema apply": ("--schema", "people.pg"),
    "branch create": ("side",),
    "branch show": ("main",),
    "branch delete": ("side",),
    "branch merge": ("side",),
    "history": ("Person", "Ada"),
    "commit show": ("01ZZZZZZZZZZ",),
    "commit changes": ("01ZZZZZZZZZZ",),
    "diff": ("main", "main"),
    "changes baseline": ("--out", "state.jsonl"),
    "cleanup": ("--keep", "5"),
    "recovery discard": ("01ZZZZZZZZZZ", "--confirm"),
    "blob get": ("node", "Person", "Ada", "photo"),
    "blob stat": ("node", "Person", "Ada", "photo"),
    "operation": ("order-17",),
    "analyze": ("pagerank",),
    "tag create": ("v1",),
    "tag delete": ("v1",),
}
"""What a command needs beside the graph."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands in a folder with files, a file that is no graph, and no configuration."""
    monkeypatch.chdir(tmp_path)
    for name in ("OMNIGRAPH_STORE", "OMNIGRAPH_PROFILE", "OMNIGRAPH_POLICY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    (tmp_path / "people.pg").write_text(SCHEMA)
    (tmp_path / "people.gq").write_text("query q() { match { $p: Person } return { $p.name } }\n")
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    return runner(monkeypatch, capsys)


def assert_told(done: Outcome, code: int, *facts: str) -> None:
    """It ended with this code, and one line says what is wrong."""
    assert "Traceback" not in done.out + done.err
    assert done.code == code, done.err
    assert sum(line.startswith("error") for line in done.err.splitlines()) == 1, done.err
    for fact in facts:
        assert fact in done.err


@pytest.mark.parametrize("command", [*ALL, *GROUPS, ""])
def test_help_has_a_summary_arguments_options_and_an_example(run: Run, command: str) -> None:
    for flag in ("--help", "-h"):
        done = run(*command.split(), flag)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[0].endswith(".")
        assert "Usage: omnigraphdb" in done.out
        assert max(map(len, done.out.splitlines())) <= 80 or command
    if command in ALL:
        assert (
            f"Examples:\n  omnigraphdb {command}" in done.out
            or f"| omnigraphdb {command}" in done.out
        )
        assert "<bool>" not in done.out


def test_every_command_is_listed_once_by_its_task() -> None:
    listed = [name for names in TASKS.values() for name in names]
    assert sorted(listed) == sorted([*COMMANDS, *GROUPS])
    summaries = [(find_function(one).__doc__ or "").splitlines()[0] for one in COMMANDS.values()]
    assert [one for one in summaries if len(one) > 66] == []


@pytest.mark.parametrize("command", [one for one in ALL if one not in (*PLAIN, "shell")])
def test_a_command_without_arguments_says_what_it_needs(run: Run, command: str) -> None:
    assert_told(run(*command.split()), 2)


@pytest.mark.parametrize("command", ALL)
def test_an_empty_word_is_refused(run: Run, command: str) -> None:
    done = run(*command.split(), "")
    assert_told(done, 2)


@pytest.mark.parametrize("command", [*ALL, *GROUPS, ""])
def test_an_unknown_option_is_refused_by_its_name(run: Run, command: str) -> None:
    assert_told(run(*command.split(), "--nosuch"), 2, "--nosuch")


@pytest.mark.parametrize("command", [one for one in ALL if len(one) > 2])
def test_a_misspelt_command_brings_the_right_one(run: Run, command: str) -> None:
    *above, name = command.split()
    wrong = name[0] + name[2:]
    assert_told(run(*above, wrong), 2, f"'{wrong}'", f"'{name}'")


@pytest.mark.parametrize("command", READS_GRAPH)
def test_a_graph_that_is_not_there_is_named(run: Run, command: str) -> None:
    done = run(*command.split(), *FILLED.get(command, ()), "--store", "nowhere.omni")
    assert_told(done, 1, "nowhere.omni")


@pytest.mark.parametrize("command", READS_GRAPH)
def test_a_file_in_the_place_of_a_graph_is_named(run: Run, command: str) -> None:
    done = run(*command.split(), *FILLED.get(command, ()), "--store", "people.pg")
    assert_told(done, 1, "people.pg")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (("init", "g", "--schema", "none.pg"), "none.pg"),
        (("load", "g", "--data", "none.jsonl", "--mode", "append"), "none.jsonl"),
        (("query", "--query", "none.gq", "--store", "g"), "none.gq"),
        (("mutate", "--query", "none.gq", "--store", "g"), "none.gq"),
        (("lint", "--schema", "none.pg"), "none.pg"),
        (("lint", "--schema", "people.pg", "--query", "none.gq"), "none.gq"),
        (("fmt", "none.gq"), "none.gq"),
        (("schema", "plan", "--from", "none.pg", "--to", "people.pg"), "none.pg"),
        (("schema", "apply", "g", "--schema", "none.pg"), "none.pg"),
        (
            ("query", "-e", "query q() { }", "--params-file", "none.json", "--store", "g"),
            "none.json",
        ),
    ],
)
def test_a_file_that_is_not_there_is_named(
    run: Run, tmp_path: Path, typed: tuple[str, ...], name: str
) -> None:
    if typed[0] != "init":
        omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    assert_told(run(*typed), 1, name, "No such file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert_told(run("init", "closed/g", "--schema", "people.pg"), 1, "closed/g")
    (tmp_path / "unread").mkdir(mode=0o000)
    assert_told(run("snapshot", "unread/g"), 1, "unread/g")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("queries", "list"), "`omnigraphdb queries` is not in this release"),
        (("embed",), "`omnigraphdb embed` is not in this release"),
        (("snapshot", "--cluster", "c"), "--cluster is not in this release"),
        (("run", "list"), "`run` was removed"),
        (("query", "--alias", "a"), "`--alias` was removed"),
        (("snapshot", "--as", "me", "g"), "this command writes nothing"),
        (("--color", "purple", "version"), "--color takes auto, always, never"),
        (("version", "--log-level"), "--log-level takes a value"),
        (("load", "g", "people.jsonl"), "people.jsonl"),
    ],
)
def test_words_of_other_releases_and_wrong_values_are_told(
    run: Run, typed: tuple[str, ...], said: str
) -> None:
    assert_told(run(*typed), 2, said)


@pytest.mark.parametrize(
    ("old", "new"),
    [("read", "query"), ("change", "mutate"), ("check", "lint"), ("ingest", "load")],
)
def test_a_former_word_still_works_and_says_so(run: Run, old: str, new: str) -> None:
    done = run(old, "--help")
    assert (done.code, f"Usage: omnigraphdb {new}" in done.out) == (0, True)
    assert done.err.startswith(f"warning: `omnigraphdb {old}` is deprecated")


def test_global_flags_stand_anywhere(run: Run, tmp_path: Path) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    for typed in (
        ("--color", "always", "branch", "list", "g"),
        ("branch", "--color=always", "list", "g"),
        ("branch", "list", "g", "--color", "always"),
    ):
        assert "\x1b[32mmain" in run(*typed).out
    assert "\x1b" not in run("branch", "list", "g").out
    assert run("branch", "--store", "g", "list", "--json").json["branches"] == ["main"]


# ---- processes


def start(*typed: str) -> "subprocess.Popen[str]":
    """A command of its own process; it hears the signal even where the tests do not."""
    program = (
        "import signal\n"
        "from omnigraphdb.__main__ import run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "run()\n"
    )
    command = [sys.executable, "-c", program, *typed]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, stdin=pipe, text=True)


def test_a_signal_ends_a_command_that_waits(tmp_path: Path) -> None:
    """The command reads its data from a pipe that brings nothing."""
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    with start("load", str(tmp_path / "g"), "--data", "-", "--mode", "append") as process:
        assert process.stderr is not None
        assert "omnigraphdb load →" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said


def test_a_closed_pipe_ends_the_shell_quietly(tmp_path: Path) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    with start("shell", str(tmp_path / "g")) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate(".help\n.schema\n")
    assert process.returncode in (0, 141)
    assert "Traceback" not in said
