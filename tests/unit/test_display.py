"""How results are shown: aligned, cut to the terminal, escaped in a notebook."""

from datetime import UTC, date, datetime
from html.parser import HTMLParser

from omnigraphdb.display import (
    ColouredCell,
    Grid,
    Report,
    count_of,
    format_bytes,
    format_cell,
    quote_mermaid,
    render_html,
    render_text,
    tabulate,
)


def grid_lines(grid: Grid, width: int = 80) -> list[str]:
    """The lines below the title."""
    return render_text(Report(title="t", grids=(grid,)), width).splitlines()[1:]


def test_columns_are_aligned_numbers_to_the_right() -> None:
    rows = [["Ada", 36, None], ["Łukasz", 7, True]]
    assert grid_lines(Grid(columns=("name", "age", "on"), rows=rows)) == [
        "name    age  on",
        "──────  ───  ────",
        "Ada      36  null",
        "Łukasz    7  true",
    ]


def test_wide_characters_take_two_places() -> None:
    lines = grid_lines(Grid(columns=("name", "n"), rows=[["山田太郎", 1], ["Jose\u0301", 2]]))
    assert lines[1].startswith("────────  ─")
    assert lines[2] == "山田太郎  1"
    assert lines[3] == "Jose\u0301      2"


def test_a_table_never_exceeds_the_terminal() -> None:
    rows = [["x" * 70, "y" * 70, "id"]]
    for width in (20, 40, 80, 160):
        lines = grid_lines(Grid(columns=("first", "second", "third"), rows=rows), width)
        assert max(map(len, lines[:3])) <= width
        assert "…" in lines[2]


def test_columns_that_cannot_fit_are_named_below() -> None:
    names = [f"column_{at}" for at in range(12)]
    lines = grid_lines(Grid(columns=names, rows=[["v" * 9] * 12]), 60)
    assert lines[0].split() == names[:6]
    assert lines[-1].startswith("… 6 columns more: column_6, ")


def test_firm_columns_are_cut_last() -> None:
    grid = Grid(columns=("id", "tables"), rows=[["I" * 26, "t" * 60]], firm=1)
    assert "I" * 26 in grid_lines(grid, 50)[2]


def test_hidden_rows_are_counted() -> None:
    shown = grid_lines(Grid(columns=("n",), rows=[[n] for n in range(20)], total=1_234))
    assert len(shown) == 23
    assert shown[-1] == "… 1,214 more"


def test_values_are_spelled_on_one_line() -> None:
    assert format_cell("a\nb") == "a\\nb"
    assert format_cell(b"abc") == "<3 bytes>"
    assert format_cell([0.123456] * 300) == f"[{', '.join(['0.1235'] * 8)}, … 292 more]"
    assert format_cell(datetime(2026, 1, 10, 8, tzinfo=UTC)) == "2026-01-10 08:00:00Z"
    assert format_cell(date(2026, 1, 10)) == "2026-01-10"
    assert format_cell({"a": date(2026, 1, 10)}) == '{"a": "2026-01-10"}'
    assert [format_bytes(n) for n in (0, 1023, 1536, 5 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert [count_of(n, "row") for n in (0, 1, 1000)] == ["0 rows", "1 row", "1,000 rows"]


class Texts(HTMLParser):
    """Collects tags and texts, as a browser would read them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_no_text_of_the_data_is_markup() -> None:
    bad = "<script>alert(1)</script>&amp;"
    sheet = Report(
        title=bad,
        facts={bad: bad},
        notes=(bad,),
        grids=(
            Grid(columns=(bad,), rows=[[bad], [ColouredCell(bad, "good")]], caption=bad),
            Grid(columns=(), rows=(), caption=bad),
        ),
    )
    read = Texts()
    read.feed(render_html(sheet))
    assert "script" not in read.tags
    assert read.texts.count(bad) == 9


def test_a_report_leaves_blank_what_does_not_apply() -> None:
    grid = tabulate([Report(title="x")], "title", "notes")
    assert grid.columns == ["title", "notes"]
    none = tabulate([Grid(columns=(), rows=())], "caption", "total")
    assert none.rows == [["", ""]]


def test_labels_of_a_diagram_hold_no_syntax() -> None:
    assert quote_mermaid('a "b"', "[c] --> d") == '"a #34;b#34;<br/>#91;c#93; --#62; d"'
