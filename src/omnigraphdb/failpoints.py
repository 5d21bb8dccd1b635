"""Named places where a test may make the system fail, wait or die; free when nothing is armed."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from typing import Final

from omnigraphdb.errors import InternalError
from omnigraphdb.values import dataclass


class Failpoint(StrEnum):
    """The catalogue. Call sites and tests use these names only."""

    INIT_SCHEMA_WRITTEN = "init.after_schema_pg_written"
    INIT_CONTRACT_WRITTEN = "init.after_schema_contract_written"
    INIT_TABLES_CREATED = "init.after_coordinator_init"

    PREPARED = "mutation.post_prepare_pre_queue"
    STAGED = "mutation.post_stage_pre_effect_gate"
    SIDECAR_WRITE = "recovery.sidecar_write"
    SIDECAR_CONFIRM = "recovery.sidecar_confirm"
    SIDECAR_DELETE = "recovery.sidecar_delete"
    SIDECAR_LIST = "recovery.sidecar_list"
    SIDECAR_LISTED = "recovery.post_sidecar_list_pre_read"
    ARMED = "mutation.post_sidecar_pre_commit"
    ROWS_APPENDED = "mutation.post_append_pre_takeover"
    TABLE_COMMITTED = "mutation.post_table_commit"
    TABLES_COMMITTED = "mutation.post_finalize_pre_publisher"
    FORK_CREATED = "fork.post_create_pre_open"
    FORK_CLASSIFY = "fork.before_classify"
    FORK_RECLAIM = "fork.before_reclaim"

    GROUP_TAKEN = "group.post_take_pre_sidecar"
    GROUP_ARMED = "group.post_sidecar_pre_commit"
    GROUP_TABLE_COMMITTED = "group.post_table_commit"
    GROUP_MEMBER_LANDED = "group.post_member_pre_next"
    GROUP_VERSION_PUT = "group.post_version_put"
    GROUP_LANDED = "group.post_members_pre_confirm"
    GROUP_CONFIRMED = "group.post_confirm_pre_publisher"

    MERGE_PLANNED = "branch_merge.post_plan_pre_queue"
    MERGE_ARMED = "branch_merge.post_sidecar_pre_effect"
    MERGE_APPENDED = "branch_merge.adopt_after_append_pre_upsert"
    MERGE_CHUNK_UPSERTED = "branch_merge.between_upserts"
    MERGE_UPSERTED = "branch_merge.adopt_after_upsert_pre_delete"
    MERGE_REWRITTEN = "branch_merge.rewrite_after_merge_pre_delete"
    MERGE_TABLE_COMMITTED = "branch_merge.post_table_publish"
    MERGE_EFFECTS_DONE = "branch_merge.post_effects_pre_confirm"
    MERGE_CONFIRMED = "branch_merge.post_phase_b_pre_manifest_commit"

    INDICES_ARMED = "ensure_indices.post_stage_pre_commit_btree"
    INDICES_TABLE_COMMITTED = "ensure_indices.post_table_effect"
    INDICES_COMMITTED = "ensure_indices.post_phase_b_pre_manifest_commit"
    OPTIMIZE_ARMED = "optimize.before_compact"
    OPTIMIZE_COMPACTED = "optimize.post_compact_pre_reindex"
    OPTIMIZE_TABLE_COMMITTED = "optimize.post_table_effect"
    OPTIMIZE_COMMITTED = "optimize.post_phase_b_pre_manifest_commit"
    CLEANUP_SEEN = "cleanup.after_live_snapshots"
    CLEANUP_BRANCH = "cleanup.resolve_branch_snapshot"
    CLEANUP_FORK = "cleanup.reconcile_fork"
    CLEANUP_TABLE = "cleanup.table_gc"
    CLEANUP_MANIFEST = "cleanup.manifest_gc"
    CLEANUP_MARKED = "cleanup.post_mark_pre_manifest_gc"
    CLEANUP_RECLAIMED = "cleanup.post_manifest_gc"

    ROLL_FORWARD = "recovery.before_roll_forward_publish"
    ROLLBACK_DECIDED = "recovery.post_decision_pre_restore"
    ROLLBACK_TABLE_RESTORED = "recovery.post_table_restore_pre_note"
    RESTORE_LOOKED = "table_restore.post_look_pre_commit"
    STAGING_REMOVED = "recovery.post_staging_file_removal"
    ROLLBACK_RESTORED = "recovery.post_table_restore_pre_publish"
    LATE_RESTORED = "recovery.post_late_restore_pre_publish"
    ROLLBACK_PUBLISHED = "recovery.post_rollback_publish_pre_audit"
    AUDIT = "recovery.record_audit"
    ORPHAN_AUDIT = "recovery.orphan_discard_audit_append"
    SWEEP_LISTED = "recovery.post_list_pre_gates"

    FEED_CAPTURED = "change_feed.post_capture"
    FEED_OPENING = "change_feed.pre_table_open"

    PUBLISH_LOAD = "publish.load_state_retryable_contention"
    PUBLISH_PREPARED = "graph_publish.before_commit_append"
    PUBLISHED = "graph_publish.after_manifest_commit"
    FOLD_WRITTEN = "manifest_fold.post_files_pre_commit"
    FOLD_COMMITTED = "manifest_fold.post_commit_pre_note"
    MIGRATE_LEGACY_OPEN = "migration.v3_to_v4.legacy_open"
    MIGRATE_MERGED = "migration.v3_to_v4.post_merge_pre_stamp"
    MIGRATE_FOLD = "migration.v5_fold"
    MIGRATE_STAMP = "migration.v4_stamp.force_incompatible"
    BRANCH_CAPTURED = "branch_create.after_capture"
    BRANCH_PAST = "branch_create.before_turns_of_a_past_state"
    KEY_ALONE = "idempotency.before_publish_of_key_alone"
    BRANCH_INTENT = "idempotency.after_branch_intent"
    BRANCH_EFFECT = "idempotency.after_branch_effect"
    TAG_CHECKED = "tag_create.after_versions_opened"
    BRANCH_CREATED = "branch_create.after_manifest_branch_create"
    BRANCH_DROP_LISTED = "branch_delete.after_branch_list"
    BRANCH_DROP_LINEAGE = "branch_delete.before_commit_graph_reclaim"
    BRANCH_DROP_FORKS = "branch_delete.before_table_cleanup"
    FORK_CLASSIFY_READ = "classify.fresh_read"
    CONTRACT_READ = "open.before_schema_contract_read"

    RELOCATE_REWRITTEN = "relocate.post_manifest_rewrite"
    RELOCATE_TABLES_DONE = "relocate.post_tables_pre_manifest"

    SCHEMA_LOCKED = "schema_apply.post_lock"
    SCHEMA_ARMED = "schema_apply.post_sidecar_pre_effect"
    SCHEMA_TABLE_COMMITTED = "schema_apply.post_table_commit"
    SCHEMA_UNSTAGED = "schema_apply.before_staging_write"
    SCHEMA_HALF_STAGED = "schema_apply.mid_staging_write"
    SCHEMA_STAGED = "schema_apply.after_staging_write"
    SCHEMA_PUBLISHED = "schema_apply.after_manifest_commit"
    SCHEMA_SOURCE_PLACED = "schema_apply.after_rename_source"
    SCHEMA_IR_PLACED = "schema_apply.after_rename_ir"


class Injected(InternalError):
    """The failure a test asked for."""

    kind = "injected"


Action = Callable[[], None]
_armed: dict[str, Action] = {}


def fail(name: Failpoint) -> None:
    """Run the action that a test armed here; do nothing otherwise."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action()


