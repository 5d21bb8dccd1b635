"""What version rows note of the files their commits brought."""

import json
from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from omnigraph.ids import TableKey, Version
from omnigraph.manifest.records import DIGESTS, KEY, ObjectType
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.table_history import incarnations_of, rows_of
from omnigraph.values import dataclass

_COLUMNS = (KEY, "table_key", "table_version", "table_branch", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedFiles:
    """The digests of the files that one version of a table brought, by their keys."""

    table_key: TableKey
    path: str
    branch: str | None
    version: Version
    digests: Mapping[str, str]


def noted_files(state: BranchState) -> Iterator[NotedFiles]:
    """Read the digests that a manifest notes; rows of releases that noted none are passed over."""
    rows = rows_of(state.image.rows, ObjectType.TABLE_VERSION, _COLUMNS)
    rows = rows.filter(pc.match_substring(rows["metadata"], f'"{DIGESTS}"'))
    for row, incarnation in zip(rows.to_pylist(), incarnations_of(rows[KEY]), strict=True):
        key = TableKey(row["table_key"])
        life = state.table_history.find(key, int(incarnation))
        if life is not None:
            yield NotedFiles(
                table_key=key,
                path=life.path,
                branch=row["table_branch"],
                version=Version(row["table_version"]),
                digests=json.loads(row["metadata"]).get(DIGESTS, {}),
            )
