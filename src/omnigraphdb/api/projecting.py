"""What a projection is of, where its algorithms run, and how long they may."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from omnigraphdb.api.arguments import flag_of, names_of, number_of, text_of
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.engine.analytics.bounds import Bounds
from omnigraphdb.engine.analytics.project import (
    EdgeUse,
    check_projection,
    count_projection,
    open_tables,
)
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.snapshot_tables import SnapshotTables
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFound, ResourceLimit, UserInputError
from omnigraphdb.limits import PROJECTED_ARC_BYTES, PROJECTED_NODE_BYTES
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.location import PinnedTable
from omnigraphdb.values import dataclass

ROUNDS_MAX = 200
EdgeChoice = Iterable[str] | Mapping[str, Mapping[str, Any]] | None
_EDGE_OPTIONS = ("weight", "undirected")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionPlan:
    """The types of a projection and how many nodes and arcs it may have; nothing is read yet."""

    view: View
    tables: SnapshotTables
    names: tuple[str, ...]
    uses: Mapping[str, EdgeUse]
    node_count: int
    arc_count: int

    @property
    def has_tables(self) -> bool:
        """Whether all of its types were there at that moment."""
        nodes = (self.tables.nodes(name) for name in self.names)
        edges = (self.tables.edges(name) for name in self.uses)
        return all(one.entry is not None for one in (*nodes, *edges))

    @property
    def nbytes(self) -> int:
        """About how much memory an algorithm needs in one process."""
        return self.node_count * PROJECTED_NODE_BYTES + self.arc_count * PROJECTED_ARC_BYTES


class ProjectedMoment:
    """What every projection tells, wherever its algorithms run."""

    def __init__(
        self, engine: Engine, plan: ProjectionPlan, reason: str, seconds_max: float | None
    ) -> None:
        self._runtime, self._plan = engine.runtime, plan
        self._seconds_max = None if seconds_max is None else _require_seconds(seconds_max)
        self.reason = reason
        self._counts = (plan.node_count, plan.arc_count)

    @property
    def branch(self) -> str:
        """The branch it was read of."""
        return self._plan.view.branch

    @property
    def commit(self) -> str | None:
        """The commit it shows."""
        return self._plan.view.commit

    @property
    def node_count(self) -> int:
        """How many nodes it has."""
        return self._counts[0]

    @property
    def edge_count(self) -> int:
        """How many arcs it has; an undirected edge counts as two."""
        return self._counts[1]

    def _bounds(self, name: str, rounds_max: int = ROUNDS_MAX) -> Bounds:
        return Bounds(name, self._runtime, rounds_max, self._seconds_max)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.branch} at {self.commit}: {self.node_count} nodes, "
            f"{self.edge_count} arcs>"
        )


def _require_seconds(seconds: float) -> float:
    if number_of("seconds_max", seconds) < 0:
        raise UserInputError(
            f"'seconds_max' is at least 0, it cannot be {seconds:g}; nothing was computed"
        )
    return seconds


def plan_projection(
    engine: Engine,
    view: View,
    nodes: Iterable[str] | None,
    edges: EdgeChoice,
) -> ProjectionPlan:
    """Check the types of a projection and count its nodes and edges.

    Types and properties are named as in the present schema, or as they were named at the moment that is projected.
    """
    # Lists that can be walked once are walked for every schema.
    named = names_of("nodes", nodes)
    chosen = edges if isinstance(edges, Mapping) else names_of("edges", edges)
    first, *others = open_tables(engine, view)
    if chosen is None and others:
        # All edges are those of that commit, under present names if each has one.
        return _plan_by(view, others[-1], named, chosen)
    try:
        plan = _plan_by(view, first, named, chosen)
    except (NotFound, UserInputError):
        plan = None
    if plan is None or not plan.has_tables:
        # Present names go before those of then.
        for tables in reversed(others):
            with suppress(NotFound, UserInputError):
                past = _plan_by(view, tables, named, chosen)
                if plan is None or past.has_tables:
                    return past
    return plan or _plan_by(view, first, named, chosen)


def _plan_by(
    view: View, tables: SnapshotTables, nodes: Iterable[str] | None, edges: EdgeChoice
) -> ProjectionPlan:
    uses = _read_uses(tables.catalog, edges)
    names = _list_node_types(tables.catalog, nodes, uses)
    check_projection(tables.catalog, names, uses)
    counted, arcs = count_projection(tables, names, uses)
    return ProjectionPlan(
        view=view, tables=tables, names=names, uses=uses, node_count=counted, arc_count=arcs
    )


def pin_nodes(engine: Engine, plan: ProjectionPlan) -> list[PinnedTable]:
    """Name the node tables of a projection as values that other processes can read."""
    return [_pin(engine, plan.tables.nodes(name)) for name in plan.names]


def pin_edges(engine: Engine, plan: ProjectionPlan) -> list[tuple[PinnedTable, EdgeUse]]:
    """Name the edge tables of a projection, each with its use by the names of the stored columns."""
    found = []
    for name, use in plan.uses.items():
        edges = plan.tables.edges(name)
        stored = (edges.names or {}).get(use.weight or "", use.weight)
        found.append((_pin(engine, edges), replace(use, weight=stored)))
    return found


def _pin(engine: Engine, entities: Entities) -> PinnedTable:
    type_ = entities.type
    if entities.entry is None:
        raise NotFound("table", type_.table_key, hint="the type did not exist yet")
    stored = engine.store.tables.open(entities.entry.at).schema
    return PinnedTable(
        location=engine.location,
        table_key=type_.table_key,
        at=entities.entry.at,
        type=type_,
        schema=stored,
    )


def choose_spark(engine: Engine, plan: ProjectionPlan, spark: Any) -> tuple[Any, str]:
    """Choose where a projection goes: False for this process, else the value of `spark=`; and why.

    A projection past the bound of this process goes to Spark, or is refused where there is none.
    """
    if isinstance(spark, str) and spark != "auto":
        raise UserInputError(
            f"spark= takes a SparkSession, True, False or 'auto', not '{spark}'; nothing was read"
        )
    if spark not in (None, False, "auto"):
        return spark, "Spark was asked for"
    size, bytes_max = plan.nbytes, engine.settings.projection_bytes
    if size <= bytes_max:
        return False, f"about {size} bytes fit into projection_bytes"
    if spark == "auto" and find_spec("pyspark") is not None:
        return True, f"about {size} bytes are past projection_bytes"
    raise ResourceLimit(
        f"bytes of a projection of {plan.node_count} nodes and {plan.arc_count} arcs",
        bytes_max,
        size,
        hint="name fewer types, give a Spark session by spark=, or raise the setting projection_bytes",
    )


def _list_node_types(
    catalog: Catalog, nodes: Iterable[str] | None, uses: Mapping[str, EdgeUse]
) -> tuple[str, ...]:
    """The node types of a projection; without a list those at which its edges end."""
    if nodes is not None:
        return tuple(dict.fromkeys(nodes))
    ends = [catalog.edges[name] for name in uses if name in catalog.edges]
    return tuple(sorted({end for edge in ends for end in (edge.source, edge.target)}))


def _read_uses(
    catalog: Catalog, edges: Iterable[str] | Mapping[str, Mapping[str, Any]] | None
) -> dict[str, EdgeUse]:
    """How a projection uses each edge type; all of them when none is named."""
    if edges is None:
        return {name: EdgeUse() for name in catalog.edges}
    if not isinstance(edges, Mapping):
        return {name: EdgeUse() for name in edges}
    return {
        text_of("edges", name): _read_use(name, {} if found is None else found)
        for name, found in edges.items()
    }


def _read_use(name: str, found: Mapping[str, Any]) -> EdgeUse:
    if not isinstance(found, Mapping):
        raise UserInputError(
            f"the options of {name} are a mapping, not {type(found).__name__}; nothing was read",
            hint='{"weight": property, "undirected": True}',
        )
    unknown = [key for key in found if key not in _EDGE_OPTIONS]
    if unknown:
        raise UserInputError(
            f"unknown option '{unknown[0]}' of {name}; there are {' and '.join(_EDGE_OPTIONS)}; nothing was read"
        )
    weight = found.get("weight")
    return EdgeUse(
        weight=None if weight is None else text_of("weight", weight),
        undirected=flag_of("undirected", found.get("undirected")),
    )
