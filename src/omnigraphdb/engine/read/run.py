"""Running a plan: every operator turns tables of rows into tables of rows, up to the columns of the result."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, assert_never

import pyarrow as pa

from omnigraphdb.cancellation import check_between
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Operator,
    OptionalJoin,
    Output,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    Stage,
    Union,
)
from omnigraphdb.compile.plan.visit import list_bound_variables
from omnigraphdb.engine.read.bindings import Bindings, distinct, gather
from omnigraphdb.engine.read.operators.expand import expand
from omnigraphdb.engine.read.operators.expand_mixed import expand_any, expand_mixed, walk_mixed
from omnigraphdb.engine.read.operators.filter import keep_all, keep_groups
from omnigraphdb.engine.read.operators.group import group
from omnigraphdb.engine.read.operators.join import anti, attach, optional, product, semi
from omnigraphdb.engine.read.operators.row_order import bounds
from omnigraphdb.engine.read.operators.rows import Groups, Rows, value_columns
from omnigraphdb.engine.read.operators.scan import scan
from omnigraphdb.engine.read.operators.search import rank
from omnigraphdb.engine.read.operators.sort import cut, leave, sort
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import InternalError
from omnigraphdb.later import Later
from omnigraphdb.limits import RESULT_BATCH_ROWS
from omnigraphdb.memory import count_columns
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.engine.read.operators import paths
else:
    # Most queries bind no path.
    paths = Later("omnigraphdb.engine.read.operators.paths")

T = TypeVar("T", bound=Rows)


def run(reader: Reader) -> pa.Table:
    """Run the reader's plan and return its whole result."""
    if reader.profile is not None:
        table = run_batches(reader).read_all()
        count_columns((table,))
        return table
    schema, root = reader.plan.schema, reader.plan.root
    tables = check_between(_Run(reader).rows(root.input))
    batches = []
    for rows in tables:
        if rows.rows:
            batches.append(project(root.columns, rows, schema, reader))
            count_columns(batches[-1:])
    table = pa.Table.from_batches(batches, schema)
    # The table has the columns of the batches, which count once.
    batches.clear()
    count_columns((table,))
    return table


def run_batches(reader: Reader, batch_rows: int = RESULT_BATCH_ROWS) -> pa.RecordBatchReader:
    """Run the reader's plan as its result is consumed; values are fetched one batch at a time."""
    schema = reader.plan.schema
    batches = check_between(_project_batches(reader.plan.root, reader, schema, batch_rows))
    return pa.RecordBatchReader.from_batches(schema, batches)


