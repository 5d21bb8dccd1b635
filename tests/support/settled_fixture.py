"""A fixture that ends a test with a look at the graphs it wrote; what it needs is imported when it is used."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph


@pytest.fixture
def settled() -> "Iterator[Callable[[Graph], Graph]]":
    """Name a graph whose test must leave it settled: at the end it is looked at, opened again, and compared."""
    import omnigraphdb
    from tests.support.settled import assert_settled, fingerprint

    named: list[Graph] = []

    def name(graph: "Graph") -> "Graph":
        named.append(graph)
        return graph

    yield name
    for graph in named:
        assert_settled(graph)
        if "://" not in graph.uri:
            shown = fingerprint(graph)
            with omnigraphdb.open(graph.uri) as again:
                assert fingerprint(again) == shown
