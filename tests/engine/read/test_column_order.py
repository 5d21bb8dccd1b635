"""Columns come in the order of the schema wherever people see them; storage keeps its own order."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.model import order_columns
from omnigraphdb.errors import UserInputError
from omnigraphdb.storage.layout import SCHEMA_IR

SCHEMA = """
interface Placed { zone: String
  aisle: I32? }
interface Named { name: String @key }
node Box implements Placed, Named { weight: F64?  colour: String?  born: DateTime? }
edge Beside: Box -> Box { since: Date?  distance: I32? }
"""
BOX = ["id", "weight", "colour", "born", "zone", "aisle", "name"]
BESIDE = ["id", "src", "dst", "since", "distance"]
RECORDS = [
    {"type": "Box", "data": {"name": "a", "weight": 1.5, "colour": "red", "zone": "n"}},
    {"type": "Box", "data": {"name": "b", "zone": "s"}},
    {"edge": "Beside", "from": "a", "to": "b", "data": {"since": "2024-02-03", "distance": 4}},
]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A graph that was written by one handle and opened by another."""
    with omnigraphdb.init(tmp_path / "boxes.omni", SCHEMA) as made:
        made.load(RECORDS, mode="append")
    with omnigraphdb.open(tmp_path / "boxes.omni") as found:
        yield found


def test_tables_scans_and_entities_have_the_order_of_the_schema(graph: Graph) -> None:
    snapshot = graph.snapshot()
    assert graph.table("Box").column_names == BOX
    assert snapshot.scan("Beside").schema.names == BESIDE
    assert list(graph.entity("Box", "a") or {}) == BOX
    assert snapshot.pin("Beside").schema.names == BESIDE
    assert snapshot.table("Box", ["name", "born"]).column_names == ["name", "born"]


def test_a_column_is_named_once(graph: Graph) -> None:
    for read in (graph.snapshot().table, graph.snapshot().scan):
        with pytest.raises(UserInputError, match="'name' of Box is named twice"):
            read("Box", ["name", "born", "name"])


def test_exports_have_the_order_of_the_schema(graph: Graph, tmp_path: Path) -> None:
    box, edge = next(graph.export(types=["Box"])), next(graph.export(types=["Beside"]))
    assert list(box["data"]) == BOX
    assert list(edge["data"]) == ["id", "since", "distance"]
    lines = b"".join(bytes(part) for part in graph.snapshot().export_lines()).splitlines()
    assert [list(json.loads(line)["data"]) for line in lines] == [
        list(one["data"]) for one in graph.export()
    ]
    graph.export_files(tmp_path / "files", format="parquet")
    files = sorted((tmp_path / "files").iterdir())
    assert [pyarrow.parquet.read_schema(file).names for file in files] == [BESIDE, BOX]


def test_sql_and_networks_have_the_order_of_the_schema(graph: Graph) -> None:
    with graph.snapshot() as snapshot:
        views = snapshot.duckdb()
        assert views.sql("select * from Box").columns == BOX
        # Lance has no form for a filter on a moment; those rows are filtered here.
        late = views.sql("select * from Box where born > '2020-01-01' or zone = 's'")
        assert (late.columns, late.fetchall()) == (BOX, [("b", None, None, None, "s", None, "b")])
        network = snapshot.to_networkx()
    assert list(network.nodes["Box", "a"]) == ["type", "id", "weight", "colour", "zone", "name"]
    ((_, _, attributes),) = network.edges(data=True)
    assert list(attributes) == ["type", "id", "since", "distance"]


def test_the_catalog_shows_the_order_of_the_schema(graph: Graph) -> None:
    drawn = graph.catalog.to_mermaid().splitlines()
    assert [line.split()[2] for line in drawn if " : " in line and "-->" not in line] == BOX[1:]
    shown = str(graph.catalog).splitlines()
    first = next(n for n, line in enumerate(shown) if line.startswith("weight"))
    assert [line.split()[0] for line in shown[first : first + 6]] == BOX[1:]


def test_a_past_commit_has_the_order_of_the_schema_and_then_what_it_does_not_know(
    graph: Graph,
) -> None:
    before = graph.commits()[0].id
    graph.schema_apply(
        "interface Placed { zone: String  aisle: I32? }\ninterface Named { name: String @key }\n"
        "node Box implements Named, Placed { born: DateTime?  height: F64? }\n"
        "edge Beside: Box -> Box { distance: I32?  since: Date? }"
    )
    assert graph.table("Box").column_names == ["id", "born", "height", "name", "zone", "aisle"]
    past = graph.snapshot(at=before)
    then = ["id", "born", "name", "zone", "aisle", "colour", "weight"]
    assert past.table("Box").column_names == then
    assert list(past.entity("Box", "a") or {}) == then
    assert list(next(past.export(["Box"]))["data"]) == then


def test_order_is_no_part_of_what_a_schema_means(graph: Graph) -> None:
    turned = SCHEMA.replace("weight: F64?  colour: String?", "colour: String?  weight: F64?")
    assert graph.schema_plan(turned).steps == ()
    stored = Contract.from_json((Path(graph.uri) / SCHEMA_IR).read_text())
    assert stored.catalog == graph.catalog
    assert order_columns(stored.catalog.nodes["Box"], BOX) == ["id", *sorted(BOX[1:])]
    assert list(graph.catalog.nodes["Box"].properties) == sorted(BOX[1:])
