"""Compaction of one table as a described rewrite; nothing is committed."""

from dataclasses import dataclass
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from omnigraph.storage.fragments import fragment_rows
from omnigraph.storage.indices import losing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Fragments replaced by fewer, and the indices that no longer cover what they hold."""

    operation: LanceOperation.Rewrite
    added: int
    removed: int
    uncovered: tuple[str, ...]


def compact(dataset: LanceDataset) -> Rewritten | None:
    """Rewrite small and holey fragments; None when there is nothing to gain.

    Lance keeps fragments apart that are covered by different indices, so that indices are brought up to date
    before, and what a rewrite uncovers is indexed again after.
    """
    target = fragment_rows(dataset.count_rows())
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": target})
    done: list[Any] = [task.execute(dataset) for task in plan.tasks]
    if not done:
        return None
    groups = [LanceOperation.RewriteGroup(r.original_fragments, r.new_fragments) for r in done]
    old = {fragment.id for r in done for fragment in r.original_fragments}
    return Rewritten(
        operation=LanceOperation.Rewrite(groups, []),
        added=sum(len(r.new_fragments) for r in done),
        removed=len(old),
        uncovered=losing(dataset, old),
    )
