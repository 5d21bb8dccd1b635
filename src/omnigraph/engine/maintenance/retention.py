"""What a cleanup keeps: so many versions of every table, and whatever could be seen since a point in time."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice, pairwise

from omnigraph.engine.session.engine import Engine
from omnigraph.errors import UserInputError
from omnigraph.ids import Version
from omnigraph.limits import SCRATCH_SECONDS
from omnigraph.storage.tables import VersionInfo
from omnigraph.values import dataclass

Committed = Callable[[Version], int | None]
"""When the commit was made that brought a version of a table; None for maintenance, which makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which versions stay: the newest `keep`, and those visible at `cutoff_us` or later; what either keeps is kept."""

    keep: int | None
    cutoff_us: int | None
    scratch_age_us: int = int(SCRATCH_SECONDS * 1_000_000)

    def removable(
        self, versions: tuple[VersionInfo, ...], committed_us: Committed
    ) -> tuple[Version, ...]:
        """The versions that neither rule keeps; the newest is never among them."""
        count = max(len(versions) - max(self.keep or 1, 1), 0)
        replaced = list(islice(pairwise(versions), count))
        if self.cutoff_us is None:
            return tuple(info.version for info, _ in replaced)
        # A version could be seen until the next one was there: a reader of that time still can.
        old = [(i, next_) for i, next_ in replaced if next_.created_us < self.cutoff_us]
        return tuple(
            info.version for info, _ in old[: _reliable(old, committed_us, self.cutoff_us)]
        )

    def lets_go(self, dropped_us: int) -> bool:
        """Whether a table may go that nothing shows since then; `keep` counts versions of tables that are there."""
        return self.cutoff_us is None or dropped_us < self.cutoff_us


def _reliable(
    old: Sequence[tuple[VersionInfo, VersionInfo]], committed_us: Committed, cutoff_us: int
) -> int:
    """How many of these, from the oldest, were replaced before the cutoff by the time of commits too.

    Table versions carry the clock of whoever wrote them, which may have been slow; commits never go back in time.
    With a clock that goes right the first look answers.
    """
    count = len(old)
    for place in reversed(range(len(old))):
        at = committed_us(old[place][1].version)
        if at is None:
            continue
        if at < cutoff_us:
            break
        count = place
    return count


def retention(engine: Engine, keep: int | None, older_than: timedelta | None) -> Retention:
    """Read what a caller asked for."""
    if keep is None and older_than is None:
        raise UserInputError(
            "cleanup needs to know what to keep; nothing was removed",
            hint="give keep (versions per table), older_than (an age), or both",
        )
    if keep is not None and keep < 1:
        raise UserInputError(
            f"cleanup keeps at least 1 version of each table, not {keep}; nothing was removed"
        )
    if older_than is not None and older_than < timedelta(0):
        raise UserInputError(f"an age cannot be {older_than}; nothing was removed")
    if older_than is None:
        return Retention(keep=keep, cutoff_us=None)
    age = older_than // timedelta(microseconds=1)
    return Retention(keep=keep, cutoff_us=engine.runtime.now_us() - age, scratch_age_us=age)
