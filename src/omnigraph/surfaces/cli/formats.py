"""Rows of a query as text: table, kv, csv, jsonl, json."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.api.query_results import QueryResult

CELL_CHARS_MAX = 80


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


def render(result: "QueryResult", form: Format) -> str:
    """A result as text, without a final line break."""
    return result.to_csv() if form is Format.CSV else _RENDERERS[form](result.to_dict())


def _headline(body: dict[str, Any]) -> str:
    target = body["target"]
    where = (
        f"snapshot {target['snapshot']}" if "snapshot" in target else f"branch {target['branch']}"
    )
    return f"{body['row_count']} rows from {where} via {body['query_name']}"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\n", "\\n")
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def _table(body: dict[str, Any]) -> str:
    columns = body["columns"]
    rows = [[_cut(_cell(row[name])) for name in columns] for row in body["rows"]]
    widths = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(columns)]

    def line(cells: list[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return " | ".join(padded).rstrip()

    rule = "-+-".join("-" * width for width in widths)
    return "\n".join([_headline(body), line(columns), rule, *(line(row) for row in rows)])


def _kv(body: dict[str, Any]) -> str:
    blocks = [
        "\n".join([f"row {n}", *(f"{name}: {_cell(row[name])}" for name in body["columns"])])
        for n, row in enumerate(body["rows"], 1)
    ]
    return "\n\n".join([_headline(body), *(blocks or ["(no rows)"])])


def _jsonl(body: dict[str, Any]) -> str:
    head = {"kind": "metadata"} | {n: body[n] for n in ("query_name", "target", "row_count")}
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in [head, *body["rows"]])


def _json(body: dict[str, Any]) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)


_RENDERERS: dict[Format, Callable[[dict[str, Any]], str]] = {
    Format.TABLE: _table,
    Format.KV: _kv,
    Format.JSONL: _jsonl,
    Format.JSON: _json,
}
