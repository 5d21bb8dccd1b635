"""Errors of Spark and of its executors in our words: the line that names the cause, and the host where it happened."""

from platform import node

from omnigraph.errors import OmniError, StorageError


def find_error_line(text: str) -> str:
    """Find the line of a Spark error that names the cause: the last one of the Python traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
    for line in lines[python[-1] + 1 :] if python else []:
        if (
            not line.startswith(("File ", "^", "~"))
            and ": " in line
            and " " not in line.split(":")[0]
        ):
            return line
    return lines[0] if lines else "no reason was given"


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
