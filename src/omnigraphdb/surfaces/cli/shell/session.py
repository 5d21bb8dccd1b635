"""One session of the shell: its graph, where it looks, and what it does with a statement."""

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraphdb.cancellation import Cancellation
from omnigraphdb.display import count_of
from omnigraphdb.errors import NotFound, OmniError, UserInputError, shorten
from omnigraphdb.surfaces.cli.address import read_point
from omnigraphdb.surfaces.cli.formats import TEXTS, Format, render, render_returned
from omnigraphdb.surfaces.cli.output import note, report, say, say_data, say_lines
from omnigraphdb.surfaces.cli.parameters import Values, bind_values
from omnigraphdb.surfaces.cli.shell.statements import PLAIN_WORDS, TYPED, Statement, StatementKind

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.api.stored_queries import StoredQuery

T = TypeVar("T")
OK = 0
HELP = {
    ".help": "list these commands",
    ".schema [TYPE]": "show the schema, or one type of it",
    ".branch [NAME]": "show the branches, or go to one",
    ".at [COMMIT|VERSION|now]": "read the past, or the present again",
    ".explain QUERY": "show how a query would be answered",
    ".timing [on|off]": "tell how long each statement took",
    ".format [table|kv|csv|jsonl|json]": "how rows are printed",
    ".export FILE": "write the graph as JSON lines",
    ".read FILE": "run the statements of a file",
    ".queries [FILE|FOLDER]": "list the named queries, or read those of a file or folder",
    ".run NAME [PARAMETER=VALUE …]": "run a named query",
    ".quit": "leave; Ctrl-D does too",
}


class Session:
    """A graph with the branch, the point in time and the form that statements use."""

    def __init__(
        self,
        graph: "Graph",
        *,
        branch: str = "main",
        at: str | int | None = None,
        form: Format = Format.TABLE,
    ) -> None:
        self.graph, self.branch, self.at, self.form = graph, branch, at, form
        self.timing = False
        self.over = False
        self.queries: Mapping[str, StoredQuery] = {}
        self._confirm: Callable[[str], bool] | None = None

    def ask_before_writing(self, confirm: Callable[[str], bool]) -> None:
        """Show what a mutation would change, and commit it only when the answer is yes."""
        self._confirm = confirm

    def run(self, statement: Statement) -> int:
        """Do what a statement asks for; gives its exit code, and never raises for what a user typed."""
        started = time.perf_counter()
        try:
            self._dispatch(statement)
        except OmniError as error:
            code = report(error, as_json=False)
            if statement.origin != TYPED and "diagnostic" not in error.details:
                note(f"  --> {statement.origin}, line {statement.line}")
            return code
        except KeyboardInterrupt:
            note("interrupted; nothing of this statement was written, or all of it")
            return 130
        finally:
            if self.timing and statement.text:
                note(f"{time.perf_counter() - started:.3f} s")
            sys.stdout.flush()
        return OK

    def _dispatch(self, statement: Statement) -> None:
        match statement.kind:
            case StatementKind.EMPTY:
                pass
            case StatementKind.COMMAND if statement.text in PLAIN_WORDS:
                self._command(f".{statement.text}")
            case StatementKind.COMMAND:
                self._command(statement.text)
            case StatementKind.READ:
                self._show(statement.query)
            case StatementKind.WRITE:
                self._write(statement.query)

    def _show(self, query: str, name: str | None = None, params: Any = None) -> None:
        ask = partial(self.graph.query, query, name, params, branch=self.branch, at=self.at)
        text = render(run_interruptible(ask), self.form)
        (say_data if self.form is Format.CSV else say)(text)

    def _write(self, query: str, name: str | None = None, params: Any = None) -> None:
        if self.at is not None:
            raise UserInputError(
                "the shell looks at the past, where nothing can be written; nothing was changed",
                hint=".at now returns to the present",
            )
        if self._confirm is not None:
            would = self.graph.mutate(query, name, params, branch=self.branch, dry_run=True)
            what = _spell_counts(would.affected_nodes, would.affected_edges)
            if not self._confirm(f"{what} on {self.branch} would change. Commit?"):
                note("nothing was changed")
                return
        result = self.graph.mutate(query, name, params, branch=self.branch)
        if result.columns:
            say(render_returned(result))
        if result.commit is None:
            say("nothing matched; no commit")
            return
        counts = _spell_counts(result.affected_nodes, result.affected_edges)
        say(f"changed {counts} on {result.branch}, commit {result.commit.id}")

    def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        command = _COMMANDS.get(name)
        if command is None:
            raise NotFound("command", name, known=[*_COMMANDS], hint=".help lists them")
        command(self, rest.strip())

    # ---- commands

    def show_help(self, _: str) -> None:
        """List the commands."""
        width = max(map(len, HELP))
        for name, meaning in HELP.items():
            say(f"{name.ljust(width)}  {meaning}")
        say("Anything else is a query: end it with a semicolon or an empty line.")

    def show_schema(self, name: str) -> None:
        """Print the schema, or the declaration of one type."""
        from omnigraphdb.catalog.model import order_columns

        if not name:
            say(self.graph.schema_source.rstrip())
            return
        found = self.graph.catalog.table(name)
        for one in order_columns(found, found.properties):
            say(f"{one}: {found.properties[one].type}")

    def choose_branch(self, name: str) -> None:
        """List the branches, or go to one."""
        names = [branch.name for branch in self.graph.branches()]
        if not name:
            for one in names:
                say(f"* {one}" if one == self.branch else f"  {one}")
            return
        if name not in names:
            raise NotFound("branch", name, known=names, hint=".branch lists them")
        self.branch = name

    def choose_point(self, at: str) -> None:
        """Go to a point in the past, or back to the present."""
        if not at:
            say("now" if self.at is None else str(self.at))
            return
        point = None if at == "now" else read_point(at)
        if point is not None:
            self.graph.snapshot(branch=self.branch, at=point).close()
        self.at = point

    def explain(self, text: str) -> None:
        """Print the plan of a query."""
        statement = Statement(text)
        if statement.kind is not StatementKind.READ:
            raise UserInputError(
                f".explain takes a read, not '{shorten(text)}'; nothing was run",
                hint=".explain match { … } return { … }",
            )
        say(self.graph.explain(statement.query, branch=self.branch, at=self.at).text)

    def set_timing(self, word: str) -> None:
        """Say how long statements take, or stop saying it; without a word, tell which."""
        if word:
            self.timing = _choose("timing", word, {"on": True, "off": False})
        else:
            say("on" if self.timing else "off")

    def set_format(self, word: str) -> None:
        """Choose how rows are printed, or tell how they are."""
        if word:
            self.form = _choose("format", word, {str(one): one for one in TEXTS})
        else:
            say(str(self.form))

    def export(self, name: str) -> None:
        """Write the graph to a file, or print it."""
        from omnigraphdb.engine.history.feed import write_lines

        lines = self.graph.export_lines(branch=self.branch, at=self.at)
        if not name:
            say_lines(lines)
            return
        path = Path(_one_word(name)).expanduser()
        write_lines(path, lines)
        note(f"exported {self.graph.uri} to {path}")

    def read(self, name: str) -> None:
        """Run the statements of a file, up to the first that fails."""
        from omnigraphdb.api.texts import read_source
        from omnigraphdb.surfaces.cli.shell.statements import cut_statements

        path = Path(_one_word(name)).expanduser()
        for statement in cut_statements(read_source(path).text.split("\n"), str(path)):
            code = self.run(statement)
            if code != OK:
                raise UserInputError(
                    f"'{path}' stopped at a statement that failed; those before it stand"
                )
            if self.over:
                return

    def name_queries(self, path: str) -> None:
        """Read named queries, which are checked against the schema, or list those that were read."""
        if path:
            found = self.graph.stored_queries(Path(_one_word(path)).expanduser())
            self.queries = {**self.queries, **found.by_name}
        for one in self.queries.values():
            takes = ", ".join(param.name for param in one.params)
            say(f"{one.name}({takes})" + (f"  {one.description}" if one.description else ""))

    def run_named(self, text: str) -> None:
        """Run a named query with values for its parameters."""
        name, *pairs = _split_words(text) or [""]
        if not name:
            raise UserInputError(
                ".run takes the name of a query; nothing was done", hint=".queries lists them"
            )
        found = self.queries.get(name)
        if found is None:
            raise NotFound("query", name, known=[*self.queries], hint=".queries FILE reads some")
        params = self._bind(found, pairs)
        if found.mutation:
            self._write(found.text, name, params)
        else:
            self._show(found.text, name, params)

    def _bind(self, query: "StoredQuery", pairs: Sequence[str]) -> dict[str, Any] | None:
        wrong = next((pair for pair in pairs if not pair.partition("=")[1]), None)
        if wrong is not None:
            raise UserInputError(f"'{wrong}' is no PARAMETER=VALUE; nothing was done")
        given = {pair.partition("=")[0]: pair.partition("=")[2] for pair in pairs}
        return bind_values(self.graph, query.text, query.name, Values(objects={}, pairs=given))

    def leave(self, _: str) -> None:
        """End the session."""
        self.over = True


