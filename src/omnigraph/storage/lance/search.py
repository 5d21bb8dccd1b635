"""Vector and text search over one opened table version."""

from collections.abc import Sequence

import pyarrow as pa
from lance import LanceDataset
from lance.query import MatchQuery

from omnigraph.storage.values import Filter

ROW_ID = "_rowid"
DISTANCE = "_distance"
SCORE = "_score"

_EXPANSIONS_MAX = 10_000
"""Terms a fuzzy term may stand for: the default of 50 would drop rows of a large vocabulary."""


def nearest(
    dataset: LanceDataset,
    column: str,
    vector: pa.Array,
    limit: int,
    *,
    columns: Sequence[str],
    filter: Filter | None,
    row_id: bool,
    indexed: bool,
) -> pa.Table:
    """Find the rows closest to a vector by squared L2 distance."""
    return dataset.scanner(
        columns=[*columns, DISTANCE],
        nearest={"column": column, "q": vector, "k": limit, "metric": "L2", "use_index": indexed},
        filter=filter,
        # A filter after the search may leave fewer rows than there are, or none.
        prefilter=True,
        with_row_id=row_id,
        use_scalar_index=indexed,
    ).to_table()


def match(
    dataset: LanceDataset,
    column: str,
    text: str,
    *,
    fuzziness: int,
    limit: int | None,
    columns: Sequence[str],
    filter: Filter | None,
    row_id: bool,
    indexed: bool,
) -> pa.Table:
    """Find the indexed rows that hold one of the terms, best first."""
    query = MatchQuery(text, column, fuzziness=fuzziness, max_expansions=_EXPANSIONS_MAX)
    return dataset.scanner(
        columns=[*columns, SCORE],
        full_text_query=query,
        filter=filter,
        prefilter=True,
        limit=limit,
        fast_search=True,
        with_row_id=row_id,
        use_scalar_index=indexed,
    ).to_table()
