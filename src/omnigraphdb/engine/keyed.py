"""Writes with an idempotency key: each takes effect once, and a repetition gets the first result."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeVar

from omnigraphdb.commit.plan import Header, WriteOptions
from omnigraphdb.commit.sidecar import Sidecar
from omnigraphdb.commit.stage import ALONE, StageWorkers
from omnigraphdb.engine.attempt import attempt
from omnigraphdb.engine.results import OperationState, OperationStatus, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite, Prepare, Prepared
from omnigraphdb.errors import (
    IdempotencyConflict,
    InternalError,
    NotFound,
    PreconditionFailed,
    ReadSetConflict,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName, OperationId
from omnigraphdb.limits import BRANCH_CAPTURES_MAX, KEY_ROUNDS_MAX
from omnigraphdb.manifest.change import Change, OperationDraft
from omnigraphdb.manifest.operations import KeyPublished, find_operation
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import GraphCommit, Operation, lance_branch
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.view import View
from omnigraphdb.runtime import datetime_of
from omnigraphdb.storage.values import Incarnation
from omnigraphdb.values import dataclass

T = TypeVar("T")

Receipt = Mapping[str, Any]
"""The report of a write, as JSON, without its commit."""


class RequestKind(StrEnum):
    """The verb of a request; a part of its digest, so that the spelling never changes."""

    MUTATE = "mutate"
    LOAD = "load"
    MERGE = "merge"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request under an idempotency key; `digest` covers all parts of the request."""

    branch: BranchName
    actor: str | None
    key: str
    digest: str

    def draft(self, operation_id: OperationId, receipt: Receipt) -> OperationDraft:
        """Draft the row that records the result of the request."""
        return OperationDraft(
            key=self.key,
            actor=self.actor,
            request=self.digest,
            operation_id=operation_id,
            receipt=receipt,
        )

    def is_of(self, sidecar: Sidecar) -> bool:
        """Whether a pending operation belongs to this key."""
        operations = (write.operation for write in sidecar.writes if write.operation is not None)
        names_key = any(
            (operation.actor, operation.key) == (self.actor, self.key) for operation in operations
        )
        return names_key and sidecar.branch == lance_branch(self.branch)


@dataclass(frozen=True, slots=True)
class Replay:
    """A request that was carried out before: its record, and the commit that it made, if any."""

    operation: Operation
    commit: GraphCommit | None

    @property
    def receipt(self) -> Receipt:
        """The report of the first call."""
        return self.operation.receipt


def make_request(
    verb: RequestKind, branch: BranchName, actor: str | None, key: str, **request_fields: Any
) -> KeyedRequest:
    """Digest a request under a key."""
    text = json.dumps([verb, branch, request_fields], sort_keys=True, default=_spell)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return KeyedRequest(branch=branch, actor=actor, key=key, digest=digest)


def make_write_request(
    verb: RequestKind, branch: BranchName, options: WriteOptions, **request_fields: Any
) -> KeyedRequest | None:
    """Digest the request of a write, if it has a key; a condition of the write is a part of the request."""
    if options.key is None:
        return None
    condition = {} if options.if_commit is None else {"if_commit": options.if_commit}
    return make_request(verb, branch, options.actor, options.key, **request_fields, **condition)


