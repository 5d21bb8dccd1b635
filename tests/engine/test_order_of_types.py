"""Equal ids of several types: an order by id is total, whichever way it goes and whatever stage it stands in."""

from collections.abc import Iterator

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
interface Named { name: String? }
node A implements Named { k: String @key  name: String? }
node B implements Named { k: String @key  name: String? }
"""
FORMS = (
    "return {{ id($n) as id, type($n) as type }} order {{ id($n) {way} }}",
    "return distinct {{ id($n) as id, type($n) as type }} order {{ id {way}, type }}",
    "with {{ $n }} order {{ id($n) {way} }} limit 9 return {{ id($n) as id, type($n) as type }}",
    "with distinct {{ $n, entity($n) as e }} order {{ id($n) {way} }} limit 9 return {{ id($n) as id, type($n) as type }}",
    "with {{ $n, count($n) as c }} order {{ id($n) {way} }} limit 9 return {{ id($n) as id, type($n) as type }}",
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Two types whose nodes have the same keys."""
    with omnigraphdb.init(tmp_path_factory.mktemp("order") / "g", SCHEMA) as graph:
        rows = [{"type": type, "data": {"k": key}} for type in "BA" for key in "zxy"]
        graph.load(rows, mode="append")
        yield graph


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["asc", "desc"])
def test_equal_ids_are_ordered_by_type_both_ways(graph: Graph, form: str, way: str) -> None:
    rows = graph.query(f"query q() {{ match {{ $n: Named {{ }} }} {form.format(way=way)} }}").rows
    keys = sorted("xyz", reverse=way == "desc")
    assert [(row["id"], row["type"]) for row in rows] == [(k, t) for k in keys for t in "AB"]
