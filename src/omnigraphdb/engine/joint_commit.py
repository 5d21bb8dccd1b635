"""Writers of one branch that wait at the same time: the holder of the locks prepares and commits for all of them."""

import threading
from collections.abc import Sequence
from contextvars import Context, copy_context
from copy import copy
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from omnigraphdb.commit.group import Group, may_join, open_group
from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.plan import WritePlan
from omnigraphdb.commit.protocol import CommittedPlan, Refused
from omnigraphdb.engine.cached.ids import GroupIds, follow_cached_ids
from omnigraphdb.engine.kept_inserts import keep_inserts
from omnigraphdb.engine.matched_rows import require_matched_rows
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite, GroupView, Prepare, Prepared
from omnigraphdb.errors import OmniError, RecoveryRequired
from omnigraphdb.limits import GROUP_BYTES_MAX, GROUP_MEMBERS_MAX, GROUP_WAIT_SECONDS_MAX
from omnigraphdb.manifest.change import require_incarnation
from omnigraphdb.manifest.publish import Published
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.values import Staged
from omnigraphdb.values import dataclass

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Member(Generic[T]):
    """A writer that waits for its locks, and its result once a holder of the locks took it along."""

    engine: Engine
    view: View
    plan: WritePlan
    prepared: Prepared[T]
    prepare: Prepare[T]
    bytes: int
    """The bytes of the rows it brings."""
    only_inserts: bool = False
    """True if it brings rows that depend on nothing else, as `attempt` says."""
    context: Context = field(default_factory=copy_context)
    """The context that counts the costs: the holder prepares in the name of the member."""
    ended: threading.Event = field(default_factory=threading.Event)
    done: CompletedWrite[T] | None = None
    error: BaseException | None = None

    def end(
        self, done: CompletedWrite[T] | None = None, error: BaseException | None = None
    ) -> None:
        """Pass the result or the error to the member; without either the member has to go on alone."""
        if not self.ended.is_set():
            self.done, self.error = done, error
            self.ended.set()

    def wait(self) -> CompletedWrite[T] | None:
        """Wait for the result; None when the member has to go on alone."""
        self.ended.wait()
        if self.error is not None:
            raise self.error
        return self.done


def make_member(
    engine: Engine,
    view: View,
    prepare: Prepare[T],
    prepared: Prepared[T],
    plan: WritePlan,
    *,
    only_inserts: bool,
) -> Member[T] | None:
    """Make the member of a writer; None for a plan that has to be committed alone."""
    if not may_join(plan) or (size := _count_bytes(plan)) > GROUP_BYTES_MAX:
        return None
    return Member(
        engine=engine,
        view=view,
        plan=plan,
        prepared=prepared,
        prepare=prepare,
        bytes=size,
        only_inserts=only_inserts,
    )


def _count_bytes(plan: WritePlan) -> int:
    deltas = [write.delta for write in plan.tables if write.delta is not None]
    return sum(delta.rows.nbytes + delta.deleted.nbytes for delta in deltas)


def collect_group(leader: Member[Any], held_locks: HeldLocks) -> list[Member[Any]]:
    """Take the waiting writers of the leader's handle and branch; with the leader they are a group.

    The leader waits for writers that prepare an insert: that takes less time than a publish for each of them.
    """
    group = [leader]
    leader.engine.arrivals.wait(leader.plan.branch, GROUP_WAIT_SECONDS_MAX)

    def wants(waiting: object) -> bool:
        return isinstance(waiting, Member) and _fits(group, waiting)

    locks = leader.engine.committer.locks
    try:
        for waiter in locks.take_waiting(held_locks, leader.plan.activity, wants):
            assert isinstance(waiter, Member)
            group.append(waiter)
    except BaseException:
        for member in group:
            member.end()
        raise
    return group


def _fits(group: Sequence[Member[Any]], other: Member[Any]) -> bool:
    leader = group[0]
    is_same = other.engine is leader.engine and other.plan.branch == leader.plan.branch
    size = sum(member.bytes for member in group)
    has_room = len(group) < GROUP_MEMBERS_MAX and size + other.bytes <= GROUP_BYTES_MAX
    keys = {_key(member.plan) for member in group} - {None}
    # The second of two writes with one idempotency key has to see the row of the first.
    return is_same and has_room and _key(other.plan) not in keys


def _key(plan: WritePlan) -> tuple[str | None, str] | None:
    return None if plan.operation is None else (plan.operation.actor, plan.operation.key)


# ---- committing together


def commit_together(members: Sequence[Member[Any]], held_locks: HeldLocks) -> None:
    """Commit a group and pass every member its result; a member without a result goes on alone."""
    engine = members[0].engine
    group: Group | None = None
    try:
        view = _capture(members, held_locks)
        plans = [member.plan for member in members]
        group = open_group(engine.committer, view.state, plans, held_locks)
        ids = GroupIds(engine.cached_ids)
        landed = [
            landing
            for member in members
            if (landing := _land_member(member, group, view, ids)) is not None
        ]
        if landed:
            published = group.publish()
            ids.publish()
            _end_members(landed, published)
    except Refused:
        assert group is not None, "nothing is refused before a group is open"
        _roll_back(engine, group, members, held_locks)
    except OmniError as error:
        _tell_unfinished(group, members, error)
    except BaseException:
        _tell_unfinished(group, members, None)
        raise
    finally:
        if group is not None:
            group.drop_drafts()
        for member in members:
            member.end()


