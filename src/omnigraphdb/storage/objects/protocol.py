"""Small texts of a graph root: read, write, write under a condition, list, delete."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from omnigraphdb.errors import InternalError, shorten
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.objects.faults import StoreAction, translate_object_faults
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class Versioned:
    """A text and the token that names exactly this state of it."""

    text: str
    token: str
    changed_us: int
    """When the store last changed it, in microseconds of the store's own clock, which may know whole seconds only."""


Stamp = str | tuple[int, int, int]
"""Distinguishes two states of a text without reading it."""


class Objects(Protocol):
    """Texts under one root; paths are relative to it and separated by `/`."""

    def read(self, path: str) -> str | None:
        """Read a whole text; None only when it is genuinely not there."""
        ...

    def read_all(self, paths: Sequence[str]) -> list[str | None]:
        """Read several texts, each as `read` does; of a store all at the same time."""
        ...

    def read_versioned(self, path: str) -> Versioned | None:
        """Read a text with its token; None only when it is genuinely not there."""
        ...

    def read_bytes(self, path: str) -> bytes | None:
        """Read a small file of another kind whole; None only when it is genuinely not there."""
        ...

    def map_bytes(self, path: str) -> memoryview | None:
        """Read a file of any size without holding it in memory; None only when it is genuinely not there."""
        ...

    def put(self, path: str, text: str) -> str:
        """Write a text and give its token: readers see the old or the new one, never a part."""
        ...

    def put_bytes(self, path: str, data: bytes) -> None:
        """Replace a file of another kind: readers see the old or the new one, never a part."""
        ...

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        """Create a text, or a file of another kind, and give its token; of N concurrent callers all but one get None."""
        ...

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        """Replace the text the token names and give its new token; None when another writer was faster."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether there is a text, or any text below this path."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a text over another; off a disk both may exist after a crash."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy a file of any kind and size to a path that does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Remove a text, if it is there."""
        ...

    def list(self, prefix: str) -> tuple[str, ...]:
        """List the texts directly in a directory, sorted; empty when there is none."""
        ...

    def times(self, prefix: str) -> Mapping[str, int]:
        """Tell when each text directly in a directory was written, in microseconds of the store's own clock."""
        ...

    def stamps(self, paths: Sequence[str]) -> Mapping[str, Stamp]:
        """Give each text of one directory a stamp that changes when the text does; a missing text has none."""
        ...

    def have_stamps(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> bool:
        """Tell whether texts still have the stamps that they had, and the others still are not there."""
        ...

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a directory, if there is anything."""
        ...


# ---- shared by every implementation


_COSTS: Final[Mapping[StoreAction, Cost]] = {
    StoreAction.READ: Cost.OBJECT_READS,
    StoreAction.LOOK: Cost.OBJECT_READS,
    StoreAction.LIST: Cost.OBJECT_LISTS,
    StoreAction.WRITE: Cost.OBJECT_WRITES,
    StoreAction.CREATE: Cost.OBJECT_WRITES,
    StoreAction.REPLACE: Cost.OBJECT_WRITES,
    StoreAction.RENAME: Cost.OBJECT_WRITES,
    StoreAction.DELETE: Cost.OBJECT_DELETES,
}


@contextmanager
def count_request(action: StoreAction, root: Root, path: str) -> Iterator[None]:
    """Translate a failure of a request, and count a success."""
    with translate_object_faults(action, root, path):
        yield
    if action in _COSTS:
        record(_COSTS[action])


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ORDINARY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""A name that needs no further check: most names are like this, and every operation lists some."""
_TEMPORARY: Final = re.compile(r"#[0-9]+\Z")
"""A write in progress is called `name#<digits>`: never listed, never addressed, harmless when left behind."""


def is_temporary(name: str) -> bool:
    """Tell the name of an unfinished local write."""
    return _TEMPORARY.search(name) is not None


def is_object_path(path: str) -> bool:
    """Tell whether every store can address a text by this path."""
    if _ORDINARY.fullmatch(path):
        return True
    plain = all(part not in ("", ".", "..") for part in path.split("/"))
    return plain and not is_temporary(path) and not _CONTROL.search(path) and _is_utf8(path)


def object_path(path: str) -> str:
    """Let only a path through that means the same on every store."""
    if is_object_path(path):
        return path
    raise InternalError(
        f"'{shorten(path)}' is not the path of an object: it needs parts between single slashes, "
        "none of them '.' or '..', no control characters, and no '#' with digits at its end"
    )


def directory_path(prefix: str) -> str:
    """Let only a directory through that means the same on every store; empty is the root."""
    trimmed = prefix.removesuffix("/")
    if trimmed and any(part in ("", ".", "..") for part in trimmed.split("/")):
        raise InternalError(f"'{shorten(prefix)}' is not a directory inside the root")
    return trimmed


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
