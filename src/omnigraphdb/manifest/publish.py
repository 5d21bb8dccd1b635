"""Publishing: a change becomes visible by one compare-and-swap on the manifest, or not at all."""

import pyarrow as pa

from omnigraphdb.errors import (
    InternalError,
    OmniError,
    PublishContention,
    RowContention,
    StorageError,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName, Version
from omnigraphdb.limits import (
    MANIFEST_FRAGMENTS_MAX,
    MANIFEST_SECONDS_MIN,
    PUBLISH_BACKOFF_SECONDS,
    PUBLISH_BACKOFF_SECONDS_MAX,
    PUBLISH_RETRIES_MAX,
    PUBLISH_ROUNDS_MAX,
)
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.change import Change, encode_unknown_commits, records_for
from omnigraphdb.manifest.manifest import Manifest, PublishLock
from omnigraphdb.manifest.migrate import contend, load_migrated
from omnigraphdb.manifest.operations import find_operation
from omnigraphdb.manifest.policies import require_same
from omnigraphdb.manifest.records import GraphCommit, Record, encode, head_row, lance_branch
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import find_tag
from omnigraphdb.values import dataclass

_log = get_logger(__name__)

Records = tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A change that is visible: the commit it made, if any, and the branch with it.

    `made` are all commits of its swap, where the swap was seen to land.
    """

    version: Version
    commit: GraphCommit | None
    state: BranchState
    made: tuple[GraphCommit, ...] = ()


def publish(
    manifest: Manifest, change: Change, *, rounds_max: int = PUBLISH_ROUNDS_MAX
) -> Published:
    """Make a change visible.

    The budget is `rounds_max` rounds of `1 + PUBLISH_RETRIES_MAX` swaps. A publisher that locks out those of other
    processes needs one round; any other backs off longer and longer, because a write whose HEADs moved should
    not be given up.

    `ManifestConflict`, `PreconditionFailed`: the state that it was prepared on moved; nothing was written.
    `PublishContention`: other writers kept winning; nothing was written. A `StorageError` leaves the outcome
    open: recovery looks before anybody repeats the write.
    """
    for round_ in range(rounds_max):
        if round_ and manifest.publish_locks is None:
            _wait(manifest, PUBLISH_BACKOFF_SECONDS_MAX * round_ / (PUBLISH_ROUNDS_MAX - 1))
        published = _publish_locked(manifest, change)
        if published is not None:
            return published
    raise PublishContention(change.branch, (1 + PUBLISH_RETRIES_MAX) * rounds_max)


def _publish_locked(manifest: Manifest, change: Change) -> Published | None:
    """Publish under the lock of the branch; return None when others won every swap, because nothing locks them out."""
    with manifest.lock_branch(change.branch) as lock:
        if lock is PublishLock.NONE:
            return None
        published = _swap_or_lose(manifest, change)
        if published is None:
            if lock is PublishLock.BRANCH and manifest.publish_locks is not None:
                raise PublishContention(change.branch, 1 + PUBLISH_RETRIES_MAX)
            return None
        _fold(manifest, published.state)
    return published


def _swap_or_lose(manifest: Manifest, change: Change) -> Published | None:
    """Try the swaps of one round; None when other writers won all of them."""
    for attempt in range(1 + PUBLISH_RETRIES_MAX):
        if attempt:
            _wait(manifest, PUBLISH_BACKOFF_SECONDS * 2 ** (attempt - 1))
        try:
            return _attempt(manifest, change, attempt)
        except RowContention:
            manifest.heads.drop(change.branch)
    return _find_own_commit(manifest.current(change.branch), change)


def _wait(manifest: Manifest, seconds_max: float) -> None:
    manifest.runtime.wait(manifest.runtime.jitter(seconds_max))


def _attempt(manifest: Manifest, change: Change, round_: int) -> Published:
    state, decided = _decide_records(manifest, change, _base(manifest, change, round_))
    if isinstance(decided, Published):
        return decided
    if not decided:
        return Published(version=state.version, commit=None, state=state)
    merged_commits = encode_unknown_commits(change, state)
    fail(Failpoint.PUBLISH_PREPARED)
    try:
        state.load_replaced(decided)
        rows = pa.concat_tables([encode(decided), merged_commits])
        version = manifest.rows.swap(state.image, rows, head_row(change.branch))
        _require_timely(manifest, change.branch)
    except (StorageError, InternalError):
        # The write may have landed and only its answer was lost.
        published = _find_published(manifest, change)
        if published is None:
            raise
        return published
    return _visible(manifest, state, decided, merged_commits, version)


def _require_timely(manifest: Manifest, branch: BranchName) -> None:
    """Doubt a swap that took so long that cleanup may have removed the version that it should have collided with.

    A process may sleep between its look and its swap. Where publishers lock one another out, the others wait.
    """
    age = manifest.head_age(branch)
    if manifest.publish_locks is None and age > MANIFEST_SECONDS_MIN / 2:
        raise StorageError(
            f"the publish on branch '{branch}' took {age:.0f} s, and others may have passed it",
            storage_kind="transient",
        )


def _base(manifest: Manifest, change: Change, round_: int) -> BranchState:
    """Choose the state to start from.

    The first round uses the cached state of main, if it may. It may be stale; the swap then fails, because every
    publish rewrites the head row. A swap does not notice another incarnation of a branch, so the state of a branch is read;
    and so is any state when no swap follows.
    """
    contend(Failpoint.PUBLISH_LOAD, lance_branch(change.branch))
    if round_ == 0 and change.branch == MAIN and not change.writes_nothing:
        cached = manifest.find_cached_head(MAIN)
        if cached is not None and cached.stamp == CURRENT:
            return cached
    state = load_migrated(manifest, change.branch)
    return state if change.writes_nothing else manifest.mark(state)


def _decide_records(
    manifest: Manifest, change: Change, state: BranchState
) -> tuple[BranchState, Published | Records]:
    """Check the change on the cached state; a refusal is checked again on a fresh one, if the cached one was stale."""
    now = manifest.runtime.now_us()
    try:
        return state, _decide_on(manifest, change, state, now)
    except OmniError:
        fresh = load_migrated(manifest, change.branch)
        if fresh is state:
            raise
        return fresh, _decide_on(manifest, change, fresh, now)


def _decide_on(
    manifest: Manifest, change: Change, state: BranchState, now: int
) -> Published | Records:
    published = _find_own_commit(state, change)
    if published is not None:
        return published
    _require_same_policy(manifest, change, state)
    return records_for(change, state, now)


def _require_same_policy(manifest: Manifest, change: Change, state: BranchState) -> None:
    """Refuse changes that an earlier policy allowed.

    A swap on main fails when the policy is replaced meanwhile, because that rewrites the head row; for another branch this
    is the last look.
    """
    policy_numbers = {step.allowed_by for step in (*change.before, change)} - {None}
    if policy_numbers:
        guarded = state if change.branch == MAIN else manifest.current(MAIN)
        for number in sorted(allowed_by or 0 for allowed_by in policy_numbers):
            require_same(guarded.policies, number)


def _find_own_commit(state: BranchState, change: Change) -> Published | None:
    """Recognise this change in a state: an earlier attempt landed and its answer was lost."""
    if change.draft is not None:
        commit = state.shows(change.draft.commit)
        if commit is None:
            return None
        if commit.operation_id != change.draft.operation_id:
            raise InternalError(
                f"commit {commit.id} of another operation is published already; nothing was written"
            )
        return Published(version=commit.manifest_version, commit=commit, state=state)
    if change.tag is not None:
        tag = find_tag(state, change.tag.name)
        is_set = change.tag.commit == (None if tag is None else tag.commit)
        return Published(version=state.version, commit=None, state=state) if is_set else None
    if change.policy is not None:
        is_set = state.policies[-1:] == (change.policy,)
        return Published(version=state.version, commit=None, state=state) if is_set else None
    if change.operation is not None:
        draft = change.operation
        operation = find_operation(state, draft.actor, draft.key)
        if operation is None or (operation.operation_id, operation.is_pending) != (
            draft.operation_id,
            draft.is_pending,
        ):
            return None
        if draft.is_pending and dict(operation.receipt) != dict(draft.receipt):
            # Another decision of the same operation replaces the recorded one.
            return None
        return Published(version=state.version, commit=None, state=state)
    entries = state.snapshot.entries
    updates = {update.table_key: update.at for update in change.updates}
    if not updates or any(
        table not in entries or entries[table].at != at for table, at in updates.items()
    ):
        return None
    return Published(version=state.version, commit=None, state=state)


def _find_published(manifest: Manifest, change: Change) -> Published | None:
    try:
        return _find_own_commit(manifest.current(change.branch), change)
    except OmniError:
        # The store is not answering at all; the first error tells more.
        return None


def _visible(
    manifest: Manifest,
    state: BranchState,
    records: Records,
    merged_commits: pa.Table,
    version: Version,
) -> Published:
    is_next = version == state.version + 1
    image = (
        manifest.rows.cached(state.image.branch, version, state.branch_incarnation)
        if is_next
        else None
    )
    fragments = None if image is None else manifest.rows.fragment_count(image)
    after = state.after(records, version, image, merged_commits, fragments)
    if is_next:
        manifest.heads.keep(after)
        manifest.note_head(after.branch)
    else:
        # A fold or a stamp came between: its part is not in the cached state.
        manifest.heads.drop(state.branch)
    fail(Failpoint.PUBLISHED)
    commits = tuple(record for record in records if isinstance(record, GraphCommit))
    # The last commit of a swap is its head.
    return Published(
        version=version, commit=commits[-1] if commits else None, state=after, made=commits
    )


def _fold(manifest: Manifest, state: BranchState) -> None:
    """Fold the manifest when it has grown long. Never fails the publish.

    A fold writes two files and a version, and reads no more than a file of the history: the cost of one publish is bounded.
    """
    if state.fragments <= MANIFEST_FRAGMENTS_MAX:
        return
    try:
        is_folded = manifest.fold(state.branch)
    except OmniError as error:
        _log.warning("manifest.fold_failed", branch=state.branch, reason=str(error))
        return
    if not is_folded:
        return
    image = manifest.rows.cached(
        state.image.branch, Version(state.version + 1), state.branch_incarnation
    )
    if image is None:
        manifest.heads.drop(state.branch)
        return
    manifest.heads.keep(state.moved_to(image, manifest.rows.fragment_count(image)))
    manifest.note_head(state.branch)
