"""Graph algorithms on one moment of a graph: project it, compute, write the answer back."""

from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.api.arguments import count_of, number_of, text_of, whole_of
from omnigraphdb.api.projecting import ROUNDS_MAX, ProjectedMoment, ProjectionPlan
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.types import FLOATS
from omnigraphdb.engine.analytics import communities, components, distances, ranking
from omnigraphdb.engine.analytics.arcs import Nodes
from omnigraphdb.engine.analytics.changes import compare_projections
from omnigraphdb.engine.analytics.project import Projected, read_projection
from omnigraphdb.engine.results import MutationResult
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.assign import require_property
from omnigraphdb.errors import UserInputError
from omnigraphdb.packages import load_package
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pandas
    import polars

_ROWS_SHOWN = 10

FRACTIONS = frozenset({"pagerank", "betweenness", "dijkstra"})
"""The algorithms whose values are no whole numbers."""


class Assigner(Protocol):
    """The graph that values are written back to."""

    @property
    def catalog(self) -> Catalog:
        """Its schema."""

    def assign(
        self,
        target: str,
        ids: Iterable[str],
        values: Iterable[Any],
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Set one property of many nodes."""


class Answer(Protocol):
    """One value per node, wherever it was computed."""

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""

    def to_arrow(self) -> pa.Table:
        """The table: `type`, `id`, `value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One value per node: a table of `type`, `id`, `value`, and what it was computed of.

    Example:
        >>> ranks = graph.project(nodes=["Person"], edges=["Knows"]).pagerank()
        >>> ranks.to_arrow().column_names
        ['type', 'id', 'value']
    """

    algorithm: str
    branch: str
    commit: str | None
    table: pa.Table = field(repr=False)
    graph: Assigner = field(repr=False, compare=False)
    projection: "Projection | None" = field(default=None, repr=False, compare=False)
    """What components were found in, so that others can begin from them."""

    def to_arrow(self) -> pa.Table:
        """The table: `type`, `id`, `value` and what else the algorithm tells."""
        return self.table

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas frame."""
        load_package("pandas", "to_pandas()")
        frame: pandas.DataFrame = self.table.to_pandas()
        return frame

    def to_polars(self) -> "polars.DataFrame":
        """The table as a polars frame."""
        frame: polars.DataFrame = load_package("polars", "to_polars()").from_arrow(self.table)
        return frame

    def top(self, count: int = 10) -> list[dict[str, Any]]:
        """The nodes of the highest values; of equal ones by type and id.

        Example:
            >>> len(graph.project(nodes=["Person"], edges=["Knows"]).degrees().top(1))
            1
        """
        order = [("value", "descending"), ("type", "ascending"), ("id", "ascending")]
        shown = whole_of("count", count)
        found: list[dict[str, Any]] = self.table.sort_by(order)[:shown].to_pylist()
        return found

    def write(
        self,
        target: str,
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Write the values to a property, `Person.rank`, of the nodes of its type: one commit, or nothing.

        Nodes that are gone are left out; the branch is the one that was read, unless another is named.
        """
        type_name = text_of("target", target).partition(".")[0]
        rows = self.table.filter(pc.equal(self.table["type"], type_name))
        if len(self) and not rows.num_rows and type_name in self.graph.catalog.nodes:
            types = ", ".join(sorted(set(self.table["type"].to_pylist())))
            raise UserInputError(
                f"the values are of no {type_name}; they are of {types}; no changes were made"
            )
        return self.graph.assign(
            target,
            rows["id"],
            rows["value"],
            branch=self.branch if branch is None else branch,
            actor=actor,
            message=message,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "algorithm": self.algorithm,
            "branch": self.branch,
            "graph_commit_id": self.commit,
            "rows": self.table.to_pylist(),
        }

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        shown = [f"{one['type']} {one['id']}  {one['value']:.6g}" for one in self.top(_ROWS_SHOWN)]
        return "\n".join([f"{self.algorithm}: {len(self)} nodes", *shown])


class Projection(ProjectedMoment):
    """The nodes and edges of chosen types at one commit, as integer arrays; algorithms are its methods.

    Every algorithm is deterministic: the same commit and seed give the same answer. `engine` and `reason` say where
    they run, and why.

    Example:
        >>> people = graph.project(nodes=["Person"], edges={"Knows": {"undirected": True}})
        >>> sorted(set(people.wcc().to_arrow()["value"].to_pylist()))[0]
        0
    """

    engine = "local"

    def __init__(
        self,
        graph: Assigner,
        engine: Engine,
        plan: ProjectionPlan,
        *,
        reason: str,
        seconds_max: float | None = None,
    ) -> None:
        super().__init__(engine, plan, reason, seconds_max)
        self._graph, self._tables = graph, engine.store.tables
        self._projected: Projected = read_projection(plan.tables, plan.names, plan.uses)
        self._nodes, self._arcs = self._projected.nodes, self._projected.arcs
        self._counts = (self._nodes.count, len(self._arcs))

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arcs = (self._arcs.sources, self._arcs.targets, self._arcs.weights)
        ids = sum(one.ids.nbytes for one in self._nodes.types.values())
        return int(ids + sum(one.nbytes for one in arcs if one is not None))

    # ---- which nodes matter

    def pagerank(
        self,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-8,
        iterations: int = ROUNDS_MAX,
        start: Answer | None = None,
    ) -> Scores:
        """The share of time that a random walker spends at each node; `start` begins from a former answer."""
        require_rank_options(damping, tolerance)
        rounds = whole_of("iterations", iterations, least=1)
        first = None if start is None else self._read_start(require_answer("start", start))
        ranks = ranking.compute_pagerank(
            self._arcs,
            damping=damping,
            tolerance=tolerance,
            bounds=self._bounds("pagerank", rounds),
            start=first,
        )
        return self._score("pagerank", ranks)

    def degrees(self) -> Scores:
        """How many arcs each node has, with those that enter and leave."""
        entering, leaving = ranking.count_degrees(self._arcs)
        return self._score("degrees", entering + leaving, entering=entering, leaving=leaving)

    def betweenness(self, *, samples: int | None = None, seed: int = 0) -> Scores:
        """The share of shortest paths that pass each node; from `samples` random sources, or from all."""
        bounds = self._bounds("betweenness")
        values = ranking.compute_betweenness(
            self._arcs,
            samples=count_of("samples", samples, least=1),
            seed=whole_of("seed", seed),
            bounds=bounds,
        )
        return self._score("betweenness", values)

    # ---- which nodes belong together

    def wcc(self, *, start: Answer | None = None) -> Scores:
        """The weakly connected component of each node, numbered from 0 by first members.

        `start` is the answer at another commit: components that no edge joined or left keep their nodes, the others are
        looked at again. The answer is the same as without it.
        """
        found = None
        if start is not None:
            require_components(require_answer("start", start))
            found = self._update_components(start)
        if found is None:
            found = components.find_components(self._arcs, strong=False)
        return replace(self._score("wcc", found), projection=self)

    def scc(self) -> Scores:
        """The strongly connected component of each node, numbered from 0 by first members."""
        return self._score("scc", components.find_components(self._arcs, strong=True))

    def label_propagation(self, *, seed: int = 0, iterations: int = 20) -> Scores:
        """Groups by majority of neighbours, all nodes at once; a tie goes to the smallest number.

        The rule leaves nothing to chance: `seed` is taken for the sake of the other algorithms and changes nothing.
        """
        whole_of("seed", seed)
        bounds = self._bounds("label_propagation")
        rounds = whole_of("iterations", iterations, least=1)
        labels = communities.propagate_labels(self._arcs, rounds=rounds, bounds=bounds)
        return self._score("label_propagation", components.number_by_first(labels))

    def louvain(self, *, seed: int = 0) -> Scores:
        """Groups with more weight inside than chance would put there."""
        bounds, chosen = self._bounds("louvain"), whole_of("seed", seed)
        groups = communities.find_communities(self._arcs, seed=chosen, bounds=bounds)
        return self._score("louvain", groups)

    def triangles(self) -> Scores:
        """In how many triangles each node is, whatever the direction of edges."""
        return self._score("triangles", components.count_triangles(self._arcs))

    def k_core(self) -> Scores:
        """The largest k such that the node is in a part where everyone has k neighbours."""
        return self._score("k_core", components.find_cores(self._arcs))

    # ---- how far

    def bfs(self, type_name: str, id: str) -> Scores:
        """The least number of edges from one node to each that it reaches."""
        hops = distances.count_hops(self._arcs, self._find(type_name, id))
        return self._score("bfs", hops, kept=hops >= 0)

    def dijkstra(self, type_name: str, id: str) -> Scores:
        """The least sum of weights from one node to each that it reaches."""
        lengths = distances.measure_distances(self._arcs, self._find(type_name, id))
        return self._score("dijkstra", lengths, kept=np.isfinite(lengths))

    # ---- inside

    @cached_property
    def _names(self) -> pa.Table:
        """`type` and `id` of every node, in the order of their numbers."""
        types = pa.concat_arrays(
            [pa.repeat(pa.scalar(name), len(one.ids)) for name, one in self._nodes.types.items()]
        )
        ids = pa.concat_arrays([one.ids.cast(pa.string()) for one in self._nodes.types.values()])
        return pa.table({"type": types, "id": ids})

    def _score(self, algorithm: str, values: Any, kept: Any = None, **more: Any) -> Scores:
        table = self._names.append_column("value", pa.array(values))
        for name, column in more.items():
            table = table.append_column(name, pa.array(column))
        return Scores(
            algorithm=algorithm,
            branch=self.branch,
            commit=self.commit,
            table=table if kept is None else table.filter(pa.array(kept)),
            graph=self._graph,
        )

    def _find(self, type_name: str, id: str) -> int:
        return self._nodes.find(text_of("type_name", type_name), text_of("id", id))

    def _update_components(self, start: Answer) -> Nodes | None:
        """Components from those of another commit; None when both have little in common."""
        former = start.projection if isinstance(start, Scores) else None
        if former is None or not isinstance(start, Scores):
            return None
        change = compare_projections(self._tables, former._projected, self._projected)
        if change is None:
            return None
        values = start.table["value"].to_numpy()
        kept = change.places >= 0
        labels = np.full(self.node_count, -1)
        labels[change.places[kept]] = values[kept]
        thinned = values[np.concatenate(change.gone)]
        return components.update_components(self._arcs, labels, thinned, change.new)

    def _read_start(self, start: Answer) -> Any:
        """Former values by node; a node that is new begins with the mean."""
        table = start.to_arrow()
        found = _find_nodes(self._names, table)
        values = np.asarray(table["value"], float)
        if not len(values) or values.min() < 0 or values.sum() <= 0:
            return None
        known = found >= 0
        ranks = np.full(self.node_count, values.mean())
        ranks[known] = values[found[known]]
        return ranks


def require_answer(name: str, value: object) -> Answer:
    """Refuse what no algorithm gave."""
    if not isinstance(getattr(value, "algorithm", None), str) or not hasattr(value, "to_arrow"):
        raise UserInputError(
            f"'{name}' is the answer of an algorithm, not {type(value).__name__}; nothing was computed",
            hint="such as graph.project(…).pagerank()",
        )
    found: Answer = value  # type: ignore[assignment]
    return found


def require_components(start: Answer) -> None:
    """Refuse the answer of another algorithm, which says nothing about components."""
    if start.algorithm != "wcc":
        raise UserInputError(
            f"'start' of wcc is an answer of wcc, not of {start.algorithm}; nothing was computed"
        )


def require_target(catalog: Catalog, target: str, algorithm: str) -> None:
    """Refuse a property that the values of an algorithm do not fit, before they are computed."""
    type_name, _, property_name = target.partition(".")
    found = require_property(catalog, type_name, property_name).properties[property_name].type
    if algorithm in FRACTIONS and found.scalar not in FLOATS:
        raise UserInputError(
            f"values of {algorithm} have fractions and do not fit {target}, which is {found}; "
            "no changes were made",
            hint=f"write them to an F64 property of {type_name}",
        )


def require_rank_options(damping: float, tolerance: float) -> None:
    """Refuse options with which ranks would not settle."""
    if not 0 <= number_of("damping", damping) < 1:
        raise UserInputError(
            f"'damping' lies between 0 and 1, it cannot be {damping}; nothing was computed"
        )
    if not number_of("tolerance", tolerance) > 0:
        raise UserInputError(
            f"'tolerance' is greater than 0, it cannot be {tolerance}; nothing was computed"
        )


def _find_nodes(wanted: pa.Table, among: pa.Table) -> Nodes:
    """The row of each node in another table; -1 where it is not."""
    places = pc.index_in(_spell_nodes(wanted), _spell_nodes(among))
    found: Nodes = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _spell_nodes(names: pa.Table) -> Any:
    return pc.binary_join_element_wise(names["type"], names["id"], "\x00").combine_chunks()
