"""Repair: adopts table commits that no write of the graph explains, and undoes late commits of writes that were rolled back."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, Final

from omnigraph.commit.locks import lock_key
from omnigraph.display import Sheet, Shown, count_of, tabulate
from omnigraph.engine.attempt import wait_for_schema_change
from omnigraph.engine.maintenance.operation import refuse_pending
from omnigraph.engine.results import Commit, view_commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN, CommitId, OperationId, TableKey
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.publish import publish
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.snapshot import Entry
from omnigraph.recovery.late import are_late, undo_late
from omnigraph.storage.locks.holders import Activity
from omnigraph.storage.values import TableAt, TransactionInfo
from omnigraph.values import dataclass

_MAINTENANCE: Final = frozenset({"ReserveFragments", "Rewrite", "CreateIndex"})
"""Operations that change no row."""


class Classification(StrEnum):
    """What the commits past a pin are."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"
    ROLLED_BACK = "rolled_back"
    """Late commits of operations that recovery rolled back; they must never be visible."""


class Action(StrEnum):
    """What repair did about them."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    REFUSED = "refused"
    RESTORED = "restored"
    """Restored to its pin."""

    @property
    def moves_the_pin(self) -> bool:
        """Whether the table is published at its HEAD."""
        return self in (Action.HEALED, Action.FORCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepaired:
    """One table of main: its pin and HEAD, the commits between them, and what repair did."""

    table_key: TableKey
    classification: Classification
    action: Action
    manifest_version: int
    head_version: int
    operations: tuple[str, ...] = ()
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["operations"] = list(self.operations)
        return {name: value for name, value in facts.items() if value is not None}


def classify(
    past_pin: Sequence[TransactionInfo], rolled_back: Collection[OperationId] = ()
) -> Classification:
    """Classify the commits past a pin by their operations."""
    if not past_pin:
        return Classification.NO_DRIFT
    if are_late(past_pin, rolled_back):
        return Classification.ROLLED_BACK
    if any(one.operation is None for one in past_pin):
        return Classification.UNVERIFIABLE
    if all(one.operation in _MAINTENANCE for one in past_pin):
        return Classification.VERIFIED_MAINTENANCE
    return Classification.SUSPICIOUS


def choose(classification: Classification, *, confirm: bool, force: bool) -> Action:
    """Choose what to do with a table of this classification."""
    match classification:
        case Classification.NO_DRIFT:
            return Action.NO_OP
        case Classification.VERIFIED_MAINTENANCE:
            return Action.HEALED if confirm else Action.PREVIEW
        case Classification.ROLLED_BACK:
            return Action.RESTORED if confirm else Action.PREVIEW
        case Classification.SUSPICIOUS | Classification.UNVERIFIABLE:
            if not confirm:
                return Action.PREVIEW
            return Action.FORCED if force else Action.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(Shown):
    """What repair found, by table, and the commit that adopted it."""

    uri: str
    tables: tuple[TableRepaired, ...]
    commit: Commit | None

    def _sheet(self) -> Sheet:
        """What was found and done, by table."""
        names = (
            "table_key",
            "classification",
            "action",
            "manifest_version",
            "head_version",
            "error",
        )
        return Sheet(
            title=f"repair: {count_of(len(self.tables), 'table')}",
            grids=(tabulate(self.tables, *names),),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "tables": [one.to_dict() for one in self.tables],
            "commit": None if self.commit is None else self.commit.to_dict(),
        }


def repair(
    engine: Engine, *, confirm: bool = False, force: bool = False, actor: str | None = None
) -> RepairReport:
    """Examine every table of main whose HEAD is past its pin, and with `confirm` make the HEAD visible."""
    engine.require_writable("repair")
    if force and not confirm:
        raise UserInputError(
            "repair: force needs confirm; nothing was changed",
            hint="look at the preview first, then pass both",
        )
    refuse_pending(engine, "repair")
    wait_for_schema_change(engine, "repair")
    keys = [lock_key(table, None) for table in engine.manifest.load(MAIN).snapshot.entries]
    with engine.committer.locks.acquire(keys, Activity("repair")) as held_locks:
        # A writer may have died while repair waited for its locks.
        refuse_pending(engine, "repair", held_locks)
        entries = engine.manifest.load(MAIN).snapshot.entries.values()
        repaired = tuple(
            _classify_table(engine, entry, confirm=confirm, force=force) for entry in entries
        )
        by_key = {entry.table_key: entry for entry in entries}
        for one in repaired:
            if one.action is Action.RESTORED:
                recovery = engine.recovery
                undo_late(
                    recovery.committer, recovery.audit, MAIN, by_key[one.table_key], held_locks
                )
        commit = _publish_repaired(engine, by_key, repaired, actor)
    return RepairReport(uri=engine.uri, tables=repaired, commit=view_commit(commit))


def _classify_table(engine: Engine, entry: Entry, *, confirm: bool, force: bool) -> TableRepaired:
    tables, at = engine.store.tables, entry.at
    head = tables.head(at.path, at.branch)
    if head < at.version:
        return TableRepaired(
            table_key=entry.table_key,
            classification=Classification.UNVERIFIABLE,
            action=Action.REFUSED if confirm else Action.PREVIEW,
            manifest_version=at.version,
            head_version=head,
            error=f"the graph pins version {at.version}, which does not exist",
        )
    past_pin = tables.transactions(at.path, at.branch, at.version, head)
    rolled_back = engine.recovery.audit.rolled_back() if past_pin else frozenset()
    classification = classify(past_pin, rolled_back)
    return TableRepaired(
        table_key=entry.table_key,
        classification=classification,
        action=choose(classification, confirm=confirm, force=force),
        manifest_version=at.version,
        head_version=head,
        operations=tuple(one.operation or "unreadable" for one in past_pin),
    )


def _publish_repaired(
    engine: Engine,
    entries: dict[TableKey, Entry],
    repaired: Sequence[TableRepaired],
    actor: str | None,
) -> GraphCommit | None:
    """Publish the HEADs of healed and forced tables, all in one publish, if no pin moved meanwhile."""
    moved = [one for one in repaired if one.action.moves_the_pin]
    if not moved:
        return None
    change = Change(
        branch=MAIN,
        updates=tuple(_update(engine, entries[one.table_key], one) for one in moved),
        expected={one.table_key: entries[one.table_key].version for one in moved},
        draft=Draft(
            commit=CommitId(engine.runtime.new_id()),
            kind=CommitKind.REPAIR,
            actor=actor,
            operation_id=OperationId(engine.runtime.new_id()),
        ),
    )
    return publish(engine.manifest, change).commit


def _update(engine: Engine, entry: Entry, repaired: TableRepaired) -> Update:
    head = engine.store.tables.head(entry.at.path, entry.at.branch)
    at = TableAt(path=entry.at.path, branch=entry.at.branch, version=head)
    return Update(
        table_key=repaired.table_key, at=at, row_count=engine.store.tables.open(at).count()
    )
