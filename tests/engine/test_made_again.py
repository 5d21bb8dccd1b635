"""A graph that is deleted and made again at its place is another graph, also for processes that knew the first one."""

import pickle
import shutil
from pathlib import Path

import pyarrow as pa

import omnigraphdb
from omnigraphdb.ids import MAIN, node_key


def test_what_another_process_keeps_open_is_of_the_graph_that_was_seen(tmp_path: Path) -> None:
    place, found = tmp_path / "g", []
    for names in ("ab", "xyz"):
        shutil.rmtree(place, ignore_errors=True)
        with omnigraphdb.init(place, "node A { k: String @key }") as graph:
            graph.load({"A": pa.table({"k": list(names)})}, mode="append")
            at = graph._engine.view(MAIN).snapshot.entry(node_key("A")).at
            # As a task receives it; both graphs have the same table at the same version.
            home = pickle.loads(pickle.dumps(graph._engine.location))
            table = home.store().tables.open(at)
            assert home.store().tables.open(at) is table
            found.append((at, table.read(["k"])["k"].to_pylist()))
    assert found == [(found[0][0], ["a", "b"]), (found[0][0], ["x", "y", "z"])]
