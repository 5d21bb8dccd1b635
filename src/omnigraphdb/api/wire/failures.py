"""What is told of a failure: the body of every error, and the facts of its kind."""

from typing import Any, Literal, NotRequired, TypedDict

from omnigraphdb.engine.merge.conflicts import Conflict

# ---- facts: texts and values that were given


class PositionOutput(TypedDict):
    """A position in a text: line and column from 1, in characters; byte from 0."""

    line: int
    column: int
    byte: int


class SpanOutput(TypedDict):
    """A part of a text, in characters."""

    start: int
    end: int


class DiagnosticOutput(TypedDict):
    """What is wrong in a schema or query, where, and what would be right."""

    code: NotRequired[str]
    severity: str
    stage: str
    message: str
    position: PositionOutput
    span: SpanOutput
    expected: NotRequired[str]
    fix: NotRequired[str]
    source_name: NotRequired[str]
    query_name: NotRequired[str]
    type_name: NotRequired[str]
    property: NotRequired[str]
    query_names: NotRequired[list[str]]


class ParamProblem(TypedDict):
    """A parameter that does not fit."""

    name: str
    code: str
    expected: str
    got: str


class DataProblem(TypedDict):
    """A record or value that breaks a rule of the schema."""

    rule: str
    message: str
    line: NotRequired[int]
    record: NotRequired[int]
    file: NotRequired[str]
    table_key: NotRequired[str]
    row_id: NotRequired[str]
    property: NotRequired[str]
    value: NotRequired[str]


class MissingOutput(TypedDict):
    """What does not exist, and names like it that do."""

    what: str
    name: str
    did_you_mean: list[str]


class EmbeddingProblem(TypedDict):
    """Two models that embed into different spaces."""

    expected: str
    model: str


# ---- facts: conflicts


class KeyConflictOutput(TypedDict):
    """The id that exists."""

    table_key: str
    row_id: NotRequired[str]


class VersionConflict(TypedDict):
    """A table that is at another version than the write was prepared on."""

    table_key: str
    expected: int
    actual: int


class ReadSetConflictOutput(TypedDict):
    """What a write relied on, and what it is now."""

    member: str
    expected: NotRequired[Any]
    actual: NotRequired[Any]


class ContentionOutput(TypedDict):
    """How often other writers came first."""

    attempts: int


class LockHolder(TypedDict):
    """The process that has a lock."""

    process: NotRequired[int]
    host: NotRequired[str]
    operation: NotRequired[str]
    operation_id: NotRequired[str]


class LockOutput(TypedDict):
    """A lock that did not become free."""

    table_key: str
    holder: LockHolder | None
    since: str | None
    turns_before: NotRequired[int]


class IdempotencyOutput(TypedDict):
    """A key, and the commit of the request that it came with first."""

    key: str
    branch: str
    commit_id: str | None


class MergeBaseOutput(TypedDict):
    """Commits whose state cannot be found any more."""

    commits: list[str]


class BranchProblem(TypedDict):
    """A branch that is in the way, or in use."""

    name: str
    dependants: NotRequired[list[str]]


class PreconditionFailure(TypedDict):
    """The head that was expected, and the head that is."""

    expected: str
    actual: str | None


class FormatOutput(TypedDict):
    """The version of a stored form."""

    found: Any
    supported: Any


class DriftOutput(TypedDict):
    """A table that is ahead of the graph."""

    table_key: str
    manifest_version: int
    head_version: int


class DiffRefusal(TypedDict):
    """Why a commit has no changes to show."""

    reason: str
    graph_commit_id: str
    type_name: NotRequired[str]


# ---- facts: permissions, bounds, history, recovery, storage


class DeniedOutput(TypedDict):
    """What was asked for, and is not allowed."""

    action: str
    branch: NotRequired[str]
    target_branch: NotRequired[str]


class LimitOutput(TypedDict):
    """A bound that was passed."""

    resource: str
    limit: int
    actual: NotRequired[int]


class BoundOutput(TypedDict):
    """An algorithm that did not end."""

    algorithm: str
    bound: str
    state: str


