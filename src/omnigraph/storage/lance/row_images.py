"""Images of keyed rows: the next one derived in memory from the one before."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.ids import Version
from omnigraph.limits import IMAGE_CHUNKS_MAX
from omnigraph.storage.rows import Image


def swap_rows(image: Image, rows: pa.Table, key: str, version: Version) -> Image:
    """What the table holds after these rows replaced those of equal key."""
    keys = rows[key].combine_chunks()
    kept = [_without(batch, key, keys) for batch in image.rows.to_batches()]
    fresh = fitting(rows, image.rows.schema)
    joined = pa.concat_tables([pa.Table.from_batches(kept, image.rows.schema), fresh])
    return _at(image, version, _whole(joined))


def replace_metadata(image: Image, key: str, value: str, version: Version) -> Image:
    """The same rows under changed metadata."""
    metadata = {**image.metadata, key: value}
    return _at(image, version, image.rows.replace_schema_metadata(metadata), metadata)


def move_image(image: Image, version: Version) -> Image:
    """The same rows at another version."""
    return _at(image, version, image.rows)


def fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring rows into the stored column order; anything but equal names and types is a caller's mistake."""
    if set(rows.column_names) != set(schema.names):
        raise InternalError(f"rows have the columns {rows.column_names}, the table {schema.names}")
    chosen = rows.select(schema.names)
    if chosen.schema.types != schema.types:
        raise InternalError(f"rows have the types {chosen.schema.types}, the table {schema.types}")
    return pa.Table.from_arrays(chosen.columns, schema=schema)


def _at(
    image: Image, version: Version, rows: pa.Table, metadata: Mapping[str, str] | None = None
) -> Image:
    return Image(
        branch=image.branch,
        version=version,
        incarnation=image.incarnation,
        rows=rows,
        metadata=image.metadata if metadata is None else metadata,
    )


def _without(batch: pa.RecordBatch, key: str, keys: pa.Array) -> pa.RecordBatch:
    replaced = pc.is_in(batch.column(key), value_set=keys)
    return batch.filter(pc.invert(replaced)) if pc.any(replaced).as_py() else batch


def _whole(rows: pa.Table) -> pa.Table:
    chunks = max((column.num_chunks for column in rows.columns), default=0)
    return rows.combine_chunks() if chunks > IMAGE_CHUNKS_MAX else rows
