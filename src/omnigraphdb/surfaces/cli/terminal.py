"""How this process prints: quiet or not, with colours, progress and a pager or without."""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import TextIO

from omnigraphdb.errors import escape_controls
from omnigraphdb.values import dataclass


class Color(StrEnum):
    """When colours are printed; auto means: to a terminal, unless `NO_COLOR` is set."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Style(StrEnum):
    """A colour by what it says."""

    GOOD = "32"
    BAD = "1;31"
    WARNING = "33"
    NAME = "36"
    FAINT = "2"
    STRONG = "1"


_PAINTED = re.compile(rf"(\x1b\[(?:0|{'|'.join(Style)})m)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """What the global flags say about printing."""

    quiet: bool = False
    color: Color = Color.AUTO
    progress: bool = True
    pager: bool = False
    as_json: bool = False
    paged: TextIO | None = None
    """The pager that reads what is printed, once it runs."""


_chosen = [OutputSettings()]


def choose_manner(manner: OutputSettings) -> None:
    """Print in this manner from now on."""
    _chosen[:] = [manner]


def manner() -> OutputSettings:
    """The manner of this process."""
    return _chosen[0]


def paint(text: str, ink: Style, stream: TextIO | None = None) -> str:
    """A text in colour, where the stream (stdout by default) shows colours."""
    if not text or not has_color(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{ink}m{text}\x1b[0m"


def tame(text: str, stream: TextIO) -> str:
    """A text that a terminal shows and does not obey, except for the colours that `paint` adds."""
    if text.isprintable():
        return text
    if not has_color(stream):
        return escape_controls(text)
    parts = _PAINTED.split(text)
    return "".join(part if at % 2 else escape_controls(part) for at, part in enumerate(parts))


def has_color(stream: TextIO) -> bool:
    """Whether colours are printed to a stream."""
    match manner().color:
        case Color.ALWAYS:
            return True
        case Color.NEVER:
            return False
        case Color.AUTO:
            return is_terminal(stream) and not os.environ.get("NO_COLOR")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at a stream, perhaps through a pager; a closed one shows nothing to anybody."""
    try:
        return stream is not None and (stream is manner().paged or stream.isatty())
    except ValueError:
        return False


def columns() -> int:
    """How wide the terminal is."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def shows_progress() -> bool:
    """Whether work that takes long tells how far it is."""
    chosen = manner()
    wanted = os.environ.get("OMNIGRAPH_PROGRESS", "1") not in ("0", "off", "false", "no")
    return wanted and chosen.progress and not chosen.quiet and not chosen.as_json


@contextmanager
def paged() -> Iterator[None]:
    """Show everything that is printed to stdout through the user's pager, where `--pager` and a terminal ask for it."""
    command = _find_pager() if manner().pager and is_terminal(sys.stdout) else None
    if command is None:
        yield
        return
    import subprocess

    terminal, chosen = sys.stdout, manner()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogateescape"
    ) as process:
        assert isinstance(process.stdin, io.TextIOWrapper), "a pipe for text was asked for"
        sys.stdout = process.stdin
        choose_manner(replace(chosen, paged=process.stdin))
        try:
            yield
        finally:
            sys.stdout = terminal
            choose_manner(chosen)


def _find_pager() -> list[str] | None:
    import shlex
    import shutil

    try:
        words = shlex.split(os.environ.get("PAGER") or "less -FRX")
    except ValueError:
        # A variable with an odd quotation mark names no program.
        return None
    return words if words and shutil.which(words[0]) else None
