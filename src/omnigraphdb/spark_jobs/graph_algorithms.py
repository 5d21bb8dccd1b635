"""Graph algorithms over partitioned frames of nodes and arcs; the driver holds counts and sums only."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.engine.analytics.bounds import Bounds
from omnigraphdb.engine.analytics.project import EdgeUse
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.pipeline.location import PinnedTable
from omnigraphdb.spark_jobs.rank_blocks import divide_nodes, rank_blocks
from omnigraphdb.spark_jobs.tables import read_table, unite_frames
from omnigraphdb.values import dataclass

NAMES: Final = ("type", "id")


@dataclass(frozen=True)
class SparkArcs:
    """Numbered nodes (`number`, `type`, `id`) and weighted arcs between them (`source`, `target`, `weight`)."""

    nodes: DataFrame
    arcs: DataFrame
    node_count: int
    arc_count: int


# ---- the projection


def project_frames(
    spark: SparkSession, nodes: Sequence[PinnedTable], edges: Iterable[tuple[PinnedTable, EdgeUse]]
) -> SparkArcs:
    """Number the nodes of some tables in the order of their rows, and make arcs of the edges."""
    texts = dict.fromkeys(NAMES)
    listed = [(read_table(spark, table, ["id"]), {"type": table.type.name}) for table in nodes]
    # Partitions are in the order of the rows, so that smaller numbers come first, as in one process.
    numbered = unite_frames(spark, listed, texts).withColumn(
        "number", F.monotonically_increasing_id()
    )
    stored_nodes = _keep(numbered)
    arcs = _keep(
        reduce(DataFrame.union, [_read_arcs(spark, stored_nodes, *edge) for edge in edges])
    )
    return SparkArcs(stored_nodes, arcs, stored_nodes.count(), arcs.count())


def _read_arcs(
    spark: SparkSession, nodes: DataFrame, table: PinnedTable, use: EdgeUse
) -> DataFrame:
    edge = table.type
    assert isinstance(edge, EdgeType), "arcs are made of edges"
    weight = F.lit(1.0) if use.weight is None else F.col(use.weight).cast("double")
    read = ["src", "dst", *([] if use.weight is None else [use.weight])]
    rows = read_table(spark, table, read).select("src", "dst", weight.alias("weight"))
    if use.weight is not None:
        _require_weights(rows, f"{edge.name}.{use.weight}")
    for side, type_name, name in (("src", edge.source, "source"), ("dst", edge.target, "target")):
        ends = nodes.filter(F.col("type") == type_name)
        ends = ends.select(F.col("id").alias(side), F.col("number").alias(name))
        rows = rows.join(ends, side)
    arcs = rows.select("source", "target", "weight")
    if not use.undirected:
        return arcs
    back = arcs.filter("source <> target").select(
        F.col("target").alias("source"), F.col("source").alias("target"), "weight"
    )
    return arcs.union(back)


def _require_weights(rows: DataFrame, name: str) -> None:
    weight = F.col("weight")
    wrong = weight.isNull() | F.isnan(weight) | (weight < 0) | (weight == float("inf"))
    counts = rows.agg(F.sum(wrong.cast("long")), F.count(F.lit(1))).first()
    assert counts is not None, "an aggregate has a row"
    if counts[0]:
        raise UserInputError(
            f"the weight {name} is NULL, negative or not finite on {counts[0]} of {counts[1]} edges; nothing was computed",
            hint="a weight is a finite number of at least 0 on every edge",
        )


def _keep(frame: DataFrame) -> DataFrame:
    """Compute a frame once; its history would grow with every round."""
    return frame.localCheckpoint()


def _sum(frame: DataFrame, column: Column) -> Any:
    row = frame.agg(F.sum(column)).first()
    return 0 if row is None or row[0] is None else row[0]


def name_values(graph: SparkArcs, values: DataFrame) -> DataFrame:
    """Give values of numbers the types and ids of their nodes."""
    named_values = graph.nodes.join(values, "number").orderBy("number")
    return named_values.select(*NAMES, *(name for name in values.columns if name != "number"))


# ---- algorithms


def count_degrees(graph: SparkArcs) -> DataFrame:
    """Count the arcs of each node, and of these the arcs that enter and that leave it."""
    sides = [
        graph.arcs.groupBy(F.col(end).alias("number")).agg(F.count(F.lit(1)).alias(name))
        for end, name in (("target", "entering"), ("source", "leaving"))
    ]
    joined = graph.nodes.select("number").join(sides[0], "number", "left")
    joined = joined.join(sides[1], "number", "left").na.fill(0)
    value = (F.col("entering") + F.col("leaving")).alias("value")
    return joined.select("number", value, "entering", "leaving")


def compute_pagerank(
    graph: SparkArcs,
    *,
    damping: float,
    tolerance: float,
    bounds: Bounds,
    start: DataFrame | pa.Table | None = None,
) -> DataFrame:
    """Compute the share of time that a walker spends at each node; a walker without a way out jumps anywhere.

    `start` are former ranks by `type` and `id`.
    """
    count = graph.node_count
    if not count:
        return graph.nodes.select("number", F.lit(0.0).alias("value"))
    first = graph.nodes.select("number", F.lit(1 / count).alias("rank"))
    if start is not None:
        first = _read_start(graph, start) or first
    return rank_blocks(
        divide_nodes(graph.nodes),
        graph.arcs,
        first,
        damping=damping,
        tolerance=tolerance,
        bounds=bounds,
    )


def _read_start(graph: SparkArcs, start: DataFrame | pa.Table) -> DataFrame | None:
    """Read former ranks by number, as shares of 1; a new node begins with the mean. None for values that are not ranks."""
    if isinstance(start, pa.Table):
        start = graph.nodes.sparkSession.createDataFrame(start.select([*NAMES, "value"]))
    statistics = start.agg(F.avg("value"), F.min("value"), F.sum("value")).first()
    if statistics is None or statistics[0] is None or statistics[1] < 0 or statistics[2] <= 0:
        return None
    nodes_with_ranks = graph.nodes.join(start.select(*NAMES, "value"), list(NAMES), "left")
    ranks = nodes_with_ranks.select(
        "number", F.coalesce("value", F.lit(float(statistics[0]))).alias("rank")
    )
    total = float(_sum(ranks, F.col("rank")))
    return ranks.select("number", (F.col("rank") / total).alias("rank")) if total > 0 else None


def find_components(graph: SparkArcs, bounds: Bounds) -> DataFrame:
    """Find the least number of a node in the weak component of each node."""
    neighbours = _keep(_list_neighbours(graph))
    labels = _keep(graph.nodes.select("number", F.col("number").alias("value")))
    for done in bounds.count_rounds():
        bounds.state = f"{done} rounds are done"
        minima = neighbours.join(labels.withColumnRenamed("number", "other"), "other")
        minima = minima.groupBy("number").agg(F.min("value").alias("least"))
        lower = labels.join(minima, "number", "left").select(
            "number",
            F.col("value").alias("before"),
            F.least("value", F.coalesce("least", "value")).alias("value"),
        )
        # The label of a label is a label too: long paths take few rounds.
        further = lower.select(F.col("number").alias("value"), F.col("value").alias("further"))
        following = _keep(
            lower.join(further, "value").select("number", "before", F.col("further").alias("value"))
        )
        labels = following.select("number", "value")
        if not _sum(following, F.expr("cast(value <> before as long)")):
            break
    return labels


def propagate_labels(graph: SparkArcs, *, rounds: int, bounds: Bounds) -> DataFrame:
    """Find the label that weighs most among the neighbours of each node, all nodes at once; ties go to the smallest."""
    proper_arcs = graph.arcs.filter("source <> target")
    ties = proper_arcs.selectExpr("source as number", "target as other", "weight").union(
        proper_arcs.selectExpr("target as number", "source as other", "weight")
    )
    ties = _keep(ties.groupBy("number", "other").agg(F.sum("weight").alias("weight")))
    labels = _keep(graph.nodes.select("number", F.col("number").alias("value")))
    for done in range(rounds):
        bounds.state = f"{done} rounds are done"
        bounds.check_time()
        labelled_ties = ties.join(labels.withColumnRenamed("number", "other"), "other")
        sums = labelled_ties.groupBy("number", "value").agg(F.sum("weight").alias("weight"))
        best = sums.groupBy("number").agg(
            F.max(F.expr("struct(weight, -value as value)")).alias("best")
        )
        following = _keep(
            labels.join(best, "number", "left").select(
                "number",
                F.col("value").alias("before"),
                F.expr("coalesce(-best.value, value)").alias("value"),
            )
        )
        labels = following.select("number", "value")
        if not _sum(following, F.expr("cast(value <> before as long)")):
            break
    return labels


def count_triangles(graph: SparkArcs) -> DataFrame:
    """Count the triangles of each node; edges point to the end of higher degree, so that no node has many."""
    neighbours = _keep(_list_neighbours(graph))
    degrees = neighbours.groupBy("number").agg(F.count(F.lit(1)).alias("degree"))
    ranked = neighbours.join(degrees, "number").join(
        degrees.selectExpr("number as other", "degree as other_degree"), "other"
    )
    up = _keep(
        ranked.filter("struct(degree, number) < struct(other_degree, other)").select(
            F.col("number").alias("low"), F.col("other").alias("high")
        )
    )
    pairs = up.join(up.selectExpr("low", "high as top"), "low").filter("high <> top")
    closed = pairs.join(up.selectExpr("low as high", "high as top"), ["high", "top"])
    corners = closed.select(F.explode(F.array("low", "high", "top")).alias("number"))
    counts = corners.groupBy("number").agg(F.count(F.lit(1)).alias("value"))
    return graph.nodes.select("number").join(counts, "number", "left").na.fill(0)


def count_hops(graph: SparkArcs, type_name: str, id: str, bounds: Bounds) -> DataFrame:
    """Find the least number of arcs from one node to each node that it reaches."""
    is_start = (F.col("type") == type_name) & (F.col("id") == id)
    frontier = _keep(
        graph.nodes.filter(is_start).select("number", F.lit(0).cast("long").alias("value"))
    )
    if not frontier.count():
        raise NotFound(type_name, id, hint="the projection has no such node")
    reached = frontier
    for hops in bounds.count_rounds():
        bounds.state = f"{hops} edges are walked"
        heads = graph.arcs.join(frontier, F.expr("source = number")).select(
            F.col("target").alias("number")
        )
        fresh = heads.distinct().join(reached, "number", "left_anti")
        frontier = _keep(fresh.withColumn("value", F.lit(hops + 1).cast("long")))
        if not frontier.count():
            break
        reached = _keep(reached.union(frontier))
    return reached


def _list_neighbours(graph: SparkArcs) -> DataFrame:
    """List each pair of different nodes with an arc in either direction, once in both orders."""
    proper_arcs = graph.arcs.filter("source <> target")
    forward = proper_arcs.selectExpr("source as number", "target as other")
    return forward.union(proper_arcs.selectExpr("target as number", "source as other")).distinct()
