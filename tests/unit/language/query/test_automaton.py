"""The loop that runs the tables builds what Lark's own loop builds, and knows the same choices."""

from collections.abc import Iterator
from typing import Any

import pytest
from lark import Lark, Token, Transformer, v_args

from omnigraphdb.language.query import parse
from omnigraphdb.language.query.automaton import Automaton, Tables
from omnigraphdb.language.query.build import TreeBuilder
from omnigraphdb.language.query.tokens import END, choose_terminal, read_words
from omnigraphdb.language.query.tree import QueryFile
from tests.support.plan_fixtures import cases
from tests.support.queries import conformance_texts

TEXTS = tuple(
    dict.fromkeys(
        [text for _, text, parses in conformance_texts() if parses] + [one.query for one in cases()]
    )
)

# The methods of the tree builder, as Lark calls them.
LarkBuilder = v_args(inline=True)(type("LarkBuilder", (Transformer,), dict(vars(TreeBuilder))))


@pytest.fixture(scope="module")
def by_lark() -> Lark:
    return Lark.open(
        "query.lark",
        rel_to=parse.__file__,
        parser="lalr",
        lexer="basic",
        start="file",
        transformer=LarkBuilder(),
    )


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables(parse.grammar(), TreeBuilder())


def read_both(text: str, lark: Lark, tables: Tables) -> Iterator[tuple[Any, Automaton]]:
    """Give a text to both loops, token by token, and show them before each token and at the end."""
    parser, automaton = lark.parse_interactive(), Automaton(tables)
    tokens = list(read_words(text))
    tokens += tokens[-1:] * 3
    for token, *following in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        yield parser, automaton
        token = Token(token.type, token.value, token.start_pos, end_pos=token.end_pos)
        after, later, last = following
        token.type = choose_terminal(token, (after, later, last), automaton.choices)
        parser.result = parser.feed_token(token)
        assert automaton.feed(token, token.type)
        if token.type == END:
            break
    yield parser, automaton


def test_every_text_becomes_the_tree_that_lark_builds(by_lark: Lark, tables: Tables) -> None:
    for text in TEXTS:
        *_, (parser, automaton) = read_both(text, by_lark, tables)
        assert isinstance(automaton.result, QueryFile)
        assert automaton.result == parser.result


def test_the_terminals_that_fit_are_those_that_lark_accepts(by_lark: Lark, tables: Tables) -> None:
    for text in TEXTS[::40]:
        for parser, automaton in read_both(text, by_lark, tables):
            if automaton.result is None:
                assert automaton.accepted() == parser.accepts()


def test_a_token_that_does_not_fit_is_refused(tables: Tables) -> None:
    automaton = Automaton(tables)
    assert not automaton.feed(Token("RBRACE", "}"), "RBRACE")
    assert automaton.accepted() == {"USE", "QUERY", "$END"}
