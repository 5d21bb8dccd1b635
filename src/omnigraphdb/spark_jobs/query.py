"""Queries on Spark: the logical plan as frames and joins, for graphs larger than the memory of one machine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import count
from typing import Any, Final, assert_never

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from omnigraphdb.catalog.mixed import is_mixed, split_types
from omnigraphdb.catalog.types import FLOATS, PropertyType
from omnigraphdb.compile.checked import (
    Bm25,
    Const,
    Direction,
    EntityRef,
    HopBound,
    ItemExpr,
    Nearest,
    Operand,
    ParamRef,
    PathValue,
    Rrf,
    TextMatch,
    VariableKind,
)
from omnigraphdb.compile.params import bind_arguments
from omnigraphdb.compile.plan.algebra import Test
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
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    Stage,
    Tally,
    Union,
)
from omnigraphdb.compile.plan.operators import Window as Bounds
from omnigraphdb.compile.plan.plan import Plan, Slot
from omnigraphdb.compile.plan.visit import list_references, variables_of, walk
from omnigraphdb.compile.rules import fill
from omnigraphdb.engine.read.past_schema import compile_as_of
from omnigraphdb.engine.read.verbs import Answer
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import InternalError
from omnigraphdb.ids import edge_key, node_key
from omnigraphdb.language.query.tree import AggregateName
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.input.frames import shape_column
from omnigraphdb.runtime import datetime_of
from omnigraphdb.spark_jobs.bridge import from_spark
from omnigraphdb.spark_jobs.expressions import (
    FIELD,
    ResolveColumn,
    condition,
    make_unsupported_error,
    operand,
    path_key,
    spark_name,
)
from omnigraphdb.spark_jobs.runner import collect_job, spark_runner
from omnigraphdb.spark_jobs.tables import ID, SparkGraph
from omnigraphdb.values import dataclass

ALONE: Final = "__row"
"""The column of frames that bind no variable."""


def spark_query(
    engine: Engine,
    view: View,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    spark: Any = None,
) -> Answer:
    """Run a query on one view with the joins of Spark; the rows of the result come to this process."""
    plan, graph = _open_plan(engine, view, source, name, params, spark)
    return Answer(
        query_name=plan.name,
        rows=run_on_spark(plan, graph),
        types=tuple(column.type for column in plan.columns),
    )


def query_frame(
    engine: Engine,
    view: View,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    spark: Any = None,
) -> DataFrame:
    """Make a frame of the result of a query on one view; no row comes to this process."""
    plan, graph = _open_plan(engine, view, source, name, params, spark)
    return _shape_result(plan, graph, [column.name for column in plan.columns])


def _open_plan(
    engine: Engine,
    view: View,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    spark: Any,
) -> tuple[Plan, SparkGraph]:
    compiled = compile_as_of(engine.plans, view, source, name)
    now = datetime_of(engine.runtime.now_us() // 1000 * 1000)
    plan = fill(compiled.plan, bind_arguments(compiled.checked, params), now)
    graph = SparkGraph(
        spark=spark_runner(spark).spark,
        location=engine.location,
        catalog=compiled.catalog,
        snapshot=compiled.snapshot,
        names=compiled.names,
    )
    return plan, graph


def run_on_spark(plan: Plan, graph: SparkGraph) -> pa.Table:
    """Run a filled plan and return its rows."""
    labels = [f"c{i}" for i in range(len(plan.root.columns))]
    frame = _shape_result(plan, graph, labels)
    result = collect_job(graph.spark, f"query {plan.name}", frame)
    columns = [
        _property(result[label], replace(output_column.type, nullable=True))
        for label, output_column in zip(labels, plan.root.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=plan.schema)


def _shape_result(plan: Plan, graph: SparkGraph, labels: Sequence[str]) -> DataFrame:
    lowering = Lowering(plan, graph)
    rows = lowering.rows(plan.root.input, None)
    return rows.frame.select(
        *(
            lowering.value(output_column.expr, rows)
            .cast(spark_name(output_column.type))
            .alias(label)
            for label, output_column in zip(labels, plan.root.columns, strict=True)
        )
    )


def _property(column: pa.ChunkedArray, type_: PropertyType) -> pa.Array:
    """Convert a result column to the type of its property."""
    combined = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return shape_column(from_spark(combined, type_), type_).values


# ---- plans


@dataclass(frozen=True)
class Rows:
    """A frame with its variables, and the columns of the values that rows carry by name."""

    frame: DataFrame
    variables: frozenset[str] = frozenset()
    fields: Mapping[str, str] | None = None


def _nothing_bound(spark: SparkSession) -> Rows:
    return Rows(spark.range(1).select(F.col("id").alias(ALONE)))


@dataclass(frozen=True)
class Lowering:
    """Lowers one plan to frames; a variable is the id and the properties that the plan uses."""

    plan: Plan
    graph: SparkGraph

    @cached_property
    def needed(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of every variable, its id first."""
        needed_columns: dict[str, dict[str, None]] = {slot.name: {} for slot in self.plan.slots}
        for value in self.path_values:
            needed_columns[value.variable][path_key(value)] = None
        for ref in list_references(self.plan.root):
            needed_columns[ref.variable][self._find_column(ref.variable, ref.property)] = None
        # The properties of a node are found by its id, those of an edge stand beside its ends.
        entity_names = _name_entities(self.plan.operators).union(
            slot.name
            for slot in self.plan.slots
            if slot.kind is VariableKind.NODE and needed_columns[slot.name]
        )
        return {
            name: tuple({ID: None} | columns) if name in entity_names else tuple(columns)
            for name, columns in needed_columns.items()
        }

    @cached_property
    def slots(self) -> Mapping[str, tuple[int, Slot]]:
        """The variables by name, each with its position."""
        return {slot.name: (i, slot) for i, slot in enumerate(self.plan.slots)}

    def _find_column(self, variable: str, name: str) -> str:
        """Find the column of a property: the id column for a key, unless the type had another schema then."""
        _, slot = self.slots[variable]
        if slot.key != name or node_key(slot.type_name) in self.graph.names:
            return name
        return ID

    @cached_property
    def path_values(self) -> tuple[PathValue, ...]:
        """The values of paths that the plan uses."""
        parts = (part for operator in self.plan.operators for part in walk(operator))
        return tuple(dict.fromkeys(part for part in parts if isinstance(part, PathValue)))

    def label(self, variable: str, name: str) -> str:
        """Return the column that holds a property of a variable."""
        position, _ = self.slots[variable]
        column = self._find_column(variable, name)
        return f"v{position}_{self.needed[variable].index(column)}"

    def labels(self, variable: str) -> dict[str, str]:
        """Return the properties of a variable, by the columns that hold them."""
        return {self.label(variable, name): name for name in self.needed[variable]}

    def columns(self, variables: Iterable[str]) -> list[str]:
        """Return the columns of some variables."""
        return [label for name in sorted(variables) for label in self.labels(name)]

    def resolve_column(self, variable: str, name: str) -> Column:
        """Give the column with the values of a property of a variable."""
        return F.col(self.label(variable, name))

    def _resolver(self, rows: "Rows") -> ResolveColumn:
        """Resolve columns of rows; those of groups are fields."""

        def resolve(variable: str, name: str) -> Column:
            if variable != FIELD:
                return self.resolve_column(variable, name)
            assert rows.fields is not None, "the plan carries every field it uses"
            return F.col(rows.fields[name])

        return resolve

    # ---- operators

    def rows(self, operator: Operator, around: Rows | None) -> Rows:
        """Lower an operator; `around` are the rows of the block in which it is nested."""
        match operator:
            case Scan(type_name=name) if is_mixed(name):
                raise make_unsupported_error("a variable of several types")
            case Scan():
                return self._scan(operator)
            case Argument(variables=variables):
                return self._read_argument(variables, around)
            case Expand(any_edge=True):
                raise make_unsupported_error("a walk over any edge")
            case FindPaths():
                return self._find_paths(operator, self.rows(operator.input, around))
            case Expand():
                return self._expand(operator, around)
            case Filter(conditions=tests, input=Expand(any_edge=False) as below):
                return self._filter_rows(tests, self._expand(below, around, tests))
            case Filter(conditions=tests):
                return self._filter_rows(tests, self.rows(operator.input, around))
            case Product():
                return self._product(operator, around)
            case Anti() | Semi():
                return self._join_block(operator, around)
            case Attach():
                return self._attach(operator, around)
            case OptionalJoin():
                return self._optional(operator, around)
            case Group():
                return self._group(operator, self.rows(operator.input, around))
            case Sort():
                return self._sort(operator, self.rows(operator.input, around))
            case Stage():
                return self._leave(operator, self.rows(operator.input, around))
            case Union(inputs=inputs):
                rows = self.rows(inputs[0], around)
                frames = [self.rows(union_input, around).frame for union_input in inputs[1:]]
                return replace(rows, frame=reduce(DataFrame.union, frames, rows.frame))
            case Slice(per=(_, *_)):
                return self._cut_each(operator, around)
            case Slice(input=below, window=window):
                rows = self.rows(below, around)
                return replace(rows, frame=_cut(rows.frame, window))
            case Rank():
                raise make_unsupported_error("ranking by relevance")
            case Project():
                raise InternalError("a projection is only at the top of a plan; nothing was read")
            case _:
                assert_never(operator)

    def _scan(self, operator: Scan) -> Rows:
        if operator.search:
            raise make_unsupported_error(f"{operator.search[0].function}()")
        labels = self.labels(operator.variable)
        frame = self.graph.frame(node_key(operator.type_name), labels, operator.filter)
        return self._filter_rows(operator.filter, Rows(frame, frozenset({operator.variable})))

    def _filter_rows(self, tests: Sequence[Test], rows: Rows) -> Rows:
        frame, resolve = rows.frame, self._resolver(rows)
        for test in tests:
            frame = frame.where(condition(test, resolve))
        return replace(rows, frame=frame)

    def _read_argument(self, variables: Sequence[str], around: Rows | None) -> Rows:
        if not variables:
            return _nothing_bound(self.graph.spark)
        assert around is not None, "a nested block has rows around it"
        ids = [self.label(name, ID) for name in variables]
        frame = around.frame.select(*self.columns(variables))
        return Rows(frame.dropDuplicates(ids), frozenset(variables))

    # ---- joins

    def _product(self, operator: Product, around: Rows | None) -> Rows:
        left, right = self.rows(operator.left, around), self.rows(operator.right, around)
        tests = [condition(test, self.resolve_column) for test in operator.on]
        join_condition = reduce(lambda a, b: a & b, tests) if tests else F.lit(True)
        frame = _bare(left).join(_bare(right), join_condition, "inner")
        fields = {**(left.fields or {}), **(right.fields or {})}
        return Rows(frame, left.variables | right.variables, fields)

    def _join_block(self, operator: Anti | Semi, around: Rows | None) -> Rows:
        how = "left_anti" if isinstance(operator, Anti) else "left_semi"
        rows = self.rows(operator.input, around)
        inner = self.rows(operator.inner, rows)
        ids = [self.label(name, ID) for name in operator.on]
        if not ids:
            any_row = inner.frame.limit(1).select(F.lit(1).alias("__any"))
            return replace(rows, frame=rows.frame.join(any_row, F.lit(True), how))
        inner_ids = inner.frame.select(
            *(F.col(id_label).alias(f"{id_label}_i") for id_label in ids)
        ).distinct()
        return replace(rows, frame=rows.frame.join(inner_ids, _agree(ids), how))

    def _optional(self, operator: OptionalJoin, around: Rows | None) -> Rows:
        rows = self.rows(operator.input, around)
        inner = self.rows(operator.inner, rows)
        ids = [self.label(name, ID) for name in operator.on]
        matches = inner.frame.select(
            *(F.col(id_label).alias(f"{id_label}_i") for id_label in ids),
            *(F.col(column_label) for column_label in self.columns(operator.binds)),
        )
        joined = rows.frame.join(matches, _agree(ids) if ids else F.lit(True), "left_outer")
        frame = joined.drop(*(f"{id_label}_i" for id_label in ids))
        return replace(rows, frame=frame, variables=rows.variables | frozenset(operator.binds))

    def _attach(self, operator: Attach, around: Rows | None) -> Rows:
        """Join each row with the aggregate of its matches in a block: the block is grouped once, then joined."""
        rows = self.rows(operator.input, around)
        inner = self.rows(operator.inner, rows)
        name = f"a{len(rows.fields or {})}"
        ids = [self.label(variable, ID) for variable in operator.on]
        tally = operator.tally
        value = F.lit(True) if tally is None else self._tally(tally, inner)
        keys = [F.col(id_label).alias(f"{id_label}_i") for id_label in ids]
        aggregates = inner.frame.groupBy(*keys).agg(
            F.first(value).alias(name) if tally is None else value.alias(name)
        )
        joined = rows.frame.join(aggregates, _agree(ids) if ids else F.lit(True), "left_outer")
        frame = joined.drop(*(f"{id_label}_i" for id_label in ids))
        if tally is None:
            frame = frame.withColumn(name, F.coalesce(F.col(name), F.lit(False)))
        elif tally.function == "count":
            frame = frame.withColumn(name, F.coalesce(F.col(name), F.lit(0)))
        return replace(rows, frame=frame, fields={**(rows.fields or {}), operator.name: name})

    # ---- walks

    def _expand(self, operator: Expand, around: Rows | None, tests: Sequence[Test] = ()) -> Rows:
        """Join the nodes that a walk reaches; an edge with a variable need not be read when it fails the tests."""
        if self._starts_anywhere(operator):
            return self._bind_ends(operator, self._read_steps(operator, tests))
        rows = self.rows(operator.input, around)
        pairs = self._pairs(operator, rows, tests)
        source = self.label(operator.source, ID)
        joins = F.col(source) == F.col("__near")
        if operator.closes:
            joins = joins & (F.col(self.label(operator.target, ID)) == F.col("__far"))
        frame = rows.frame.join(pairs, joins, "inner").drop("__near")
        return self._bind_target(operator, replace(rows, frame=frame))

    def _starts_anywhere(self, operator: Expand) -> bool:
        """Whether the edges alone say where a walk of one hop starts, because every edge has both ends."""
        below = operator.input
        return (
            isinstance(below, Scan)
            and below.variable == operator.source
            and not (below.filter or below.search or is_mixed(below.type_name))
            and self.needed[below.variable] == (ID,)
            and not operator.closes
            and _count(operator.low) == 1
            and operator.high is not None
            and _count(operator.high) == 1
        )

    def _bind_ends(self, operator: Expand, steps: DataFrame) -> Rows:
        """Take the near ends of steps for the source, and join the nodes that the steps reach."""
        if operator.edge_variable is None:
            steps = steps.distinct()
        frame = steps.withColumnRenamed("__near", self.label(operator.source, ID))
        return self._bind_target(operator, Rows(frame, frozenset({operator.source})))

    def _bind_target(self, operator: Expand, rows: Rows) -> Rows:
        """Name the far ends of steps as the target, with the properties that the plan uses."""
        frame, labels = rows.frame, self.labels(operator.target)
        variables = rows.variables | operator.binds
        if operator.closes or not labels:
            frame = frame.drop("__far")
        elif tuple(labels.values()) == (ID,):
            frame = frame.withColumnRenamed("__far", self.label(operator.target, ID))
        else:
            nodes = self.graph.frame(node_key(operator.target_type), labels)
            ends = F.col("__far") == F.col(self.label(operator.target, ID))
            frame = frame.join(nodes, ends, "inner").drop("__far")
        return replace(rows, frame=frame, variables=variables)

    def _pairs(self, operator: Expand, rows: Rows, tests: Sequence[Test]) -> DataFrame:
        """Find the pairs of nodes that a hop connects: one row for each pair, or for each edge when the edge has a variable."""
        steps = self._read_steps(operator, tests)
        if operator.edge_variable is not None:
            return steps
        low = _count(operator.low)
        high = None if operator.high is None else _count(operator.high)
        if low == high == 1:
            return steps.distinct()
        return self._reach_pairs(operator, steps.distinct().localCheckpoint(), rows, (low, high))

    def _read_steps(self, operator: Expand, tests: Sequence[Test]) -> DataFrame:
        """Read the edges that may be walked: a near end, a far end where it is needed, and the columns of the edge variable."""
        variable = operator.edge_variable
        edge_labels = {} if variable is None else self.labels(variable)
        if variable is not None and is_mixed(operator.edge):
            raise make_unsupported_error("an edge variable of several types")
        edge_variables = {variable, operator.walked}
        edge_tests = [
            test for test in (*operator.where, *tests) if variables_of(test) <= edge_variables
        ]
        edges = self._edges(operator, self._choose_ends(operator), edge_labels, edge_tests)
        if operator.direction is not Direction.BOTH:
            return edges.drop(*self._tested(operator)) if operator.where else edges
        return _steps(edges, operator.direction, list(edge_labels))

    def _choose_ends(self, operator: Expand) -> Mapping[str, str]:
        """Choose the ends of edges to read, by the names that they get."""
        near, far = ("dst", "src") if operator.direction is Direction.IN else ("src", "dst")
        if operator.direction is Direction.BOTH:
            return {"__src": near, "__dst": far}
        needs_far = (
            operator.edge_variable is None or operator.closes or self.needed[operator.target]
        )
        return {"__near": near, "__far": far} if needs_far else {"__near": near}

    def _tested(self, operator: Expand | FindPaths) -> dict[str, str]:
        """Return the properties of edges that decide whether an edge may be walked."""
        return {} if operator.walked is None else self.labels(operator.walked)

    def _edges(
        self,
        operator: Expand | FindPaths,
        ends: Mapping[str, str],
        edge_labels: Mapping[str, str],
        tests: Sequence[Test],
    ) -> DataFrame:
        """Read the edges that may be walked: their ends, the columns of their variable, and the columns that are tested."""
        columns = {**ends, **edge_labels, **self._tested(operator)}
        kinds = [
            self.graph.frame(edge_key(edge_type), columns, tests)
            for edge_type in split_types(operator.edge)
        ]
        edges = reduce(DataFrame.unionByName, kinds)
        for test in operator.where:
            edges = edges.where(condition(test, self.resolve_column))
        return edges

    def _reach_pairs(
        self, operator: Expand, steps: DataFrame, rows: Rows, bounds: tuple[int, int | None]
    ) -> DataFrame:
        """Find the pairs within a distance, each once; a node reaches itself without a hop, or through its own loop."""
        low, high = bounds
        source = F.col(self.label(operator.source, ID))
        sources = rows.frame.select(source.alias("__near")).dropna().distinct()
        front = sources.select("__near", F.col("__near").alias("__far")).localCheckpoint()
        seen, pair_frames = front, [front] if low == 0 else []
        for hop in count(1) if high is None else range(1, high + 1):
            walked = (
                front.select("__near", F.col("__far").alias("__at"))
                .join(steps.select(F.col("__near").alias("__at"), "__far"), "__at")
                .select("__near", "__far")
                .distinct()
            )
            if hop == 1 and low == 1:
                pair_frames.append(walked.where(F.col("__near") == F.col("__far")))
            # A checkpoint materialises each round, so that Spark does not repeat all rounds before it.
            front = walked.join(seen, ["__near", "__far"], "left_anti").localCheckpoint()
            if front.isEmpty():
                break
            seen = seen.union(front)
            if hop >= low:
                pair_frames.append(front)
        nothing = steps.limit(0)
        return reduce(DataFrame.union, pair_frames, nothing)

    # ---- paths

    def _find_paths(self, operator: FindPaths, rows: Rows) -> Rows:
        """Join rows with the shortest path from their start to every end, or to the end that they have."""
        choice = operator.choice
        if choice.by is not None or choice.best is not None or choice.every:
            word = "by" if choice.by is not None else "all" if choice.every else "best"
            raise make_unsupported_error(
                f"a path with '{word}', whose search looks at one path after the other,"
            )
        # The id of a path is the list of its edge ids: it orders paths as a search does.
        values = [F.col("__p.ids").alias(self.label(choice.variable, ID))]
        for path_value in self.path_values:
            if path_value.variable == choice.variable:
                label = self.label(choice.variable, path_key(path_value))
                values.append(self._path_value(path_value).alias(label))
        paths = self._reach_paths(operator, rows).select("__near", "__far", *values)
        source, target = self.label(operator.source, ID), self.label(operator.target, ID)
        joins = F.col(source) == F.col("__near")
        if operator.closes:
            joins = joins & (F.col(target) == F.col("__far"))
            frame = rows.frame.join(paths, joins, "inner").drop("__near", "__far")
        else:
            nodes = self.graph.frame(node_key(operator.target_type), self.labels(operator.target))
            frame = rows.frame.join(paths, joins, "inner").drop("__near")
            frame = frame.join(nodes, F.col("__far") == F.col(target), "inner").drop("__far")
        return replace(rows, frame=frame, variables=rows.variables | operator.binds)

    def _reach_paths(self, operator: FindPaths, rows: Rows) -> DataFrame:
        """Find the shortest path of every pair within the bounds, by rounds of joins; ties go to the least edge ids."""
        steps = self._path_steps(operator).localCheckpoint()
        low, high = _count(operator.low), _count(operator.high or 0)
        source = F.col(self.label(operator.source, ID))
        sources = rows.frame.select(source.alias("__near")).dropna().distinct()
        kind = steps.schema["__e"].dataType.simpleString()
        nothing = F.struct(
            F.array().cast("array<string>").alias("ids"),
            F.array(F.col("__near")).alias("nodes"),
            F.array().cast(f"array<{kind}>").alias("edges"),
        )
        front = sources.select("__near", F.col("__near").alias("__far"), nothing.alias("__p"))
        front = front.localCheckpoint()
        seen, path_frames = front.select("__near", "__far"), [front] if low == 0 else []
        for hop in range(1, high + 1):
            longer = _choose_least(_lengthen(front, steps, operator.backward))
            if hop == 1 and low == 1:
                path_frames.append(longer.where(F.col("__near") == F.col("__far")))
            front = longer.join(seen, ["__near", "__far"], "left_anti").localCheckpoint()
            if front.isEmpty():
                break
            seen = seen.union(front.select("__near", "__far"))
            if hop >= low:
                path_frames.append(front)
        return reduce(DataFrame.union, path_frames, front.limit(0))

    def _path_steps(self, operator: FindPaths) -> DataFrame:
        """Read the edges that may be walked, each with its id and the columns that tests and path values use."""
        ends = {"__src": "src", "__dst": "dst"}
        edges = self._edges(operator, ends, {}, operator.where)
        labels = list(self._tested(operator))
        steps = _steps(edges, operator.direction, labels)
        return steps.select(
            F.col("__near").alias("__at"),
            F.col("__far").alias("__to"),
            F.col(self.label(operator.walked, ID)).alias("__id"),
            F.struct(*labels).alias("__e"),
        )

    def _path_value(self, path_value: PathValue) -> Column:
        """Lower a value of a path."""
        match path_value.function:
            case "hops":
                return F.size("__p.ids").cast("bigint")
            case "nodes":
                return F.col("__p.nodes")
            case "edges":
                raise make_unsupported_error("edges() of a path")
            case function:
                assert path_value.argument is not None, "an aggregate has an argument"
                return self._tally_path(
                    path_value, function, path_value.argument, F.col("__p.edges")
                )

    def _tally_path(
        self, path_value: PathValue, function: AggregateName, argument: Operand, edges: Column
    ) -> Column:
        def evaluate(edge: Column) -> Column:
            return operand(argument, lambda variable, name: edge[self.label(variable, name)])

        values = F.filter(F.transform(edges, evaluate), lambda entry: entry.isNotNull())
        if path_value.distinct:
            values = F.array_distinct(values)
        exact = "double" if argument.type.scalar in FLOATS else "bigint"
        zero = F.lit(0).cast(exact)
        total = F.aggregate(values, zero, lambda sum_, number: sum_ + number.cast(exact))
        match function:
            case "count":
                return F.size(values).cast("bigint")
            case "min":
                return F.array_min(values)
            case "max":
                return F.array_max(values)
            case "sum":
                return F.when(F.size(values) > 0, total)
            case "avg":
                return F.when(F.size(values) > 0, total.cast("double") / F.size(values))
            case "collect":
                return values
            case "stddev" | "percentile":
                raise make_unsupported_error(f"{function}() of a path")

    # ---- groups, order, values

    def _group(self, operator: Group, rows: Rows) -> Rows:
        names = [*(term.name for term in operator.keys), *(term.name for term in operator.tallies)]
        fields = {name: f"g{i}" for i, name in enumerate(names)}
        keys = [self.value(key.expr, rows).alias(fields[key.name]) for key in operator.keys]
        tallies = [self._tally(tally, rows).alias(fields[tally.name]) for tally in operator.tallies]
        # An entity determines its properties; a stage behind the groups may go on from it.
        entity_variables = {
            key.expr.variable for key in operator.keys if isinstance(key.expr, EntityRef)
        }
        keys += [F.col(label) for label in self.columns(entity_variables)]
        if tallies:
            frame = rows.frame.groupBy(*keys).agg(*tallies)
        else:
            frame = rows.frame.select(*keys).distinct()
        return Rows(frame, frozenset(entity_variables), fields)

    def _leave(self, operator: Stage, rows: Rows) -> Rows:
        """Reduce rows to some entities and named values."""
        fields = {stage_value.name: f"w{i}" for i, stage_value in enumerate(operator.values)}
        values = [
            self.value(stage_value.expr, rows)
            .cast(spark_name(stage_value.type))
            .alias(fields[stage_value.name])
            for stage_value in operator.values
        ]
        entity_columns = [F.col(label) for label in self.columns(operator.entities)]
        placeholder = [] if entity_columns or values else [F.lit(1).alias(ALONE)]
        frame = rows.frame.select(*entity_columns, *values, *placeholder)
        return Rows(frame, frozenset(operator.entities), fields)

    def _cut_each(self, operator: Slice, around: Rows | None) -> Rows:
        """Keep a window of the rows that are equal in some values."""
        below = operator.input
        order = below if isinstance(below, Sort) else Sort(input=below, keys=())
        rows = self.rows(order.input, around)
        frame, keys = self._with_keys(order, rows)
        keys = keys or [F.lit(1).asc()]
        by = [self.value(per_value, rows) for per_value in operator.per]
        number = F.row_number().over(Window.partitionBy(*by).orderBy(*keys))
        low, limit = (_whole(bound) for bound in (operator.window.offset, operator.window.limit))
        is_in_window = F.col("__n") > (low or 0)
        if limit is not None:
            is_in_window = is_in_window & (F.col("__n") <= (low or 0) + limit)
        frame = frame.withColumn("__n", number).where(is_in_window).orderBy(*keys).drop("__n")
        return replace(rows, frame=_without_keys(frame, order))

    def _tally(self, tally: Tally, rows: Rows) -> Column:
        if tally.argument is None:
            return F.count(F.lit(1))
        values, kind = self.value(tally.argument, rows), tally.argument.type
        if tally.distinct and tally.function != "count":
            raise make_unsupported_error(f"{tally.function}(distinct …)")
        match tally.function:
            case "count":
                return F.count_distinct(values) if tally.distinct else F.count(values)
            case "min":
                return F.min(values)
            case "max":
                return F.max(values)
            case "sum" | "avg":
                exact = "double" if kind.scalar in FLOATS else "decimal(20,0)"
                total = F.sum(values.cast(exact))
                if tally.function == "sum":
                    return total.cast(spark_name(tally.type))
                return F.when(F.count(values) > 0, total.cast("double") / F.count(values))
            case "stddev":
                return F.stddev_samp(values.cast("double"))
            case "collect" | "percentile" as function:
                raise make_unsupported_error(f"{function}()")

    def _sort(self, operator: Sort, rows: Rows) -> Rows:
        frame, keys = self._with_keys(operator, rows)
        frame = frame.orderBy(*keys) if keys else frame
        return replace(rows, frame=_without_keys(frame, operator))

    def _with_keys(self, operator: Sort, rows: Rows) -> tuple[DataFrame, list[Column]]:
        """Add the columns of an order, and list its sort keys."""
        keys = [
            F.desc_nulls_last(f"__k{i}") if key.descending else F.asc_nulls_first(f"__k{i}")
            for i, key in enumerate(operator.keys)
        ]
        frame = rows.frame
        for i, key in enumerate(operator.keys):
            frame = frame.withColumn(f"__k{i}", self.value(key.expr, rows))
        ties = [F.asc_nulls_first(self.label(name, ID)) for name in operator.ties]
        return frame, [*keys, *ties]

    def value(self, expr: ItemExpr, rows: Rows) -> Column:
        """Lower an expression to a column."""
        match expr:
            case TextMatch(function=function):
                raise make_unsupported_error(f"{function}()")
            case Nearest() | Bm25() | Rrf():
                raise make_unsupported_error(f"{type(expr).__name__.lower()}()")
            case _:
                return operand(expr, self._resolver(rows))


