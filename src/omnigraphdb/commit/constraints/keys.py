"""Rules about identity: a strict insert meets no existing id, a unique tuple has one holder."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Columns
from omnigraphdb.commit.constraints.committed import RowsAfterWrite
from omnigraphdb.commit.constraints.report import Violations, cell, of_indices, of_rows
from omnigraphdb.commit.delta import DeltaKind, Deltas, TableDelta
from omnigraphdb.errors import shorten
from omnigraphdb.storage.arrow import column

_ROW = "row number"
_HOLDER = "holder id"
"""Both are named as no property can be."""


def strict_inserts(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """Refuse appended rows whose id the table already has; merges and keyed inserts replace the row instead."""
    violations = Violations()
    for delta in deltas:
        if delta.kind is DeltaKind.APPEND and delta.rows.num_rows:
            violations = violations + _existing(delta, final)
    return violations


def _existing(delta: TableDelta, final: RowsAfterWrite) -> Violations:
    table = delta.type.table_key
    present = column(final.committed.where(table, "id", delta.ids, ["id"]), "id")
    if not len(present):
        return Violations()

    def describe(row: int) -> str:
        identity = shorten(delta.ids[row].as_py())
        return (
            f"{delta.type.name} '{identity}' already exists; append inserts new ids only, "
            "merge updates"
        )

    return of_rows(delta, pc.is_in(delta.ids, value_set=present), "W20", describe, None)


def unique(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """Check that no two entities of a type share a full tuple, inside the write or with the remaining rows."""
    violations = Violations()
    for delta in deltas:
        if delta.rows.num_rows:
            for group in delta.type.unique:
                violations = violations + unique_group(delta, group, final)
    return violations


def unique_group(delta: TableDelta, group: Columns, final: RowsAfterWrite) -> Violations:
    """Check that no two entities share a tuple of one group of columns."""
    incoming = tuples(delta.rows, group.columns)
    if not incoming.num_rows:
        return Violations()
    clashes = {
        **_find_duplicate_tuples(incoming, group.columns),
        **_find_committed_tuples(delta, incoming, group, final),
    }

    def describe(row: int) -> str:
        value = ", ".join(shorten(cell(delta, name, row)) for name in group.columns)
        return (
            f"@unique violation on {delta.type.name}.{group.display}: '{value}' is held by "
            f"'{clashes[row]}' and '{delta.ids[row].as_py()}'"
        )

    rows = pa.array(sorted(clashes), pa.int64())
    return of_indices(delta, rows, "W13", describe, ", ".join(group.columns))


def tuples(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the tuples that count: columns made comparable, rows with a NULL left out, row numbers kept."""
    table = pa.table(
        {name: comparable(column(rows, name)) for name in columns}
        | {"id": rows["id"], _ROW: pa.array(np.arange(rows.num_rows), pa.int64())}
    )
    for name in columns:
        table = table.filter(pc.is_valid(table[name]))
    return table


def comparable(values: pa.Array) -> pa.Array:
    """Values as keys compare them."""
    if pa.types.is_floating(values.type):
        # Adding zero turns -0.0 into 0.0, which are one value in keys.
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def _find_duplicate_tuples(incoming: pa.Table, columns: Sequence[str]) -> dict[int, str]:
    """Find later rows of the write whose tuple an earlier row has, with the id of the first holder."""
    grouped = incoming.group_by(list(columns), use_threads=False).aggregate(
        [("id", "first"), (_ROW, "min"), (_ROW, "list"), (_ROW, "count")]
    )
    several = grouped.filter(pc.greater(grouped[f"{_ROW}_count"], 1))
    return {
        row: first
        for first, first_row, rows in zip(
            several["id_first"].to_pylist(),
            several[f"{_ROW}_min"].to_pylist(),
            several[f"{_ROW}_list"].to_pylist(),
            strict=True,
        )
        for row in rows
        if row != first_row
    }


def _find_committed_tuples(
    delta: TableDelta, incoming: pa.Table, group: Columns, final: RowsAfterWrite
) -> dict[int, str]:
    """Find rows of the write whose tuple a remaining row has, with the id of that holder."""
    probe = group.columns[0]
    values = _either_zero(pc.unique(column(delta.rows, probe).drop_null()))
    remaining = final.kept_where(delta.type.table_key, probe, values, group.columns)
    if not remaining.num_rows:
        return {}
    holders = (
        tuples(remaining, group.columns).drop([_ROW]).rename_columns([*group.columns, _HOLDER])
    )
    duplicates = incoming.join(
        holders, keys=list(group.columns), join_type="inner", use_threads=False
    )
    return dict(zip(duplicates[_ROW].to_pylist(), duplicates[_HOLDER].to_pylist(), strict=True))


def _either_zero(values: pa.Array) -> pa.Array:
    """Values to look for: where there is one zero, both, since a lookup may tell them apart."""
    if not pa.types.is_floating(values.type) or not pc.any(pc.equal(values, 0.0)).as_py():
        return values
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])
