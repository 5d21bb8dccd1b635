"""When a table has gathered enough small fragments to be looked after: told by counts, without asking the store."""

import threading
from collections.abc import Hashable

from omnigraph.limits import CACHE_NAMES_MAX, SMALL_FRAGMENTS_MAX


class Watch:
    """The number of fragments each line of a table had when it was last looked after; safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Hashable, int] = {}

    def is_due(self, line: Hashable, fragments: int) -> bool:
        """Whether enough have come since; a line not seen before is looked at as soon as it has that many."""
        with self._lock:
            return fragments - self._seen.get(line, 0) > SMALL_FRAGMENTS_MAX

    def note(self, line: Hashable, fragments: int) -> None:
        """Remember how many there are now."""
        with self._lock:
            if len(self._seen) >= CACHE_NAMES_MAX:
                self._seen.clear()
            self._seen[line] = fragments
