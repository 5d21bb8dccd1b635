"""What only Python and the command line show: comparisons by table, maintenance, recovery, tags, policies, plans of files."""

from typing import Any, NotRequired, TypedDict

from omnigraph.api.wire.answers import (
    BranchOutput,
    CauseOutput,
    CommitOutput,
    DiffStatsOutput,
    HistoryGapOutput,
    Row,
)
from omnigraph.api.wire.failures import LockHolder

# ---- comparisons


class EndsOutput(TypedDict):
    """The nodes of an edge."""

    src: str
    dst: str


class ChangeRecord(TypedDict):
    """One entity that differs; rows are there when they were asked for."""

    op: str
    table_key: str
    kind: str
    type_name: str
    id: str
    endpoints: EndsOutput | None
    manifest_version: int
    table_version: int
    properties: list[str]
    before: NotRequired[Row]
    after: NotRequired[Row]


class BlockRecord(TypedDict):
    """What one commit changed."""

    cause: CauseOutput
    changes: list[ChangeRecord]
    next_page_token: NotRequired[str]
    cursor: NotRequired[str]
    engine: NotRequired[str]
    reason: NotRequired[str]


class FeedRecord(TypedDict):
    """Whole commits of the feed, and where it goes on."""

    blocks: list[BlockRecord]
    cursor: str
    caught_up: bool
    engine: str
    reason: str


DiffRecord = TypedDict(
    "DiffRecord",
    {
        "from": str | None,
        "to": str | None,
        "changes": list[ChangeRecord],
        "stats": DiffStatsOutput,
        "engine": str,
        "reason": str,
        "out": NotRequired[str],
    },
)


class HistoryChangeRecord(TypedDict):
    """One commit that changed an entity, and how."""

    commit: CommitOutput
    change: ChangeRecord
    merges: list[str]


class HistoryRecord(TypedDict):
    """The changes of one entity, newest first."""

    table_key: str
    id: str
    changes: list[HistoryChangeRecord]
    gaps: list[HistoryGapOutput]
    more: bool


class BaselineOutput(TypedDict):
    """A file that holds one whole state, and the cursor after it."""

    snapshot_commit_id: str
    resume_cursor: str
    records: int


# ---- maintenance


class IndexOutput(TypedDict):
    """One index, and how many rows it covers."""

    table_key: str
    column: str
    kind: str
    state: str
    rows_indexed: int
    rows: int
    reason: NotRequired[str]


class IndexListOutput(TypedDict):
    """The indexes of a branch, and how many were built."""

    indexes: list[IndexOutput]
    built: int


class PendingIndex(TypedDict):
    """An index that was not built."""

    property: str
    reason: str


class OptimizedTable(TypedDict):
    """What optimize did to one table."""

    table_key: str
    fragments_removed: int
    fragments_added: int
    committed: bool
    skipped: NotRequired[str]
    manifest_version: NotRequired[int]
    head_version: NotRequired[int]
    pending_indexes: list[PendingIndex]


class OptimizeOutput(TypedDict):
    """What optimize did."""

    uri: str
    tables: list[OptimizedTable]
    commit: CommitOutput | None
    engine: str
    reason: str


class CleanedTable(TypedDict):
    """What cleanup removed of one table, or would remove."""

    table_key: str
    versions_removed: int
    bytes_removed: int
    forks_removed: list[str]
    dropped: bool
    error: NotRequired[str]


class CleanupOutput(TypedDict):
    """What cleanup removed, or would remove."""

    uri: str
    tables: list[CleanedTable]
    manifest: CleanedTable
    confirmed: bool
    scratch_removed: list[str]
    jobs_removed: list[str]
    actor_id: str | None


class RepairedTable(TypedDict):
    """What repair found at one table, and did."""

    table_key: str
    classification: str
    action: str
    manifest_version: int
    head_version: int
    operations: list[str]
    error: NotRequired[str]


class RepairOutput(TypedDict):
    """What repair did."""

    uri: str
    tables: list[RepairedTable]
    commit: CommitOutput | None


class MovedBranch(TypedDict):
    """A branch whose paths were rewritten."""

    branch: str
    old_uri: str


class RelocateOutput(TypedDict):
    """What relocating a graph did."""

    uri: str
    branches: list[MovedBranch]
    files_rewritten: int


class PartOutput(TypedDict):
    """One file of an export."""

    table_key: str
    file: str
    rows: int


class ExportOutput(TypedDict):
    """The files of an export."""

    uri: str
    commit: str | None
    engine: str
    parts: list[PartOutput]


class IssueOutput(TypedDict):
    """A broken invariant, and its remedy."""

    check: str
    message: str
    remedy: str
    branch: NotRequired[str]
    table_key: NotRequired[str]


# ---- recovery and keys


class SidecarOutput(TypedDict):
    """A write that is not ended."""

    operation_id: str
    writer_kind: str
    branch: str
    actor_id: str | None
    started_at: str | None
    tables: list[str]
    schema_version: int | None
    forecast: NotRequired[str]
    problem: NotRequired[str]
    holder: NotRequired[LockHolder]


class DiscardedOutput(TypedDict):
    """A write whose record was removed."""

    operation_id: str
    writer_kind: str
    graph_commit_id: str | None
    leaves: list[str]


class OperationOutput(TypedDict):
    """What became of a write with a key."""

    key: str
    branch: str
    actor_id: str | None
    state: str
    commit: CommitOutput | None
    operation_id: str | None
    created_at: int | None


# ---- values of a graph


class TagOutput(TypedDict):
    """A name of a commit."""

    name: str
    graph_commit_id: str
    manifest_branch: str | None
    created_at: int
    actor_id: str | None


class PolicyOutput(TypedDict):
    """A version of the policy that a graph keeps."""

    version: int
    text: str | None
    created_at: int
    actor_id: str | None


class TypeState(TypedDict):
    """One type, and what its table holds."""

    table_key: str
    kind: str
    type_name: str
    rows: int
    bytes: int
    fragments: int
    table_version: int
    indexes: list[IndexOutput]


class DescriptionOutput(TypedDict):
    """What a branch holds."""

    uri: str
    branch: str
    graph_commit_id: str | None
    manifest_version: int
    rows: int
    bytes: int
    types: list[TypeState]
    branches: list[BranchOutput]
    commits: list[CommitOutput]
    pending: list[SidecarOutput]


class BlobSelector(TypedDict):
    """The value that is a blob."""

    entity: str
    type: str
    id: str
    property: str


class BlobTarget(TypedDict):
    """What was read: a branch, or a snapshot."""

    branch: NotRequired[str]
    snapshot: NotRequired[str]
    resolved_snapshot: str | None


class BlobOutput(TypedDict):
    """What is known of a blob."""

    selector: BlobSelector
    kind: str
    size: NotRequired[int]
    etag: NotRequired[str]
    uri: NotRequired[str]
    target: BlobTarget


class ScoresOutput(TypedDict):
    """The scores of nodes."""

    algorithm: str
    branch: str
    graph_commit_id: str | None
    rows: list[dict[str, Any]]
