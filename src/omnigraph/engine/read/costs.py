"""What reading costs, in milliseconds, as measured on one core: the scale on which a read chooses its way.

What is asked for again and again is brought into memory once it has cost as much without: never more than
twice the best that could have been done.
"""

from typing import Final

TAKE: Final = 0.3
"""A fetch of rows by number, and for each row more:"""
TAKE_ROW: Final = 0.02

LOOKUP: Final = 0.8
"""A lookup of values in an index, and for each value more:"""
LOOKUP_VALUE: Final = 0.01

SCANNED_ROW: Final = 3e-5
"""A row of a column that is read, or tested because no index covers it."""

KEY_ROW: Final = 5e-4
"""A row of a map from ids to numbers."""

HOP: Final = 2 * LOOKUP
"""A hop through an index: the edges of some nodes, then the nodes at their other ends."""

EDGE_ROW: Final = 2e-4
"""An edge of an adjacency that is built."""

TEXT_ROW: Final = 3e-3
"""A text that is cut into terms."""
