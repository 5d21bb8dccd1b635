"""Rows that one statement writes several times: once if they are equal, else refused."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.engine.equality import differs
from omnigraphdb.errors import OmniError, Problem, data_error
from omnigraphdb.pipeline.input.intake import first_of_each_id, has_duplicates
from omnigraphdb.storage.arrow import column


def keep_first(type_: TableType, rows: pa.Table) -> pa.Table:
    """Keep the first row of every id; rows of one id that differ are refused."""
    ids = column(rows, "id")
    if not has_duplicates(ids):
        return rows
    order = pc.sort_indices(ids)
    ordered = ids.take(order)
    is_repeated = pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))
    repeated = np.flatnonzero(is_repeated.to_numpy(zero_copy_only=False))
    for name in rows.column_names:
        values = column(rows, name).take(order)
        before, after = values.take(pa.array(repeated)), values.take(pa.array(repeated + 1))
        different = np.flatnonzero(differs(before, after))
        if len(different):
            offset = int(repeated[different[0]])
            raise _refuse(type_, ordered[offset].as_py(), name, values.slice(offset, 2))
    return rows.take(first_of_each_id(ids))


def _refuse(type_: TableType, identity: str, name: str, values: pa.Array) -> OmniError:
    first, second = values.to_pylist()
    message = (
        f"{type_.name} '{identity}' is matched several times, and '{name}' would be both {first!r} and {second!r};"
        " a statement writes every entity once"
    )
    return data_error(
        [
            Problem(
                rule="W06",
                message=message,
                table_key=type_.table_key,
                row_id=identity,
                property=name,
            )
        ]
    )
