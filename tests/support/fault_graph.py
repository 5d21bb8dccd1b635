"""A graph whose small texts fail on request: sidecars, schema files and all."""

from dataclasses import replace

from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_graph, open_unsettled
from tests.support.fault_objects import FaultObjects


def fault_graph(uri: str, *, settle: bool = True) -> tuple[Graph, FaultObjects]:
    """Open a graph, settled or as it lies there, and give the script of what goes wrong with its sidecars."""
    engine = open_graph(uri) if settle else open_unsettled(uri)
    objects = FaultObjects(engine.store.objects, engine.store.root)
    committer = replace(
        engine.committer, sidecars=replace(engine.committer.sidecars, objects=objects)
    )
    recovery = replace(engine.recovery, committer=committer)
    return Graph(replace(engine, committer=committer, recovery=recovery)), objects
