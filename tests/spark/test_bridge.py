"""Columns keep their values on the way to Spark and back."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.pipeline.input.frames import shape_column
from omnigraphdb.spark_jobs.bridge import (
    Forms,
    VectorForm,
    arrow_schema,
    decimals_to_integers,
    from_spark,
    spark_schema,
    to_spark,
)

pytestmark = pytest.mark.spark

VALUES: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.STRING: st.text(max_size=4),
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.integers(-100_000, 100_000),
    Scalar.DATETIME: st.integers(-(10**12), 10**13),
}


def arrow_of(values: list[Any], kind: PropertyType) -> pa.Array:
    if kind.scalar in (Scalar.DATE, Scalar.DATETIME):
        whole = pa.int32() if kind.scalar is Scalar.DATE else pa.int64()
        plain_type = pa.list_(whole) if kind.is_list else whole
        return pa.array(values, plain_type).cast(kind.arrow)
    return pa.array(values, kind.arrow)


@given(data=st.data(), scalar=st.sampled_from(sorted(VALUES)), listed=st.booleans())
def test_every_value_comes_back(data: st.DataObject, scalar: Scalar, listed: bool) -> None:
    kind = PropertyType(scalar=scalar, nullable=True, is_list=listed)
    one = st.lists(VALUES[scalar], max_size=3) if listed else VALUES[scalar]
    stored = arrow_of(data.draw(st.lists(st.none() | one, max_size=5)), kind)
    batch = pa.RecordBatch.from_arrays([stored], names=["x"])
    wanted = arrow_schema(spark_schema(batch.schema, None, Forms()))
    there = to_spark(batch, wanted)
    assert there.schema == wanted
    back = shape_column(from_spark(there.column(0), kind), kind)
    assert back.misfits == ()
    assert back.values.equals(stored)
    loaded = shape_column(
        decimals_to_integers(pa.table([there.column(0)], ["x"]))["x"].combine_chunks(), kind
    )
    assert loaded.values.equals(stored)


@given(
    rows=st.lists(
        st.none() | st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)
    ),
    start=st.integers(0, 3),
)
def test_vectors_are_bytes_when_asked(rows: list[list[float] | None], start: int) -> None:
    stored = pa.array(rows, pa.list_(pa.float32(), 3)).slice(start)
    batch = pa.RecordBatch.from_arrays([stored], names=["x"])
    wanted = arrow_schema(spark_schema(batch.schema, None, Forms(VectorForm.BINARY)))
    found = to_spark(batch, wanted).column(0).to_pylist()
    assert [
        None if one is None else np.frombuffer(one, "<f4").tolist() for one in found
    ] == stored.to_pylist()


def test_decimals_beyond_every_integer_are_told_apart() -> None:
    wide = pa.table({"x": pa.array([Decimal(10**25), Decimal(1)], pa.decimal128(38, 0))})
    column = decimals_to_integers(wide)["x"].combine_chunks()
    shaped = shape_column(column, PropertyType(scalar=Scalar.U64))
    assert [wrong.index for wrong in shaped.misfits][:1] == [0]
