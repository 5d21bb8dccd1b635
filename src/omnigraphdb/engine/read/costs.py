"""Costs of reading in milliseconds, measured on one core; a read chooses its access path by them.

A column, index or adjacency is loaded into memory once reads without it have cost as much as loading it. So the
total cost is at most twice the optimum.
"""

from typing import Final

TAKE: Final = 0.3
"""A fetch of rows by row id, and for each row:"""
TAKE_ROW: Final = 0.003

LOOKUP: Final = 0.8
"""A lookup of values in an index, and for each matching row, which may be anywhere in the table:"""
LOOKUP_ROW: Final = 0.02

SCANNED_ROW: Final = 3e-5
"""A row of a text column that is read, or tested because no index covers it."""

SCANNED_NUMBER: Final = 5e-6
"""A row of a column of numbers that is read."""

COMPARED_ROW: Final = 5e-6
"""A row of a column in memory that is compared with a value."""

MATCHED_ROW: Final = 1e-4
"""A row of a value index that is built."""

KEY_ROW: Final = 5e-4
"""A row of an id index that is built."""

EDGE_ROW: Final = 2e-4
"""An edge of an adjacency that is built."""

COLD_HOP: Final = 12.0
"""The extra cost of the first hop through indexes: their pages are read, and the pages of the nodes."""

FILE: Final = 0.5
"""An adjacency file that is read, and for each edge in it:"""
FILE_ROW: Final = 4e-6

TEXT_ROW: Final = 3e-3
"""A text that is cut into terms."""


def hop(edges: int, edge_rows: int) -> float:
    """Estimate the cost of a hop through indexes: a lookup of the edges, then one of the nodes at their other ends."""
    return 2 * LOOKUP + min(2 * edges * LOOKUP_ROW, edge_rows * EDGE_ROW)


def stored(edge_rows: int) -> float:
    """Estimate the cost of reading the adjacency file of a table."""
    return FILE + edge_rows * FILE_ROW
