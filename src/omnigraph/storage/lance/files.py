"""The files of a table: where each of them lies under the graph root, and how large it is."""

from collections.abc import Mapping

from lance import LanceDataset

from omnigraph.storage.lance.branches import tree_of
from omnigraph.storage.lance.datasets import Datasets
from omnigraph.storage.lance.faults import translate_faults
from omnigraph.storage.lance.fragments import locate_file
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.values import TableAt


def needed_files(dataset: LanceDataset, at: TableAt) -> dict[str, int | None]:
    """Place every file of a version that can be placed under the graph root: data, deletions, and index segments."""
    found: dict[str, int | None] = {}

    def put(base_id: int | None, name: str, size: int | None) -> None:
        location = locate_file(dataset, at.path, at.branch, base_id, name)
        if location is not None:
            found[location] = size

    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            put(file.base_id, f"data/{file._path}", file.file_size_bytes or None)
        if metadata.deletion_file is not None:
            deleted = metadata.deletion_file
            put(deleted.base_id, deleted.path(metadata.id), None)
    for described in dataset.describe_indices():
        for segment in described.segments:
            put(segment.base_id, f"_indices/{segment.uuid}/", segment.size_bytes)
    return found


def sizes(datasets: Datasets, path: str) -> Mapping[str | None, int]:
    """Weigh what lies in the directory of a table: the bytes of its main line, and of every branch tree."""
    found: dict[str | None, int] = {}
    for name, weight in file_sizes(datasets, path).items():
        tree = tree_of(name)
        found[tree] = found.get(tree, 0) + weight
    return found


def segment_files(datasets: Datasets, path: str) -> Mapping[str, Mapping[str, int]]:
    """The files of every index segment of a table and their bytes, on whichever line it lies, by its uuid."""
    found: dict[str, dict[str, int]] = {}
    for name, weight in file_sizes(datasets, path).items():
        _, is_index, rest = f"/{name}".partition("/_indices/")
        if is_index:
            found.setdefault(rest.partition("/")[0], {})[name] = weight
    return found


def file_sizes(datasets: Datasets, path: str) -> Mapping[str, int]:
    """The bytes of every file in the directory of a table, by its name there; one listing."""
    dataset = datasets.latest(path, None)
    found: dict[str, int] = {}
    with translate_faults(StoreAction.LIST, datasets.location(path, None)):
        for batch in dataset.all_files():
            names, weights = batch.column("path").to_pylist(), batch.column("size_bytes")
            found |= zip(names, weights.to_pylist(), strict=True)
    return found
