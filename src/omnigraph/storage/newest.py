"""The newest version of a local table, told by two looks at its directory while nothing changes there."""

import os
from typing import Final

from omnigraph.ids import Version
from omnigraph.limits import CACHE_NAMES_MAX

_VERSIONS: Final = "_versions"
_LAST: Final = 2**64 - 1
"""Lance counts the names of manifests down from here, so that the newest is listed first."""

Stamp = tuple[int, int]


class Newest:
    """What the last listing of each directory of versions said; safe to share between threads.

    A directory whose inode and time are those of before the listing holds what was listed, but for a version that
    came within one tick of the clock: the next one is looked for by name.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Stamp, Version]] = {}

    def known(self, table: str) -> Version | None:
        """The newest version of a table, if nothing has changed since it was noted."""
        seen = self._seen.get(table)
        if seen is None or seen[0] != stamp_of(table):
            return None
        return None if os.path.exists(_manifest(table, seen[1] + 1)) else seen[1]

    def note(self, table: str, before: Stamp | None, version: Version) -> None:
        """Remember what a listing said, with the stamp from before it.

        Tables that name their manifests in the older way are listed every time: the next one has another name there.
        """
        if before is None or not os.path.exists(_manifest(table, version)):
            return
        if len(self._seen) >= CACHE_NAMES_MAX:
            self._seen.clear()
        self._seen[table] = before, version


def _manifest(table: str, version: int) -> str:
    return f"{table}/{_VERSIONS}/{_LAST - version:020}.manifest"


def stamp_of(table: str) -> Stamp | None:
    """What changes with every version that comes or goes; None when it cannot be told."""
    try:
        found = os.stat(f"{table}/{_VERSIONS}")
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
