"""What the command line prints, results on stdout and everything else on stderr, and the exit code of each error."""

import io
import json
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from omnigraphdb.errors import (
    ChangeDiffRefused,
    ConfigError,
    ConflictError,
    DriftError,
    FormatVersion,
    OmniError,
    PreconditionFailed,
    SchemaContractError,
    TooManyRequests,
    escape_controls,
)
from omnigraphdb.surfaces.cli.terminal import (
    Style,
    columns,
    has_color,
    is_terminal,
    manner,
    paint,
    tame,
)
from omnigraphdb.surfaces.cli.wording import word_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyarrow import Buffer

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_CONFLICT = 3
EXIT_INTERRUPTED = 130
_EXITS: tuple[tuple[tuple[type[OmniError], ...], int], ...] = (
    ((PreconditionFailed,), 4),
    ((TooManyRequests,), 75),
    # Conflicts that no repetition resolves.
    ((FormatVersion, DriftError, ChangeDiffRefused, SchemaContractError), EXIT_FAILURE),
    ((ConflictError,), EXIT_CONFLICT),
    ((ConfigError,), EXIT_USAGE),
)

CELL_CHARS_MIN = 8
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_PARTS = (
    (re.compile(r"(error(?:\[\w+\])?:)"), Style.BAD),
    (re.compile(r"(warning(?:\[\w+\])?:)"), Style.WARNING),
    (re.compile(r"\s+(-->)"), Style.FAINT),
    (re.compile(r"\s*\|\s*(\^+.*)"), Style.BAD),
    (re.compile(r"\s*(\d* *\|)"), Style.FAINT),
    (re.compile(r"\s+= (fix:.*)"), Style.GOOD),
)
"""The parts of a diagnostic that stand out."""


def exit_code(error: OmniError) -> int:
    """The exit code of an error, by its class."""
    return next((code for kinds, code in _EXITS if isinstance(error, kinds)), EXIT_FAILURE)


def open_streams() -> None:
    """Replace missing streams, and print results as UTF-8."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def close_streams() -> int:
    """Discard all further output, also at the end of the process; give the exit code of a closed pipe."""
    _discard(sys.stdout)
    return 0


def _discard(stream: TextIO) -> None:
    """Discard what a stream has buffered: writing it at the end of the process would fail again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """Print a result; what a graph or a server holds is never obeyed by a terminal."""
    sys.stdout.write(tame(text, sys.stdout) + "\n")


def say_data(text: str) -> None:
    """Print a result that programs read as it is; a terminal does not obey it either."""
    if is_terminal(sys.stdout):
        say(text)
    else:
        sys.stdout.write(text + "\n")


def say_lines(texts: "Iterable[Buffer]") -> None:
    """Print lines of a result that are UTF-8 already."""
    sys.stdout.flush()
    is_shown = is_terminal(sys.stdout)
    for text in texts:
        # The escapes of JSON spell the same values.
        shown = escape_controls(bytes(text).decode()).encode() if is_shown else text
        sys.stdout.buffer.write(shown)


def note(text: str) -> None:
    """Print a remark about the work to stderr; a closed stderr does not stop the work."""
    try:
        sys.stderr.write(tame(text, sys.stderr) + "\n")
    except OSError:
        _discard(sys.stderr)


def print_columns(rows: "Iterable[Sequence[str]]") -> None:
    """Print rows of texts in aligned columns; on a terminal the last column is cut where it ends."""
    found = [list(row) for row in rows]
    widths = [max(map(_visible, column)) for column in zip(*found, strict=True)]
    room = columns() - sum(widths[:-1]) - 2 * len(widths[:-1]) if is_terminal(sys.stdout) else None
    for *cells, last in found:
        padded = [
            cell + " " * (width - _visible(cell))
            for cell, width in zip(cells, widths, strict=False)
        ]
        say("  ".join([*padded, _cut(last, room)]).rstrip())


def _cut(text: str, room: int | None) -> str:
    if room is None or room < CELL_CHARS_MIN or _visible(text) <= room:
        return text
    return _COLORS.sub("", text)[: room - 1] + "…"


def print_facts(facts: "Mapping[str, str | None]") -> None:
    """Print facts by name, in aligned columns, without those that are not there."""
    print_columns([f"{name}:", value] for name, value in facts.items() if value)


def _visible(text: str) -> int:
    """How many characters of a text are seen; colours are not."""
    return len(_COLORS.sub("", text))


def remark(text: str) -> None:
    """Print a remark that `--quiet` leaves out."""
    if not manner().quiet:
        note(text)


def suggest(text: str) -> None:
    """Print what people do next, for people only."""
    if not manner().quiet and not manner().as_json:
        note(paint(f"next: {text}", Style.FAINT, sys.stderr))


def warn(text: str) -> None:
    """Print a warning."""
    note(f"{paint('warning:', Style.WARNING, sys.stderr)} {text}")


def say_json(value: Any) -> None:
    """Print a result as one JSON document."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def report_usage(message: str, command: str | None, *, as_json: bool) -> None:
    """Print what is wrong with a call, and where its help is."""
    if as_json:
        say_json({"error": message, "code": "bad_request", "kind": "usage"})
    note(f"{paint('error:', Style.BAD, sys.stderr)} {message}")
    if command is not None:
        remark(f"{paint('hint:', Style.NAME, sys.stderr)} `{command} --help` shows how to call it")


def report(error: OmniError, *, as_json: bool) -> int:
    """Print an error and give its exit code."""
    body = word_body(error)
    if as_json:
        say_json(body)
    text, hint = body["error"], body.get("hint")
    note(paint_diagnostic(text if text.startswith("error") else f"error: {text}"))
    if hint and hint not in text:
        note(f"{paint('hint:', Style.NAME, sys.stderr)} {hint}")
    return exit_code(error)


def paint_diagnostic(text: str) -> str:
    """An error with a piece of source text, its parts in colours."""
    if not has_color(sys.stderr):
        return text
    return "\n".join(map(_paint_line, text.split("\n")))


def _paint_line(line: str) -> str:
    for start, ink in _PARTS:
        found = start.match(line)
        if found is not None:
            begin, end = found.span(1)
            return f"{line[:begin]}{paint(line[begin:end], ink, sys.stderr)}{line[end:]}"
    return line