def _capture(members: Sequence[Member[Any]], held_locks: HeldLocks) -> View:
    """Capture the view that the first member lands on.

    Pins and schema change under the locks of tables only: where no other process had the locks, the state that this handle
    saw last is right for their tables. A condition on the head and a key are compared with the state of the store.
    """
    engine, branch = members[0].engine, members[0].plan.branch
    asks_for_head = any(
        member.plan.if_commit is not None or member.plan.operation is not None for member in members
    )
    cached_view = None
    if held_locks.is_unbroken and not asks_for_head:
        cached_view = engine.find_recent_view(branch)
    return engine.view(branch) if cached_view is None else cached_view


@dataclass(frozen=True, slots=True)
class _Landed:
    """A member whose tables landed, with the view and the plan that it landed with."""

    member: Member[Any]
    view: View
    plan: WritePlan
    outcome: Any


def _land_member(member: Member[Any], group: Group, view: View, ids: GroupIds) -> _Landed | None:
    """Prepare a member on the state that the earlier members leave, and land it; a refusal goes to the member alone."""
    current = GroupView(branch=view.branch, accepted=view.accepted, state=group.state, ids=ids)
    try:
        prepared = _prepare_on(member, current)
        group.require_sound()
        plan = prepared.plan
        if plan is None:
            member.end(CompletedWrite(view=current, plan=None, outcome=prepared.outcome))
            return None
        if not group.covers(plan):
            # It has come to need other locks, or more than one commit.
            member.end()
            return None
        group.require_base(plan)
    except OmniError as error:
        group.require_sound()
        member.end(error=error)
        return None
    group.land(plan)
    follow_cached_ids(ids, plan, current.snapshot, group.state.snapshot)
    return _Landed(member, current, plan, prepared.outcome)


def _prepare_on(member: Member[T], current: GroupView) -> Prepared[T]:
    """Prepare a member again unless its plan is still right.

    A plan is right if the versions that it relies on did not move, or if it inserts new ids.
    """
    pins = current.snapshot.pins
    plan = member.plan
    require_incarnation(plan.branch, plan.branch_incarnation, current.snapshot.branch_incarnation)
    bases = {write.table_key: write.base.version for write in plan.tables}
    if all(pins.get(table) == version for table, version in (bases | dict(plan.read_set)).items()):
        return member.prepared
    tables = member.engine.store.tables
    kept_plan = keep_inserts(tables, member.view, plan, current) if member.only_inserts else None
    if kept_plan is not None:
        return replace(member.prepared, plan=kept_plan)
    require_matched_rows(tables, member.view, plan, current)
    with tables.reuse_appends(list_staged_rows(plan)):
        return member.context.run(member.prepare, current)


def list_staged_rows(plan: WritePlan) -> list[tuple[Staged, pa.Table]]:
    """List the staged files of a plan with their rows: if the write is prepared again, equal rows need no second file."""
    return [
        (write.staged, write.delta.rows)
        for write in plan.tables
        if write.staged is not None and write.delta is not None
    ]


def _end_members(landed: Sequence[_Landed], published: Published) -> None:
    commits = {commit.id: commit for commit in published.made}
    for landing in landed:
        commit = commits.get(landing.plan.commit_id) or published.state.shows(
            landing.plan.commit_id
        )
        staged = {
            write.table_key: (write.staged,)
            for write in landing.plan.tables
            if write.staged is not None
        }
        committed = CommittedPlan(replace(published, commit=commit), staged)
        landing.member.end(
            CompletedWrite(
                view=landing.view, plan=landing.plan, outcome=landing.outcome, committed=committed
            )
        )


def _roll_back(
    engine: Engine, group: Group, members: Sequence[Member[Any]], held_locks: HeldLocks
) -> None:
    """Roll back the landed tables of a refused group; its members then go on alone."""
    try:
        engine.recovery.roll_back_refused(group.id, held_locks)
    except OmniError as error:
        _tell_unfinished(group, members, error)


def _tell_unfinished(
    group: Group | None, members: Sequence[Member[Any]], error: OmniError | None
) -> None:
    """Pass an error to the members of a group that broke off after its sidecar was armed.

    A group that breaks off before leaves nothing behind.
    """
    if group is None or not group.is_armed:
        return
    for member in members:
        # Each thread raises an error of its own.
        member.end(error=_make_unfinished_error(group) if error is None else copy(error))


def _make_unfinished_error(group: Group) -> RecoveryRequired:
    return RecoveryRequired(
        group.id,
        f"the write was stopped together with the others of group {group.id}; recovery completes all of them or "
        "none, look before repeating it",
    )
