"""The fault matrix as data: where a write is interrupted, and what the next write and the next open make of it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from omnigraphdb.failpoints import Failpoint


class Effect(StrEnum):
    """What becomes of an interrupted write."""

    NOTHING = "nothing"
    """No sidecar was left, none is recorded."""
    FREE = "effect-free"
    FORWARD = "rolled forward"
    BACK = "rolled back"
    STALE = "stale"
    DEFERRED = "deferred"

    @property
    def is_visible(self) -> bool:
        """Whether the interrupted write shows."""
        return self in (Effect.FORWARD, Effect.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: a failpoint, its action when it is an error, and both results.

    `acknowledged`: the caller is told of success although the fault fired. `moved`: so many tables are taken back.
    """

    id: str
    point: Failpoint
    action: str = "error"
    heal: Effect
    open: Effect
    acknowledged: bool = False
    moved: int = 1
    places: tuple[str, ...] = ("main", "owned", "fresh")

    @property
    def exit(self) -> str:
        """The action when it is a death: at the same arrival."""
        return "exit"


WRITE_ROWS: Final = (
    Row(id="M1", point=Failpoint.STAGED, heal=Effect.NOTHING, open=Effect.NOTHING),
    Row(id="M2", point=Failpoint.SIDECAR_WRITE, heal=Effect.NOTHING, open=Effect.NOTHING),
    Row(id="M3", point=Failpoint.ARMED, heal=Effect.FREE, open=Effect.FREE),
    Row(
        id="K2",
        point=Failpoint.FORK_CREATED,
        heal=Effect.FREE,
        open=Effect.FREE,
        places=("fresh",),
    ),
    Row(id="M4", point=Failpoint.TABLE_COMMITTED, heal=Effect.DEFERRED, open=Effect.BACK),
    Row(id="M6", point=Failpoint.TABLES_COMMITTED, heal=Effect.FORWARD, open=Effect.FORWARD),
    Row(id="M7", point=Failpoint.PUBLISH_PREPARED, heal=Effect.FORWARD, open=Effect.FORWARD),
    Row(
        id="M8",
        point=Failpoint.PUBLISH_LOAD,
        action="6*error",
        heal=Effect.FORWARD,
        open=Effect.FORWARD,
    ),
    Row(id="M10", point=Failpoint.PUBLISHED, heal=Effect.STALE, open=Effect.STALE),
    Row(
        id="M11",
        point=Failpoint.SIDECAR_DELETE,
        heal=Effect.STALE,
        open=Effect.STALE,
        acknowledged=True,
    ),
)
"""Rows 8.1 and 8.3 for mutations and loads: on `owned` they are M13, on `fresh` K6 (M6) and K7 (M4)."""

TAKEOVER_ROWS: Final = (
    Row(id="M16", point=Failpoint.ROWS_APPENDED, heal=Effect.DEFERRED, open=Effect.BACK, moved=2),
    *(row for row in WRITE_ROWS if row.id in ("M3", "K2", "M4", "M6", "M7", "M10", "M11")),
)
"""Rows of a load that replaces so many rows that each table takes two commits."""

GROUP_ROWS: Final = (
    Row(
        id="G1",
        point=Failpoint.GROUP_TAKEN,
        heal=Effect.NOTHING,
        open=Effect.NOTHING,
        acknowledged=True,
    ),
    Row(id="G2", point=Failpoint.SIDECAR_WRITE, heal=Effect.NOTHING, open=Effect.NOTHING),
    Row(id="G3", point=Failpoint.GROUP_ARMED, heal=Effect.FREE, open=Effect.FREE),
    Row(id="G4", point=Failpoint.GROUP_TABLE_COMMITTED, heal=Effect.DEFERRED, open=Effect.BACK),
    Row(id="G5", point=Failpoint.GROUP_MEMBER_LANDED, heal=Effect.DEFERRED, open=Effect.BACK),
    Row(id="G6", point=Failpoint.GROUP_LANDED, heal=Effect.DEFERRED, open=Effect.BACK),
    Row(id="G7", point=Failpoint.SIDECAR_CONFIRM, heal=Effect.DEFERRED, open=Effect.BACK),
    Row(id="G8", point=Failpoint.GROUP_CONFIRMED, heal=Effect.FORWARD, open=Effect.FORWARD),
    Row(id="G9", point=Failpoint.PUBLISH_PREPARED, heal=Effect.FORWARD, open=Effect.FORWARD),
    Row(id="G10", point=Failpoint.PUBLISHED, heal=Effect.STALE, open=Effect.STALE),
    Row(
        id="G11",
        point=Failpoint.SIDECAR_DELETE,
        heal=Effect.STALE,
        open=Effect.STALE,
        acknowledged=True,
    ),
    Row(
        id="G12",
        point=Failpoint.PUBLISH_LOAD,
        action="6*error",
        heal=Effect.FORWARD,
        open=Effect.FORWARD,
    ),
)
"""Rows of the windows of a group; before its sidecar is armed, an error lets its members go on alone."""

DRAFTED_GROUP_ROWS: Final = (
    *(
        replace(row, heal=Effect.NOTHING, open=Effect.NOTHING, acknowledged=True)
        if row.point in (Failpoint.GROUP_TABLE_COMMITTED, Failpoint.GROUP_MEMBER_LANDED)
        else row
        for row in GROUP_ROWS
    ),
    Row(id="G13", point=Failpoint.GROUP_VERSION_PUT, heal=Effect.DEFERRED, open=Effect.BACK),
)
"""The same of a group whose inserts are drafts until an update among them has to read: nothing is armed before."""
