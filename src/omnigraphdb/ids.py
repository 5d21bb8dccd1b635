"""The names of things: identifiers as types, so that one is never taken for another."""

from enum import StrEnum
from typing import NewType

TableKey = NewType("TableKey", str)
"""`node:<TypeName>` or `edge:<EdgeName>`."""

Version = NewType("Version", int)
"""A version of one table, or of the manifest."""

CommitId = NewType("CommitId", str)
"""The ULID of a graph commit."""

OperationId = NewType("OperationId", str)
"""The ULID of one write; also the name of its sidecar."""

BranchName = NewType("BranchName", str)
"""A graph branch. The main branch is always spelled `main` above the storage layer."""

MAIN = BranchName("main")


class LoadMode(StrEnum):
    """The treatment of existing rows by a load: refuse them, replace them one by one, or replace all."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class PartFormat(StrEnum):
    """The format of the files of an export."""

    JSONL = "jsonl"
    PARQUET = "parquet"


class Op(StrEnum):
    """The change of an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class EntityKind(StrEnum):
    """Node or edge."""

    NODE = "node"
    EDGE = "edge"


class Granularity(StrEnum):
    """The unit that must not be changed on both sides: the row, or one property of it."""

    ROW = "row"
    PROPERTY = "property"


RECOVERY_ACTOR = "omnigraph:recovery"
REPAIR_ACTOR = "omnigraph:repair"
FORCED_REPAIR_ACTOR = "omnigraph:repair:force"


def node_key(type_name: str) -> TableKey:
    """Name the table of a node type."""
    return TableKey(f"node:{type_name}")


def edge_key(type_name: str) -> TableKey:
    """Name the table of an edge type."""
    return TableKey(f"edge:{type_name}")


def is_node(table: TableKey) -> bool:
    """Tell a node table from an edge table."""
    return table.startswith("node:")


def type_name(table: TableKey) -> str:
    """Give the declared name behind a table key."""
    return table.partition(":")[2]
