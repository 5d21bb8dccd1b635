"""Small helpers over Arrow tables that every layer above storage uses."""

import pyarrow as pa


def column(table: pa.Table, name: str) -> pa.Array:
    """Return one column as one array."""
    combined = table[name].combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return (
            pa.concat_arrays(combined.chunks)
            if combined.num_chunks
            else pa.array([], combined.type)
        )
    return combined
