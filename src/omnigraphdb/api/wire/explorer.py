"""Answers to the explorer: entities, drawings of changes, reports about maintenance."""

from typing import NotRequired, TypedDict

from omnigraphdb.api.drawings import OperationCounts
from omnigraphdb.api.wire.answers import Row


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
