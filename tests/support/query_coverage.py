"""The alternatives of the query grammar, and those that texts take."""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule

from omnigraphdb.language.query import parse
from omnigraphdb.language.query.automaton import Automaton, Tables
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS, PUNCTUATION
from omnigraphdb.language.source import Source

Alternative = tuple[str, str]
"""A rule, by its alias where it has one, and a part that one of its forms has; or a terminal and a word that it is."""


class _Builder:
    """Builds nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *values: None


class _Watch(Tables):
    """The tables of the grammar, which note every rule that a text completes."""

    def __init__(self, grammar: Lark) -> None:
        super().__init__(grammar, _Builder())
        self.taken: set[Alternative] = set()

    def _reduce(self, rule: Rule) -> tuple[int, str, Any]:
        size, name, build = super()._reduce(rule)
        if build is None:
            return size, name, None

        def note(*values: Any) -> Any:
            self.taken.update(_list_parts(rule))
            return build(*values)

        return size, name, note


_REPETITION = re.compile(r"_(star|plus)_[0-9]+$")
"""The end of the names that Lark gives to what is repeated inside of a rule."""


def _list_parts(rule: Rule) -> list[Alternative]:
    """The parts of one form of a rule."""
    names = [str(rule.alias or rule.origin.name), *(str(one.name) for one in rule.expansion)]
    whole, *parts = (_REPETITION.sub("", name.strip("_")) for name in names)
    return [(whole, part) for part in parts if part != whole]


def _hands_on(rule: Rule) -> bool:
    return rule.options.expand1 and not rule.alias and len(rule.expansion) == 1


def list_alternatives() -> set[Alternative]:
    """Every alternative of the grammar, and every word that is a terminal beside others."""
    rules = {
        part for rule in parse.grammar().rules if not _hands_on(rule) for part in _list_parts(rule)
    }
    return rules | {(kind, word) for word, kind in (KEYWORDS | FUNCTIONS | PUNCTUATION).items()}


def list_taken(texts: Iterable[str]) -> set[Alternative]:
    """The alternatives that texts take."""
    watch = _Watch(parse.grammar())
    taken: set[Alternative] = set()
    for text in texts:
        segment = parse._Segment(Source(text))
        segment._automaton = Automaton(watch)
        segment._feed = partial(_take, taken, segment._automaton)
        segment.read(0)
        assert not segment.findings, text
    return taken | watch.taken


def _take(taken: set[Alternative], automaton: Automaton, token: Token, kind: str) -> bool:
    taken.add((kind, token.value))
    return automaton.feed(token, kind)
