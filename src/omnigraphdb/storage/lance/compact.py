"""Compaction of one table as a described rewrite; nothing is committed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from omnigraphdb.storage.lance.digests import Digests
from omnigraphdb.storage.lance.fragments import fragment_ids, fragment_infos, fragment_rows
from omnigraphdb.storage.lance.index import segment_fragments
from omnigraphdb.storage.lance.index_tasks import RewriteWork, Worker, run_here
from omnigraphdb.storage.lance.unofficial.manifest_files import read_max_fragment
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Fragments replaced by fewer."""

    operation: LanceOperation.Rewrite
    added: int
    removed: int
    digests: Digests


def compact(
    dataset: LanceDataset, rows_max: int | None = None, worker: Worker | None = None
) -> Rewritten | None:
    """Rewrite small and holey fragments; None when there is nothing to gain.

    Lance keeps fragments apart that are covered by different indices, so that indices are brought up to date
    before, and uncovered fragments are indexed again after. B-trees lose the rewritten fragments; text and vector
    indices keep them, with the entries of deleted or updated rows, which readers leave out.
    """
    target = rows_max if rows_max is not None else fragment_rows(dataset.count_rows())
    plan = Compaction.plan(
        dataset,
        {"target_rows_per_fragment": target, "materialize_deletions": rows_max is None},
    )
    if not plan.tasks:
        return None
    rewrites = (worker or run_here(dataset, unofficial=False))(
        [RewriteWork(task) for task in plan.tasks]
    )
    done = [rewrite.result for rewrite in rewrites]
    groups = _number_fragments(done, _next_fragment_id(dataset))
    old = {fragment.id for r in done for fragment in r.original_fragments}
    return Rewritten(
        operation=LanceOperation.Rewrite(groups, []),
        added=sum(len(r.new_fragments) for r in done),
        removed=len(old),
        digests={key: digest for rewrite in rewrites for key, digest in rewrite.digests.items()},
    )


def _next_fragment_id(dataset: LanceDataset) -> int:
    """Give the first id that no fragment of the table ever had: Lance's caches and index segments name fragments by id."""
    return 1 + max([read_max_fragment(dataset), *fragment_ids(dataset)])


def _number_fragments(results: Sequence[Any], first: int) -> list[LanceOperation.RewriteGroup]:
    """Give every new fragment an id of its own.

    A commit numbers fragments without ids only after it wrote into every index segment which of them it covers: all
    segments would cover fragment 0, and Lance cannot tell text segments that overlap apart.
    """
    ids = count(first)
    return [
        LanceOperation.RewriteGroup(
            result.original_fragments,
            [replace(fragment, id=next(ids)) for fragment in result.new_fragments],
        )
        for result in results
    ]


def releasable(dataset: LanceDataset) -> tuple[str, ...]:
    """Name the index segments that keep small neighbours apart and cover nothing else.

    Neighbours that are free once those segments are gone must be at least two, or nothing is gained.
    """
    target = fragment_rows(dataset.count_rows())
    order = [info.id for info in fragment_infos(dataset)]
    small = {info.id for info in fragment_infos(dataset) if info.physical_rows < target}
    segments = segment_fragments(dataset)
    bound = {f for covered in segments.values() if not covered <= small for f in covered}
    separators = {
        uuid: covered for uuid, covered in segments.items() if covered and covered <= small
    }
    joined = {f for run in _runs(order, small - bound) if _differ(run, separators) for f in run}
    return tuple(uuid for uuid, covered in separators.items() if not covered.isdisjoint(joined))


def _runs(order: list[int], free: set[int]) -> list[list[int]]:
    """Group free fragments that are next to each other, two at least."""
    runs: list[list[int]] = [[]]
    for fragment in order:
        if fragment in free:
            runs[-1].append(fragment)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _differ(run: list[int], segments: Mapping[str, frozenset[int]]) -> bool:
    """Whether the fragments of a run are covered by different segments."""
    kinds = {frozenset(u for u, covered in segments.items() if f in covered) for f in run}
    return len(kinds) > 1