def _lengthen(front: DataFrame, steps: DataFrame, backward: bool) -> DataFrame:
    """Take one more step from the end of every path; the left end of a path is where its ids begin."""

    def join(name: str, more: str) -> Column:
        parts = (F.col(f"__p.{name}"), F.array(F.col(more)))
        return F.concat(*(parts[::-1] if backward else parts)).alias(name)

    walked = front.join(steps, F.col("__far") == F.col("__at"), "inner")
    path = F.struct(join("ids", "__id"), join("nodes", "__to"), join("edges", "__e"))
    return walked.select("__near", F.col("__to").alias("__far"), path.alias("__p"))


def _choose_least(paths: DataFrame) -> DataFrame:
    """Keep of every pair the path with the least edge ids."""
    least_path = F.min_by("__p", F.col("__p.ids")).alias("__p")
    return paths.groupBy("__near", "__far").agg(least_path)


def _name_entities(operators: Iterable[Operator]) -> frozenset[str]:
    """Name the variables whose ids a plan reads; of the others it only reads properties, or their number."""
    variables: set[str] = set()
    for operator in operators:
        variables |= {part.variable for part in walk(operator) if isinstance(part, EntityRef)}
        match operator:
            case Scan(variable=variable):
                variables.add(variable)
            case Expand(source=source, target=target, closes=closes):
                variables |= {source, target} if closes else {source}
            case FindPaths():
                variables |= {operator.source, operator.target, operator.walked}
                variables.add(operator.choice.variable)
            case Anti(on=on) | Semi(on=on) | Attach(on=on) | OptionalJoin(on=on):
                variables |= set(on)
            case Argument(variables=names) | Sort(ties=names):
                variables |= set(names)
            case _:
                pass
    return frozenset(variables)


