"""Frames of a graph: results, diffs, the feed and whole snapshots as Arrow, polars, pandas or Spark frames."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraphdb.api.query_results import make_pandas, make_polars
from omnigraphdb.catalog.model import EdgeType, TableType
from omnigraphdb.engine.history.change_rows import (
    CHANGE_SCHEMA,
    FEED_SCHEMA,
    batch_changes,
    batch_feed,
)
from omnigraphdb.engine.history.compare import ChangeFilter, compare_pair, list_differing_pairs
from omnigraphdb.engine.history.feed import list_steps
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFound, OmniError, UserInputError
from omnigraphdb.ids import BranchName, is_node
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.pipeline.location import PinnedTable
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.types import AnyFrame, FrameLibrary

__all__ = [
    "FrameEngine",
    "GraphFrames",
    "make_diff_frame",
    "make_feed_frame",
    "make_frame",
    "make_graph_frames",
    "rejects_frame",
    "require_engine",
]


class FrameEngine(StrEnum):
    """The library whose frame a call returns."""

    ARROW = "arrow"
    POLARS = "polars"
    PANDAS = "pandas"
    SPARK = "spark"


def require_engine(engine: str | None, spark: Any) -> FrameEngine:
    """Choose the library: the one that is named, else Spark for a session and Arrow without one."""
    if engine is None:
        return FrameEngine.ARROW if spark is None or spark is False else FrameEngine.SPARK
    try:
        chosen = FrameEngine(engine)
    except ValueError:
        raise UserInputError(
            f"'engine' is one of {', '.join(FrameEngine)}, not {engine!r}; nothing was read"
        ) from None
    if chosen is not FrameEngine.SPARK and spark not in (None, False):
        raise UserInputError(
            f"engine='{chosen}' makes its frame in this process and takes no Spark session; nothing was read",
            hint="leave out engine= or spark=",
        )
    return chosen


def make_frame(table: Any, engine: FrameEngine, what: str) -> "AnyFrame":
    """Give an Arrow table in the form that a caller asked for."""
    match engine:
        case FrameEngine.POLARS:
            return make_polars(table, what)
        case FrameEngine.PANDAS:
            return make_pandas(table, what)
        case FrameEngine.ARROW | FrameEngine.SPARK:
            found: AnyFrame = table
            return found


def rejects_frame(
    error: OmniError, *, engine: "FrameLibrary | None" = None, spark: Any = None
) -> "AnyFrame":
    """Give what a load or a merge with `rejects="frame"` refused as a frame: one row for each problem or conflict.

    `engine` is `arrow`, `polars` or `pandas`; a Spark session gives a Spark DataFrame.
    """
    chosen = require_engine(engine, spark)
    rejected: pa.Table | None = getattr(error, "rejects", None)
    if rejected is None:
        raise UserInputError(
            "the error keeps no table of what was refused; nothing was read",
            hint='pass rejects="frame" to load() or merge()',
        )
    if chosen is FrameEngine.SPARK:
        runner = import_module("omnigraphdb.spark_jobs.runner").spark_runner(_session(spark))
        found: AnyFrame = runner.spark.createDataFrame(rejected)
        return found
    return make_frame(rejected, chosen, "rejects_frame()")


# ---- changes


def make_diff_frame(
    engine: Engine,
    states: tuple[BranchState, BranchState],
    wanted: ChangeFilter,
    chosen: FrameEngine,
    spark: Any,
) -> "AnyFrame":
    """Make a frame of what differs between two states."""
    pairs = list_differing_pairs(*states, wanted)
    if chosen is FrameEngine.SPARK:
        jobs = import_module("omnigraphdb.spark_jobs.change_frames")
        diff: AnyFrame = jobs.diff_frame(engine.location, pairs, wanted, _session(spark))
        return diff
    tables = engine.store.tables
    found = chain.from_iterable(compare_pair(tables, pair, wanted) for pair in pairs)
    return make_frame(_gather(batch_changes(found), CHANGE_SCHEMA), chosen, "diff_frame()")


def make_feed_frame(
    engine: Engine,
    branch: BranchName,
    since: str | None,
    until: str | None,
    wanted: ChangeFilter,
    chosen: FrameEngine,
    spark: Any,
) -> "AnyFrame":
    """Make a frame of what the commits after one, up to another, changed."""
    steps = list_steps(engine, branch, since, until, wanted)
    if chosen is FrameEngine.SPARK:
        jobs = import_module("omnigraphdb.spark_jobs.change_frames")
        feed: AnyFrame = jobs.feed_frame(engine.location, steps, wanted, _session(spark))
        return feed
    tables = engine.store.tables
    found = (batch_feed(step.list_changes(tables, wanted), step.commit) for step in steps)
    table = _gather(chain.from_iterable(found), FEED_SCHEMA)
    return make_frame(table, chosen, "changes_frame()")


def _gather(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema)


def _session(spark: Any) -> Any:
    return True if spark is None or spark is False else spark


# ---- a whole snapshot


@dataclass(frozen=True)
class GraphFrames:
    """The tables of one pinned snapshot as frames.

    `vertices` has `id` and `type`; `edges` has `src`, `dst`, `id`, `type` and the types at both ends. Both have the
    properties whose name means the same type in all tables. `frames["Person"]` is the whole table of one type.
    """

    vertices: "AnyFrame"
    edges: "AnyFrame"
    types: Mapping[str, "AnyFrame"]
    commit: str | None
    """The commit that all of the frames show."""

    def __getitem__(self, type_name: str) -> "AnyFrame":
        try:
            return self.types[type_name]
        except KeyError:
            raise NotFound("type", str(type_name), known=sorted(self.types)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)


def make_graph_frames(
    pins: Sequence[PinnedTable],
    read: Callable[[str], pa.Table],
    commit: str | None,
    chosen: FrameEngine,
    spark: Any,
) -> GraphFrames:
    """Make the frames of the tables of a snapshot; `read` reads one of them by its type."""
    if chosen is FrameEngine.SPARK:
        jobs = import_module("omnigraphdb.spark_jobs.tables")
        session = import_module("omnigraphdb.spark_jobs.runner").spark_runner(_session(spark)).spark
        frames = [(pin.type, jobs.read_pinned(session, pin)) for pin in pins]
        unite: _Unite = partial(jobs.unite_frames, session)
    else:
        frames = [(pin.type, read(pin.type.name)) for pin in pins]
        unite = _unite_tables
    nodes, edges = (
        unite([(frame, _list_constants(type_)) for type_, frame in chosen_frames], columns)
        for chosen_frames, columns in _choose_columns(frames)
    )
    return GraphFrames(
        vertices=make_frame(nodes, chosen, "frames()"),
        edges=make_frame(edges, chosen, "frames()"),
        types={type_.name: make_frame(frame, chosen, "frames()") for type_, frame in frames},
        commit=commit,
    )


Columns = Mapping[str, Any]
"""The columns of a frame and their types, in the words of its library; None for a text that the type gives."""

_Frames = Sequence[tuple[TableType, Any]]
_Unite = Callable[[Sequence[tuple[Any, Mapping[str, str]]], Columns], Any]


def _choose_columns(frames: _Frames) -> Iterator[tuple[_Frames, Columns]]:
    """Give the frames of nodes, then those of edges, with the columns that all of them can have."""
    for of_nodes, fixed in ((True, _VERTEX), (False, _EDGE)):
        chosen = [one for one in frames if is_node(one[0].table_key) is of_nodes]
        shared: dict[str, Any] = dict.fromkeys(fixed)
        refused = set(fixed)
        for _, frame in chosen:
            for field in frame.schema:
                type_ = field.type if isinstance(field, pa.Field) else field.dataType
                if field.name not in fixed and shared.setdefault(field.name, type_) != type_:
                    refused.add(field.name)
        yield chosen, {k: v for k, v in shared.items() if k in fixed or k not in refused}


_VERTEX: Final = ("id", "type")
_EDGE: Final = ("src", "dst", "id", "type", "src_type", "dst_type")


def _list_constants(type_: TableType) -> dict[str, str]:
    """List the columns of a united frame that have one value for all rows of a type."""
    ends = (
        {"src_type": type_.source, "dst_type": type_.target} if isinstance(type_, EdgeType) else {}
    )
    return {"type": type_.name, **ends}


def _unite_tables(
    parts: Sequence[tuple[pa.Table, Mapping[str, str]]], columns: Columns
) -> pa.Table:
    schema = pa.schema([(name, type_ or pa.string()) for name, type_ in columns.items()])
    return pa.concat_tables(
        [pa.table(_fit_columns(table, constants, schema), schema) for table, constants in parts]
        or [schema.empty_table()]
    )


def _fit_columns(
    table: pa.Table, constants: Mapping[str, str], schema: pa.Schema
) -> list[pa.Array | pa.ChunkedArray]:
    rows = table.num_rows
    return [
        pa.repeat(pa.scalar(constants[field.name]), rows)
        if field.name in constants
        else table[field.name]
        if field.name in table.column_names
        else pa.nulls(rows, field.type)
        for field in schema
    ]
