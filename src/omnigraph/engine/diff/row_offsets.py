"""Where rows of one version lie in a later one that left them alone."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.addresses import addresses_of
from omnigraph.storage.tables import Table


def places(before: Table, now: Table, rows: pa.Array) -> pa.Array:
    """Give the address of every row in the later version: the same, null where its fragment was rewritten."""
    if before.at == now.at:
        return rows
    here = {part.id: part.files for part in now.fragments()}
    kept = [part.id for part in before.fragments() if here.get(part.id) == part.files]
    # Nulls are set apart first: with them the numbers would pass through floats and lose their ends.
    numbers = addresses_of(pc.fill_null(rows, 0))
    there = np.isin(numbers >> np.uint64(32), np.array(kept, dtype=np.uint64))
    return pa.array(numbers, pa.uint64(), mask=~(there & rows.is_valid().to_numpy(False)))