def _count(bound: HopBound) -> int:
    """Return the value of a hop bound; a plan for Spark is filled."""
    value = bound.value if isinstance(bound, Const) else bound
    assert isinstance(value, int), "a plan for Spark is filled"
    return value


def _without_keys(frame: DataFrame, operator: Sort) -> DataFrame:
    return frame.drop(*(f"__k{i}" for i in range(len(operator.keys))))


def _bare(rows: Rows) -> DataFrame:
    """Drop the placeholder column, unless the frame binds no variable."""
    return rows.frame.drop(ALONE) if rows.variables or rows.fields else rows.frame


def _agree(ids: Sequence[str]) -> Column:
    """Make the join condition of a nested block: the ids are equal, and NULL equals NULL."""
    return reduce(
        lambda a, b: a & b, [F.col(label).eqNullSafe(F.col(f"{label}_i")) for label in ids]
    )


def _steps(edges: DataFrame, direction: Direction, more: Sequence[str]) -> DataFrame:
    """Turn edges into steps in a direction; a loop is one step, not two."""
    out = edges.select(F.col("__src").alias("__near"), F.col("__dst").alias("__far"), *more)
    back = edges.select(F.col("__dst").alias("__near"), F.col("__src").alias("__far"), *more)
    match direction:
        case Direction.OUT:
            return out
        case Direction.IN:
            return back
        case Direction.BOTH:
            return out.union(back.where(F.col("__near") != F.col("__far")))


def _cut(frame: DataFrame, window: Bounds) -> DataFrame:
    offset, limit = (_whole(bound) for bound in (window.offset, window.limit))
    if offset:
        frame = frame.offset(offset)
    return frame if limit is None else frame.limit(limit)


def _whole(bound: Const | ParamRef | None) -> int | None:
    if bound is None:
        return None
    assert isinstance(bound, Const), "a plan for Spark is filled"
    return max(bound.value, 0) if isinstance(bound.value, int) else None
