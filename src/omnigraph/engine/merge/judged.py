"""What a merge does to a table, with the columns that rules look at."""

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.delta import DeltaKind, TableDelta
from omnigraph.engine.merge.apply import TableMerge, read_mixed_rows
from omnigraph.storage.arrow import column
from omnigraph.storage.tables import Tables

EVERY_PROBLEM = 2**62
"""A merge reports all conflicts at once."""


def change_of(merge: TableMerge, tables: Tables) -> TableDelta:
    """What the merge does to the target's table, with the columns that rules look at."""
    resolved, type_ = merge.resolved, merge.type
    names = _list_checked_columns(type_)
    source = tables.open(merge.relation.source.at)
    rows = pa.concat_arrays([resolved.new, column(resolved.changed, "source")])
    parts = [
        pa.Table.from_batches([batch]) for batch in merge.row_cache.stream(source, rows, names)
    ]
    parts += [
        pa.Table.from_batches([b]).select(names) for b in read_mixed_rows(merge, tables, names)
    ]
    found = pa.concat_tables(parts) if parts else type_.schema.empty_table().select(names)
    return TableDelta(
        type=type_,
        kind=DeltaKind.MERGE,
        rows=_stood_in(found, type_),
        deleted=column(resolved.removed, "id"),
        shown_max=EVERY_PROBLEM,
    )


def _list_checked_columns(type_: TableType) -> list[str]:
    ends = ["src", "dst"] if isinstance(type_, EdgeType) else []
    ruled = {name for group in type_.unique for name in group.columns}
    if isinstance(type_, NodeType):
        ruled |= {rule.property for rule in type_.ranges} | {c.property for c in type_.checks}
    properties = type_.properties
    ruled |= {n for n, p in properties.items() if p.type.is_enum or not p.type.nullable}
    narrow = {n for n in ruled if n in properties and not _is_wide(type_, n)}
    return ["id", *ends, *sorted(narrow)]


def _is_wide(type_: TableType, name: str) -> bool:
    declared = type_.properties[name].type
    return declared.is_vector or declared.is_blob


def _stood_in(rows: pa.Table, type_: TableType) -> pa.Table:
    """Add stand-ins for required vectors and blobs: storage refuses a NULL there, so none was written."""
    for name, declared in sorted(type_.properties.items()):
        if not declared.type.nullable and _is_wide(type_, name):
            rows = rows.append_column(name, pa.array(np.ones(rows.num_rows, dtype=bool)))
    return rows
