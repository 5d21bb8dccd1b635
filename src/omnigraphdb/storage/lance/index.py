"""Indices of a table: listing them, their coverage, and building the missing ones."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lance import LanceDataset
from lance.bitmap import Bitmap
from lance.dataset import Index

from omnigraphdb.limits import INDEX_SEGMENTS_MAX
from omnigraphdb.storage.lance.digests import Digests
from omnigraphdb.storage.lance.fragments import fragment_ids, rows_of
from omnigraphdb.storage.lance.index_tasks import BTREE, TEXT, SegmentWork, Worker
from omnigraphdb.storage.lance.search import ANALYZER
from omnigraphdb.storage.values import IndexInfo, IndexKind, IndexSpec
from omnigraphdb.values import dataclass

_LANCE_TYPES: Final[Mapping[IndexKind, str]] = {
    IndexKind.BTREE: BTREE,
    IndexKind.TEXT: TEXT,
    IndexKind.VECTOR: "IVF_FLAT",
}
_KINDS: Final[Mapping[str, IndexKind]] = {
    "BTree": IndexKind.BTREE,
    "Inverted": IndexKind.TEXT,
    "IVF_FLAT": IndexKind.VECTOR,
}
_POSITIONS: Final = "with_position"
"""The positions of a term in a text: no query asks for them, and they take a fifth of the time and size of an index."""

_SETTINGS: Final[Mapping[IndexKind, Mapping[str, Any]]] = {
    IndexKind.BTREE: {},
    IndexKind.TEXT: {**ANALYZER, _POSITIONS: False},
    # One partition is searched as a whole: the same rows are found with an index and without.
    IndexKind.VECTOR: {"metric": "L2", "num_partitions": 1},
}


_COSTS: Final[Mapping[IndexKind, int]] = {
    IndexKind.BTREE: 1,
    IndexKind.TEXT: 8,
    IndexKind.VECTOR: 8,
}
"""The cost of a row in an index, one kind against another."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Index segments to add and to remove in one commit."""

    added: tuple[Index, ...]
    removed: tuple[Index, ...]
    digests: Digests


def index_infos(dataset: LanceDataset) -> tuple[IndexInfo, ...]:
    """Describe the indices of a version, by name."""
    present = fragment_ids(dataset)
    infos = [_info(described, present) for described in dataset.describe_indices()]
    return tuple(sorted(infos, key=lambda info: info.name))


def list_uncovered(
    dataset: LanceDataset, infos: Sequence[IndexInfo], column: str, kind: IndexKind
) -> tuple[int, ...]:
    """List the fragments that no index of that kind on the column covers."""
    covered: set[int] = set()
    for info in infos:
        if info.column == column and info.kind is kind:
            covered |= info.fragments
    return tuple(sorted(fragment_ids(dataset) - covered))


def build(
    dataset: LanceDataset,
    infos: Sequence[IndexInfo],
    specs: Sequence[IndexSpec],
    worker: Worker,
    parts_max: int = 1,
) -> Segments:
    """Write the segments that the specs miss, each in at most so many parts; nothing is committed."""
    names = {info.name for info in infos}
    work: list[SegmentWork] = []
    removed: list[Index] = []
    free_slots: dict[str, int] = {}
    for spec in specs:
        existing = next((i for i in infos if i.column == spec.column and i.kind is spec.kind), None)
        fragments, dead = _work(dataset, infos, spec, existing)
        if fragments:
            name = existing.name if existing else _free_name(spec, names)
            names.add(name)
            work += _cut(dataset, spec, name, fragments, parts_max, existing)
            removed += [_reference(name, uuid) for uuid in dead]
            live = len(existing.segments) - len(dead) if existing else 0
            free_slots[name] = INDEX_SEGMENTS_MAX - live
    outcomes = worker(work)
    return Segments(
        _join_segments(dataset, work, [outcome.result for outcome in outcomes], free_slots),
        tuple(removed),
        {key: digest for outcome in outcomes for key, digest in outcome.digests.items()},
    )


def segment_fragments(dataset: LanceDataset) -> dict[str, frozenset[int]]:
    """Map the uuid of each index segment to the fragments of this version that it covers."""
    present = fragment_ids(dataset)
    return {
        segment.uuid: frozenset(present & set(segment.fragment_ids))
        for described in dataset.describe_indices()
        for segment in described.segments
    }


def references(dataset: LanceDataset, uuids: Sequence[str]) -> tuple[Index, ...]:
    """Name segments so that a commit can remove them."""
    return tuple(
        _reference(described.name, segment.uuid)
        for described in dataset.describe_indices()
        for segment in described.segments
        if segment.uuid in uuids
    )


