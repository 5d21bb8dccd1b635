"""The named door: what Lance can only do by committing at once, each with the reason it is here.

No change of a node or edge table is among it: with Lance 14 all of them are staged.
"""

import pyarrow as pa
from lance import LanceDataset


def merge_rows(dataset: LanceDataset, key: str, rows: pa.Table) -> None:
    """Insert or replace rows by key and commit, moving the handle along.

    A staged merge forgets which keys it inserted, and two of them could insert one key twice; only the inline
    form carries the keys into the conflict check.
    """
    (
        dataset.merge_insert(key)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .use_index(False)
        .execute(rows)
    )
