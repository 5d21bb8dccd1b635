"""Option `filter`: conditions on the rows of one type, in the query language or as SQL writes them, compiled for storage."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.check import check_read
from omnigraph.engine.read.operators.pushdown import render_filter
from omnigraph.errors import NotFound, UserInputError, shorten
from omnigraph.language.source import Source

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


def compile_filter(text: str, type_: TableType) -> str:
    """Compile conditions on a row into a storage filter; refuse what storage cannot evaluate exactly."""
    query = Source(
        f"use extensions\nquery filter() {{ match {{ $row: Row\n{translate_sql(text, type_)}\n}} return {{ $row }} }}",
        "<filter>",
    )
    pattern = check_read(query, _make_catalog(type_)).pattern
    if pattern.hops or pattern.negations or pattern.optionals or len(pattern.binds) != 1:
        raise UserInputError(
            "a filter holds conditions on $row only; nothing was read",
            hint="use graph.query(..., spark=session) for patterns",
        )
    tests = (*pattern.binds[0].matches, *pattern.conditions)
    filters = [render_filter(test, _get_value) for test in tests]
    if any(filter is None for filter in filters):
        raise UserInputError(
            f"the filter '{shorten(text)}' holds a condition that storage cannot evaluate; nothing was read",
            hint="storage compares plain properties with values; filter the frame for the rest",
        )
    return " and ".join(f"({filter})" for filter in filters) or "true"


def _make_catalog(type_: TableType) -> Catalog:
    """A schema in which the type is a node and its id and endpoints are properties."""
    more = {name: Property(name=name, type=_TEXT) for name in _list_own_columns(type_)}
    return Catalog(nodes={"Row": NodeType(name="Row", properties={**type_.properties, **more})})


def _list_own_columns(type_: TableType) -> tuple[str, ...]:
    return ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)


def _get_value(constant: Any) -> object:
    return constant.value


# ---- SQL
# A text that names `$row` is one of the query language, in which single quotes are the only habit of SQL to translate.

_SQL_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<single> '(?:[^']|'')*' )
    | (?P<double> "(?:[^"\\]|\\.)*" )
    | (?P<quoted> `[^`]+` )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<mark> -?[0-9][0-9A-Za-z.]*(?:(?<=[eE])[+-][0-9]+)? | <> | == | [<>!]= | \S )
    )""",
    re.VERBOSE | re.DOTALL,
)
_SQL_WORDS: Final = frozenset({"and", "or", "not", "is", "null", "true", "false", "in"})
_SQL_MARKS: Final = {"<>": "!=", "==": "="}


def translate_sql(text: str, type_: TableType) -> str:
    """Translate conditions as SQL writes them (`age > 18 AND name IN ('Ada', 'Bo')`) into the query language."""
    if "$row" in text:
        return _SQL_TOKEN.sub(_translate_quotes, text)
    names = {*type_.properties, *_list_own_columns(type_)}
    return " ".join(_translate_tokens(text, names))


def _translate_quotes(found: re.Match[str]) -> str:
    token = found["single"]
    return found[0] if token is None else found[0].replace(token, _quote(token))


def _quote(token: str) -> str:
    return json.dumps(token[1:-1].replace("''", "'"), ensure_ascii=False)


def _translate_tokens(text: str, names: set[str]) -> Iterator[str]:
    # SQL writes lists of values in parentheses.
    lists, previous = False, ""
    for found in _SQL_TOKEN.finditer(text):
        token = found[0].strip()
        if found["single"] is not None:
            yield _quote(token)
        elif found["quoted"] is not None or found["word"] is not None:
            yield _translate_word(token, names)
        elif token == "(" and previous == "in":
            lists = True
            yield "["
        elif token == ")" and lists:
            lists = False
            yield "]"
        else:
            yield _SQL_MARKS.get(token, token)
        previous = token.lower()


def _translate_word(token: str, names: set[str]) -> str:
    word = token.strip("`")
    if token == word and word.lower() in _SQL_WORDS and word not in names:
        return word.lower()
    if word not in names:
        raise NotFound("column", word, known=sorted(names))
    return f"$row.{word}"
