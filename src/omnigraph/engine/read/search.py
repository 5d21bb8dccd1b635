"""Search: text and vector functions over the rows of a query."""

import pyarrow as pa

from omnigraph.compile.checked import Bm25, Nearest, Rrf, TextMatch
from omnigraph.compile.operators import Rank
from omnigraph.engine.read.bindings import Bindings, Mask
from omnigraph.engine.read.reader import Reader


def text_mask(test: TextMatch, rows: Bindings, reader: Reader) -> Mask:
    """Mark the rows whose text matches."""
    raise NotImplementedError


def scores(ranking: Nearest | Bm25 | Rrf, rows: Bindings, reader: Reader) -> pa.Array:
    """The score of every row."""
    raise NotImplementedError


def rank(operator: Rank, rows: Bindings, reader: Reader) -> Bindings:
    """Order rows by relevance."""
    raise NotImplementedError
