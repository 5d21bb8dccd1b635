"""A graph whose small texts fail on request: sidecars, schema files and all."""

from dataclasses import replace

from omnigraph.api.graph import Graph
from omnigraph.engine.open import open_graph, open_unsettled
from tests.support.fault_objects import FaultObjects


def fault_graph(uri: str, *, settle: bool = True) -> tuple[Graph, FaultObjects]:
    """Open a graph, settled or as it lies there, and give the script of what goes wrong with its sidecars."""
    engine = open_graph(uri) if settle else open_unsettled(uri)
    objects = FaultObjects(engine.store.objects, engine.store.root)
    desk = replace(engine.desk, sidecars=replace(engine.desk.sidecars, objects=objects))
    recovery = replace(engine.recovery, desk=desk)
    return Graph(replace(engine, desk=desk, recovery=recovery)), objects
