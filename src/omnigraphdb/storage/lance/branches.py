"""Lance branches of one table: listing, creating and dropping them, without moving a HEAD."""

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

from lance import LanceDataset

from omnigraphdb.errors import (
    BranchInUse,
    ForkExists,
    OmniError,
    StorageError,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.ids import Version
from omnigraphdb.limits import REF_LOOKS_MAX
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import (
    FaultKind,
    TableLocation,
    classify_fault,
    translate_faults,
)
from omnigraphdb.storage.lance.unofficial.branch_refs import list_ref_names, mark_refs, read_ref
from omnigraphdb.storage.layout import TREE, Root, branch_path
from omnigraphdb.storage.objects.faults import StorageKind, StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import (
    MAIN_INCARNATION,
    BranchRef,
    Incarnation,
    TableAt,
    incarnation_of,
)

_R = TypeVar("_R")
_NAME: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)*")

_PARTS: Final = ("_versions", "_transactions", "_deletions", "_indices", "_refs", "data")
"""The directories of a branch, the manifests first: without them the rest is unreachable."""


def refs(datasets: Datasets, path: str) -> dict[str, BranchRef]:
    """List the branches of a table without main."""
    dataset = datasets.any(path, None)
    listed = retry_dropped_refs(
        StoreAction.LIST, datasets.location(path, None), dataset.branches.list
    )
    return {name: _ref(name, facts) for name, facts in sorted(listed.items())}


def retry_dropped_refs(action: StoreAction, location: TableLocation, work: Callable[[], _R]) -> _R:
    """Do work that reads every ref, and repeat it when a rival dropped one of them meanwhile.

    A rival that drops many refs costs one repetition for each; a ref that can never be read ends it.
    """
    lost: Counter[str] = Counter()
    while True:
        try:
            with translate_faults(action, location):
                return work()
        except StorageError as error:
            if (
                error.__cause__ is None
                or classify_fault(error.__cause__) is not FaultKind.REF_VANISHED
            ):
                raise
            ref = str(error.__cause__)
            lost[ref] += 1
            if lost[ref] > REF_LOOKS_MAX:
                raise


def names(datasets: Datasets, objects: Objects, path: str) -> frozenset[str]:
    """List the names of the branches; their refs are not read where their files can be listed."""
    if _has_ref_files(datasets):
        return list_ref_names(objects, path)
    return frozenset(refs(datasets, path))


def marks(datasets: Datasets, objects: Objects, path: str) -> Mapping[str, Hashable]:
    """Give each branch a mark that another branch of the same name does not have."""
    if _has_ref_files(datasets):
        return mark_refs(objects, path)
    return {name: ref.incarnation for name, ref in refs(datasets, path).items()}


def _has_ref_files(datasets: Datasets) -> bool:
    """Whether refs are read as files; Lance keeps those of a memory root in a memory of its own."""
    return datasets.unofficial and not datasets.root.is_memory


def base_outside(datasets: Datasets, at: TableAt) -> str | None:
    """Find the root in which a branch looks for the files it shares, when it is another root."""
    if datasets.root.is_memory:
        return None
    table_uri = datasets.uri(at.path)
    for base in datasets.at(at).base_paths().values():
        if not _is_within(str(base.path), table_uri, datasets.root):
            return str(base.path).removesuffix(f"/{branch_path(at.path, base.name or None)}")
    return None


def _is_within(address: str, directory: str, root: Root) -> bool:
    if address == directory or address.startswith(f"{directory}/"):
        return True
    # A root may be opened by a name that links to it.
    return root.is_local and f"{os.path.realpath(address)}/".startswith(
        f"{os.path.realpath(directory)}/"
    )


def tree_of(file: str) -> str | None:
    """Find the branch in whose tree a file of a table lies; None for main."""
    parts = file.split("/")
    if parts[0] != TREE:
        return None
    # The last of them: a branch may have the name of one of its directories.
    end = max((n for n, part in enumerate(parts) if part in _PARTS), default=len(parts))
    return "/".join(parts[1:end])


def ref(datasets: Datasets, objects: Objects, path: str, branch: str) -> BranchRef | None:
    """Read one branch, None when there is none: one small file where it can be read, else a listing."""
    if _has_ref_files(datasets):
        return read_ref(objects, path, branch)
    return refs(datasets, path).get(branch)


