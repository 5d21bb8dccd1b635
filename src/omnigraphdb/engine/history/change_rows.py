"""Changes as rows of a frame: one list of columns for Arrow, polars, pandas and Spark."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.engine.history.changes import Change
from omnigraphdb.engine.results import Commit

CHANGE_SCHEMA: Final = pa.schema(
    [
        ("op", pa.string()),
        ("kind", pa.string()),
        ("table_key", pa.string()),
        ("type_name", pa.string()),
        ("id", pa.string()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("properties", pa.list_(pa.string())),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)
"""A changed entity; `before` and `after` are its rows as JSON."""

FEED_SCHEMA: Final = pa.schema(
    [
        *CHANGE_SCHEMA,
        pa.field("commit_id", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("manifest_version", pa.int64()),
    ]
)
"""A changed entity and the commit that changed it."""

BATCH_ROWS: Final = 4096

ChangeRow = tuple[Any, ...]


def list_values(change: Change) -> ChangeRow:
    """List the values of a change, one for each column."""
    ends = change.endpoints
    images = [
        None if row is None else json.dumps(row, ensure_ascii=False)
        for row in (change.before, change.after)
    ]
    return (
        str(change.op),
        str(change.kind),
        str(change.table_key),
        change.type_name,
        change.id,
        None if ends is None else ends.src,
        None if ends is None else ends.dst,
        list(change.properties),
        *images,
    )


def list_feed_values(change: Change, commit: Commit) -> ChangeRow:
    """List the values of a change and of its commit."""
    return (
        *list_values(change),
        commit.id,
        commit.actor,
        commit.created_at,
        change.manifest_version,
    )


def batch_changes(changes: Iterable[Change]) -> Iterator[pa.RecordBatch]:
    """Lay changes out as batches of `CHANGE_SCHEMA`, as they come."""
    return _batch_rows(map(list_values, changes), CHANGE_SCHEMA)


def batch_feed(changes: Iterable[Change], commit: Commit) -> Iterator[pa.RecordBatch]:
    """Lay the changes of a commit out as batches of `FEED_SCHEMA`, as they come."""
    return _batch_rows((list_feed_values(change, commit) for change in changes), FEED_SCHEMA)


def _batch_rows(rows: Iterator[ChangeRow], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while chunk := list(islice(rows, BATCH_ROWS)):
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*chunk, strict=True), schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