def unfit_size(
    dataset: LanceDataset, info: IndexInfo, files: Mapping[str, Mapping[str, int]]
) -> str | None:
    """Say which segment of an index has other files than were written; `files` are those there are, by segment."""
    for described in dataset.describe_indices():
        for segment in described.segments:
            if segment.uuid not in info.segments:
                continue
            actual = sum(files.get(segment.uuid, {}).values())
            if not actual:
                return f"the files of its segment {segment.uuid} are missing"
            if segment.size_bytes not in (None, actual):
                return (
                    f"the files of its segment {segment.uuid} have {actual} bytes instead of "
                    f"{segment.size_bytes}"
                )
    return None


def _work(
    dataset: LanceDataset, infos: Sequence[IndexInfo], spec: IndexSpec, existing: IndexInfo | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Choose the fragments to index and the segments that are useless afterwards."""
    if existing is not None and existing.damage is not None:
        return tuple(sorted(fragment_ids(dataset))), existing.segments
    missing = spec.fragments
    if missing is None:
        missing = list_uncovered(dataset, infos, spec.column, spec.kind)
    if existing is None or not missing:
        return missing, ()
    live = len(existing.segments) - len(existing.dead)
    if spec.fragments is None and live >= INDEX_SEGMENTS_MAX:
        return tuple(sorted(fragment_ids(dataset))), existing.segments
    return missing, existing.dead


def _cut(
    dataset: LanceDataset,
    spec: IndexSpec,
    name: str,
    fragments: Sequence[int],
    parts_max: int,
    existing: IndexInfo | None,
) -> Iterator[SegmentWork]:
    """Cut an index into parts of consecutive fragments; vectors are learnt from all rows at once."""
    # Half of the segments are left to rows that are appended later.
    parts_max = min(parts_max, INDEX_SEGMENTS_MAX // 2)
    count = 1 if spec.kind is IndexKind.VECTOR else min(parts_max, len(fragments))
    for number in range(count):
        start, end = (len(fragments) * edge // count for edge in (number, number + 1))
        own = tuple(fragments[start:end])
        yield SegmentWork(
            column=spec.column,
            type=_LANCE_TYPES[spec.kind],
            name=name,
            replace=existing is not None,
            fragments=own,
            settings=tuple(_settings(spec.kind, existing).items()),
            weight=_COSTS[spec.kind] * rows_of(dataset, own),
        )


def _settings(kind: IndexKind, existing: IndexInfo | None) -> Mapping[str, Any]:
    """Return the settings of a segment. Segments of a text index with positions need positions, or its queries fail."""
    if kind is IndexKind.TEXT and existing is not None:
        return {**_SETTINGS[kind], _POSITIONS: existing.positions}
    return _SETTINGS[kind]


def _join_segments(
    dataset: LanceDataset,
    work: Sequence[SegmentWork],
    built: Sequence[Index],
    free_slots: Mapping[str, int],
) -> tuple[Index, ...]:
    """Return the segments of every index: its parts unchanged while slots are free, so that nobody holds all of it."""
    parts: dict[str, list[Index]] = {}
    for task, segment in zip(work, built, strict=True):
        parts.setdefault(task.name, []).append(segment)
    joined: list[Index] = []
    for name, segments in parts.items():
        if len(segments) > free_slots[name]:
            joined.append(copy.copy(dataset).merge_existing_index_segments(segments))
        else:
            joined += segments
    return tuple(joined)


def _info(described: Any, present: set[int]) -> IndexInfo:
    covered = {segment.uuid: present & set(segment.fragment_ids) for segment in described.segments}
    return IndexInfo(
        name=described.name,
        column=described.field_names[0],
        kind=_kind(described),
        fragments=frozenset().union(*covered.values()),
        segments=tuple(covered),
        dead=tuple(uuid for uuid, fragments in covered.items() if not fragments),
        positions=bool(described.details.get(_POSITIONS, False)),
    )


def _kind(described: Any) -> IndexKind | None:
    kind = _KINDS.get(described.index_type)
    if kind is IndexKind.TEXT and any(described.details.get(k) != v for k, v in ANALYZER.items()):
        # Another analysis would find other rows than the analysis that uncovered rows get.
        return None
    return kind


def _free_name(spec: IndexSpec, used: set[str]) -> str:
    # A renamed column keeps its index under the old name, which a new column must not take over.
    plain = f"{spec.column}_{spec.kind}"
    names = (plain, *(f"{plain}_{number}" for number in range(2, len(used) + 3)))
    return next(name for name in names if name not in used)


def _reference(name: str, uuid: str) -> Index:
    return Index(
        uuid=uuid, name=name, fields=[], dataset_version=0, fragment_ids=Bitmap([]), index_version=0
    )
