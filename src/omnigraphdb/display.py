"""The display of results to people: aligned text for a terminal, HTML for a notebook, from one description of both."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime
from html import escape
from typing import Any
from unicodedata import combining, east_asian_width

from omnigraphdb.values import dataclass

ROWS_SHOWN_MAX = 20
"""Rows of a table that are shown; a line below it counts the others."""

REPORT_ROWS_MAX = 500
"""The same of a report, which has a row for each table or index."""

TEXT_CHARS_MAX, TEXT_CHARS_MIN = 60, 8
"""Widths between which a column of a terminal is cut to fit."""

HTML_CHARS_MAX = 300
"""Characters of a cell that a notebook shows."""

WRAPPED_CHARS_MIN = 40
"""Cells longer than this may take several lines in a notebook."""

ITEMS_SHOWN_MAX = 8
"""Items of a list that are shown: a vector has hundreds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows under the names of their columns; `total` counts all rows where only the first are given."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    total: int | None = None
    caption: str = ""
    is_code: bool = False
    """True if a notebook shows the cells in a font of fixed width."""
    firm: int = 0
    """The number of first columns that a narrow terminal cuts last: ids are copied."""
    rows_max: int = ROWS_SHOWN_MAX

    @property
    def shown(self) -> Sequence[Sequence[Any]]:
        """The rows that are shown."""
        return self.rows[: self.rows_max]

    @property
    def hidden(self) -> int:
        """The number of rows that are not shown."""
        return (len(self.rows) if self.total is None else self.total) - len(self.shown)

    @property
    def numeric(self) -> list[bool]:
        """A flag for each column: true if it holds numbers, which are set to the right."""
        return [_are_numbers(row[at] for row in self.shown) for at in range(len(self.columns))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The display of a result: a title, facts by name, tables, and notes."""

    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


class Displayable:
    """A result that people look at: it describes its display, which is alike in a terminal and in a notebook."""

    __slots__ = ()

    def _report(self) -> Report:
        """Describe the display of the result."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return render_text(self._report())

    def _repr_html_(self) -> str:
        return render_html(self._report())


@dataclass(frozen=True, slots=True)
class ColouredCell:
    """A cell that a notebook colours: `good`, `bad` or `changed`."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


def tabulate(values: Iterable[Any], *names: str, caption: str = "") -> Grid:
    """Make a grid of attributes of values; a column has the name of its attribute."""
    rows = [[_blank_none(getattr(value, name)) for name in names] for value in values]
    columns = [name.replace("_", " ") for name in names]
    return Grid(columns=columns, rows=rows, caption=caption, rows_max=REPORT_ROWS_MAX)


def _blank_none(value: Any) -> Any:
    """Leave a fact that does not apply blank: `null` is a value of data."""
    return "" if value is None else value


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Spell a count with its noun: `1 row`, `2 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(size: int) -> str:
    """Spell a number of bytes: `1.5 MiB`."""
    amount, units = float(size), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units[:-1]:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {units[-1]}"


def format_time(moment: datetime) -> str:
    """Spell a moment to the second, in its own zone: `2026-11-15 16:07:00Z`."""
    text = moment.isoformat(sep=" ", timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def format_cell(value: Any) -> str:
    """Spell a value on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value.replace("\r", "\\r").replace("\n", "\\n")
        case datetime():
            return format_time(value)
        case date():
            return value.isoformat()
        case bytes():
            return f"<{count_of(len(value), 'byte')}>"
        case list() | tuple():
            return _spell_list(value)
        case Mapping():
            return json.dumps(value, ensure_ascii=False, default=format_cell)
        case _:
            return str(value)


def _spell_list(values: Sequence[Any]) -> str:
    items_text = ", ".join(map(_spell_item, values[:ITEMS_SHOWN_MAX]))
    more = len(values) - ITEMS_SHOWN_MAX
    return f"[{items_text}, … {more} more]" if more > 0 else f"[{items_text}]"


def _spell_item(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else format_cell(value)


def _are_numbers(values: Iterable[Any]) -> bool:
    present_values = [value for value in values if value is not None and value != ""]
    return bool(present_values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in present_values
    )


# ---- text


def render_text(sheet: Report, width: int | None = None) -> str:
    """Lay a sheet out for a terminal; the width is that of the terminal unless given."""
    line_width = width or shutil.get_terminal_size().columns
    return escape_controls("\n".join(_text_lines(sheet, line_width)))


def escape_controls(text: str) -> str:
    """Escape control characters and characters that turn the direction as JSON does, so that no terminal obeys them.

    Line breaks and tabs stay.
    """
    return text.translate(_SPELT)


_CONTROLS = (
    range(0x20),
    range(0x7F, 0xA0),
    (0x2028, 0x2029),
    range(0x202A, 0x202F),
    range(0x2066, 0x206A),
)
_SPELT = {
    code: f"\\u{code:04x}" for codes in _CONTROLS for code in codes if chr(code) not in "\n\t"
}


def _text_lines(sheet: Report, line_width: int) -> Iterator[str]:
    yield sheet.title
    longest = max(map(len, sheet.facts), default=0)
    for name, value in sheet.facts.items():
        yield f"  {name:<{longest}}  {format_cell(value)}"
    for grid in sheet.grids:
        if len(sheet.grids) > 1 or grid.caption:
            yield ""
        yield from _grid_lines(grid, line_width)
    yield from sheet.notes


def _grid_lines(grid: Grid, line_width: int) -> Iterator[str]:
    if grid.caption:
        yield grid.caption
    cells = [list(map(format_cell, row)) for row in grid.shown]
    natural = [max(map(_width, column)) for column in zip(grid.columns, *cells, strict=True)]
    widths = _fit(natural, line_width, grid.firm)
    right = grid.numeric
    lines = [list(grid.columns), ["─" * width for width in widths], *cells]
    for line in lines if widths else []:
        parts = [_pad(*part) for part in zip(line, widths, right, strict=False)]
        yield "  ".join(parts).rstrip()
    dropped = len(grid.columns) - len(widths)
    if grid.hidden:
        yield f"… {grid.hidden:,} more"
    if dropped:
        yield f"… {count_of(dropped, 'column')} more: {', '.join(grid.columns[len(widths) :])}"


def _fit(natural: list[int], line_width: int, firm: int) -> list[int]:
    """Narrow the widest columns until all fit; the last ones go when even the narrowest do not."""
    widths = [min(width, TEXT_CHARS_MAX) for width in natural] if len(natural) > 1 else natural[:]
    while widths and sum(widths) + 2 * (len(widths) - 1) > line_width:
        soft = range(firm if len(widths) > firm else 0, len(widths))
        widest = max(soft, key=widths.__getitem__)
        if widths[widest] > TEXT_CHARS_MIN:
            widths[widest] -= 1
        else:
            widths.pop()
    return widths


def _pad(text: str, width: int, to_right: bool) -> str:
    cut = _cut(text, width)
    space = " " * (width - _width(cut))
    return space + cut if to_right else cut + space


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    prefix, used = "", 1
    for char in text:
        used += _char_width(char)
        if used > width:
            break
        prefix += char
    return prefix + "…"


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    """Return the columns of a terminal that a character takes."""
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


# ---- HTML

# Colours are parts of the colour of the text, so that they suit a light page as well as a dark one.
STYLE = """
.omnigraph{color:inherit;font-size:13px;line-height:1.45;margin:2px 0}
.omnigraph .og-t{font-weight:600;margin:0 0 6px}
.omnigraph .og-n,.omnigraph caption,.omnigraph dt{opacity:.7}
.omnigraph .og-n{margin:4px 0 0}
.omnigraph dl{display:grid;grid-template-columns:max-content 1fr;gap:1px 14px;margin:0 0 8px}
.omnigraph dt,.omnigraph dd{margin:0;padding:0;font-weight:400;overflow-wrap:anywhere}
.omnigraph .og-h{font-weight:600;opacity:.7;margin:0 0 8px}
.omnigraph .og-s{overflow-x:auto;margin:0 0 8px}
.omnigraph table{border-collapse:collapse;border:0;margin:0;font-size:inherit;color:inherit}
.omnigraph caption{caption-side:top;text-align:left;padding:0 0 3px;color:inherit;font-weight:600;white-space:nowrap}
.omnigraph th,.omnigraph td{text-align:left;vertical-align:top;padding:3px 12px 3px 6px;border:0;
border-bottom:1px solid rgba(128,128,128,.25);white-space:pre;background:none}
.omnigraph .og-w{white-space:pre-wrap;min-width:16em;max-width:44em;overflow-wrap:anywhere}
.omnigraph th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.7)}
.omnigraph .og-r{text-align:right;font-variant-numeric:tabular-nums}
.omnigraph .og-c td{font-family:var(--jp-code-font-family,ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace);
font-size:12px}
.omnigraph .og-0{opacity:.5;font-style:italic}
.omnigraph .og-good{color:#2da44e}.omnigraph .og-bad{color:#e5534b}.omnigraph .og-changed{color:#bf8700}
""".strip()


def render_html(sheet: Report) -> str:
    """Write a sheet as a piece of HTML with its own style; every text of it is escaped."""
    return "".join(_html_parts(sheet))


def _html_parts(sheet: Report) -> Iterator[str]:
    yield f'<div class="omnigraph"><style>{STYLE}</style><p class="og-t">{escape(sheet.title)}</p>'
    if sheet.facts:
        facts = (
            f"<dt>{escape(name)}</dt><dd>{_html_cell(value)}</dd>"
            for name, value in sheet.facts.items()
        )
        yield f"<dl>{''.join(facts)}</dl>"
    yield from map(_html_grid, sheet.grids)
    yield from (f'<p class="og-n">{escape(note)}</p>' for note in sheet.notes)
    yield "</div>"


def _html_grid(grid: Grid) -> str:
    if not grid.columns:
        return f'<p class="og-h">{escape(grid.caption)}</p>'
    right = grid.numeric
    head = _html_row("th", map(escape, grid.columns), right)
    rows = (_html_row("td", map(_html_cell, row), right) for row in grid.shown)
    caption = f"<caption>{escape(grid.caption)}</caption>" if grid.caption else ""
    more = f'<p class="og-n">… {grid.hidden:,} more</p>' if grid.hidden else ""
    kind = ' class="og-c"' if grid.is_code else ""
    return (
        f'<div class="og-s"><table{kind}>{caption}<thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table>{more}</div>"
    )


def _html_row(tag: str, cells: Iterable[str], right: Sequence[bool]) -> str:
    parts = (_html_part(tag, *part) for part in zip(cells, right, strict=True))
    return f"<tr>{''.join(parts)}</tr>"


def _html_part(tag: str, cell: str, to_right: bool) -> str:
    # A date or an id is not broken where a long text beside it may be.
    kinds = ["og-r"] * to_right + ["og-w"] * (len(cell) > WRAPPED_CHARS_MIN)
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<{tag}{kind}>{cell}</{tag}>"


def _html_cell(value: Any) -> str:
    if value is None:
        return '<span class="og-0">null</span>'
    text = format_cell(value)
    escaped_text = escape(text if len(text) <= HTML_CHARS_MAX else text[: HTML_CHARS_MAX - 1] + "…")
    return (
        f'<span class="og-{value.tone}">{escaped_text}</span>'
        if isinstance(value, ColouredCell)
        else escaped_text
    )


# ---- Mermaid


def quote_mermaid(*lines: str) -> str:
    """Write lines as a quoted label of a Mermaid diagram, in which nothing of them is syntax."""
    return f'"{"<br/>".join(map(_escape_mermaid, lines))}"'


def _escape_mermaid(text: str) -> str:
    return "".join(c if c.isalnum() or c in _MERMAID_PLAIN else f"#{ord(c)};" for c in text)


_MERMAID_PLAIN = " _-.,:()=+/'$!?"
