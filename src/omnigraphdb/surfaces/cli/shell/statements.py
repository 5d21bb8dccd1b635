"""Statements of the shell: where one ends, and what it is."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from omnigraphdb.compile.complete import BARE_HEAD, is_bare
from omnigraphdb.errors import OmniError
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.tokens import HEADER, OPEN_COMMENT, OPEN_STRING, read_words
from omnigraphdb.language.source import Source, SourceText
from omnigraphdb.values import dataclass

TYPED = "<text>"
"""The origin of a statement that a person types."""

_DEPTH = {"LBRACE": 1, "_LPAREN": 1, "LBRACKET": 1, "RBRACE": -1, "RPAREN": -1, "RBRACKET": -1}
PLAIN_WORDS = ("help", "exit", "quit")
"""Commands that people type without the dot."""

_WRITES = ("insert", "upsert", "update", "delete", "unnest")
_READS = ("match", "query", "use")
_TAIL = "\n}"
"""Closes a body on a line of its own, since the body may end with a comment."""


class StatementKind(StrEnum):
    """What the shell does with a statement."""

    COMMAND = "command"
    READ = "read"
    WRITE = "write"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it was typed, without the semicolon that ends it, and the line of the input where it begins."""

    text: str
    line: int = 1
    origin: str = TYPED

    @property
    def kind(self) -> StatementKind:
        """What it asks for; a text that cannot be read counts as a read, which says why."""
        if self.text.lstrip().startswith(".") or self.text in PLAIN_WORDS:
            return StatementKind.COMMAND
        word = _first_word(self.text)
        if not word:
            return StatementKind.EMPTY
        if word in _WRITES:
            return StatementKind.WRITE
        try:
            file = parse_queries(self.source)
        except OmniError:
            return StatementKind.READ
        writes = bool(file.queries) and all(query.is_mutation for query in file.queries)
        return StatementKind.WRITE if writes else StatementKind.READ

    @property
    def source(self) -> Source:
        """The text as a query file: a bare body gets a head, and every statement may use all that the language knows."""
        if is_bare(self.text):
            head, tail = BARE_HEAD, _TAIL
        else:
            head, tail = "" if _first_word(self.text) == "use" else f"{HEADER} ", ""
        text = f"{head}{self.text}{tail}"
        return Source(text, self.origin, len(head), len(tail), self.line)

    @property
    def query(self) -> str:
        """The text that the graph is asked."""
        return SourceText.of(self.source)

    @property
    def is_whole(self) -> bool:
        """Whether it can be read as it stands."""
        try:
            return bool(parse_queries(self.source).queries)
        except OmniError:
            return False


def cut_statements(lines: Iterable[str], origin: str = TYPED) -> Iterator[Statement]:
    """Cut lines into statements.

    A command is one line; `.explain` goes on while a bracket is open. Any other statement ends with a semicolon, with
    an empty line, before a command, and, when it is whole, before a line that begins a read.
    """
    waiting = _Waiting(origin)
    for number, line in enumerate(lines, 1):
        is_command = not waiting.is_open and _is_command(line, alone=not waiting.text)
        if is_command or waiting.ends_before(line):
            yield from waiting.take()
        if is_command and not _explains(line):
            yield Statement(line.strip().removesuffix(";").rstrip(), number, origin)
            continue
        yield from waiting.add(line, number)
        if not waiting.is_open and (not line.strip() or _explains(waiting.text)):
            yield from waiting.take()
    yield from waiting.take()


class _Waiting:
    """The statement that lines are added to; what cannot change any more is not scanned again."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._begin("", 1)

    def _begin(self, text: str, line: int) -> None:
        self.text, self._line = text, line
        self._scanned = self._depth = 0
        self._is_cut = False

    @property
    def is_open(self) -> bool:
        """Whether a bracket, a string or a comment waits for its end."""
        return self._depth > 0 or self._is_cut

    def ends_before(self, line: str) -> bool:
        """Whether a line begins another statement: changes in a row are one commit, reads are one each."""
        if self.is_open or not self.text.strip():
            return False
        word = _first_word(line)
        begins = word in _READS or (word in _WRITES and _first_word(self.text) not in _WRITES)
        return begins and Statement(self.text).is_whole

    def add(self, line: str, number: int) -> Iterator[Statement]:
        """Add a line; gives the statements that end with a semicolon in it."""
        if self.text.strip():
            self.text += f"\n{line}"
        else:
            self._begin(line, number)
        end = self._find_semicolon()
        while end is not None:
            ended, rest = self.text[:end], self.text[end + 1 :]
            yield Statement(ended.rstrip(), self._line, self._origin)
            self._begin(rest, number)
            end = self._find_semicolon()

    def _find_semicolon(self) -> int | None:
        """Scan what was not scanned yet, up to a semicolon outside of brackets."""
        for token in read_words(self.text, self._scanned):
            start = token.start_pos or 0
            if token == ";" and not self._depth:
                return start
            self._is_cut = token.type in (OPEN_STRING, OPEN_COMMENT)
            if self._is_cut:
                self._scanned = start
                return None
            self._depth = max(0, self._depth + _DEPTH.get(token.type, 0))
        self._scanned = len(self.text)
        return None

    def take(self) -> Iterator[Statement]:
        """Give what waits as a statement, unless it is blank."""
        if self.text.strip():
            yield Statement(self.text.rstrip(), self._line, self._origin)
        self._begin("", 1)


def _is_command(line: str, *, alone: bool) -> bool:
    """Whether a line is a command; one without its dot only where no statement waits."""
    return line.lstrip().startswith(".") or (alone and line.strip() in PLAIN_WORDS)


def _explains(text: str) -> bool:
    return text.lstrip().startswith(".explain")


def _first_word(text: str) -> str:
    """The first word behind comments; nothing where there is none."""
    return str(next(read_words(text)))


def is_finished(text: str) -> bool:
    """Whether Enter runs a text: a command, a text that ends with a semicolon or an empty line, or a whole query.

    A text that begins as no statement is run too, since nothing that follows makes it one.
    """
    stripped = text.strip()
    if not stripped or stripped.endswith(";"):
        return True
    if not _explains(text) and _first_word(text) not in (*_READS, *_WRITES, ""):
        return True
    waiting = _Waiting("")
    for number, line in enumerate(text.split("\n")):
        list(waiting.add(line, number))
    if waiting.is_open:
        return False
    return text.endswith("\n") or _explains(text) or Statement(waiting.text).is_whole
