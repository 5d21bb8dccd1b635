"""What the explorer asks and is told: texts and their mistakes, entities, drawings of schemas, histories and changes."""

from typing import NotRequired, TypedDict

from omnigraphdb.api.drawings import OperationCounts
from omnigraphdb.api.wire.answers import Row
from omnigraphdb.compile.descriptor import ValueDescriptor


class LintInput(TypedDict):
    """A query text to be checked."""

    text: str


class CompleteInput(TypedDict):
    """A query text, and the place of the cursor in it."""

    text: str
    offset: int


class LintFinding(TypedDict):
    """One finding about a text, with the place where it begins and ends; lines and columns count from 1."""

    code: str
    severity: str
    message: str
    hint: str | None
    line: int
    column: int
    end_line: int
    end_column: int


class LintedQuery(TypedDict):
    """A query of a text, and what it takes; nothing is said about one with mistakes."""

    name: str
    writes: bool
    parameters: list[ValueDescriptor]


class LintOutput(TypedDict):
    """What is wrong or doubtful in a text."""

    diagnostics: list[LintFinding]
    queries: list[LintedQuery]


class CompletionOutput(TypedDict):
    """A text that may be written next."""

    label: str
    kind: str
    detail: str


CompletionListOutput = TypedDict(
    "CompletionListOutput", {"from": int, "items": list[CompletionOutput]}
)
"""What may replace the text from an offset up to the cursor."""


class PropertyShape(TypedDict):
    """One property of a type."""

    name: str
    type: str
    optional: bool
    key: bool
    unique: bool
    indexed: bool
    coverage: float | None


TypeShape = TypedDict(
    "TypeShape",
    {
        "kind": str,
        "name": str,
        "rows": int,
        "bytes": int,
        "fragments": int,
        "description": str | None,
        "properties": list[PropertyShape],
        "from": NotRequired[str],
        "to": NotRequired[str],
        "cardinality": NotRequired[str],
    },
)
"""One type; an edge type tells which types it joins."""


class SchemaGraphOutput(TypedDict):
    """The types of a graph at one commit."""

    graph_commit_id: str | None
    types: list[TypeShape]


class EndOutput(TypedDict):
    """A node at the end of an edge, and what people call it."""

    type: str
    id: str
    label: str


DrawnEntity = TypedDict(
    "DrawnEntity",
    {
        "kind": str,
        "type": str,
        "id": str,
        "label": str,
        "properties": Row,
        "from": NotRequired[EndOutput],
        "to": NotRequired[EndOutput],
        "change": NotRequired[str],
        "before": NotRequired[Row],
    },
)
"""A node or an edge, and in a comparison how it differs: added, removed, changed, same."""


class EdgeGroupOutput(TypedDict):
    """The edges of one type and direction."""

    edge: str
    direction: str
    type: str
    shown: int
    total: int


class NeighbourhoodOutput(TypedDict):
    """The edges of a node, and the nodes they lead to."""

    graph_commit_id: str | None
    nodes: list[DrawnEntity]
    edges: list[DrawnEntity]
    groups: list[EdgeGroupOutput]


class KindCounts(TypedDict):
    """Changed nodes and edges, and unchanged edges between nodes that are drawn."""

    nodes: int
    edges: int
    unchanged_edges: int


class DiffGraphOutput(TypedDict):
    """A drawn comparison: all counts, and the first changes with the nodes they hang on."""

    base: str | None
    head: str | None
    counts: dict[str, OperationCounts]
    nodes: list[DrawnEntity]
    edges: list[DrawnEntity]
    shown: KindCounts
    total: KindCounts
    actors: list[str]


class RemovableOutput(TypedDict):
    """What cleanup would remove of one table."""

    table_key: str
    versions_removed: int
    bytes_removed: int
    forks_removed: int
    dropped: bool


class CleanupPreviewOutput(TypedDict):
    """What cleanup would remove, by table."""

    tables: list[RemovableOutput]
