"""The shell on a terminal: history, several lines, completion, colours."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from omnigraphdb.compile.complete import complete
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS, scan
from omnigraphdb.surfaces.cli.formats import TEXTS
from omnigraphdb.surfaces.cli.shell.session import COMMANDS, Session
from omnigraphdb.surfaces.cli.shell.statements import is_finished

_STYLES = {
    "STRING": "class:string",
    "OPEN_STRING": "class:string",
    "INT": "class:number",
    "FLOAT": "class:number",
    "SIGNED": "class:number",
    "TYPE": "class:type",
    "VARIABLE": "class:variable",
    "COMMENT": "class:comment",
}
_STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "type": "ansiyellow",
        "variable": "ansimagenta",
        "comment": "italic ansibrightblack",
        "prompt": "bold",
    }
)


def open_prompt(session: Session, history: Path | None, *, color: bool) -> Callable[[], str]:
    """Give a function that asks for one statement; `EOFError` is the end, `KeyboardInterrupt` drops the line."""
    prompt: PromptSession[str] = PromptSession(
        history=_open_history(history),
        completer=SchemaCompleter(session),
        lexer=QueryLexer() if color else None,
        style=_STYLE if color else None,
        key_bindings=_keys(),
        multiline=True,
        complete_while_typing=False,
        prompt_continuation="   ... ",
        enable_open_in_editor=True,
    )

    def ask() -> str:
        where = session.branch if session.at is None else f"{session.branch} at {session.at}"
        return prompt.prompt([("class:prompt", f"{where}> ")])

    return ask


def _open_history(path: Path | None) -> History:
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            return FileHistory(str(path))
    return InMemoryHistory()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_finished(buffer.text) and buffer.document.is_cursor_at_the_end:
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return keys


class SchemaCompleter(Completer):
    """Completes queries by grammar and schema, and commands by what they take."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(
        self, document: Document, _complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Every word that may stand at the cursor."""
        text, offset = document.text, document.cursor_position
        if text.startswith("."):
            yield from self._complete_command(text[:offset])
            return
        for one in complete(text, offset, self._session.graph.catalog):
            yield Completion(one.text, start_position=one.start - offset, display_meta=one.detail)

    def _complete_command(self, text: str) -> Iterator[Completion]:
        name, space, rest = text.partition(" ")
        known = self._list_words(name, rest) if space else COMMANDS
        begun = rest.rpartition(" ")[2] if name == ".run" else rest if space else name
        for word in known:
            if word.startswith(begun):
                yield Completion(word, start_position=-len(begun))

    def _list_words(self, command: str, rest: str) -> Iterable[str]:
        graph = self._session.graph
        match command:
            case ".branch":
                return [branch.name for branch in graph.branches()]
            case ".schema":
                return [*graph.catalog.nodes, *graph.catalog.edges]
            case ".format":
                return map(str, TEXTS)
            case ".timing":
                return ["on", "off"]
            case ".at":
                return ["now"]
            case ".run":
                return self._list_run_words(rest)
            case _:
                return []

    def _list_run_words(self, rest: str) -> Iterable[str]:
        """Names of queries; after one, its parameters that have no value yet."""
        name, space, given = rest.partition(" ")
        found = self._session.queries.get(name)
        if not space or found is None:
            return self._session.queries
        words = [one.name + "=" for one in found.params]
        return [one for one in words if f" {one}" not in f" {given}"]


class QueryLexer(Lexer):
    """Colours of a query text."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """The parts of each line with their styles."""
        lines: list[StyleAndTextTuples] = [[]]
        for style, text in _paint(document.text):
            first, *more = text.split("\n")
            lines[-1].append((style, first))
            lines.extend([(style, part)] for part in more)
        return lambda number: lines[number] if number < len(lines) else []


def _paint(text: str) -> Iterator[tuple[str, str]]:
    end = 0
    for token in scan(text):
        start = token.start_pos or 0
        if start > end:
            yield "", text[end:start]
        is_keyword = token.value in KEYWORDS or token.value in FUNCTIONS
        yield "class:keyword" if is_keyword else _STYLES.get(token.type, ""), token.value
        end = token.end_pos or 0
    if end < len(text):
        yield "", text[end:]
