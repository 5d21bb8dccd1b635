"""Files of commands: texts from a file or from stdin, results into a file, whole or not at all."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from omnigraphdb.errors import StorageError, UserInputError

STDIN = "-"


def text_argument(given: str) -> str | Path:
    """What an option for a text file names: the text that comes through stdin, or the file."""
    return read_stdin() if given == STDIN else Path(given)


def read_stdin() -> str:
    """Everything that comes through stdin, as text."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserInputError(
            f"stdin is no UTF-8 text (byte {error.start}); no changes were made"
        ) from error


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace a file in one step; a failure leaves the old one."""
    # The file itself, not a link to it.
    place = path.resolve()
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            write(stream)
        if place.exists():
            shutil.copymode(place, partial)
        os.replace(partial, place)
    except OSError as error:
        raise StorageError(
            f"'{path}' could not be written: {error.strerror}; it is as it was",
            hint="name a file in a folder that is there, may be written to and has room",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Replace the text of a file in one step."""
    replace_file(path, lambda stream: stream.write(text.encode()))
