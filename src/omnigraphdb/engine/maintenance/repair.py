"""Repair: adopts table commits that no write of the graph explains, undoes late commits of writes that were rolled back,
and restores the last readable version of a table with a cut or missing file.
"""

from collections.abc import Collection, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from omnigraphdb.commit.locks import HeldLocks, lock_key
from omnigraphdb.display import Displayable, Report, count_of, tabulate
from omnigraphdb.engine.attempt import wait_for_schema_change
from omnigraphdb.engine.maintenance.operation import refuse_pending
from omnigraphdb.engine.maintenance.readable import ReadableVersion, find_damage, find_last_readable
from omnigraphdb.engine.results import Commit, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import MAIN, CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.recovery.late import are_late, list_past_pin, undo_late
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.values import TableAt, TransactionInfo
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_MAINTENANCE: Final = frozenset({"ReserveFragments", "Rewrite", "CreateIndex"})
"""Operations that change no row."""


class Classification(StrEnum):
    """The nature of the commits past a pin."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"
    ROLLED_BACK = "rolled_back"
    """Late commits of operations that recovery rolled back; they must never be visible."""
    UNREADABLE = "unreadable"
    """A file of rows of the visible version is cut or missing: a disk was full, or a file was lost."""


class Action(StrEnum):
    """The action of repair on a table."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    REFUSED = "refused"
    RESTORED = "restored"
    """Restored to its pin, or, if unreadable, to its last readable version."""

    @property
    def moves_the_pin(self) -> bool:
        """Whether the table is published at its HEAD."""
        return self in (Action.HEALED, Action.FORCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReadable(Value):
    """The version that replaces an unreadable version, the commit that shows it, and the rows that it has."""

    version: int
    commit: CommitId
    rows: int
    rows_lost: int
    """The number of rows fewer than in the unreadable version; changes to other rows by later commits are lost, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepaired(Value):
    """One table of main: its pin and HEAD, the commits between them, and the action of repair."""

    table_key: TableKey
    classification: Classification
    action: Action
    manifest_version: int
    head_version: int
    operations: tuple[str, ...] = ()
    error: str | None = field(default=None, metadata=wire(omit=True))
    last_readable: LastReadable | None = field(default=None, metadata=wire(omit=True))


def classify(
    past_pin: Sequence[TransactionInfo], rolled_back: Collection[OperationId] = ()
) -> Classification:
    """Classify the commits past a pin by their operations."""
    if not past_pin:
        return Classification.NO_DRIFT
    if are_late(past_pin, rolled_back):
        return Classification.ROLLED_BACK
    if any(transaction.operation is None for transaction in past_pin):
        return Classification.UNVERIFIABLE
    if all(transaction.operation in _MAINTENANCE for transaction in past_pin):
        return Classification.VERIFIED_MAINTENANCE
    return Classification.SUSPICIOUS


def choose(classification: Classification, *, confirm: bool, force: bool) -> Action:
    """Choose the action for a table of this classification."""
    match classification:
        case Classification.NO_DRIFT:
            return Action.NO_OP
        case Classification.VERIFIED_MAINTENANCE:
            return Action.HEALED if confirm else Action.PREVIEW
        case Classification.ROLLED_BACK | Classification.UNREADABLE:
            return Action.RESTORED if confirm else Action.PREVIEW
        case Classification.SUSPICIOUS | Classification.UNVERIFIABLE:
            if not confirm:
                return Action.PREVIEW
            return Action.FORCED if force else Action.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(Displayable, Value):
    """The state of each table and the action of repair, and the commit that published it."""

    uri: str
    tables: tuple[TableRepaired, ...]
    commit: Commit | None

    def _report(self) -> Report:
        """List the state of each table and the action."""
        names = (
            "table_key",
            "classification",
            "action",
            "manifest_version",
            "head_version",
            "error",
        )
        return Report(
            title=f"repair: {count_of(len(self.tables), 'table')}",
            grids=(tabulate(self.tables, *names),),
        )


def repair(
    engine: Engine, *, confirm: bool = False, force: bool = False, actor: str | None = None
) -> RepairReport:
    """Examine every table of main; with `confirm`, publish HEADs past their pins and restore unreadable tables."""
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
        for table in repaired:
            if table.classification is Classification.ROLLED_BACK and confirm:
                recovery = engine.recovery
                undo_late(
                    recovery.committer, recovery.audit, MAIN, by_key[table.table_key], held_locks
                )
        commit = _publish_repaired(engine, by_key, repaired, actor, held_locks)
    return RepairReport(uri=engine.uri, tables=repaired, commit=public_commit(commit))


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
    past_pin = list_past_pin(tables, at, head)
    # A repair that died after its restore leaves the restore past the pin.
    damage = find_damage(tables, at) if all(map(_is_restore, past_pin)) else None
    if damage is not None:
        return _examine_unreadable(engine, entry, head, damage, confirm=confirm)
    rolled_back = engine.recovery.audit.rolled_back() if past_pin else frozenset()
    classification = classify(past_pin, rolled_back)
    return TableRepaired(
        table_key=entry.table_key,
        classification=classification,
        action=choose(classification, confirm=confirm, force=force),
        manifest_version=at.version,
        head_version=head,
        operations=tuple(transaction.operation or "unreadable" for transaction in past_pin),
    )


def _is_restore(transaction: TransactionInfo) -> bool:
    return transaction.operation == "Restore"


def _examine_unreadable(
    engine: Engine, entry: Entry, head: Version, damage: str, *, confirm: bool
) -> TableRepaired:
    last = find_last_readable(engine, entry)
    action = choose(Classification.UNREADABLE, confirm=confirm, force=False)
    lost = "" if last else "; no earlier version with the same columns can be read: use a copy"
    return TableRepaired(
        table_key=entry.table_key,
        classification=Classification.UNREADABLE,
        action=action if last is not None or not confirm else Action.REFUSED,
        manifest_version=entry.version,
        head_version=head,
        error=damage + lost,
        last_readable=None if last is None else _describe_loss(last, entry),
    )


def _describe_loss(last: ReadableVersion, entry: Entry) -> LastReadable:
    return LastReadable(
        version=last.entry.version,
        commit=last.commit.id,
        rows=last.entry.row_count,
        rows_lost=max(entry.row_count - last.entry.row_count, 0),
    )


def _publish_repaired(
    engine: Engine,
    entries: dict[TableKey, Entry],
    repaired: Sequence[TableRepaired],
    actor: str | None,
    held_locks: HeldLocks,
) -> GraphCommit | None:
    """Publish the repaired tables in one commit, if no pin moved meanwhile: HEADs as they are, or restored ones."""
    operation_id = OperationId(engine.runtime.new_id())
    adopted = [table for table in repaired if table.action.moves_the_pin]
    restored = [
        table for table in repaired if table.last_readable and table.action is Action.RESTORED
    ]
    if not adopted and not restored:
        return None
    updates = [_update(engine, entries[table.table_key], table) for table in adopted]
    updates += [
        _restore(engine, entries[table.table_key], table, operation_id, actor, held_locks)
        for table in restored
    ]
    change = Change(
        branch=MAIN,
        updates=tuple(updates),
        expected={
            table.table_key: entries[table.table_key].version for table in (*adopted, *restored)
        },
        draft=Draft(
            commit=CommitId(engine.runtime.new_id()),
            kind=CommitKind.REPAIR,
            actor=actor,
            operation_id=operation_id,
        ),
    )
    return publish(engine.manifest, change).commit


def _restore(
    engine: Engine,
    entry: Entry,
    repaired: TableRepaired,
    operation_id: OperationId,
    actor: str | None,
    held_locks: HeldLocks,
) -> Update:
    """Restore the last readable version of a table; the unreadable one stays in its history."""
    assert repaired.last_readable is not None, "only a readable version is restored"
    landed = engine.store.tables.restore(
        entry.at.path,
        entry.at.branch,
        Version(repaired.last_readable.version),
        expected_head=Version(repaired.head_version),
        operation_id=operation_id,
        actor=actor,
        lock=held_locks.lock(lock_key(entry.table_key, entry.at.branch)),
    )
    return Update(table_key=entry.table_key, at=landed.at, row_count=landed.row_count)


def _update(engine: Engine, entry: Entry, repaired: TableRepaired) -> Update:
    head = engine.store.tables.head(entry.at.path, entry.at.branch)
    at = TableAt(path=entry.at.path, branch=entry.at.branch, version=head)
    return Update(
        table_key=repaired.table_key, at=at, row_count=engine.store.tables.open(at).count()
    )