class ReclaimedOutput(TypedDict):
    """A version of a table that cleanup removed."""

    table_key: str
    table_version: int
    commit_id: NotRequired[str]


class FeedGapOutput(TypedDict):
    """Where the change feed begins to be unreadable."""

    first_unreadable_commit_id: str
    cursor: NotRequired[str]


class RecoveryRequiredOutput(TypedDict):
    """A write that is to be completed or taken back first."""

    operation_id: str


class SidecarProblem(TypedDict):
    """A record of a write that cannot be read."""

    path: str
    reason: str


class InterleavedOutput(TypedDict):
    """A table that another writer moved between two steps of a write."""

    table: str
    expected: Any
    actual: Any


class BlobRangeOutput(TypedDict):
    """A range, and the bytes that there are."""

    start: int
    end: int | None
    length: int


class StorageProblem(TypedDict):
    """What kind of failure a store had."""

    kind: str


class RowContentionOutput(TypedDict):
    """A table whose rows another writer changed."""

    table: str
    version: int


class ForkProblem(TypedDict):
    """A fork of a table that cannot be used."""

    table: str
    branch: str
    has_ref: bool


# ---- bodies


class ErrorBody(TypedDict):
    """Any failure: its message, its kind, the next step, and the facts of its kind."""

    error: str
    code: NotRequired[str]
    kind: str
    hint: NotRequired[str]
    diagnostic: NotRequired[DiagnosticOutput]
    diagnostics: NotRequired[list[DiagnosticOutput]]
    param: NotRequired[ParamProblem]
    data_errors: NotRequired[list[DataProblem]]
    total: NotRequired[int]
    rejects: NotRequired[str]
    missing: NotRequired[MissingOutput]
    embedding: NotRequired[EmbeddingProblem]
    policy_problems: NotRequired[list[str]]
    key_conflict: NotRequired[KeyConflictOutput]
    manifest_conflict: NotRequired[VersionConflict]
    read_set_conflict: NotRequired[ReadSetConflictOutput]
    publish_contention: NotRequired[ContentionOutput]
    lock: NotRequired[LockOutput]
    idempotency: NotRequired[IdempotencyOutput]
    merge_conflicts: NotRequired[list[Conflict]]
    merge_conflicts_total: NotRequired[int]
    merge_base: NotRequired[MergeBaseOutput]
    branch: NotRequired[BranchProblem]
    branches: NotRequired[list[str]]
    uri: NotRequired[str]
    precondition_failure: NotRequired[PreconditionFailure]
    format: NotRequired[FormatOutput]
    drift: NotRequired[DriftOutput]
    change_diff_refusal: NotRequired[DiffRefusal]
    denied: NotRequired[DeniedOutput]
    resource_limit: NotRequired[LimitOutput]
    bound: NotRequired[BoundOutput]
    history_reclaimed: NotRequired[ReclaimedOutput]
    change_feed_gap: NotRequired[FeedGapOutput]
    recovery_required: NotRequired[RecoveryRequiredOutput]
    sidecar: NotRequired[SidecarProblem]
    interleaved: NotRequired[InterleavedOutput]
    blob_range: NotRequired[BlobRangeOutput]
    storage: NotRequired[StorageProblem]
    row_contention: NotRequired[RowContentionOutput]
    head_moved: NotRequired[InterleavedOutput]
    table: NotRequired[str]
    fork: NotRequired[ForkProblem]
    status: NotRequired[str]
    graphs_ready: NotRequired[int]
    graphs_quarantined: NotRequired[int]


class OutcomeOutput(TypedDict):
    """What is known about a write that failed."""

    execution: Literal["not_started", "finished", "unknown"]
    effects: Literal["none", "unknown"]
    action: Literal["fix", "retry", "refresh", "recover", "reconcile"]


class ErrorOutput(ErrorBody):
    """Any failure: its message, its kind, the next step, and the facts of its kind."""

    outcome: NotRequired[OutcomeOutput]
    request_id: str
