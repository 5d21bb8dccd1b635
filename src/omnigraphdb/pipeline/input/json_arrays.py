"""JSON files that hold one array: its items are read one after the other, however many there are."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from omnigraphdb.errors import UserInputError
from omnigraphdb.limits import JSONL_LINE_BYTES_MAX
from omnigraphdb.pipeline.input.lines import open_lines

ARRAY_SUFFIXES: Final = (".json", ".json.gz")
"""Files that may hold an array; the lines of the others are records."""

_CHUNK_CHARS: Final = 1024 * 1024
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_OPEN_LINE: Final = re.compile(r"\{(?:[^\n]*[{\[,:])?[ \t\r]*\n")
"""A first line in which an object begins and does not end; no record of lines ends so."""


def is_array(path: Path) -> bool:
    """Whether a file begins as a JSON array, not as lines; reads its first characters."""
    if not path.name.endswith(ARRAY_SUFFIXES) or not path.is_file():
        return False
    try:
        with _open_text(path) as file:
            head = file.read(_CHUNK_CHARS)
    except (UserInputError, UnicodeDecodeError):
        # The reader of the file reports the error.
        return False
    text = head[_skip(head, 0) :]
    if _OPEN_LINE.match(text):
        raise UserInputError(
            f"'{path}' holds one JSON object over several lines; no changes were made",
            hint="a file to load holds an array of records, or one record a line",
        )
    return text.startswith("[")


def read_items(path: Path) -> Iterator[Any]:
    """Read the items of the array that a file holds; memory holds a part of its text."""
    try:
        with _open_text(path) as file:
            yield from _Items(file, path)
    except UnicodeDecodeError as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; no changes were made") from error


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    with open_lines(path) as lines, io.TextIOWrapper(lines, encoding="utf-8-sig") as text:
        yield text


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


class _Items:
    """The items of an array, decoded from a window of the text that grows when an item does not end in it."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self._text = ""
        self._at = 0
        self._count = 0
        self._decoder = json.JSONDecoder(parse_constant=self._refuse_constant)

    def __iter__(self) -> Iterator[Any]:
        self._take("[")
        if self._peek() == "]":
            self._take("]")
        else:
            yield self._decode()
            while self._peek() == ",":
                self._take(",")
                yield self._decode()
            self._take("]")
        if self._peek():
            raise self._refuse(f"'{self._peek()}' follows the end of the array")

    def _peek(self) -> str:
        """Return the next character that is not a space; the empty text at the end of the file."""
        self._at = _skip(self._text, self._at)
        while self._at == len(self._text) and self._read_on():
            self._at = _skip(self._text, self._at)
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> None:
        character = self._peek()
        if character != expected:
            description = f"'{character}'" if character else "the end of the file"
            raise self._refuse(f"expected '{expected}', found {description}")
        self._at += 1

    def _decode(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._read_on():
                    raise self._refuse(error.msg) from error
                continue
            # A number that ends where the window ends may go on behind it.
            if end < len(self._text) or not self._read_on():
                self._at, self._count = end, self._count + 1
                return value

    def _read_on(self) -> bool:
        """Make the window longer, by as much as it holds already, and forget the items before."""
        left = self._text[self._at :]
        if len(left) > JSONL_LINE_BYTES_MAX:
            raise self._refuse(f"it is longer than {JSONL_LINE_BYTES_MAX:,} characters")
        more = self._file.read(max(_CHUNK_CHARS, len(left)))
        self._text, self._at = left + more, 0
        return bool(more)

    def _refuse(self, why: str) -> UserInputError:
        return UserInputError(
            f"'{self._path}' is no JSON array: item {self._count + 1}: {why}; no changes were made"
        )

    def _refuse_constant(self, name: str) -> Any:
        raise self._refuse(f"{name} is no JSON number")