def _spell(value: Any) -> Any:
    """Spell a parameter that JSON cannot represent; equal values have equal spellings."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    for method_name in ("tolist", "to_pylist"):
        if hasattr(value, method_name):
            return getattr(value, method_name)()
    return list(value) if isinstance(value, tuple | set | frozenset) else str(value)


# ---- looking


def find_replay(engine: Engine, request: KeyedRequest | None) -> Replay | None:
    """Find the earlier result of a request; a pending operation under its key is recovered or waited for first.

    `IdempotencyConflict`: the key was used for another request. `LockTimeout`: a live writer of the key takes too long.
    """
    if request is None:
        return None
    for _ in range(KEY_ROUNDS_MAX):
        # A published operation may be pending still: the files of a schema change follow its publish.
        pending = [
            sidecar for sidecar in engine.committer.sidecars.pending() if request.is_of(sidecar)
        ]
        if not pending:
            break
        for sidecar in pending:
            engine.recovery.recover_operation(sidecar)
    return _find_replay(engine, request)


def find_status(engine: Engine, branch: BranchName, actor: str | None, key: str) -> OperationStatus:
    """Report the status of the request of a key; change nothing and wait for no writer."""
    status = OperationStatus(key=key, branch=branch, actor=actor, state=OperationState.NOT_LANDED)
    state = engine.manifest.current(branch)
    operation = find_operation(state, actor, key)
    if operation is None:
        request = KeyedRequest(branch=branch, actor=actor, key=key, digest="")
        pending = (
            sidecar for sidecar in engine.committer.sidecars.pending() if request.is_of(sidecar)
        )
        sidecar = next(pending, None)
        if sidecar is None:
            return status
        return replace(status, state=OperationState.UNDECIDED, operation_id=sidecar.operation_id)
    commit = None if operation.commit is None else state.shows(operation.commit)
    return replace(
        status,
        state=OperationState.UNDECIDED if operation.is_pending else OperationState.LANDED,
        commit=public_commit(commit),
        operation_id=operation.operation_id,
        created_at=datetime_of(operation.created_at),
    )


def _find_replay(engine: Engine, request: KeyedRequest) -> Replay | None:
    try:
        state = engine.manifest.current(request.branch)
    except NotFound:
        # A load may create the branch.
        return None
    return replay_in(state, request)


def replay_in(state: BranchState, request: KeyedRequest) -> Replay | None:
    """Find the earlier result of a request in the state of its branch."""
    operation = find_operation(state, request.actor, request.key)
    if operation is None:
        return None
    if operation.request != request.digest:
        raise IdempotencyConflict(request.key, request.branch, operation.commit)
    commit = None if operation.commit is None else state.shows(operation.commit)
    return Replay(operation, commit)


# ---- writing


def attempt_once(
    engine: Engine,
    branch: BranchName,
    request: KeyedRequest | None,
    header: Header,
    prepare: Prepare[T],
    make_receipt: Callable[[T], Receipt],
    verb: str,
    workers: StageWorkers = ALONE,
    *,
    may_rely_on_memory: bool = False,
    only_inserts: bool = False,
) -> CompletedWrite[T] | Replay:
    """Carry out a write and record its key in the same swap; a rival that did so first gives the result.

    A write that changes nothing records its key alone.
    """

    def prepare_expected(view: View) -> Prepared[T]:
        # A head that moved refuses the write before it stages files; a commit looks again under its locks.
        require_expected(header, view)
        return prepare(view)

    if request is None:
        return attempt(
            engine,
            branch,
            prepare_expected,
            verb,
            workers,
            may_rely_on_memory=may_rely_on_memory,
            only_inserts=only_inserts,
        )
    keyed_request = request

    def prepare_keyed(view: View) -> Prepared[T]:
        operation = find_operation(view.state, keyed_request.actor, keyed_request.key)
        if operation is not None:
            raise KeyPublished(operation.key, operation.operation_id)
        prepared = prepare_expected(view)
        if prepared.plan is None:
            return prepared
        draft = keyed_request.draft(header.operation_id, make_receipt(prepared.outcome))
        return replace(prepared, plan=replace(prepared.plan, operation=draft))

    try:
        done = attempt(engine, branch, prepare_keyed, verb, workers, only_inserts=only_inserts)
        if done.plan is None:
            record_key(
                engine,
                request,
                OperationId(engine.runtime.new_id()),
                make_receipt(done.outcome),
                incarnation=done.view.snapshot.branch_incarnation,
            )
        return done
    except KeyPublished:
        replay = find_replay(engine, request)
        if replay is None:
            raise
        return replay


def require_expected(header: Header, view: View) -> None:
    """Refuse a write when the head is not the commit that the write expected."""
    if header.if_commit is not None and view.commit != header.if_commit:
        raise PreconditionFailed(header.if_commit, view.commit)


def record_key(
    engine: Engine,
    request: KeyedRequest,
    operation_id: OperationId,
    receipt: Receipt,
    *,
    is_pending: bool = False,
    incarnation: Incarnation | None = None,
) -> None:
    """Publish the row of a key alone, for a write that changed no table; it was prepared on this `incarnation`."""
    fail(Failpoint.KEY_ALONE)
    draft = replace(request.draft(operation_id, receipt), is_pending=is_pending)
    change = Change(branch=request.branch, branch_incarnation=incarnation, operation=draft)
    publish(engine.manifest, change)


@dataclass(frozen=True, slots=True)
class BranchOperationResult:
    """A branch operation that is done, as it was decided; `replayed` when an earlier call did it."""

    receipt: Receipt
    replayed: bool


def run_branch_operation_once(
    engine: Engine,
    request: KeyedRequest,
    decide: Callable[[], Receipt],
    effect: Callable[[Receipt], None],
) -> BranchOperationResult:
    """Carry out an effect that no swap can contain: decide, record the decision, do it, record that it is done.

    `effect` carries out the decision, as far as that is not done yet: a repetition of the request completes it. After a
    `ReadSetConflict` no part of it was done, and it is decided again.
    """
    replay = find_replay(engine, request) or _record_decision(engine, request, decide())
    if not replay.operation.is_pending:
        return BranchOperationResult(replay.receipt, replayed=True)
    fail(Failpoint.BRANCH_INTENT)
    for _ in range(BRANCH_CAPTURES_MAX - 1):
        try:
            effect(replay.receipt)
            break
        except ReadSetConflict:
            replay = _decide_again(engine, request, replay, decide())
    else:
        effect(replay.receipt)
    fail(Failpoint.BRANCH_EFFECT)
    with suppress(KeyPublished):
        # A rival may have completed the same decision.
        record_key(engine, request, replay.operation.operation_id, replay.receipt)
    return BranchOperationResult(replay.receipt, replayed=False)


def _decide_again(
    engine: Engine, request: KeyedRequest, replay: Replay, receipt: Receipt
) -> Replay:
    """Record another decision instead of a decision that cannot be carried out."""
    record_key(engine, request, replay.operation.operation_id, receipt, is_pending=True)
    return replace(replay, operation=replace(replay.operation, receipt=receipt))


def _record_decision(engine: Engine, request: KeyedRequest, receipt: Receipt) -> Replay:
    """Record the decision of a branch operation; the decision of a rival that recorded one first holds."""
    operation_id = OperationId(engine.runtime.new_id())
    with suppress(KeyPublished):
        record_key(engine, request, operation_id, receipt, is_pending=True)
    replay = _find_replay(engine, request)
    if replay is None:
        raise InternalError(f"the key '{request.key}' was recorded and is not there")
    return replay
