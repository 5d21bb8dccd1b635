"""What reading costs, in milliseconds, as measured on one core: the scale on which a read chooses its way.

What is asked for again and again is brought into memory once it has cost as much without: never more than
twice the best that could have been done.
"""

from typing import Final

TAKE: Final = 0.3
"""A fetch of rows by number, and for each row more:"""
TAKE_ROW: Final = 0.003

LOOKUP: Final = 0.8
"""A lookup of values in an index, and for each row that is found, scattered over the table:"""
LOOKUP_ROW: Final = 0.02

SCANNED_ROW: Final = 3e-5
"""A row of a text column that is read, or tested because no index covers it."""

SCANNED_NUMBER: Final = 5e-6
"""A row of a column of numbers that is read."""

COMPARED_ROW: Final = 5e-6
"""A row of a column in memory that is compared with a value."""

MATCHED_ROW: Final = 1e-4
"""A row of a map from values to the entities that have them."""

KEY_ROW: Final = 5e-4
"""A row of a map from ids to numbers."""

EDGE_ROW: Final = 2e-4
"""An edge of an adjacency that is built."""

TEXT_ROW: Final = 3e-3
"""A text that is cut into terms."""


def hop(edges: int, edge_rows: int) -> float:
    """A hop through indexes to so many edges: these, then the nodes at their other ends."""
    return 2 * LOOKUP + min(2 * edges * LOOKUP_ROW, edge_rows * EDGE_ROW)
