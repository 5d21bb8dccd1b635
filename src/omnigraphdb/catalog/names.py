"""Names that mean something beyond the schema: reserved properties, and the path of a table."""

from typing import Final

from omnigraphdb.ids import TableKey, is_node, type_name
from omnigraphdb.values import dataclass

ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
LAST_UPDATED: Final = "_row_last_updated_at_version"
SYSTEM_COLUMNS: Final = (
    ROW_ID,
    ROW_ADDRESS,
    "_rowoffset",
    "_row_created_at_version",
    LAST_UPDATED,
)
"""Columns that the table format computes; a stored one of that name could not be read."""

NODE_COLUMNS: Final = ("id",)
EDGE_COLUMNS: Final = ("id", "src", "dst")
EDGE_ENDS: Final = ("src", "dst")
"""Columns of every edge that a group of an edge type may name."""

_EDGE_WORDS: Final = ("from", "to")
"""Names of the ends of an edge in writes; a property of that name would be shadowed."""

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_UINT64: Final = 0xFFFFFFFFFFFFFFFF


def list_taken_columns(*, on_edge: bool) -> tuple[str, ...]:
    """Return the names that cannot be columns of properties, because the table has such columns already."""
    return (*(EDGE_COLUMNS if on_edge else NODE_COLUMNS), *SYSTEM_COLUMNS)


def list_reserved_names(*, on_edge: bool) -> tuple[str, ...]:
    """Return the names that a new property may not have."""
    return (*list_taken_columns(on_edge=on_edge), *(_EDGE_WORDS if on_edge else ()))


def fnv1a_64(text: str) -> int:
    """Hash the UTF-8 bytes of a text with FNV-1a, 64 bits, wrapping."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _UINT64
    return value


def table_path(table: TableKey, incarnation: int) -> str:
    """Name the directory of a table after the name it is created with; a later incarnation gets its own directory."""
    directory = "nodes" if is_node(table) else "edges"
    suffix = f"-{incarnation}" if incarnation > 1 else ""
    return f"{directory}/{fnv1a_64(type_name(table)):016x}{suffix}"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The path of the table of a type on disk, and the incarnation of its name.

    The path is chosen when the table is created and stays through renames.
    """

    path: str
    incarnation: int
