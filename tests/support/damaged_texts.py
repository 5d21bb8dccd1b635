"""Query texts that somebody spoiled: characters, tokens and stretches of other queries put in, doubled or left out."""

import re
from collections.abc import Iterator
from itertools import chain
from random import Random

from tests.support.queries import conformance_texts
from tests.support.query_forms import FORMS

FRAGMENTS = (
    '"', "\\", "\\q", "$", "$P", "{", "}", "(", ")", "[", "]", "<", ">", "=", "==", "-5", "1e3", "1.",
    ",", ":", ".", "?", "@", "@note", "//", "/*", "*/", "\n", "\n\n", ";", "'x'", "é", "\ufeff", "\x00",
    "query ", "query q(", "use extensions\n", "match { ", "return {", "order ", "limit $n", "not ",
    " or ", " and ", " in [1]", " is null", "null", "NULL", "MATCH", "Treats", "nearest(", "count(",
    "where ", " -- $p ", "$e:--", "99999999999999999999", "\ud800", "mutation ", "SELECT ",
    "with { ", "union ", "having { ", "exists { ", "count { ", "optional { ", "case when ", "end", " per ", "distinct ",
    "{1,8 by ", "best 3", " all", "{1,*}", "{0,", "$v.*", "$.", "coalesce(", "returning { ", " if absent ", "unnest $",
    " between ", " matches ", "upsert ", "%", "|", "date(", 'duration("P1D")', "entity(", "collect(", "percentile(",
)  # fmt: skip
"""Pieces that are read in a way of their own, and habits of other languages."""

_TOKEN = re.compile(r'"[^"]*"|\$?\w+|[<>!=]=?|[^\s\w]')
_WORDS = frozenset(
    [
        "match",
        "return",
        "with",
        "having",
        "order",
        "union",
        "case",
        "when",
        "then",
        "else",
        "end",
        "not",
        "exists",
        "optional",
        "where",
    ]
)
_OPERATORS = frozenset(
    [
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "contains",
        "starts_with",
        "ends_with",
        "matches",
        "and",
        "or",
        "in",
    ]
)


def _kind(token: str) -> str:
    """What a token can be exchanged with."""
    if token in _OPERATORS:
        return "operator"
    if token[0].isalpha() and token not in _WORDS:
        return "type" if token[0].isupper() else "word"
    if token.isdigit() or token[0] == '"':
        return "literal"
    return "variable" if token[0] == "$" and len(token) > 1 else token


class Spoiler:
    """Spoils one text after another, the same for the same seed; `whole` are texts that nothing is wrong with."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.whole = [form.text for form in FORMS]
        self.whole += [text for _, text, parses in conformance_texts() if parses]
        self._tokens = [_TOKEN.findall(text) for text in self.whole]
        # The forms are of one schema: only what is made of them gets far in the checker.
        self._forms = self._tokens[: len(FORMS)]
        self._alike: dict[str, list[str]] = {}
        for token in chain.from_iterable(self._forms):
            self._alike.setdefault(_kind(token), []).append(token)

    def texts(self) -> Iterator[str]:
        """Texts without end."""
        while True:
            yield self.chance.choice(
                (self._respell, self._splice, self._exchange, self._exchange)
            )()

    def _respell(self) -> str:
        """Characters are cut out, doubled, or replaced by a fragment."""
        chance = self.chance
        text = chance.choice(self.whole)
        for _ in range(chance.randint(1, 4)):
            start = chance.randint(0, len(text))
            end = min(len(text), start + chance.choice((0, 0, 1, 3, 12)))
            kept = text[start:end] if chance.random() < 0.3 else ""
            text = text[:start] + kept + chance.choice((*FRAGMENTS, "", "")) + text[end:]
        return text

    def _exchange(self) -> str:
        """Tokens make way for others of their kind, so that the text can mostly be read and seldom means something."""
        tokens = list(self.chance.choice(self._forms))
        for _ in range(self.chance.randint(1, 3)):
            at = self.chance.randrange(5, len(tokens))
            tokens[at] = self.chance.choice(self._alike[_kind(tokens[at])])
        return " ".join(tokens)

    def _splice(self) -> str:
        """A stretch of another query replaces one of this."""
        chance = self.chance
        tokens = list(chance.choice(self._tokens))
        for _ in range(chance.randint(1, 2)):
            other = chance.choice(self._tokens)
            start, at = chance.randrange(len(other)), chance.randrange(len(tokens) + 1)
            found = other[start : start + chance.choice((1, 1, 1, 2, 3, 6, 12))]
            tokens[at : at + chance.choice((0, 1, 1, len(found), len(found)))] = found
        return " ".join(tokens)