def _project_batches(
    root: Project, reader: Reader, schema: pa.Schema, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    for rows in _measure(root.input, _Run(reader).rows(root.input), reader):
        for start in range(0, rows.rows, batch_rows):
            part = rows if batch_rows >= rows.rows else rows.slice(start, start + batch_rows)
            if reader.profile is None:
                yield project(root.columns, part, schema, reader)
                continue
            with reader.profile.running(root) as measured:
                batch = project(root.columns, part, schema, reader)
            measured.rows += batch.num_rows
            yield batch


def _measure(operator: Operator, tables: Iterator[T], reader: Reader) -> Iterator[T]:
    watched = check_between(tables)
    return watched if reader.profile is None else reader.profile.measure_tables(operator, watched)


_ONE = Bindings({}, 1)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of operators: `around` are the rows around a nested block, `wanted` is the number of rows that suffice.

    With `each` the first rows of its groups suffice.
    """

    reader: Reader
    around: Bindings = _ONE
    wanted: int | None = None
    each: Slice | None = None

    def _without_bound(self) -> "_Run":
        """Return the same run without a bound on rows."""
        is_bound = self.wanted is not None or self.each is not None
        return _Run(self.reader, self.around) if is_bound else self

    # ---- rows of any kind

    def rows(self, operator: Operator) -> Iterator[Rows]:
        """Return the rows of an operator."""
        match operator:
            case Group():
                tables = self._without_bound().bindings(operator.input)
                yield group(operator, tables, self.reader)
            case Union() | Stage():
                yield from self._bindings(operator)
            case Filter(input=Group() as below, conditions=conditions):
                for groups in self._all(below):
                    assert isinstance(groups, Groups)
                    yield keep_groups(conditions, groups, self.reader)
            case Sort(input=below):
                rows = self._without_bound()._all(below)
                names = sorted(list_bound_variables(below))
                yield sort(operator, rows, names, self.reader, self.each)
            case Slice(input=Sort() as below, per=per) if per:
                run = _Run(self.reader, self.around, each=operator)
                yield from cut(operator, run._all(below), self.reader)
            case Slice(input=below, window=window, per=per):
                end = None if per else bounds(window, self.reader)[1]
                yield from cut(
                    operator, _Run(self.reader, self.around, end)._all(below), self.reader
                )
            case Project():
                raise InternalError("a projection is only at the top of a plan; nothing was read")
            case _:
                yield from self._bindings(operator)

    def _all(self, operator: Operator) -> Iterator[Rows]:
        return _measure(operator, self.rows(operator), self.reader)

    # ---- bindings

    def bindings(self, operator: Operator) -> Iterator[Bindings]:
        """Return the bindings of an operator, measured if there is a profile."""
        return _measure(operator, self._bindings(operator), self.reader)

    def _bindings(self, operator: Operator) -> Iterator[Bindings]:
        match operator:
            case Scan():
                yield from scan(operator, self.reader, self.wanted)
            case Argument(variables=variables):
                yield distinct(self.around, variables)
            case Expand():
                walk = _choose_walk(operator, self.reader)
                for rows in self.bindings(operator.input):
                    yield from walk(operator, rows, self.reader)
            case FindPaths():
                for rows in self.bindings(operator.input):
                    yield from walk_mixed(
                        paths.find_paths, operator, rows.unweighted(), self.reader
                    )
            case Filter(conditions=conditions):
                for rows in self.bindings(operator.input):
                    yield keep_all(conditions, rows, self.reader)
            case Product(left=left, right=right):
                others = self._without_bound().whole(right)
                for rows in self.bindings(left):
                    yield from product(operator, rows, others, self.reader)
            case Anti() | Semi() | Attach() | OptionalJoin():
                yield from self._run_nested(operator)
            case Stage(input=below, entities=entities, values=values):
                for table in self._without_bound()._all(below):
                    yield leave(entities, values, table, self.reader)
            case Union(inputs=inputs):
                for part in inputs:
                    yield from self._without_bound().bindings(part)
            case Rank(input=below):
                yield rank(operator, self._without_bound().whole(below), self.reader)
            case Sort() | Slice():
                for table in self.rows(operator):
                    if isinstance(table, Groups):
                        raise InternalError("groups cannot be bound again; nothing was changed")
                    yield table
            case Group() | Project():
                raise InternalError(
                    f"{type(operator).__name__} gives no bindings; nothing was read"
                )
            case _:
                assert_never(operator)

    def whole(self, operator: Operator) -> Bindings:
        """Return all bindings of an operator in one table."""
        return gather(self.bindings(operator), sorted(list_bound_variables(operator)))

    def _run_nested(self, operator: Anti | Semi | Attach | OptionalJoin) -> Iterator[Bindings]:
        """Combine rows with a nested block; a block that does not depend on them runs once."""
        inner = None if _depends_on_rows(operator.inner) else self._run_inner(operator.inner, None)
        for rows in self.bindings(operator.input):
            matches = inner if inner is not None else self._run_inner(operator.inner, rows)
            match operator:
                case Anti():
                    yield anti(operator, rows, matches)
                case Semi():
                    yield semi(operator, rows, matches)
                case Attach():
                    yield attach(operator, rows, matches, self.reader)
                case OptionalJoin():
                    yield optional(operator, rows, matches)

    def _run_inner(self, inner: Operator, rows: Bindings | None) -> Bindings:
        around = self.around if rows is None else rows
        return _Run(self.reader, around).whole(inner)


def _choose_walk(operator: Expand, reader: Reader) -> Callable[..., Iterator[Bindings]]:
    if operator.any_edge:
        return expand_any
    ends = (operator.source, operator.target)
    return expand_mixed if any(map(reader.is_mixed, ends)) else expand


def _depends_on_rows(operator: Operator) -> bool:
    """Whether a nested block depends on the rows around it."""
    match operator:
        case Argument():
            return True
        case Scan():
            return False
        case Union(inputs=inputs):
            return any(map(_depends_on_rows, inputs))
        case Product(left=left, right=right):
            return _depends_on_rows(left) or _depends_on_rows(right)
        case _:
            # A block that is nested deeper depends on the rows of this block, not on the rows around it.
            return _depends_on_rows(operator.input)


# ---- the result


def project(
    columns: Sequence[Output], rows: Rows, schema: pa.Schema, reader: Reader
) -> pa.RecordBatch:
    """Fetch the values of the result, typed as declared even when there are none."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    arrays = value_columns([column.expr for column in columns], rows, reader)
    typed = [
        values if values.type == kind else values.cast(kind)
        for values, kind in zip(arrays, reader.plan.arrow_types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)
