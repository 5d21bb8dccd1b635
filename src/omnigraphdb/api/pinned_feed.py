"""Commits of the change feed as values, so that other processes can compare them."""

from collections.abc import Sequence

from omnigraphdb.api.arguments import wanted_of
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.history.compare import ChangeFilter
from omnigraphdb.engine.history.feed import FeedStep, list_steps
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.pipeline.location import StoreLocation


def pin_feed(
    graph: Graph,
    *,
    branch: str,
    since: str | None,
    until: str,
    types: Sequence[str] | None,
    images: bool,
) -> tuple[StoreLocation, list[FeedStep], ChangeFilter]:
    """Name the commits after one, up to another: where their tables are, the commits, and which changes are wanted.

    Reads the manifest, no table.
    """
    engine = graph._engine
    wanted = wanted_of(graph.catalog, types, None, None, images=images)
    steps = list_steps(engine, branch_name(branch, "changes"), since, until, wanted)
    return engine.location, steps, wanted
