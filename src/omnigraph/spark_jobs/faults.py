"""Errors of Spark and of its executors in our words: the line that names the cause, and the host where it happened."""

from collections.abc import Sequence
from platform import node
from typing import Final

from omnigraph.errors import OmniError, StorageError

_CAUSED: Final = "Caused by: "


def find_error_line(text: str) -> str:
    """Find what a Spark error is due to: the last line of a Python traceback, else the causes in Java, else its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _find_python_error(lines) or _find_java_causes(lines) or "no reason was given"


def _find_python_error(lines: Sequence[str]) -> str | None:
    python = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
    for line in lines[python[-1] + 1 :] if python else []:
        if (
            not line.startswith(("File ", "^", "~"))
            and ": " in line
            and " " not in line.split(":")[0]
        ):
            return line
    return None


def _find_java_causes(lines: Sequence[str]) -> str:
    """What names the file, and what was wrong with it: the last two causes; how often a task was tried is no cause."""
    caused = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    causes = [one for one in dict.fromkeys(caused) if "Job aborted" not in one]
    return "; ".join(causes[-2:]) or next(iter(lines), "")


def find_host(error: OmniError) -> str | None:
    """Name this host when an error may be due to it: a file or a store that it cannot reach."""
    cause = error.__cause__
    # A file with damaged content raises an OSError too, without a number.
    is_unreachable = isinstance(cause, OSError) and cause.errno is not None
    return node() if is_unreachable or isinstance(error, StorageError) else None


def name_host(error: OmniError, host: str | None) -> OmniError:
    """Let an error say on which host of a cluster it happened."""
    if host is not None:
        advice = f"{error.hint}; this" if error.hint else "this"
        error.hint = (
            f"{advice} happened on executor host '{host}': every executor must reach the files and "
            "the store under the same names"
        )
    return error
