"""Forms of a record: any value as JSON, a record as a text that people read, and back."""

import base64
import dataclasses
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import omnigraphdb

WIDTH: Final = 110
IN_ORDER: Final = "in order"
"""The only key of an object that holds a list to which values may be added."""
TEXT: Final = "text"
"""The only key of an object that holds the lines of a text."""
ITEMS_MAX: Final = 50

Entries = dict[str, Any]


# ---- values


def render(value: Any) -> Any:
    """Render a result as JSON: by its own `to_dict`, else by what it holds."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return split_lines(value)
        case bytes() | bytearray() | memoryview() | pa.Buffer():
            return {"bytes": _render_bytes(bytes(value))}
        case datetime() | date() | time() | timedelta() | Decimal() | Path():
            return str(value)
        case omnigraphdb.OmniError():
            return {"error": type(value).__name__, "body": render(value.to_dict())}
        case Exception():
            return {"raised": type(value).__name__, "message": str(value)}
        case pa.Table() | pa.RecordBatch():
            return render_rows(value)
        case pa.RecordBatchReader():
            return render_rows(value.read_all())
        case Mapping():
            return {_name_key(name): render(one) for name, one in value.items()}
        case set() | frozenset():
            return sorted(render(one) for one in value)
    return _render_object(value)


def _render_object(value: Any) -> Any:
    name = type(value).__name__
    if hasattr(value, "to_dict") and not hasattr(value, "iloc") and not hasattr(value, "lazy"):
        return {name: render(value.to_dict())}
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
        return {name: {one: render(getattr(value, one)) for one in names}}
    if isinstance(value, list | tuple):
        return [render(one) for one in value]
    if isinstance(value, Iterator) or hasattr(value, "__next__"):
        return [render(one) for one in islice(value, ITEMS_MAX)]
    return {name: "a value of this class"}


def _name_key(name: Any) -> str:
    return name if isinstance(name, str) else str(render(name))


def _render_bytes(data: bytes) -> Any:
    try:
        return split_lines(data.decode())
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def render_rows(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    """Render the columns and rows of a table."""
    columns = {field.name: str(field.type) for field in table.schema}
    return {"columns": columns, "rows": [render(row) for row in table.to_pylist()]}


def read_file(path: Path) -> str:
    """Read what a call wrote beside the graph, if it wrote it."""
    return path.read_text(encoding="utf-8") if path.exists() else "no file was written"


def split_lines(text: str) -> Any:
    """Give a text of several lines as its lines, so that a difference shows the line."""
    return {TEXT: text.split("\n")} if "\n" in text else text


# ---- sessions


@dataclasses.dataclass
class Notes:
    """The entries of a session: what each call gave, or how it was refused."""

    entries: Entries = dataclasses.field(default_factory=dict)
    prefix: str = ""

    def note(self, name: str, call: Callable[[], Any]) -> Any:
        """Record the result of a call under a name; give it, or None where it was refused."""
        name = self.prefix + name
        assert name not in self.entries, f"two entries are called '{name}'"
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always", omnigraphdb.OmniWarning)
            result: Any
            try:
                result = call()
                entry = render(result)
            except AttributeError as error:
                # A handle without this method says so; every other lack is a fault of the session.
                if error.name is None or error.name not in name:
                    raise
                result, entry = None, {"absent": error.name, "message": str(error)}
            except Exception as error:
                result, entry = None, render(error)
        texts = [str(one.message) for one in shown if one.category is omnigraphdb.OmniWarning]
        self.entries[name] = {"result": entry, "warnings": texts} if texts else entry
        return result


# ---- texts


def format_record(entries: Entries) -> str:
    """Format a record: a line with the name of each entry, then its value."""
    return "".join(f"=== {name}\n{format_entry(value)}\n" for name, value in entries.items())


def parse_record(text: str) -> Entries:
    """Read a record."""
    entries: Entries = {}
    for block in text.split("\n=== ") if text else []:
        name, _, body = block.removeprefix("=== ").partition("\n")
        entries[name] = _parse_entry(body)
    return entries


def format_entry(value: Any) -> str:
    """Format a value: JSON whose short parts stand in one line, or the lines of a text, each after a bar."""
    lines = _lines_of(value)
    if lines is not None:
        return "\n".join(f"| {line}".rstrip() for line in lines)
    return _format_json(value, 0)


def _lines_of(value: Any) -> list[str] | None:
    """The lines of a text that may get more lines, if the value is one."""
    if isinstance(value, dict) and list(value) == [IN_ORDER]:
        lines = value[IN_ORDER]
        is_plain = all(isinstance(one, str) and one == one.rstrip() for one in lines)
        return lines if lines and is_plain else None
    return None


def _parse_entry(body: str) -> Any:
    body = body.rstrip("\n")
    if body.startswith("|"):
        return {IN_ORDER: [line[2:] for line in body.split("\n")]}
    return json.loads(body)


def _format_json(value: Any, depth: int) -> str:
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [
            f"{pad}{json.dumps(name, ensure_ascii=False)}: {_format_json(one, depth + 1)}"
            for name, one in value.items()
        ]
        return "{\n" + ",\n".join(parts) + "\n" + " " * depth + "}"
    parts = [pad + _format_json(one, depth + 1) for one in value]
    return "[\n" + ",\n".join(parts) + "\n" + " " * depth + "]"
