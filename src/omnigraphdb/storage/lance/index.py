"""Indices of a table: which there are, what they cover, and building what is missing."""

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
"""Where in a text a term is: no query asks for it, and it takes a fifth of the time and room of an index."""

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
"""What a row costs in an index, one kind against another."""


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
    taken = {info.name for info in infos}
    work: list[SegmentWork] = []
    removed: list[Index] = []
    rooms: dict[str, int] = {}
    for spec in specs:
        known = next((i for i in infos if i.column == spec.column and i.kind is spec.kind), None)
        fragments, dead = _work(dataset, infos, spec, known)
        if fragments:
            name = known.name if known else _free_name(spec, taken)
            taken.add(name)
            work += _cut(dataset, spec, name, fragments, parts_max, known)
            removed += [_reference(name, uuid) for uuid in dead]
            live = len(known.segments) - len(dead) if known else 0
            rooms[name] = INDEX_SEGMENTS_MAX - live
    made = worker(work)
    return Segments(
        _join_segments(dataset, work, [one.result for one in made], rooms),
        tuple(removed),
        {key: digest for one in made for key, digest in one.digests.items()},
    )


def segment_fragments(dataset: LanceDataset) -> dict[str, frozenset[int]]:
    """The fragments of this version that each index segment covers, by the segment's uuid."""
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
    dataset: LanceDataset, infos: Sequence[IndexInfo], spec: IndexSpec, known: IndexInfo | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Choose the fragments to index and the segments that are of no use afterwards."""
    if known is not None and known.damage is not None:
        return tuple(sorted(fragment_ids(dataset))), known.segments
    missing = spec.fragments
    if missing is None:
        missing = list_uncovered(dataset, infos, spec.column, spec.kind)
    if known is None or not missing:
        return missing, ()
    live = len(known.segments) - len(known.dead)
    if spec.fragments is None and live >= INDEX_SEGMENTS_MAX:
        return tuple(sorted(fragment_ids(dataset))), known.segments
    return missing, known.dead


def _cut(
    dataset: LanceDataset,
    spec: IndexSpec,
    name: str,
    fragments: Sequence[int],
    parts_max: int,
    known: IndexInfo | None,
) -> Iterator[SegmentWork]:
    """An index in parts of fragments that follow one another; vectors are learnt from all rows at once."""
    # Half of the segments are left to what is appended later.
    parts_max = min(parts_max, INDEX_SEGMENTS_MAX // 2)
    count = 1 if spec.kind is IndexKind.VECTOR else min(parts_max, len(fragments))
    for number in range(count):
        start, end = (len(fragments) * edge // count for edge in (number, number + 1))
        own = tuple(fragments[start:end])
        yield SegmentWork(
            column=spec.column,
            type=_LANCE_TYPES[spec.kind],
            name=name,
            replace=known is not None,
            fragments=own,
            settings=tuple(_settings(spec.kind, known).items()),
            weight=_COSTS[spec.kind] * rows_of(dataset, own),
        )


def _settings(kind: IndexKind, known: IndexInfo | None) -> Mapping[str, Any]:
    """How a segment is built: one of a text index that has positions has them too, or no query of it would succeed."""
    if kind is IndexKind.TEXT and known is not None:
        return {**_SETTINGS[kind], _POSITIONS: known.positions}
    return _SETTINGS[kind]


def _join_segments(
    dataset: LanceDataset,
    work: Sequence[SegmentWork],
    built: Sequence[Index],
    rooms: Mapping[str, int],
) -> tuple[Index, ...]:
    """The segments of every index: its parts as they are, so that nobody has to hold all of it, while there is room."""
    parts: dict[str, list[Index]] = {}
    for one, segment in zip(work, built, strict=True):
        parts.setdefault(one.name, []).append(segment)
    found: list[Index] = []
    for name, segments in parts.items():
        if len(segments) > rooms[name]:
            found.append(copy.copy(dataset).merge_existing_index_segments(segments))
        else:
            found += segments
    return tuple(found)


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
        # Another analysis would find other rows than the one that uncovered rows get.
        return None
    return kind


def _free_name(spec: IndexSpec, taken: set[str]) -> str:
    # A renamed column keeps its index under the old name, which a new column must not take over.
    plain = f"{spec.column}_{spec.kind}"
    names = (plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _reference(name: str, uuid: str) -> Index:
    return Index(
        uuid=uuid, name=name, fields=[], dataset_version=0, fragment_ids=Bitmap([]), index_version=0
    )
