"""What a read returns: rows in memory, rows as a stream, or how the read goes about its work."""

import json
import re
from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from omnigraphdb.catalog.border import public_rows
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.catalog.values import json_column
from omnigraphdb.compile.plan.operators import Operator
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.display import ROWS_SHOWN_MAX, Displayable, Grid, Report, count_of, quote_mermaid
from omnigraphdb.engine.read.profile import Step, render
from omnigraphdb.errors import UserInputError
from omnigraphdb.packages import load_package
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, kw_only=True)
class QueryResult(Displayable):
    """Rows of a query: Arrow inside, other shapes on demand.

    Example:
        >>> result = graph.query("query q() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } limit 2 }")
        >>> result.columns, len(result)
        (['name', 'age'], 2)
        >>> [row["name"] for row in result]
        ['Ada', 'Bo']
    """

    query_name: str
    branch: str
    snapshot: str | None
    commit: str | None
    found: pa.Table | pa.RecordBatch = field(repr=False)
    """The rows as they are stored; `table` has them in their public form."""
    types: tuple[PropertyType, ...] = field(repr=False)

    @cached_property
    def table(self) -> pa.Table:
        """Typed columns."""
        return _public_table(self.found)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the query."""
        return list(self.found.schema.names)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as JSON-shaped values."""
        # Not by `cached_property`: in Python 3.11 its lock takes as long as a row does.
        kept: list[dict[str, Any]] | None = self.__dict__.get("_rows")
        if kept is None:
            kept = self.__dict__["_rows"] = self._records(wire=False)
        return kept

    def _records(self, *, wire: bool) -> list[dict[str, Any]]:
        found = self.found
        shown = [
            json_column(found.column(number), type_, wire=wire)
            for number, type_ in enumerate(self.types)
        ]
        return _records(found.schema.names, shown) if shown else [{} for _ in range(len(self))]

    def to_arrow(self) -> pa.Table:
        """Typed columns.

        Example:
            >>> result.to_arrow().column("age").to_pylist()
            [36, 41]
        """
        return self.table

    def to_list(self) -> list[dict[str, Any]]:
        """Rows as Python values: dates are dates.

        Example:
            >>> result.to_list()
            [{'name': 'Ada', 'age': 36}, {'name': 'Bo', 'age': 41}]
        """
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas DataFrame; integers with NULLs among them stay integers, in pandas' own nullable types.

        Example:
            >>> list(result.to_pandas().columns)
            ['name', 'age']
        """
        return make_pandas(self.table, "to_pandas()")

    def to_polars(self) -> "polars.DataFrame":
        """A polars DataFrame.

        Example:
            >>> result.to_polars().height
            2
        """
        return make_polars(self.table, "to_polars()")

    def to_csv(self) -> str:
        """CSV that `load` reads back: nothing for NULL, `""` for an empty text, JSON for a list; no final line break.

        Example:
            >>> print(result.to_csv())
            name,age
            Ada,36
            Bo,41
        """
        shown = [
            map(_csv_cell, json_column(column, type_, wire=not type_.is_list))
            for column, type_ in zip(self.found.columns, self.types, strict=True)
        ]
        header = ",".join(map(_csv_cell, self.columns))
        return "\n".join([header, *map(",".join, zip(*shown, strict=True))])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches, one after the other.

        Example:
            >>> [batch.num_rows for batch in result.batches()]
            [2]
        """
        yield from self.table.to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.found.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> "QueryResult": ...
    def __getitem__(self, at: int | slice) -> "dict[str, Any] | QueryResult":
        """One row, as in `rows`, or the result of some of the rows."""
        if not isinstance(at, slice) and not -len(self) <= at < len(self):
            raise IndexError(f"there is no row {at}: the result has {count_of(len(self), 'row')}")
        chosen = range(len(self))[at]
        if isinstance(chosen, int):
            return replace(self, found=self.found.slice(chosen, 1)).rows[0]
        if chosen.step == 1:
            return replace(self, found=self.found.slice(chosen.start, len(chosen)))
        return replace(self, found=self.found.take(pa.array(chosen, pa.int64())))

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        target = {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}
        return {
            "query_name": self.query_name,
            "target": target,
            "row_count": len(self),
            "columns": self.columns,
            "rows": self._records(wire=True),
            "graph_commit_id": self.commit,
        }

    def _report(self) -> Report:
        """The first rows, aligned."""
        shown = _public_table(self.found.slice(0, ROWS_SHOWN_MAX))
        rows = list(zip(*(column.to_pylist() for column in shown.columns), strict=True))
        source = self.branch if self.snapshot is None else f"{self.branch} at {self.snapshot}"
        return Report(
            title=f"{self.query_name}: {count_of(len(self), 'row')} on {source}",
            grids=(Grid(columns=self.columns, rows=rows, total=len(self)),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStream:
    """Rows of a query, once: each batch is computed when it is requested and not kept.

    Example:
        >>> stream = graph.stream("query q() { match { $p: Person } return { $p.name as name } order { name } }")
        >>> stream.columns
        ['name']
    """

    query_name: str
    branch: str
    snapshot: str | None
    commit: str | None
    reader: pa.RecordBatchReader = field(repr=False)
    types: tuple[PropertyType, ...] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the query."""
        return list(self.reader.schema.names)

    @property
    def schema(self) -> pa.Schema:
        """The declared types of the columns."""
        return self.reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.reader

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as JSON-shaped values, a batch at a time.

        Example:
            >>> next(stream.rows())
            {'name': 'Ada'}
        """
        names = self.columns
        for batch in self.reader:
            shown = [
                json_column(pa.chunked_array([column]), type_)
                for column, type_ in zip(batch.columns, self.types, strict=True)
            ]
            yield from (dict(zip(names, row, strict=True)) for row in zip(*shown, strict=True))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Displayable):
    """A plan from the result down: per operator the way it takes, and after a run its rows and milliseconds.

    Example:
        >>> plan = graph.explain("query q() { match { $p: Person } return { $p.name } }", profile=True)
        >>> plan.to_dict()["operators"][-1]["rows"]
        7
    """

    query_name: str
    steps: tuple[Step, ...]
    profiled: bool = False
    plan: Plan | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The readable tree."""
        return render(self.steps)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All operators in execution order; a server gives its steps alone."""
        if self.plan is None:
            raise UserInputError(
                f"the plan of '{self.query_name}' has steps alone: it is a mutation, or comes from a server",
                hint="read `steps`, or explain the query on the graph itself: omnigraphdb.open(…)",
            )
        return self.plan.operators

    def to_dict(self) -> dict[str, Any]:
        """The wire form; rows and milliseconds are there after a run."""
        return {
            "query_name": self.query_name,
            "profiled": self.profiled,
            "operators": [_step(one) for one in self.steps],
        }

    def to_mermaid(self) -> str:
        """Draw the plan as a Mermaid flowchart: rows flow up, from the tables to the result.

        Example:
            >>> print(graph.explain("query q() { match { $p: Person } return { $p.name } }").to_mermaid())
            flowchart BT
              s0["Project p.name = $p.id"]
              s1["Scan $p: Person<br/>every row"]
              s1 --> s0
        """
        return "\n".join(["flowchart BT", *_draw_steps(self.steps)])

    def _report(self) -> Report:
        """The operators from the result down; after a run with their rows and milliseconds."""
        return Report(title=f"Plan of {self.query_name}", grids=(self._grid(),))

    def _grid(self) -> Grid:
        measured = ("rows", "ms") if self.profiled else ()
        rows = [
            [
                f"{'   ' * (step.depth - 1)}└─ {step.operator}" if step.depth else step.operator,
                *((step.rows, round(step.milliseconds or 0, 2)) if self.profiled else ()),
                "; ".join(step.notes),
            ]
            for step in self.steps
        ]
        return Grid(columns=("operator", *measured, "notes"), rows=rows, is_code=True)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def _draw_steps(steps: tuple[Step, ...]) -> Iterator[str]:
    """A box for each step, and an arrow to the step that takes its rows: the nearest one above with less depth."""
    above: list[int] = []
    for at, step in enumerate(steps):
        ran = (
            []
            if step.rows is None
            else [f"{count_of(step.rows, 'row')}, {step.milliseconds or 0:.2f} ms"]
        )
        yield f"  s{at}[{quote_mermaid(step.operator, *ran, *step.notes)}]"
        del above[step.depth :]
        if above:
            yield f"  s{at} --> s{above[-1]}"
        above.append(at)


def _step(step: Step) -> dict[str, Any]:
    body = {"operator": step.operator, "depth": step.depth, "notes": list(step.notes)}
    if step.rows is None:
        return body
    return body | {"rows": step.rows, "milliseconds": step.milliseconds}


def make_pandas(table: pa.Table, what: str) -> "pandas.DataFrame":
    """Make a pandas DataFrame; integers with NULLs among them stay integers, in pandas' own nullable types."""
    types = load_package("pandas", what).api.types
    frame: pandas.DataFrame = table.to_pandas()
    for name in table.column_names:
        column = table[name]
        if column.null_count and pa.types.is_integer(column.type):
            # NumPy has no NULL for integers, and as floats the large ones would be others.
            frame[name] = types.pandas_dtype(_nullable(column.type)).__from_arrow__(column)
    return frame


def make_polars(table: pa.Table, what: str) -> "polars.DataFrame":
    """Make a polars DataFrame."""
    frame: polars.DataFrame = load_package("polars", what).from_arrow(table)
    return frame


def _public_table(found: pa.Table | pa.RecordBatch) -> pa.Table:
    is_table = isinstance(found, pa.Table)
    return public_rows(found if is_table else pa.Table.from_batches([found]))


def _records(names: list[str], columns: list[list[Any]]) -> list[dict[str, Any]]:
    """Columns as rows; those of few columns, which most results are, are written out: that is three times as fast."""
    match len(names):
        case 1:
            (a,) = names
            return [{a: one} for one in columns[0]]
        case 2:
            a, b = names
            return [{a: one, b: two} for one, two in zip(*columns, strict=True)]
        case 3:
            a, b, c = names
            return [{a: one, b: two, c: three} for one, two, three in zip(*columns, strict=True)]
        case _:
            return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


_QUOTED = re.compile(r'[,"\r\n]')


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def _nullable(stored: pa.DataType) -> str:
    """What pandas calls an integer that may be missing: `Int64`, `UInt32`, …"""
    return str(stored).replace("uint", "UInt").replace("int", "Int")