_COMMANDS: Mapping[str, Callable[[Session, str], None]] = {
    ".help": Session.show_help,
    ".schema": Session.show_schema,
    ".branch": Session.choose_branch,
    ".at": Session.choose_point,
    ".explain": Session.explain,
    ".timing": Session.set_timing,
    ".format": Session.set_format,
    ".export": Session.export,
    ".read": Session.read,
    ".queries": Session.name_queries,
    ".run": Session.run_named,
    ".quit": Session.leave,
    ".exit": Session.leave,
}
COMMANDS = tuple(_COMMANDS)


def run_interruptible(read: Callable[[], T]) -> T:
    """Run a read in a thread of its own: Ctrl-C returns to the prompt at once, and the read stops at its next step."""
    guard, context = Cancellation(), copy_context()

    def run() -> T:
        with guard:
            return read()

    pool = ThreadPoolExecutor(1, "omnigraph-shell")
    try:
        return pool.submit(context.run, run).result()
    except KeyboardInterrupt:
        guard.cancel()
        raise
    finally:
        pool.shutdown(wait=False)


def _spell_counts(nodes: int, edges: int) -> str:
    return f"{count_of(nodes, 'node')} and {count_of(edges, 'edge')}"


def _one_word(text: str) -> str:
    words = _split_words(text)
    if len(words) != 1:
        given = f"'{text}'" if text else "nothing"
        raise UserInputError(f"one file is expected, not {given}; nothing was done")
    return words[0]


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserInputError(
            f"a quotation mark in '{text}' has no second one; nothing was done"
        ) from error


def _choose(what: str, word: str, choices: Mapping[str, Any]) -> Any:
    if word not in choices:
        raise UserInputError(
            f".{what} takes {', '.join(choices)}, not '{word}'; nothing was changed"
        )
    return choices[word]
