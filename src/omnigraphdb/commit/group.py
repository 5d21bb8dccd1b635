"""A group: writes of one branch that share one set of locks, one sidecar and one publish; each keeps its own versions."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace

from omnigraphdb.commit.guard import require_no_drift, require_pin
from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.plan import TableWrite, WritePlan
from omnigraphdb.commit.protocol import (
    Committer,
    Refused,
    change_of,
    disarm,
    refuse_conflicts,
    report_unfinished,
    require_locks,
    sidecar_of,
)
from omnigraphdb.commit.sidecar import GROUP_VERSION, Pin, Sidecar, WriterKind
from omnigraphdb.errors import HeadMoved, ManifestConflict, OmniError, PreconditionFailed
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.manifest.change import (
    Change,
    DerivedRecords,
    join_records,
    records_for,
    require_incarnation,
)
from omnigraphdb.manifest.operations import KeyPublished, find_operation
from omnigraphdb.manifest.publish import Published, publish
from omnigraphdb.manifest.records import Record, lance_branch
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.runtime import datetime_of
from omnigraphdb.storage.values import Draft, Landed, Staged
from omnigraphdb.values import dataclass

GROUPED = frozenset({WriterKind.MUTATION, WriterKind.LOAD})


def may_join(plan: WritePlan) -> bool:
    """Whether a plan can be one of a group: rows in memory, one staged commit for each table, no fork.

    A batch is looked up in history, which does not show the batches of the same group.
    """
    is_plain = plan.kind in GROUPED and plan.batch_id is None and not plan.creations
    return is_plain and all(map(_is_single, plan.tables))


def _is_single(write: TableWrite) -> bool:
    is_staged = write.staged is not None and write.fork is None
    return is_staged and not write.steps and write.delta is not None


@dataclass(frozen=True, slots=True)
class LandedMember:
    """A write of a group after its tables landed."""

    plan: WritePlan
    sidecar: Sidecar
    change: Change
    records: tuple[Record, ...]
    """Its change of the manifest."""


@dataclass(slots=True, kw_only=True)
class Group:
    """A group while its writes land, each on the `state` that the ones before it leave."""

    committer: Committer
    held_locks: HeldLocks
    sidecar: Sidecar
    plans: Sequence[WritePlan]
    """The plans that the members brought; each may be prepared again before it lands."""
    base: BranchState
    state: BranchState
    is_armed: bool = False
    landed: list[LandedMember] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    """Versions that the writes made and that are not in the store yet: until somebody reads them, they cost no request."""
    failure: OmniError | None = None
    """The error that kept drafts from landing, for any caller."""
    _landing: threading.RLock = field(default_factory=threading.RLock)

    @property
    def id(self) -> OperationId:
        """The operation that the writes share: it names the sidecar and the swap."""
        return self.sidecar.operation_id

    def covers(self, plan: WritePlan) -> bool:
        """Whether the group holds the locks of a plan and its sidecar names the tables."""
        pin_keys = {pin.lock_key for pin in self.sidecar.tables}
        is_named = all(write.lock_key in pin_keys for write in plan.tables)
        return is_named and may_join(plan) and self.held_locks.covers(plan.lock_keys)

    def require_base(self, plan: WritePlan) -> None:
        """Refuse a plan before its first effect, the last look; the refusal concerns this write alone."""
        require_incarnation(plan.branch, plan.branch_incarnation, self.base.branch_incarnation)
        head = self.state.head.id if self.state.head else None
        if plan.if_commit is not None and head != plan.if_commit:
            raise PreconditionFailed(plan.if_commit, head)
        for write in plan.tables:
            require_pin(write, self.state.snapshot)
        request = plan.operation
        published = (
            None if request is None else find_operation(self.base, request.actor, request.key)
        )
        if published is not None:
            raise KeyPublished(published.key, published.operation_id)

    def land(self, plan: WritePlan) -> None:
        """Commit the tables of a plan that was prepared on the state of the group; a failure is one of the whole group."""
        effects = {write.table_key: self._commit_table(plan, write) for write in plan.tables}
        member = replace(
            sidecar_of(self.committer, plan, self.held_locks),
            started_at=self.sidecar.started_at,
        )
        change = _grouped(change_of(plan, effects), self.id)
        records = records_for(change, self.state, self.committer.runtime.now_us())
        self.landed.append(LandedMember(plan, member, change, records))
        self.state = self.state.expect(records)
        fail(Failpoint.GROUP_MEMBER_LANDED)

    def publish(self) -> Published:
        """Confirm the landed writes and make all of them visible in one swap."""
        is_drafted = not self.is_armed
        if is_drafted:
            # Nothing has moved, and every version is known: the sidecar that is armed is confirmed already.
            self.sidecar = self._confirm_members()
        self.land_drafts()
        with report_unfinished(self.sidecar):
            fail(Failpoint.GROUP_LANDED)
            if not is_drafted:
                self.sidecar = self._confirm_members()
                self.committer.sidecars.confirm(self.sidecar)  # B': every write is durable
            fail(Failpoint.GROUP_CONFIRMED)
            require_locks(self.committer, self.sidecar, self.held_locks)
            with refuse_conflicts(self.committer, self.sidecar):
                published = publish(self.committer.manifest, self._change())  # C
        disarm(self.committer, self.id, self.held_locks)  # D
        return published

    # ---- A

    def _arm(self) -> None:
        if not self.is_armed:
            if not self.sidecar.members:
                members = [
                    _name_member(self.committer, plan, self.held_locks) for plan in self.plans
                ]
                self.sidecar = replace(self.sidecar, members=tuple(members))
            self.committer.sidecars.arm(self.sidecar)
            self.is_armed = True
            fail(Failpoint.GROUP_ARMED)

    # ---- B

    def _commit_table(self, plan: WritePlan, write: TableWrite) -> Landed:
        assert write.staged is not None, "a member is staged before it joins"
        draft = self.committer.tables.draft_commit(
            write.staged, operation_id=self.id, actor=plan.actor, land=self._land_for_reader
        )
        if draft is None:
            landed = self._commit_staged(plan, write, write.staged)
        else:
            self.drafts.append(draft)
            landed = draft.landed
        fail(Failpoint.GROUP_TABLE_COMMITTED)
        return landed

    def _commit_staged(self, plan: WritePlan, write: TableWrite, staged: Staged) -> Landed:
        # It may stand on drafts.
        self.land_drafts()
        with self._report():
            return self.committer.tables.commit_staged(
                staged,
                operation_id=self.id,
                actor=plan.actor,
                lock=self.held_locks.lock(write.lock_key),
            )

    def land_drafts(self) -> None:
        """Put the versions of all drafts into the store; the intent is durable before."""
        with self._landing:
            self.require_sound()
            try:
                self._arm()
                require_locks(self.committer, self.sidecar, self.held_locks)
                drafts, self.drafts = self.drafts, []
                with self._report():
                    self.committer.tables.land_drafts(drafts)
            except OmniError as error:
                self.failure = error
                raise

    def _land_for_reader(self) -> None:
        """Land drafts because somebody opens one of them; a failure reaches the members by `require_sound`.

        Other readers may open a version that another writer made instead, and are not concerned.
        """
        with suppress(OmniError):
            self.land_drafts()

    def require_sound(self) -> None:
        """Raise the error that kept drafts from landing, if a write of the group met it while it was prepared."""
        if self.failure is not None:
            raise self.failure

    def drop_drafts(self) -> None:
        """Forget the drafts that have not landed."""
        self.committer.tables.drop_drafts(self.drafts)

    @contextmanager
    def _report(self) -> Iterator[None]:
        """Report a HEAD that others moved as a refusal, and a store that fails as an unfinished group."""
        try:
            with report_unfinished(self.sidecar):
                yield
        except HeadMoved as error:
            pin = next(pin for pin in self.sidecar.tables if pin.table_path == error.table)
            actual = error.expected if error.actual is None else error.actual
            conflict = ManifestConflict(pin.table_key, error.expected, actual)
            raise Refused(conflict) from error

    # ---- C

    def _change(self) -> Change:
        *before, last = (member.change for member in self.landed)
        if before:
            records = join_records([record for member in self.landed for record in member.records])
            return replace(last, before=tuple(before), derived=DerivedRecords(self.base, records))
        # A single remaining write is not a group.
        return _grouped(last, None)

    def _confirm_members(self) -> Sidecar:
        """Note every write with its versions, and where the last one leaves each table."""
        members = tuple(member.sidecar for member in self.landed)
        entries = self.state.snapshot.entries
        moved_keys = {pin.table_key for member in members for pin in member.tables}
        pins = tuple(
            replace(
                pin,
                confirmed=entries[pin.table_key].version,
                post_commit=entries[pin.table_key].version,
            )
            for pin in self.sidecar.tables
            if pin.table_key in moved_keys
        )
        read = {table: at for member in members for table, at in member.read_set.items()}
        return replace(
            self.sidecar,
            tables=pins,
            members=members,
            commit_id=members[-1].commit_id,
            read_set={table: at for table, at in read.items() if table not in moved_keys},
        )


def open_group(
    committer: Committer, state: BranchState, plans: Sequence[WritePlan], held_locks: HeldLocks
) -> Group:
    """Describe a group before its first effect; raises when a HEAD of its tables is past its pin."""
    writes = Counter(write.table_key for plan in plans for write in plan.tables)
    by_table = {write.table_key: write for plan in plans for write in plan.tables}
    pins = tuple(_pin(by_table[key], state, writes[key], held_locks) for key in sorted(writes))
    for key in sorted(writes):
        at = state.snapshot.entry(key).at
        require_no_drift(committer.tables, committer.sidecars, key, at, held_locks)
    fail(Failpoint.GROUP_TAKEN)
    sidecar = Sidecar(
        operation_id=OperationId(committer.runtime.new_id()),
        writer_kind=WriterKind.GROUP,
        branch=lance_branch(state.branch),
        branch_incarnation=state.branch_incarnation or None,
        actor=plans[0].actor if len({plan.actor for plan in plans}) == 1 else None,
        started_at=datetime_of(committer.runtime.now_us()).isoformat(),
        tables=pins,
        schema_version=GROUP_VERSION,
    )
    return Group(
        committer=committer,
        held_locks=held_locks,
        sidecar=sidecar,
        plans=plans,
        base=state,
        state=state,
    )


def _pin(write: TableWrite, state: BranchState, commits: int, held_locks: HeldLocks) -> Pin:
    entry = state.snapshot.entry(write.table_key)
    return Pin(
        table_key=write.table_key,
        table_path=entry.at.path,
        table_branch=write.branch,
        expected=entry.version,
        post_commit=Version(entry.version + commits),
        token=held_locks.lock(write.lock_key).token,
    )


def _name_member(committer: Committer, plan: WritePlan, held_locks: HeldLocks) -> Sidecar:
    """Name a write before it lands: it may be prepared again, so that its versions are not known yet."""
    member = sidecar_of(committer, plan, held_locks)
    return replace(member, tables=(), read_set={})


def _grouped(change: Change, group: OperationId | None) -> Change:
    assert change.draft is not None, "maintenance does not join a group"
    return replace(change, draft=replace(change.draft, group=group))
