"""Arguments of calls as a server takes them: filters, parameters, keys, bodies of loads; and what only a graph at hand takes."""

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from omnigraphdb.api.results import Commit
from omnigraphdb.api.texts import read_source
from omnigraphdb.compile.params import to_native
from omnigraphdb.errors import DataError, ParamError, Problem, UserInputError, shorten
from omnigraphdb.remote.transport import KEY

Lines = str | Path | bytes | IO[bytes] | IO[str] | Iterable[Mapping[str, Any]]
"""What a server loads: a file by its path, bytes or a stream of JSON lines, or records."""

CONDITION = "Omnigraph-If-Graph-Commit"
MESSAGE = "omnigraph-message"
SNAPSHOT = "omnigraph-snapshot-id"

FIRST_PAGE = frozenset({"start", "cursor", "page_token"})
"""Where reading begins: later pages begin where their token says."""

_INFINITE = frozenset({math.inf, -math.inf})

_ALIKE = frozenset({"progress", "spark"})
"""Arguments that change nothing about the result: a server leaves them out."""


def refuse_local(given: Mapping[str, object]) -> None:
    """Refuse arguments that only a graph at hand knows, unless they say what happens anyway."""
    for name, value in given.items():
        if name not in _ALIKE and value not in (None, False, "row"):
            raise UserInputError(
                f"{name}=… needs the storage of the graph, a server does not take it; nothing was sent",
                hint="leave it out, or open the graph itself where it is stored: omnigraphdb.open(…)",
            )


def explain_absence(name: str) -> str:
    """Say why a served graph has no call of `Graph`."""
    return (
        f"a served graph has no '{name}': it needs the storage of the graph; "
        "open the graph itself where it is stored, with omnigraphdb.open(…)"
    )


def spell_start(since: str | Commit | None) -> dict[str, str]:
    """Where the feed begins: after a commit, at a cursor, or with the first commit."""
    if since is None:
        return {"start": "beginning"}
    text = str(since)
    return {"start": f"after:{text}"} if text.isalnum() else {"cursor": text}


def spell_headers(key: str | None, message: str | None = None) -> dict[str, str]:
    """The headers of a write: its key, and the message of its commit, percent-encoded."""
    given = {KEY: key, MESSAGE: None if message is None else quote(message)}
    return {name: text for name, text in given.items() if text is not None}


def spell_filters(
    types: Sequence[str] | None, kinds: Sequence[str] | None, ops: Sequence[str] | None
) -> dict[str, Any]:
    """The filters of a comparison; what is not given is not asked."""
    given = {"type": types, "kind": kinds, "op": ops}
    return {name: list(values) for name, values in given.items() if values is not None}


def spell_params(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The parameters of a query as JSON."""
    if params is None:
        return None
    return {name: _spell_value(name, value) for name, value in params.items()}


def _spell_value(name: str, value: Any) -> Any:
    """A parameter as JSON: days and moments are texts, values of numpy and Arrow those that they stand for."""
    match to_native(value):
        case date() as day:
            return day.isoformat()
        case Mapping() as record:
            return {field: _spell_value(name, one) for field, one in record.items()}
        case list() | tuple() as items:
            return [_spell_value(name, one) for one in items]
        case (None | str() | int() | float()) as plain if plain not in _INFINITE and plain == plain:
            return plain
        case other:
            raise _refuse_value(name, other)


def _refuse_value(name: str, value: object) -> ParamError:
    """The refusal of a value that is of no type of parameters, as a graph at hand words it."""
    kind = type(value).__name__
    message = f"parameter '{name}' takes no {kind}; got '{shorten(value)}'. Nothing was sent."
    return ParamError(name, "P01", message, expected="a value of JSON", got=kind)


def read_lines(source: Lines) -> bytes:
    """The body of a load: the bytes of a file or stream, or dicts as lines."""
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        return read_source(source).text.encode()
    if isinstance(source, bytes):
        return source
    if isinstance(source, io.IOBase) or hasattr(source, "read"):
        found = source.read()
        # Half of a surrogate pair is no UTF-8: the server refuses its line.
        return found.encode("utf-8", "surrogatepass") if isinstance(found, str) else bytes(found)
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UserInputError(
            f"a server loads JSON lines or dicts, not {type(source).__name__}; nothing was sent",
            hint="load frames where the graph is stored",
        )
    return b"".join(_spell_record(number, one) for number, one in enumerate(source, 1))


def _spell_record(number: int, record: object) -> bytes:
    """A record as one line; one that JSON has no words for is refused with its number."""
    if isinstance(record, str | bytes):
        raise UserInputError(
            "a server loads records or their file, not a list of texts; nothing was sent",
            hint="give each record as a dict, or the lines as bytes",
        )
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, default=_spell_day)
        return text.encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise _refuse_record(number, str(error)) from error


def _spell_day(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


def _refuse_record(number: int, reason: str) -> DataError:
    message = f"the record cannot be sent as JSON: {reason}"
    return DataError([Problem(rule="J07", message=message, record=number)])
