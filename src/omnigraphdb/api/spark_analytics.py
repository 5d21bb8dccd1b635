"""Graph algorithms on Spark: nodes and edges stay on executors, answers are frames."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from omnigraphdb.api.analytics import (
    Answer,
    Assigner,
    Scores,
    require_answer,
    require_components,
    require_rank_options,
)
from omnigraphdb.api.arguments import text_of, whole_of
from omnigraphdb.api.projecting import (
    ROUNDS_MAX,
    ProjectedMoment,
    ProjectionPlan,
    pin_edges,
    pin_nodes,
)
from omnigraphdb.engine.results import MutationResult
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import UserInputError
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pandas
    import polars

    from omnigraphdb.api.types import AnyFrame

_LOCAL = ("betweenness", "scc", "louvain", "k_core", "dijkstra")
"""Algorithms that run in one process only."""
_SHOWN_MAX = 2**31 - 1
"""Spark limits rows by a number of 32 bits."""


@dataclass(frozen=True, kw_only=True)
class SparkScores:
    """One value per node as a Spark DataFrame of `type`, `id`, `value`; `collect()` brings it to this process."""

    algorithm: str
    branch: str
    commit: str | None
    frame: "AnyFrame"
    graph: Assigner

    def to_spark(self) -> "AnyFrame":
        """The DataFrame."""
        return self.frame

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table in this process."""
        return self.frame.toArrow()

    def collect(self) -> Scores:
        """The answer in this process, as a projection without Spark gives it."""
        return Scores(
            algorithm=self.algorithm,
            branch=self.branch,
            commit=self.commit,
            table=self.to_arrow(),
            graph=self.graph,
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a pandas frame in this process."""
        return self.collect().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """The rows as a polars frame in this process."""
        return self.collect().to_polars()

    def top(self, count: int = 10) -> list[dict[str, Any]]:
        """The nodes of the highest values; of equal ones by type and id. No others pass this process."""
        order = [self.frame["value"].desc(), self.frame["type"], self.frame["id"]]
        shown = self.frame.orderBy(*order).limit(min(whole_of("count", count), _SHOWN_MAX))
        return [one.asDict() for one in shown.collect()]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return self.collect().to_dict()

    def __len__(self) -> int:
        return int(self.frame.count())

    def write(
        self,
        target: str,
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Write the values to a property, `Person.rank`, in one commit; ids and values pass this process."""
        return self.collect().write(target, branch=branch, actor=actor, message=message)


class SparkProjection(ProjectedMoment):
    """The nodes and edges of chosen types at one commit, on Spark's executors; algorithms are its methods."""

    engine = "spark"

    def __init__(
        self,
        graph: Assigner,
        engine: Engine,
        plan: ProjectionPlan,
        *,
        spark: Any,
        reason: str,
        seconds_max: float | None = None,
    ) -> None:
        super().__init__(engine, plan, reason, seconds_max)
        self._graph = graph
        session = import_module("omnigraphdb.spark_jobs.runner").spark_runner(spark).spark
        self._jobs: Any = import_module("omnigraphdb.spark_jobs.graph_algorithms")
        self._arcs: Any = self._jobs.project_frames(
            session, pin_nodes(engine, plan), pin_edges(engine, plan)
        )
        self._counts = (int(self._arcs.node_count), int(self._arcs.arc_count))

    def degrees(self) -> SparkScores:
        """How many arcs each node has, with those that enter and leave."""
        return self._score("degrees", self._jobs.count_degrees(self._arcs))

    def pagerank(
        self,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-8,
        iterations: int = ROUNDS_MAX,
        start: Answer | None = None,
    ) -> SparkScores:
        """The share of time that a random walker spends at each node; `start` begins from a former answer."""
        require_rank_options(damping, tolerance)
        rounds = whole_of("iterations", iterations, least=1)
        if start is not None:
            require_answer("start", start)
        ranks = self._jobs.compute_pagerank(
            self._arcs,
            damping=damping,
            tolerance=tolerance,
            bounds=self._bounds("pagerank", rounds),
            start=start.frame if isinstance(start, SparkScores) else start and start.to_arrow(),
        )
        return self._score("pagerank", ranks)

    def wcc(self, *, start: Answer | None = None) -> SparkScores:
        """The weakly connected component of each node, named by a number.

        `start` is taken for the sake of projections in one process; all arcs are looked at, and the answer is the same.
        """
        if start is not None:
            require_components(require_answer("start", start))
        return self._score("wcc", self._jobs.find_components(self._arcs, self._bounds("wcc")))

    def label_propagation(self, *, seed: int = 0, iterations: int = 20) -> SparkScores:
        """Groups by majority of neighbours, all nodes at once; a tie goes to the smallest number, whatever the seed."""
        whole_of("seed", seed)
        rounds = whole_of("iterations", iterations, least=1)
        bounds = self._bounds("label_propagation")
        labels = self._jobs.propagate_labels(self._arcs, rounds=rounds, bounds=bounds)
        return self._score("label_propagation", labels)

    def triangles(self) -> SparkScores:
        """In how many triangles each node is, whatever the direction of edges."""
        return self._score("triangles", self._jobs.count_triangles(self._arcs))

    def bfs(self, type_name: str, id: str) -> SparkScores:
        """The least number of edges from one node to each that it reaches."""
        ends = text_of("type_name", type_name), text_of("id", id)
        return self._score("bfs", self._jobs.count_hops(self._arcs, *ends, self._bounds("bfs")))

    def __getattr__(self, name: str) -> NoReturn:
        if name not in _LOCAL:
            raise AttributeError(f"a projection on Spark has no '{name}'")
        raise UserInputError(
            f"{name} runs in one process only, and this projection of {self.node_count} nodes and {self.edge_count} "
            "arcs is on Spark; nothing was computed",
            hint="leave out spark= of project()",
        )

    def _score(self, algorithm: str, values: Any) -> SparkScores:
        return SparkScores(
            algorithm=algorithm,
            branch=self.branch,
            commit=self.commit,
            frame=self._jobs.name_values(self._arcs, values),
            graph=self._graph,
        )
