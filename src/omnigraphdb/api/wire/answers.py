"""What calls give: commits and writes, reads, the change feed, and the server itself."""

from typing import Any, Literal, NotRequired, TypedDict

from omnigraphdb.compile.descriptor import ValueDescriptor
from omnigraphdb.engine.history.changes import DiffStats
from omnigraphdb.engine.history.entity import HistoryGap
from omnigraphdb.engine.results import Commit, MutationResult

Row = dict[str, Any]

# ---- commits and writes


# ---- reads


class ReadTarget(TypedDict):
    """What a query read: a branch, or a snapshot."""

    branch: NotRequired[str]
    snapshot: NotRequired[str]


class ReadOutput(TypedDict):
    """The rows of a query."""

    query_name: str
    target: ReadTarget
    row_count: int
    columns: list[str]
    rows: list[Row]
    graph_commit_id: NotRequired[str | None]


class StepOutput(TypedDict):
    """One operator of a plan, and how deep it stands; rows and milliseconds are there after a run."""

    operator: str
    depth: int
    notes: list[str]
    rows: NotRequired[int]
    milliseconds: NotRequired[float | None]


class ExplanationOutput(TypedDict):
    """How a query runs, from the result down; with `profiled`, how it ran."""

    query_name: str
    profiled: bool
    operators: list[StepOutput]


InvokeOutput = ReadOutput | MutationResult
"""What a stored query gives: rows, or what it changed."""


class QueryCatalogEntry(TypedDict):
    """One stored query."""

    name: str
    tool_name: str
    exposed: bool
    description: str | None
    instruction: str | None
    mutation: bool
    params: list[ValueDescriptor]
    returns: NotRequired[list[ValueDescriptor]]


class QueryCatalogOutput(TypedDict):
    """The stored queries, by name."""

    queries: list[QueryCatalogEntry]


# ---- the change feed


class CauseOutput(TypedDict):
    """The commit that made changes."""

    graph_commit_id: str
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    authored_branch: str
    actor_id: str | None
    authored_at: int


class TypeOutput(TypedDict):
    """A type; `id` stays when the type is renamed."""

    id: str
    name: str


EndpointsOutput = TypedDict("EndpointsOutput", {"from": str, "to": str})


class ImageOutput(TypedDict):
    """An entity as it was or is."""

    properties: Row
    endpoints: NotRequired[EndpointsOutput]


class EntityChange(TypedDict):
    """One entity that differs."""

    kind: Literal["node", "edge"]
    type: TypeOutput
    id: str
    op: Literal["insert", "update", "delete"]
    before: NotRequired[ImageOutput]
    after: NotRequired[ImageOutput]
    properties: list[str]
    table_version: int
    manifest_version: int


class HistoryChangeOutput(TypedDict):
    """One commit that changed an entity; `merges` are the merges through which it came."""

    commit: Commit
    change: EntityChange
    merges: list[str]


class EntityHistoryOutput(TypedDict):
    """The changes of one entity, the newest first."""

    table_key: str
    id: str
    changes: list[HistoryChangeOutput]
    gaps: list[HistoryGap]
    more: bool


class CommitChangesOutput(TypedDict):
    """What one commit changed."""

    cause: CauseOutput
    changes: list[EntityChange]
    next_page_token: NotRequired[str]


class ChangeBlockOutput(TypedDict):
    """One commit of the feed."""

    cause: CauseOutput
    changes: list[EntityChange]


class ChangePageOutput(TypedDict):
    """A page of the feed; `cursor` and `caught_up` come with the last one."""

    blocks: list[ChangeBlockOutput]
    next_page_token: NotRequired[str]
    cursor: NotRequired[str]
    caught_up: NotRequired[bool]
    engine: str
    reason: str


DiffOutput = TypedDict(
    "DiffOutput",
    {
        "from": str | None,
        "to": str | None,
        "changes": list[EntityChange],
        "stats": DiffStats,
        "engine": str,
        "reason": str,
        "next_page_token": NotRequired[str],
    },
)

# ---- the server


class HealthOutput(TypedDict):
    """The server lives."""

    status: Literal["ok"]
    version: str
    internal_schema_version: int
    source_version: str | None


class ReadyOutput(TypedDict):
    """Whether requests are served."""

    status: str
    graphs_ready: int
    graphs_quarantined: int


class GraphOutput(TypedDict):
    """One served graph."""

    graph_id: str
    uri: str


class GraphListResponse(TypedDict):
    """The served graphs, by id."""

    graphs: list[GraphOutput]
