"""Old rows of the manifest, which no snapshot, no head and no page of the log needs; folds store them apart."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.ids import BranchName
from omnigraphdb.limits import RECENT_COMMITS
from omnigraphdb.manifest.lineage import head_of
from omnigraphdb.manifest.records import KEY, ObjectType
from omnigraphdb.manifest.table_history import VERSION_COLUMNS, find_newest_versions, rows_of
from omnigraphdb.storage.rows import SplitRows

_Mask = np.ndarray[Any, np.dtype[np.bool_]]

_ALWAYS_OLD: Final = pa.array(
    [
        ObjectType.OPERATION.value,
        ObjectType.MERGED_COMMIT.value,
        ObjectType.LOST_COMMIT.value,
    ]
)
"""Looked at by a write with a key and by merges, and by nobody else."""


def split_old_rows(rows: pa.Table, branch: BranchName) -> SplitRows:
    """Tell the old rows of a branch from the recent ones.

    Old are operations and commits that merges brought, versions of tables that a later one replaced, and all commits
    before the newest ones. Rows of unknown types stay recent.
    """
    commits = _find_old_commits(rows, branch)
    always = pc.is_in(rows["object_type"], value_set=_ALWAYS_OLD).to_numpy()
    old = commits | always | _find_replaced_versions(rows)
    ids = rows[KEY].filter(pa.array(commits))
    return SplitRows(
        recent=rows.filter(pa.array(~old)),
        old=rows.filter(pa.array(old)),
        last_key=pc.max(ids).as_py() or "",
    )


def _find_old_commits(rows: pa.Table, branch: BranchName) -> _Mask:
    """Mark the commits before the newest ones; commits of one swap have one version and stay together."""
    is_commit = _is_of(rows, ObjectType.GRAPH_COMMIT)
    head = head_of(rows, branch)
    if head is None or is_commit.sum() <= RECENT_COMMITS:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    versions = rows["table_version"].fill_null(0).to_numpy()
    first = min(np.sort(versions[is_commit])[-RECENT_COMMITS], head.manifest_version)
    old: _Mask = is_commit & (versions < first)
    return old


def _find_replaced_versions(rows: pa.Table) -> _Mask:
    mask = _is_of(rows, ObjectType.TABLE_VERSION)
    newest = find_newest_versions(rows_of(rows, ObjectType.TABLE_VERSION, VERSION_COLUMNS))
    mask[np.flatnonzero(mask)[newest]] = False
    return mask


def _is_of(rows: pa.Table, object_type: ObjectType) -> _Mask:
    # A copy: Arrow gives arrays that cannot be changed.
    return np.array(pc.equal(rows["object_type"], object_type.value).to_numpy())
