"""Option `filter`: conditions on the rows of one type, in the query language or as SQL writes them, compiled for storage."""

import json
import re
from typing import Any, Final

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, Property, TableType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check import check_read
from omnigraphdb.engine.read.operators.pushdown import render_filter
from omnigraphdb.errors import NotFound, UserInputError, shorten
from omnigraphdb.language.source import Source

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


def compile_filter(text: str, type_: TableType) -> str:
    """Compile conditions on a row into a storage filter; refuse a condition that storage cannot evaluate exactly."""
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
    """Make a schema in which the type is a node and its id and endpoints are properties."""
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
_SQL_MOMENTS: Final = {"date": "date", "timestamp": "datetime"}
_SQL_REFUSED: Final = frozenset(
    {"between", "like", "ilike", "rlike", "regexp", "case", "cast", "exists"}
)
_MOMENTS: Final = {Scalar.DATE: "date", Scalar.DATETIME: "datetime"}


def translate_sql(text: str, type_: TableType) -> str:
    """Translate conditions as SQL writes them (`age > 18 AND name IN ('Ada', 'Bo')`) into the query language."""
    if "$row" in text:
        return _SQL_TOKEN.sub(_translate_quotes, text)
    return " ".join(_SqlTranslation(type_, text).translate())


def _translate_quotes(match: re.Match[str]) -> str:
    token = match["single"]
    return match[0] if token is None else match[0].replace(token, _quote(token))


def _quote(token: str) -> str:
    return json.dumps(token[1:-1].replace("''", "'"), ensure_ascii=False)


class _SqlTranslation:
    """Translates the tokens of one text from left to right."""

    def __init__(self, type_: TableType, text: str) -> None:
        self._type, self._text = type_, text
        self._names = {*type_.properties, *_list_own_columns(type_)}
        self._tokens = [match for match in _SQL_TOKEN.finditer(text) if match[0].strip()]
        self._done: list[str] = []
        self._moment: str | None = None
        """The name in the language for the type of the column before, when that is a date or an instant."""
        self._in_list = False

    def translate(self) -> list[str]:
        """Translate the tokens into tokens of the query language."""
        following = [*(match[0].strip().lower() for match in self._tokens[1:]), ""]
        for match, after in zip(self._tokens, following, strict=True):
            self._translate_token(match, after)
        return self._done

    def _translate_token(self, match: re.Match[str], after: str) -> None:
        token = match[0].strip()
        if match["single"] is not None:
            text = _quote(token)
            self._done.append(f"{self._moment}({text})" if self._moment else text)
        elif match["quoted"] is not None or match["word"] is not None:
            self._translate_word(token, after)
        else:
            self._done.append(self._translate_mark(token))

    def _translate_word(self, token: str, after: str) -> None:
        word, lower = token.strip("`"), token.lower()
        if token == word and word not in self._names:
            if lower == "not" and after == "in" and self._done:
                # The language negates the whole condition, whose left side is already there.
                self._done.insert(-1, "not")
                return
            if lower in _SQL_WORDS:
                self._done.append(lower)
                return
            if lower in _SQL_MOMENTS and after.startswith("'"):
                self._moment = _SQL_MOMENTS[lower]
                return
            if lower in _SQL_REFUSED or after == "(":
                raise self._refuse(token)
        if word not in self._names:
            raise NotFound("column", word, known=sorted(self._names))
        self._moment = self._find_moment(word)
        self._done.append(f"$row.{word}")

    def _translate_mark(self, token: str) -> str:
        # SQL writes lists of values in parentheses.
        if token == "(" and self._done and self._done[-1] == "in":
            self._in_list = True
            return "["
        if token == ")" and self._in_list:
            self._in_list = False
            return "]"
        return _SQL_MARKS.get(token, token)

    def _find_moment(self, name: str) -> str | None:
        property = self._type.properties.get(name)
        if property is None or property.type.is_list:
            return None
        return _MOMENTS.get(property.type.scalar)

    def _refuse(self, token: str) -> UserInputError:
        return UserInputError(
            f"the filter '{shorten(self._text)}' holds '{token}', which storage does not evaluate; nothing was read",
            hint="of SQL, a filter takes comparisons, AND, OR, NOT, IN (...) and IS NULL; a range is "
            "x >= 1 AND x <= 9; filter the frame for the rest",
        )
