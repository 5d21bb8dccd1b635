"""Text analysis: the one way in which text is cut into terms, with an index and without."""

from typing import Any, Final

import lance

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


def tokens(text: str) -> tuple[str, ...]:
    """Cut a text into terms exactly as the text index does."""
    return tuple(token.text for token in lance.tokenize(text, **ANALYZER))
