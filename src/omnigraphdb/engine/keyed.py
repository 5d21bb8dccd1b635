"""Writes with an idempotency key: each takes effect once, and whoever repeats it gets the first result."""

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
from omnigraphdb.engine.results import OperationState, OperationStatus, view_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import Done, Prepare, Prepared
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
"""What a write reports, as JSON, without its commit."""


class Verb(StrEnum):
    """What a request asks for; part of its digest, so the spelling never changes."""

    MUTATE = "mutate"
    LOAD = "load"
    MERGE = "merge"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request under an idempotency key; `digest` is that of everything it asks for."""

    branch: BranchName
    actor: str | None
    key: str
    digest: str

    def draft(self, operation_id: OperationId, receipt: Receipt) -> OperationDraft:
        """Draft the row that records what the request did."""
        return OperationDraft(
            key=self.key,
            actor=self.actor,
            request=self.digest,
            operation_id=operation_id,
            receipt=receipt,
        )

    def is_of(self, sidecar: Sidecar) -> bool:
        """Whether a pending operation is about this key."""
        asked = (one.operation for one in sidecar.writes if one.operation is not None)
        names_key = any((one.actor, one.key) == (self.actor, self.key) for one in asked)
        return names_key and sidecar.branch == lance_branch(self.branch)


@dataclass(frozen=True, slots=True)
class Replay:
    """A request that was carried out before: its record, and the commit it made, if any."""

    operation: Operation
    commit: GraphCommit | None

    @property
    def receipt(self) -> Receipt:
        """What was reported then."""
        return self.operation.receipt


def make_request(
    verb: Verb, branch: BranchName, actor: str | None, key: str, **asked: Any
) -> KeyedRequest:
    """Digest what is asked for under a key."""
    text = json.dumps([verb, branch, asked], sort_keys=True, default=_spell)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return KeyedRequest(branch=branch, actor=actor, key=key, digest=digest)


def make_write_request(
    verb: Verb, branch: BranchName, options: WriteOptions, **asked: Any
) -> KeyedRequest | None:
    """Digest what a write asks for, if it has a key; a condition belongs to it where there is one."""
    if options.key is None:
        return None
    condition = {} if options.if_commit is None else {"if_commit": options.if_commit}
    return make_request(verb, branch, options.actor, options.key, **asked, **condition)


def _spell(value: Any) -> Any:
    """Spell a parameter that JSON does not know; equal values have equal spellings."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    for spelled in ("tolist", "to_pylist"):
        if hasattr(value, spelled):
            return getattr(value, spelled)()
    return list(value) if isinstance(value, tuple | set | frozenset) else str(value)


# ---- looking


def find_replay(engine: Engine, request: KeyedRequest | None) -> Replay | None:
    """Find what a request did before; a pending operation under its key is recovered or waited for first.

    `IdempotencyConflict`: the key was used for another request. `LockTimeout`: a live writer of the key takes too long.
    """
    if request is None:
        return None
    for _ in range(KEY_ROUNDS_MAX):
        # A published operation may be pending still: the files of a schema change follow its publish.
        pending = [one for one in engine.committer.sidecars.pending() if request.is_of(one)]
        if not pending:
            break
        for sidecar in pending:
            engine.recovery.recover_operation(sidecar)
    return _find_replay(engine, request)


def find_status(engine: Engine, branch: BranchName, actor: str | None, key: str) -> OperationStatus:
    """Say what became of the request of a key; changes nothing and waits for nobody."""
    known = OperationStatus(key=key, branch=branch, actor=actor, state=OperationState.NOT_LANDED)
    state = engine.manifest.current(branch)
    operation = find_operation(state, actor, key)
    if operation is None:
        asked = KeyedRequest(branch=branch, actor=actor, key=key, digest="")
        pending = (one for one in engine.committer.sidecars.pending() if asked.is_of(one))
        sidecar = next(pending, None)
        if sidecar is None:
            return known
        return replace(known, state=OperationState.UNDECIDED, operation_id=sidecar.operation_id)
    commit = None if operation.commit is None else state.shows(operation.commit)
    return replace(
        known,
        state=OperationState.UNDECIDED if operation.is_pending else OperationState.LANDED,
        commit=view_commit(commit),
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
    """Find what a request did in the state of its branch."""
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
) -> Done[T] | Replay:
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
    asked = request

    def prepare_keyed(view: View) -> Prepared[T]:
        known = find_operation(view.state, asked.actor, asked.key)
        if known is not None:
            raise KeyPublished(known.key, known.operation_id)
        prepared = prepare_expected(view)
        if prepared.plan is None:
            return prepared
        draft = asked.draft(header.operation_id, make_receipt(prepared.outcome))
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
        known = find_replay(engine, request)
        if known is None:
            raise
        return known


def require_expected(header: Header, view: View) -> None:
    """Refuse a write where the head is another one than it expected."""
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
class Effect:
    """A branch operation that is done, as it was decided; `replayed` when an earlier call did it."""

    receipt: Receipt
    replayed: bool


def effect_once(
    engine: Engine,
    request: KeyedRequest,
    decide: Callable[[], Receipt],
    effect: Callable[[Receipt], None],
) -> Effect:
    """Carry out an effect that no swap can contain: decide, record the decision, do it, record that it is done.

    `effect` does what the decision says, as far as it is not done yet: whoever repeats the request completes it. After a
    `ReadSetConflict` nothing of it was done, and it is decided again.
    """
    known = find_replay(engine, request) or _record_decision(engine, request, decide())
    if not known.operation.is_pending:
        return Effect(known.receipt, replayed=True)
    fail(Failpoint.BRANCH_INTENT)
    for _ in range(BRANCH_CAPTURES_MAX - 1):
        try:
            effect(known.receipt)
            break
        except ReadSetConflict:
            known = _decide_again(engine, request, known, decide())
    else:
        effect(known.receipt)
    fail(Failpoint.BRANCH_EFFECT)
    with suppress(KeyPublished):
        # A rival may have completed the same decision.
        record_key(engine, request, known.operation.operation_id, known.receipt)
    return Effect(known.receipt, replayed=False)


def _decide_again(engine: Engine, request: KeyedRequest, known: Replay, receipt: Receipt) -> Replay:
    """Record another decision instead of one that cannot be carried out."""
    record_key(engine, request, known.operation.operation_id, receipt, is_pending=True)
    return replace(known, operation=replace(known.operation, receipt=receipt))


def _record_decision(engine: Engine, request: KeyedRequest, receipt: Receipt) -> Replay:
    """Record what a branch operation will do; a rival that recorded its own first has decided."""
    operation_id = OperationId(engine.runtime.new_id())
    with suppress(KeyPublished):
        record_key(engine, request, operation_id, receipt, is_pending=True)
    found = _find_replay(engine, request)
    if found is None:
        raise InternalError(f"the key '{request.key}' was recorded and is not there")
    return found
