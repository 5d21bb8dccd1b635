"""Looking: where every table of a pending operation stands, read fresh and changing nothing."""

from omnigraph.commit.sidecar import Pin, Sidecar
from omnigraph.errors import NotFoundError
from omnigraph.ids import Version
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.recovery.classify import Observed
from omnigraph.storage.tables import Tables


def observe(sidecar: Sidecar, snapshot: Snapshot, tables: Tables) -> tuple[Observed, ...]:
    """Look at every pin."""
    return tuple(_observe(pin, snapshot, tables) for pin in sidecar.tables)


def _observe(pin: Pin, snapshot: Snapshot, tables: Tables) -> Observed:
    entry = snapshot.entries.get(pin.table_key)
    visible = entry.version if entry is not None else Version(0)
    path = table_path(pin, snapshot)
    if pin.forked and (entry is None or entry.at.branch != pin.table_branch):
        return _unadopted_fork(pin, path, visible, tables)
    head = tables.head(path, pin.table_branch)
    return Observed(
        pin=pin, head=head, visible=visible, ours=_ours(pin, path, visible, head, tables)
    )


def table_path(pin: Pin, snapshot: Snapshot) -> str:
    """Where a pinned table is: the manifest knows best, the sidecar knows tables it does not."""
    entry = snapshot.entries.get(pin.table_key)
    return entry.at.path if entry is not None else pin.table_path


def _unadopted_fork(pin: Pin, path: str, visible: Version, tables: Tables) -> Observed:
    """A fork the manifest does not place yet; one that was never made has not moved."""
    if pin.table_branch is None or pin.table_branch not in tables.forks(path):
        return Observed(pin=pin, head=visible, visible=visible)
    head = tables.head(path, pin.table_branch)
    ours = _ours(pin, path, visible, head, tables)
    return Observed(pin=pin, head=head, visible=visible, ours=ours, fork_exists=True)


def _ours(pin: Pin, path: str, visible: Version, head: Version, tables: Tables) -> bool | None:
    """Whether every commit between the visible version and HEAD is one the sidecar names."""
    if not pin.uuids or head <= visible or pin.confirmed is not None:
        return None
    try:
        found = tables.transactions(path, pin.table_branch, visible, head)
    except NotFoundError:
        return None
    return all(one.uuid in pin.uuids for one in found)
