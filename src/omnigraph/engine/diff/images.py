"""Row images: rows as JSON values, written as in query results, without blobs."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from omnigraph.catalog.types import stored_type
from omnigraph.catalog.values import json_column
from omnigraph.storage.addresses import rows_at
from omnigraph.storage.blobs import is_blob
from omnigraph.storage.tables import Table

Row = dict[str, Any]


def read_images_at(table: Table | None, addresses: pa.Array) -> list[Row | None]:
    """Read rows by address; a null address gives None."""
    if table is None or addresses.null_count == len(addresses):
        return [None] * len(addresses)
    found = iter(_to_images(rows_at(table, addresses.drop_null(), _list_shown_columns(table))))
    return [next(found) if there else None for there in addresses.is_valid().to_pylist()]


def read_images_of(table: Table | None, ids: Sequence[str]) -> dict[str, Row]:
    """Read rows by id."""
    if table is None or not ids:
        return {}
    found = table.lookup("id", pa.array(ids, pa.string()), _list_shown_columns(table))
    return {row["id"]: row for row in _to_images(found)}


def _to_images(rows: pa.Table) -> list[Row]:
    # The stored types decide: rows may be older than the schema and have columns that it dropped.
    columns = [json_column(values, stored_type(values.type)) for values in rows.columns]
    names = rows.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _list_shown_columns(table: Table) -> list[str]:
    return [field.name for field in table.schema if not is_blob(field.type)]
