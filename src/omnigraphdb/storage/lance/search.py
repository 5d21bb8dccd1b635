"""Vector and text search over one opened table version, and the analysis of its texts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.query import MatchQuery

from omnigraphdb.storage.values import Filter

ANALYZER: Final[dict[str, Any]] = {
    "base_tokenizer": "simple",
    "language": "English",
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
    "max_token_length": 40,
}
"""Lower case, English stems, no stop words, no accents; part of every text index that was ever built."""

_JOINED_MAX: Final = 10_000
"""Words that are analysed together."""

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


# ---- text analysis
# The one way in which text is cut into terms, with an index and without.


def tokens(text: str) -> tuple[str, ...]:
    """Cut a text into terms exactly as the text index does."""
    return tuple(token.text for token in lance.tokenize(text, **ANALYZER))


def tokens_of_each(pieces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Cut many short texts into terms, as `tokens` would each of them.

    Preparing the analyser costs far more than a word, so that single words go through it together: a word
    that is all letters and digits is one position of the joined text, whether it leaves a term or not.
    """
    words = [number for number, piece in enumerate(pieces) if piece.isalnum()]
    terms: dict[int, tuple[str, ...]] = {}
    for start in range(0, len(words), _JOINED_MAX):
        batch = words[start : start + _JOINED_MAX]
        # Positions count from the first term that is left, so that a word which always is comes first.
        first, *rest = lance.tokenize(" ".join(("x", *(pieces[n] for n in batch))), **ANALYZER)
        for token in rest:
            terms[batch[token.position - first.position - 1]] = (token.text,)
    for number, piece in enumerate(pieces):
        if number in terms or piece.isalnum():
            yield terms.get(number, ())
        else:
            yield tokens(piece)
