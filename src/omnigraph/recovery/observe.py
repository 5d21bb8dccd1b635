"""Looking: where every table of a pending operation stands, read fresh and changing nothing."""

from collections.abc import Sequence
from typing import Final

from omnigraph.commit.sidecar import Pin, Sidecar
from omnigraph.errors import TableNotFound
from omnigraph.ids import Version
from omnigraph.manifest.snapshot import Entry, Snapshot
from omnigraph.recovery.classify import Observed, Ownership
from omnigraph.storage.tables import Tables, TransactionInfo

_REPLACING: Final = frozenset({"Restore", "Overwrite"})
"""Operations after which nothing of earlier commits is left in a table."""

_RESTORE: Final = "Restore"


def observe(sidecar: Sidecar, snapshot: Snapshot, tables: Tables) -> tuple[Observed, ...]:
    """Look at every pin."""
    return tuple(_Look(sidecar, pin, snapshot, tables).observed() for pin in sidecar.tables)


def table_path(pin: Pin, snapshot: Snapshot) -> str:
    """Where a pinned table is: the manifest knows best, the sidecar knows tables it does not."""
    entry = snapshot.entries.get(pin.table_key)
    return entry.at.path if entry is not None else pin.table_path


def _entry(pin: Pin, snapshot: Snapshot) -> Entry | None:
    """The visible table of a pin, by its key; one that was renamed is found by its place."""
    found = snapshot.entries.get(pin.table_key)
    if found is not None:
        return found
    return next((e for e in snapshot.entries.values() if e.at.path == pin.table_path), None)


class _Look:
    """One pin being looked at."""

    def __init__(self, sidecar: Sidecar, pin: Pin, snapshot: Snapshot, tables: Tables) -> None:
        self._sidecar = sidecar
        self._pin = pin
        self._tables = tables
        self._entry = _entry(pin, snapshot)
        self._path = table_path(pin, snapshot)
        self._visible = self._entry.version if self._entry is not None else Version(0)

    def observed(self) -> Observed:
        is_fork = self._is_unadopted()
        if is_fork is None:
            # A line that was never made has not moved.
            return Observed(pin=self._pin, head=self._visible, visible=self._visible)
        try:
            head = self._tables.head(self._path, self._pin.table_branch)
        except TableNotFound:
            head = Version(0)
        return self._moved(head, is_fork) if head > self._visible else self._unmoved(head, is_fork)

    def _is_unadopted(self) -> bool | None:
        """Whether the pin's line is one the manifest does not place the table on; None when there is no such line."""
        branch = self._pin.table_branch
        if branch is None or (self._entry is not None and self._entry.at.branch == branch):
            return False
        return True if branch in self._tables.forks(self._path) else None

    def _unmoved(self, head: Version, is_fork: bool) -> Observed:
        return Observed(
            pin=self._pin,
            head=head,
            visible=self._visible,
            is_fork=is_fork,
            is_visible=head == self._visible and self._shows_ours(),
        )

    def _moved(self, head: Version, is_fork: bool) -> Observed:
        made = self._commits(self._visible, head)
        last = made[-1] if made else None
        return Observed(
            pin=self._pin,
            head=head,
            visible=self._visible,
            is_fork=is_fork,
            ownership=self._ownership(made),
            is_restored=last is not None and last.operation == _RESTORE and self._is_ours(last),
        )

    def _ownership(self, made: Sequence[TransactionInfo]) -> Ownership:
        if not self._sidecar.knows_its_commits:
            return Ownership.UNKNOWN
        ours = [self._is_ours(one) for one in made]
        if all(ours):
            return Ownership.ALL
        # A commit that cannot be read may be ours: it must not be left in place, nor be shown.
        unread = any(one.uuid is None for one in made)
        return Ownership.SOME if any(ours) or unread else Ownership.NONE

    def _shows_ours(self) -> bool:
        """Whether a commit of this operation is visible and nothing visible after it replaced all rows."""
        if not self._sidecar.knows_its_commits or self._visible <= self._pin.expected:
            return False
        shown = False
        for one in self._commits(self._pin.expected, self._visible):
            if self._is_ours(one):
                shown = one.operation != _RESTORE
            elif one.operation in _REPLACING:
                shown = False
        return shown

    def _is_ours(self, one: TransactionInfo) -> bool:
        return one.operation_id == self._sidecar.operation_id or one.uuid in self._pin.uuids

    def _commits(self, after: Version, upto: Version) -> tuple[TransactionInfo, ...]:
        return self._tables.transactions(self._path, self._pin.table_branch, after, upto)