@dataclass(slots=True)
class Park:
    """Holds the first arrival until it is released; later ones pass."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        if self.reached.is_set():
            return
        self.reached.set()
        if not self.released.wait(PARK_SECONDS_MAX):
            raise Injected("a parked failpoint was never released")

    def release(self) -> None:
        """Let the parked thread go on."""
        self.released.set()


PARK_SECONDS_MAX: Final = 240.0


def error(name: Failpoint, times: int | None = None, skip: int = 0) -> Action:
    """Raise on arrival: `times` times (always when None), after letting `skip` arrivals pass."""
    lock, seen = threading.Lock(), [0]

    def act() -> None:
        with lock:
            seen[0] += 1
            count = seen[0] - skip
        if count > 0 and (times is None or count <= times):
            raise Injected(f"injected failure at {name}")

    return act


def kill() -> None:
    """Die at once, as a crashed process does: no handler, no flush, no finally."""
    os.kill(os.getpid(), signal.SIGKILL)


def skipping(action: Action, skip: int) -> Action:
    """Let `skip` arrivals pass before every later one runs the action."""
    lock, seen = threading.Lock(), [0]

    def act() -> None:
        with lock:
            seen[0] += 1
            due = seen[0] > skip
        if due:
            action()

    return act


_SPEC = re.compile(r"^(?:skip\((?P<skip>\d+)\)\+)?(?:(?P<times>\d+)\*)?(?P<action>error|exit)$")


def action_of(name: Failpoint, spec: str) -> Action:
    """Read an action: `error`, `3*error`, `skip(2)+error`, `exit`, `skip(1)+exit`."""
    match = _SPEC.match(spec)
    if match is None:
        raise InternalError(f"'{spec}' is not a failpoint action")
    skip = int(match["skip"] or 0)
    if match["action"] == "exit":
        return skipping(kill, skip)
    return error(name, times=int(match["times"]) if match["times"] else None, skip=skip)


@contextmanager
def armed(name: Failpoint, action: Action | str = "error") -> Iterator[None]:
    """Arm a failpoint for the length of a block."""
    armed_action = action_of(name, action) if isinstance(action, str) else action
    _armed[name] = armed_action
    try:
        yield
    finally:
        _armed.pop(name, None)


@contextmanager
def parked(name: Failpoint) -> Iterator[Park]:
    """Arm a park; it is released at the end of the block at the latest."""
    park = Park()
    with armed(name, park):
        try:
            yield park
        finally:
            park.release()


def disarm_all() -> None:
    """Forget everything armed."""
    _armed.clear()


def arm_from(text: str) -> None:
    """Arm for the life of this process, as in `name=exit;name=2*error`: for child processes of tests."""
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, spec = part.partition("=")
        _armed[Failpoint(name)] = action_of(Failpoint(name), spec or "error")


if os.environ.get("OMNIGRAPH_FAILPOINTS"):
    arm_from(os.environ["OMNIGRAPH_FAILPOINTS"])
