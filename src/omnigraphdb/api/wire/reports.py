"""What only Python and the command line show: comparisons by table, maintenance, recovery, tags, policies, plans of files."""

from typing import Any, NotRequired, TypedDict

from omnigraphdb.api.wire.answers import (
    CauseOutput,
    Row,
)
from omnigraphdb.engine.history.changes import DiffStats
from omnigraphdb.engine.history.entity import HistoryGap
from omnigraphdb.engine.results import Commit

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
        "stats": DiffStats,
        "engine": str,
        "reason": str,
        "out": NotRequired[str],
    },
)


class HistoryChangeRecord(TypedDict):
    """One commit that changed an entity, and how."""

    commit: Commit
    change: ChangeRecord
    merges: list[str]


class HistoryRecord(TypedDict):
    """The changes of one entity, newest first."""

    table_key: str
    id: str
    changes: list[HistoryChangeRecord]
    gaps: list[HistoryGap]
    more: bool


class BaselineOutput(TypedDict):
    """A file that holds one whole state, and the cursor after it."""

    snapshot_commit_id: str
    resume_cursor: str
    records: int


# ---- values of a graph


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
