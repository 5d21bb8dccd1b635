"""Statements of the shell: where one ends, and what it is."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from omnigraph.compile.complete import is_bare
from omnigraph.errors import OmniError
from omnigraph.language.query.parse import parse_queries
from omnigraph.language.query.tokens import OPEN_COMMENT, OPEN_STRING, read_words
from omnigraph.language.source import Source
from omnigraph.values import dataclass

NAME = "shell"
_HEAD = f"query {NAME}() {{ "
_DEPTH = {"LBRACE": 1, "_LPAREN": 1, "LBRACKET": 1, "RBRACE": -1, "RPAREN": -1, "RBRACKET": -1}
_WRITES = re.compile(r"\s*(?:insert|update|delete)\b", re.ASCII)


class StatementKind(StrEnum):
    """What the shell does with a statement."""

    COMMAND = "command"
    READ = "read"
    WRITE = "write"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it was typed, without the semicolon that ends it."""

    text: str

    @property
    def kind(self) -> StatementKind:
        """What it asks for; a text that cannot be read counts as a read, which says why."""
        if not self.text:
            return StatementKind.EMPTY
        if self.text.startswith("."):
            return StatementKind.COMMAND
        if _WRITES.match(self.text):
            return StatementKind.WRITE
        try:
            file = parse_queries(Source(self.query))
        except OmniError:
            return StatementKind.READ
        writes = bool(file.queries) and all(query.is_mutation for query in file.queries)
        return StatementKind.WRITE if writes else StatementKind.READ

    @property
    def query(self) -> str:
        """The text as a query file: a bare body gets a head."""
        return f"{_HEAD}{self.text} }}" if is_bare(self.text) else self.text


def cut_statements(lines: Iterable[str]) -> Iterator[Statement]:
    """Cut lines into statements: a command is one line, any other ends with a semicolon, an empty line or a command."""
    waiting: list[str] = []
    for line in lines:
        text = "\n".join(waiting)
        if line.strip().startswith(".") and not is_open(text):
            yield strip_statement(text)
            yield Statement(line.strip())
            waiting = []
            continue
        waiting.append(line)
        text = "\n".join(waiting)
        if is_open(text):
            continue
        if ends_with_semicolon(text) or not line.strip():
            yield strip_statement(text)
            waiting = []
    yield strip_statement("\n".join(waiting))


def is_finished(text: str) -> bool:
    """Whether Enter runs a text: a command, a text that ends with a semicolon or an empty line, or a whole query."""
    stripped = text.strip()
    if not stripped or stripped.startswith(".") or ends_with_semicolon(text):
        return True
    if is_open(text):
        return False
    if text.endswith("\n"):
        return True
    try:
        parse_queries(Source(strip_statement(text).query))
    except OmniError:
        return False
    return True


def strip_statement(text: str) -> Statement:
    """The statement of a text, without what ends it."""
    return Statement(text.strip().removesuffix(";").rstrip())


def ends_with_semicolon(text: str) -> bool:
    """Whether a text that is not open ends with a semicolon."""
    return text.rstrip().endswith(";")


def is_open(text: str) -> bool:
    """Whether a bracket, a string or a comment waits for its end."""
    depth = 0
    for token in read_words(text):
        if token.type in (OPEN_STRING, OPEN_COMMENT):
            return True
        depth += _DEPTH.get(token.type, 0)
    return depth > 0
