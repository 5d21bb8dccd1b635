"""The shell, through a pipe and on a terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.surfaces.cli.shell.statements import cut_statements, is_finished

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ADD = 'insert Person { name: "Ada" age: 36 }'
ASK = "match { $p: Person } return { $p.name }"
SECONDS_MAX = 60


@pytest.fixture
def uri(tmp_path: Path) -> str:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    return str(tmp_path / "g")


def pipe(uri: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Send statements through a pipe."""
    command = [sys.executable, "-m", "omnigraphdb", "shell", uri, *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS_MAX)


def test_statements_of_a_pipe_are_run_one_after_the_other(uri: str) -> None:
    done = pipe(uri, f'{ADD}\ninsert Person {{ name: "Bo" }};\n.format csv\n{ASK}\n\n.branch\n')
    assert done.returncode == 0, done.stderr
    assert "changed 2 nodes and 0 edges on main" in done.stdout
    assert done.stdout.endswith("p.name\nAda\nBo\n* main\n")


CUTS = {
    "reads on lines of their own": ([ASK, ASK], [ASK, ASK]),
    "a read over several lines": (["match { $p: Person }", "return { $p.name }", "limit 1"], None),
    "several on one line": ([f"{ADD}; {ASK};{ASK}"], [ADD, f" {ASK}", ASK]),
    "changes in a row": ([ADD, ADD], None),
    "a read after changes": ([ADD, ASK], [ADD, ASK]),
    "changes after a read": ([ASK, ADD], [ASK, ADD]),
    "named queries": ([f"query a() {{ {ASK} }}", f"query b() {{ {ASK} }}"], [f"query a() {{ {ASK} }}", f"query b() {{ {ASK} }}"]),
    "a header": (["use extensions", f"query a() {{ {ASK} }}"], None),
    "a semicolon in a string": (['insert Person { name: "a; b" }'], None),
    "a semicolon in a comment": ([f"{ASK} // all; of them"], None),
    "a line break in a string": (['insert Person { name: "a', 'match" }', ASK], ['insert Person { name: "a\nmatch" }', ASK]),
    "a line that begins inside of brackets": (["match {", "query: Person", "}"], None),
    "commands": ([ADD, ".branch;", " .at now", ASK], [ADD, ".branch", ".at now", ASK]),
    "a plan over several lines": ([".explain match {", "$p: Person }", ASK], [".explain match {\n$p: Person }", ASK]),
    "empty lines": (["", ASK, "", "  ", ADD, ""], [ASK, ADD]),
}  # fmt: skip
"""Lines, and the statements that they are; None: all of them are one."""


@pytest.mark.parametrize("case", CUTS)
def test_lines_are_cut_into_statements(case: str) -> None:
    lines, expected = CUTS[case]
    found = list(cut_statements(lines, "stdin"))
    assert [one.text for one in found] == (["\n".join(lines)] if expected is None else expected)
    first = [one.text.split("\n")[0] for one in found]
    assert all(text in lines[one.line - 1] for text, one in zip(first, found, strict=True))


