"""Rows that executors write anew, after a column is dropped for good or fragments are joined, are those of this process."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from tests.support.settled import assert_settled

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = "node P { name: String @key  age: I32?  secret: I32?  v: Vector(2)? }"
SECRET = 1_234_567


def rows(start: int) -> pa.Table:
    names = [f"p{n}" for n in range(start, start + 40)]
    vectors = pa.array([[1.0, float(n)] for n in range(40)], pa.list_(pa.float32(), 2))
    return pa.table({"name": names, "age": range(40), "secret": [SECRET] * 40, "v": vectors})


def test_executors_write_rows_anew(spark: Any, tmp_path: Path) -> None:
    found = []
    for name, where in (("here", False), ("there", spark)):
        with omnigraphdb.init(tmp_path / name, SCHEMA) as graph:
            for start in (0, 40, 80):
                graph.load({"P": rows(start)}, mode="append", spark=False)
            graph.mutate('query d() { delete P where name = "p50" }')
            narrow = SCHEMA.replace("  secret: I32?", "")
            done = graph.schema_apply(narrow, allow_data_loss=True, spark=where)
            joined = graph.optimize(spark=where or None)
            found.append((graph.table("P").to_pylist(), done.steps))
            told = [(one.engine, one.reason) for one in (done, joined)]
            assert told == (
                [("spark", "Spark was asked for")] * 2
                if where
                else [("local", done.reason), ("local", "Spark was not asked for")]
            )
            files = [one for one in Path(graph.uri).rglob("*.lance") if one.is_file()]
            secret = SECRET.to_bytes(4, "little")
            assert files
            assert not [one for one in files if secret in one.read_bytes()]
            assert_settled(graph)
    assert found[0] == found[1]
    assert len(found[0][0]) == 119
