"""Whole fragments copied from one branch of a table to another: file by file, without reading rows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lance import LanceDataset

from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.lance.digests import digest_new_files
from omnigraphdb.storage.lance.faults import TableLocation
from omnigraphdb.storage.lance.fragments import fragment_of, locate_file
from omnigraphdb.storage.lance.physical import blob_columns
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import TableAt, Written

_DATA: Final = "data"
_OF_ONE_BRANCH: Final = ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")
"""Facts about rows on one branch; the branch that gets the copy records them anew when it commits."""


def copy_fragments(
    objects: Objects,
    runtime: Runtime,
    target: Table,
    source: Table,
    dataset: LanceDataset,
    fragments: Sequence[int],
    location: TableLocation,
) -> Written | None:
    """Copy the files of fragments to the branch of the target; None when rows have to be written instead.

    `dataset` is the source's, `location` the target's. A branch can read files of another only where it forked from it,
    and the source may be deleted; so the files are copied.
    """
    if not _is_alike(target, source):
        return None
    parts = [fragment_of(dataset, fragment).metadata for fragment in fragments]
    if any(part.deletion_file is not None or part.overlays for part in parts):
        return None
    paths = [_files(dataset, source.at, part) for part in parts]
    if any(path is None for files in paths for path in files):
        return None
    directory = f"{branch_path(target.at.path, target.at.branch)}/{_DATA}"
    fresh = [
        _copy_fragment(objects, runtime, directory, part.to_json(), files)
        for part, files in zip(parts, paths, strict=True)
    ]
    names = [f"{_DATA}/{file['path']}" for part in fresh for file in part["files"]]
    return Written(
        fragments=tuple(json.dumps(part) for part in fresh),
        rows=sum(part.physical_rows for part in parts),
        digests=digest_new_files(location, names),
    )


def _is_alike(target: Table, source: Table) -> bool:
    """Whether both branches have the same schema; tables with blobs keep those in other files."""
    same_fields = target.at.path == source.at.path and target.field_ids == source.field_ids
    return same_fields and target.schema == source.schema and not blob_columns(target.schema)


def _files(dataset: LanceDataset, at: TableAt, fragment: Any) -> list[str | None]:
    return [
        locate_file(dataset, at.path, at.branch, file.base_id, f"{_DATA}/{file._path}")
        for file in fragment.files
    ]


def _copy_fragment(
    objects: Objects,
    runtime: Runtime,
    directory: str,
    fragment: Mapping[str, Any],
    files: Sequence[str | None],
) -> dict[str, Any]:
    """Copy the files of a fragment and describe it as new."""
    described = []
    for file, path in zip(fragment["files"], files, strict=True):
        assert path is not None, "files outside the root are not copied"
        name = f"{runtime.new_id().lower()}.lance"
        objects.copy(path, f"{directory}/{name}")
        described.append({**file, "path": name, "base_id": None})
    return {**fragment, **dict.fromkeys(_OF_ONE_BRANCH), "id": 0, "files": described}