def incarnation(datasets: Datasets, objects: Objects, path: str, branch: str | None) -> Incarnation:
    """Read the incarnation of a branch; main has only one."""
    if branch is None:
        return MAIN_INCARNATION
    branch_ref = ref(datasets, objects, path, branch)
    if branch_ref is None:
        raise TableNotFound(str(datasets.location(path, branch)), "branch")
    return branch_ref.incarnation


def create(
    datasets: Datasets,
    objects: Objects,
    path: str,
    name: str,
    *,
    source: str | None,
    version: Version,
) -> LanceDataset:
    """Create a branch; `ForkExists` distinguishes a ref from files that a former branch left.

    Lance refuses both and changes nothing, but does not say which of them exists.
    """
    _require_name(name)
    try:
        with translate_faults(StoreAction.CREATE, datasets.location(path, name, version)):
            # A handle of its own: this call borrows it mutably, and other threads could not use a shared one.
            handle = copy.copy(datasets.any(path, None))
            return handle.create_branch(name, (source, version))
    except OmniError as error:
        conflict = None if _is_store_out_of_order(error) else _taken(datasets, objects, path, name)
        if conflict is None:
            raise
        raise conflict from error


def _is_store_out_of_order(error: OmniError) -> bool:
    """Whether the store failed for a reason that has nothing to do with the name, such as a full disk."""
    kinds = (StorageKind.PERMANENT, StorageKind.CONFIGURATION)
    return isinstance(error, StorageError) and error.storage_kind in kinds


def _taken(datasets: Datasets, objects: Objects, path: str, name: str) -> ForkExists | None:
    """Find the obstacle to a new branch: a ref, or files without a ref."""
    if ref(datasets, objects, path, name) is not None:
        return ForkExists(path, name, has_ref=True)
    if datasets.exists(path, name):
        datasets.forget(path, name)
        return ForkExists(path, name, has_ref=False)
    return None


def drop(datasets: Datasets, objects: Objects, path: str, name: str) -> None:
    """Remove a branch and its files; do nothing when there is no ref."""
    dataset = copy.copy(datasets.any(path, None))
    try:
        retry_dropped_refs(
            StoreAction.DELETE, datasets.location(path, name), lambda: dataset.branches.delete(name)
        )
    except TableNotFound:
        pass
    except BranchInUse as error:
        children = [ref.name for ref in refs(datasets, path).values() if ref.parent == name]
        raise BranchInUse(
            name, children, f"{', '.join(children)} of {path} forked from it"
        ) from error
    finally:
        datasets.forget(path, name)
    # Lance keeps the files of a branch below whose name another one nests.
    if datasets.exists(path, name):
        drop_tree(datasets, objects, path, name)


def drop_tree(datasets: Datasets, objects: Objects, path: str, name: str) -> None:
    """Remove the files of a branch that has no ref, without those of branches that nest below it."""
    live = refs(datasets, path)
    if name in live:
        raise ForkExists(path, name, has_ref=True)
    nested = {
        other.removeprefix(f"{name}/").partition("/")[0]
        for other in live
        if other.startswith(f"{name}/")
    }
    if not (nested and datasets.root.is_memory):
        parts = [part for part in _PARTS if part not in nested]
        remove(datasets, objects, branch_path(path, name), parts)
    datasets.forget(path, name)


def remove(datasets: Datasets, objects: Objects, path: str, parts: Sequence[str]) -> None:
    """Delete parts of a dataset's directory, in this order, if they are there."""
    if datasets.root.is_memory:
        # The object store cannot see Lance's memory; Lance can drop whole datasets only.
        with translate_faults(StoreAction.DELETE, datasets.location(path, None)):
            LanceDataset.drop(datasets.uri(path), ignore_not_found=True)
        return
    for part in parts:
        objects.delete_prefix(f"{path}/{part}" if part else path)


def _require_name(name: str) -> None:
    """Refuse a name that Lance cannot store, before a path is made of it."""
    plain = _NAME.fullmatch(name) and ".." not in name and not name.endswith(".lock")
    if not plain or name == "main":
        raise UserInputError(
            f"'{name}' cannot be the name of a branch; no changes were made",
            hint="use letters, digits, '.', '-' and '_', in segments separated by '/'",
        )


def _ref(name: str, facts: Mapping[str, Any]) -> BranchRef:
    return BranchRef(
        name=name,
        parent=facts["parent_branch"],
        parent_version=Version(facts["parent_version"]),
        created_us=int(facts["create_at"]) * 1_000_000,
        incarnation=incarnation_of(facts["branch_identifier"]),
    )
