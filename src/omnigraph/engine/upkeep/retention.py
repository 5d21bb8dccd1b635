"""What a cleanup keeps: so many versions of every table, and whatever could be seen since a point in time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, pairwise

from omnigraph.engine.engine import Engine
from omnigraph.errors import UserInputError
from omnigraph.ids import Version
from omnigraph.limits import SCRATCH_SECONDS
from omnigraph.storage.tables import VersionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which versions stay: the newest `keep`, and those visible at `cutoff_us` or later; what either keeps is kept."""

    keep: int | None
    cutoff_us: int | None
    scratch_age_us: int = int(SCRATCH_SECONDS * 1_000_000)

    def removable(self, versions: tuple[VersionInfo, ...]) -> Iterator[Version]:
        """The versions that neither rule keeps; the newest is never among them."""
        count = max(len(versions) - max(self.keep or 1, 1), 0)
        for info, following in islice(pairwise(versions), count):
            # A version could be seen until the next one was there: a reader of that time still can.
            if self.cutoff_us is None or following.created_us < self.cutoff_us:
                yield info.version

    def lets_go(self, dropped_us: int) -> bool:
        """Whether a table may go that nothing shows since then; `keep` counts versions of tables that are there."""
        return self.cutoff_us is None or dropped_us < self.cutoff_us


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