def test_many_lines_are_cut_in_one_pass() -> None:
    """Lines that were scanned are not scanned again: a pipe of changes may be long."""
    started = time.process_time()
    (found,) = cut_statements([ADD] * 5_000)
    assert found.text.count("insert") == 5_000
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        (ASK, True),
        ("match { $p: Person }", False),
        ("match { $p: Person }\n", True),
        ("match {", False),
        ("match {;", True),
        ('insert Person { name: "a', False),
        (".branch", True),
        (".explain match {", False),
        (f".explain {ASK}", True),
        ("exit", True),
        ("select * from Person", True),
        ("// a remark", False),
        ("", True),
    ],
)
def test_enter_runs_what_is_finished(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def test_statements_may_use_the_whole_language(uri: str) -> None:
    text = (
        'insert Person { name: "a query here" age: -5 } // below zero\n'
        "match { $p: Person  $p.age < -1 or $p.age is null } return { $p.name }\n"
        "query q() { match { $p: Person { age: -5 } } return { $p.age } }\n"
        ".explain match { $p: Person  $p.age > -7 } return { $p.name }\n"
    )
    done = pipe(uri, text, "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "p.name\na query here\np.age\n-5\nProject" in done.stdout


def test_errors_of_a_pipe_name_its_lines(uri: str) -> None:
    text = f'{ADD};\n// an edge\ninsert Knows {{ from: "Ada" to: "nobody" }};\n\nmatch {{\n  $p: Persn\n}} return {{ $p.name }}\n.run x "y\n.schema Persn\n'
    done = pipe(uri, text)
    assert done.returncode == 1
    assert "'nobody'" in done.stderr
    assert "--> stdin, line 2" in done.stderr
    assert "--> stdin:6:7" in done.stderr
    assert " 6 |   $p: Persn\n" in done.stderr
    assert "a quotation mark in 'x \"y' has no second one; nothing was done" in done.stderr
    assert "--> stdin, line 9" in done.stderr
    assert "use extensions" not in done.stderr
    assert "Traceback" not in done.stderr


MISTYPED = {
    ".format parquet": ".format takes table, kv, csv, jsonl, json, not 'parquet'",
    ".run": ".run takes the name of a query",
    ".explain": ".explain takes a read, not ''; nothing was run",
    f".explain {ADD}": ".explain takes a read, not 'insert",
    ".branch nope": ".branch lists them",
    ".read": "one file is expected, not nothing",
    ".export /nowhere/at/all": "cannot be written",
    "select * from Person;": "this looks like SQL",
    "match { $p: Person } return { $p.name } limt 3;": "--> stdin:9:41",
}


def test_what_is_typed_wrongly_is_told(uri: str) -> None:
    done = pipe(uri, "\n".join([*MISTYPED, "help", "exit", ADD]))
    told = [done.stderr.find(said) for said in MISTYPED.values()]
    assert min(told) >= 0, done.stderr
    assert told == sorted(told)
    assert "Traceback" not in done.stderr
    assert "list these commands" in done.stdout
    assert "changed" not in done.stdout


def test_a_failure_is_told_where_it_is_and_the_rest_is_run(uri: str) -> None:
    done = pipe(uri, f"match {{ $p: Persn }} return {{ $p.name }};\n{ADD};\n.nosuch\n")
    assert done.returncode == 1
    assert "did you mean 'Person'?" in done.stderr
    assert "command '.nosuch' not found" in done.stderr
    assert "changed 1 node and 0 edges" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_past_is_read_and_not_written(uri: str) -> None:
    with omnigraphdb.open(uri) as graph:
        before = graph.mutate(f"query a() {{ {ADD} }}").commit
        graph.mutate('query b() { insert Person { name: "Bo" } }')
    assert before is not None
    done = pipe(uri, f".at {before.id}\n.format csv\n{ASK};\n{ADD};\n.at now\n{ASK};\n")
    assert done.returncode == 1
    assert done.stdout == "p.name\nAda\np.name\nAda\nBo\n"
    assert ".at now returns to the present" in done.stderr


def test_a_file_of_statements_stops_at_the_first_that_fails(uri: str, tmp_path: Path) -> None:
    (tmp_path / "two.gq").write_text(f"{ADD};\nnonsense;\n{ADD};\n")
    done = pipe(uri, f".read {tmp_path / 'two.gq'}\n.format csv\n{ASK}\n")
    assert done.returncode == 1
    assert "stopped at a statement that failed; those before it stand" in done.stderr
    assert done.stdout.endswith("p.name\nAda\n")


NAMED = """
query by_name($who: String) @description("one person") { match { $p: Person { name: $who } } return { $p.name } }
query add($who: String) { insert Person { name: $who } }
"""


def test_named_queries_are_read_listed_and_run(uri: str, tmp_path: Path) -> None:
    (tmp_path / "people.gq").write_text(NAMED)
    text = (
        f".queries {tmp_path / 'people.gq'}\n.run add who=007\n.format csv\n.run by_name who=007\n"
    )
    done = pipe(uri, text + ".run by_nme\n.run by_name wo=1\n.run by_name x\n")
    assert done.stdout.startswith("add(who)\nby_name(who)  one person\nchanged 1 node and 0 edges")
    assert done.stdout.endswith("p.name\n007\n")
    assert done.returncode == 1
    for fact in ("did you mean 'by_name'?", "did you mean 'who'?", "'x' is no PARAMETER=VALUE"):
        assert fact in done.stderr


def test_named_queries_and_their_parameters_are_completed(uri: str, tmp_path: Path) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from omnigraphdb.surfaces.cli.shell.prompt import SchemaCompleter
    from omnigraphdb.surfaces.cli.shell.session import Session

    (tmp_path / "people.gq").write_text(NAMED)
    with omnigraphdb.open(uri) as graph:
        session = Session(graph)
        session.name_queries(str(tmp_path / "people.gq"))
        completer = SchemaCompleter(session)

        def offer(text: str) -> list[str]:
            return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

        assert offer(".run ") == ["add", "by_name"]
        assert offer(".run by") == ["by_name"]
        assert offer(".run by_name ") == ["who="]
        assert offer(".run by_name who=1 ") == []


def test_what_a_read_only_shell_refuses_is_not_written(uri: str) -> None:
    done = pipe(uri, f"{ADD};\n{ASK};\n", "--read-only", "--format", "csv")
    assert done.returncode == 1
    assert done.stdout == "p.name\n"


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, uri: str, home: Path) -> None:
        self.shown = ""
        self._file, theirs = pty.openpty()
        kept = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", "OMNIGRAPH_HOME": str(home)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "omnigraphdb", "shell", uri],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **kept},
            start_new_session=True,
        )
        os.close(theirs)

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._file, keys.encode())

    def expect(self, text: str) -> None:
        """Wait until a text is shown; what came up to it is forgotten."""
        end = SYSTEM.monotonic() + SECONDS_MAX
        while text not in self.shown:
            assert SYSTEM.monotonic() < end, f"{text!r} was not shown in {self.shown!r}"
            self.shown += self._read()
        self.shown = self.shown[self.shown.index(text) + len(text) :]

    def wait(self) -> int:
        """Wait for the end; gives the exit code."""
        while self._process.poll() is None:
            self._read()
        return self._process.returncode

    def kill(self) -> None:
        """End it, however it stands."""
        self._process.kill()
        self._process.wait()
        os.close(self._file)

    def _read(self) -> str:
        if not select.select([self._file], [], [], 0.2)[0]:
            return ""
        try:
            found = os.read(self._file, 65_536).decode("utf-8", "replace")
        except OSError:
            # The other end is closed.
            return ""
        if "\x1b[6n" in found:
            self.send("\x1b[1;1R")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", found)


