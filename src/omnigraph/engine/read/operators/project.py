"""The result: the values of its columns, fetched for the rows that survived."""

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.compile.plan.operators import Output
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.operators.rows import Rows, value_columns
from omnigraph.engine.read.reader import Reader


def project(
    columns: Sequence[Output], rows: Rows, schema: pa.Schema, reader: Reader
) -> pa.RecordBatch:
    """Fetch the values of the result, typed as declared even when there are none."""
    if isinstance(rows, Bindings):
        rows = rows.unweighted()
    arrays = value_columns([one.expr for one in columns], rows, reader)
    typed = [
        values if values.type == kind else values.cast(kind)
        for values, kind in zip(arrays, reader.plan.arrow_types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)
