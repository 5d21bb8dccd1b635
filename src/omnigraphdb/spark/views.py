"""SQL views over the types of a graph, pinned to one commit or renewed at the head."""

from typing import Final

from pyspark.sql import SparkSession

from omnigraphdb.api.graph import Graph
from omnigraphdb.values import dataclass

HEAD: Final = "head"


@dataclass(frozen=True, slots=True)
class Views:
    """Temporary views of one snapshot; `refresh` moves those over the head to the newest commit."""

    spark: SparkSession
    graph: Graph
    prefix: str
    branch: str | None
    at: str
    commit: str | None
    """The commit that the views show."""

    names: tuple[str, ...]

    def refresh(self) -> "Views":
        """Show the newest commit, if the views are over the head; views of types that are gone are dropped."""
        if self.at != HEAD:
            return self
        now = register_views(self.spark, self.graph, self.prefix, branch=self.branch)
        for name in set(self.names) - set(now.names):
            self.spark.catalog.dropTempView(name)
        return now


def register_views(
    spark: SparkSession,
    graph: Graph,
    prefix: str = "",
    at: str = HEAD,
    *,
    branch: str | None = None,
) -> Views:
    """Make a temporary view for each type of one snapshot, and `vertices` and `edges` of all types.

    A view shows the commit it was made at. Over the head, call `refresh()` on the returned views to see later commits.
    """
    frames = graph.frames(spark, branch=branch, at=None if at == HEAD else at)
    views = {**frames.types, "vertices": frames.vertices, "edges": frames.edges}
    for name, frame in views.items():
        frame.createOrReplaceTempView(f"{prefix}{name}")
    return Views(
        spark, graph, prefix, branch, at, frames.commit, tuple(f"{prefix}{name}" for name in views)
    )