@pytest.fixture
def terminal(uri: str, tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(uri, tmp_path / "home")
    yield shell
    shell.kill()


def test_a_talk_on_a_terminal(terminal: Terminal, uri: str, tmp_path: Path) -> None:
    terminal.expect("main>")
    terminal.send(ADD + "\r")
    terminal.expect("1 node and 0 edges on main would change. Commit? [y/N]: ")
    terminal.send("n\r")
    terminal.expect("nothing was changed")
    terminal.expect("main>")
    terminal.send(ADD + "\r")
    terminal.expect("[y/N]: ")
    terminal.send("y\r")
    terminal.expect("changed 1 node and 0 edges on main")
    terminal.expect("main>")
    terminal.send("match { $p: Per\t")
    terminal.expect("son")
    terminal.send("\x03")
    terminal.expect("main>")
    terminal.send("match {\r$p: Person\r}\rreturn { $p.name }\r")
    terminal.expect("1 row from branch main")
    terminal.expect("Ada")
    terminal.expect("main>")
    terminal.send(f"\x1b[200~{ASK};\n{ASK.replace('name', 'age')}\x1b[201~\r")
    terminal.expect("Ada")
    terminal.expect("36")
    terminal.expect("main>")
    terminal.send("match { $p: Persn } return { $p.name }\r")
    terminal.expect("did you mean 'Person'?")
    terminal.expect("main>")
    terminal.send("\x04")
    assert terminal.wait() == 0
    assert ADD in (tmp_path / "home" / "shell_history").read_text()
    with omnigraphdb.open(uri) as graph:
        assert [row["p.name"] for row in graph.query(f"query q() {{ {ASK} }}")] == ["Ada"]


def test_the_command_alone_shows_its_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "omnigraphdb"], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert "Traceback" not in done.stderr
    assert "shell" in done.stdout + done.stderr
