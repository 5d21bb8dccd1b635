"""Refs of Lance branches, read as the small JSON files they are: one request where Lance lists and reads all of them."""

import json
from collections.abc import Mapping
from typing import Any

from omnigraphdb.errors import StorageError, shorten
from omnigraphdb.ids import Version
from omnigraphdb.limits import FILE_BYTES_MAX
from omnigraphdb.storage.lance.unofficial.ref_names import branches_of, ref_file
from omnigraphdb.storage.layout import REFS
from omnigraphdb.storage.objects.protocol import Objects, Stamp
from omnigraphdb.storage.values import BranchRef, incarnation_of


def list_ref_names(objects: Objects, path: str) -> frozenset[str]:
    """List the branches of a table by the names of their refs, without reading the refs."""
    return branches_of(text.rpartition("/")[2] for text in objects.list(f"{path}/{REFS}"))


def mark_refs(objects: Objects, path: str) -> Mapping[str, Stamp]:
    """Map each branch to the stamp of its ref, which is written once and not read here."""
    files = {f"{path}/{REFS}/{ref_file(name)}": name for name in list_ref_names(objects, path)}
    stamps = objects.stamps([*files]) if files else {}
    return {files[file]: stamp for file, stamp in stamps.items()}


def read_ref(objects: Objects, path: str, branch: str) -> BranchRef | None:
    """Read the ref of one branch; None when there is none."""
    file = ref_file(branch)
    # A store would fail on the name of such a file, and there is none.
    text = objects.read(f"{path}/{REFS}/{file}") if len(file) <= FILE_BYTES_MAX else None
    if text is None:
        return None
    try:
        return _decode_ref(branch, json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"the ref of branch '{branch}' in '{path}/{REFS}' cannot be read ({error}): {shorten(text)}; "
            "nothing was changed",
            storage_kind="permanent",
            hint="put the file back from a copy of the graph; main can be read without it",
        ) from error


def _decode_ref(branch: str, facts: Mapping[str, Any]) -> BranchRef:
    return BranchRef(
        name=branch,
        parent=facts["parentBranch"],
        parent_version=Version(facts["parentVersion"]),
        created_us=int(facts["createAt"]) * 1_000_000,
        incarnation=incarnation_of(facts["identifier"]["version_mapping"]),
    )
