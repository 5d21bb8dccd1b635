"""Rows of a query as people and programs read them: table, kv, csv, jsonl, json, parquet, arrow."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraphdb.errors import escape_controls
from omnigraphdb.surfaces.cli.terminal import Style, columns, is_terminal, paint
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.query_results import QueryResult
    from omnigraphdb.api.results import MutationResult

COLUMN_WIDTH_MAX = 80
COLUMN_WIDTH_MIN = 8
"""On a terminal no column becomes narrower than this, to make all of them fit."""


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"


BINARY = (Format.PARQUET, Format.ARROW)
TEXTS = tuple(one for one in Format if one not in BINARY)
ENDINGS = {
    ".csv": Format.CSV,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
    ".txt": Format.TABLE,
}
"""The format of a file by the end of its name."""


class Layout(StrEnum):
    """What happens to a cell that is too wide."""

    TRUNCATE = "truncate"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStyle:
    """How wide a column may be, and what happens to wider cells; `total` bounds all columns together."""

    column_max: int = COLUMN_WIDTH_MAX
    layout: Layout = Layout.TRUNCATE
    total: int | None = None


def format_of_file(path: Path) -> Format | None:
    """The format that the name of a file asks for."""
    return ENDINGS.get(path.suffix.lower())


def render(result: "QueryResult", form: Format, style: TableStyle | None = None) -> str:
    """A result as text, without a final line break."""
    match form:
        case Format.CSV:
            return result.to_csv()
        case Format.TABLE:
            body = result.to_dict()
            return "\n".join([_headline(body), *_draw_rows(body, style or terminal_style())])
        case _:
            return _RENDERERS[form](result.to_dict())


def write(result: "QueryResult", form: Format, stream: BinaryIO) -> None:
    """Write a result to a file."""
    match form:
        case Format.PARQUET:
            import pyarrow.parquet as pq

            pq.write_table(result.to_arrow(), stream)
        case Format.ARROW:
            import pyarrow as pa

            table = result.to_arrow()
            with pa.ipc.new_file(stream, table.schema) as out:
                out.write_table(table)
        case _:
            stream.write(f"{render(result, form, TableStyle())}\n".encode())


def terminal_style(style: TableStyle | None = None) -> TableStyle:
    """The style of a table for stdout: on a terminal all columns fit into it."""
    chosen = style or TableStyle()
    if not is_terminal(sys.stdout):
        return chosen
    return TableStyle(column_max=chosen.column_max, layout=chosen.layout, total=columns())


def draw_table(names: Sequence[str], rows: Iterable[Sequence[Any]], style: TableStyle) -> list[str]:
    """Lines of a table: names, a rule, and rows with aligned columns."""
    texts = [[_cell(value) for value in row] for row in rows]
    widths = _fit(
        [
            min(style.column_max, max([len(name), *(len(row[i]) for row in texts)]))
            for i, name in enumerate(names)
        ],
        style.total,
    )
    lines = [_join(_cut_row(names, widths, Layout.TRUNCATE)[0], widths, Style.STRONG)]
    lines.append("-+-".join("-" * width for width in widths))
    for row in texts:
        lines += [_join(line, widths) for line in _cut_row(row, widths, style.layout)]
    return lines


def render_returned(result: "MutationResult") -> str:
    """What a mutation returns, as a table."""
    rows = ([row[name] for name in result.columns] for row in result.rows)
    return "\n".join(draw_table(result.columns, rows, TableStyle()))


def _draw_rows(body: dict[str, Any], style: TableStyle) -> list[str]:
    names = body["columns"]
    return draw_table(names, ([row[name] for name in names] for row in body["rows"]), style)


def _fit(widths: list[int], total: int | None) -> list[int]:
    """Make the widest columns narrower, until all of them fit into the total."""
    fitted = list(widths)
    while total is not None and sum(fitted) + 3 * (len(fitted) - 1) > total:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= COLUMN_WIDTH_MIN:
            break
        fitted[widest] -= 1
    return fitted


def _cut_row(cells: Sequence[str], widths: Sequence[int], layout: Layout) -> list[list[str]]:
    """The lines of one row: one, or as many as its widest cell takes."""
    if layout is Layout.TRUNCATE:
        return [[_cut(cell, width) for cell, width in zip(cells, widths, strict=True)]]
    parts = [
        [cell[at : at + width] for at in range(0, len(cell), width)] or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, parts), default=1)
    return [[part[n] if n < len(part) else "" for part in parts] for n in range(height)]


def _join(cells: Sequence[str], widths: Sequence[int], ink: Style | None = None) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    if padded:
        padded[-1] = padded[-1].rstrip()
    if ink is not None:
        return " | ".join(paint(cell, ink) for cell in padded)
    shown = (paint(cell, Style.FAINT) if cell.strip() == "null" else cell for cell in padded)
    return " | ".join(shown).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _headline(body: dict[str, Any]) -> str:
    target, count = body["target"], body["row_count"]
    where = (
        f"snapshot {target['snapshot']}" if "snapshot" in target else f"branch {target['branch']}"
    )
    return f"{count} {'row' if count == 1 else 'rows'} from {where} via {body['query_name']}"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        spelt = value.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        return escape_controls(spelt)
    return escape_controls(json.dumps(value, ensure_ascii=False))


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
    Format.KV: _kv,
    Format.JSONL: _jsonl,
    Format.JSON: _json,
}
