"""The grammar itself: no conflict is settled silently, no word is forgotten, nothing is built early."""

import logging
import subprocess
import sys

import pytest
from lark import Lark, logger

from omnigraphdb.catalog.types import Scalar
from omnigraphdb.language.query import parse
from omnigraphdb.language.query.build import TreeBuilder
from omnigraphdb.language.query.codes import MEANINGS, QueryCode
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS, PUNCTUATION, SCALARS


def test_the_grammar_has_no_conflicts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level(logging.DEBUG, logger.name):
        Lark.open("query.lark", rel_to=parse.__file__, parser="lalr", start="file", debug=True)
    assert [record.message for record in caplog.records if "onflict" in record.message] == []


def test_a_conflict_would_be_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level(logging.DEBUG, logger.name):
        Lark('start: "a" start? start? "b"?', parser="lalr", debug=True)
    assert "onflict" in caplog.text


def terminals() -> set[str]:
    symbols = {symbol for rule in parse.grammar().rules for symbol in rule.expansion}
    return {symbol.name for symbol in symbols if symbol.is_term}


def test_every_word_and_sign_is_in_the_grammar() -> None:
    assert set(KEYWORDS.values()) <= terminals()
    assert set(FUNCTIONS.values()) <= terminals()
    assert set(PUNCTUATION.values()) <= terminals()


def test_every_rule_becomes_a_tree() -> None:
    rules = {rule.alias or rule.origin.name for rule in parse.grammar().rules}
    inlined = {rule.origin.name for rule in parse.grammar().rules if rule.options.expand1}
    built = {name for name in rules - inlined if not name.startswith("_")}
    assert {name for name in built if not callable(getattr(TreeBuilder, str(name), None))} == set()


def test_the_scalars_are_those_of_the_catalog() -> None:
    assert {str(scalar) for scalar in Scalar} == SCALARS


def test_every_code_has_a_meaning_of_its_own() -> None:
    assert set(MEANINGS) == set(QueryCode)
    assert len(set(MEANINGS.values())) == len(QueryCode)
    retired = {16, 19}
    assert [str(code) for code in QueryCode] == [
        f"Q{number:03}" for number in range(len(QueryCode) + 2) if number not in retired
    ]


def test_importing_builds_no_parser() -> None:
    code = "from omnigraphdb.language.query import format, parse; print(parse.grammar.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_the_parser_is_built_once() -> None:
    assert parse.grammar() is parse.grammar()
