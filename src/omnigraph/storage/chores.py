"""Chores: the heavy parts of upkeep, cut so that many hands can do them; nothing is committed."""

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lance import LanceDataset

from omnigraph.storage.tables import Chore, Hands, TableAt

TEXT: Final = "INVERTED"
"""What Lance calls an index of words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWork:
    """One index segment to build."""

    column: str
    type: str
    name: str
    replace: bool
    fragments: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RewriteWork:
    """Fragments to rewrite as fewer, as Lance planned it."""

    task: Any


Work = SegmentWork | RewriteWork
Hand = Callable[[Sequence[Work]], list[Any]]
"""Does work of one table version somewhere and brings what Lance made of it, in order."""


def do(dataset: LanceDataset, work: Work) -> Any:
    """Do one piece of work in this process."""
    match work:
        case SegmentWork():
            # A handle of its own: building borrows it mutably, and readers of a shared one would be refused.
            own = copy.copy(dataset)
            segment = own.create_index_uncommitted(
                work.column,
                work.type,
                name=work.name,
                replace=work.replace,
                fragment_ids=list(work.fragments),
                **dict(work.settings),
            )
            # A text segment that did not pass through here makes every text query on the column fail.
            return own.merge_existing_index_segments([segment]) if work.type == TEXT else segment
        case RewriteWork():
            return work.task.execute(dataset)


def own(dataset: LanceDataset) -> Hand:
    """Do everything in this process, one after the other."""
    return lambda work: [do(dataset, one) for one in work]


def lent(at: TableAt, hands: Hands) -> Hand:
    """Let others do it: work travels as chores, and what came of it travels back."""

    def hand(work: Sequence[Work]) -> list[Any]:
        receipts = hands.do([Chore(at, pickle.dumps(one)) for one in work])
        return [pickle.loads(one) for one in receipts]

    return hand


def done(dataset: LanceDataset, chore: Chore) -> bytes:
    """Do a chore that arrived, and spell what came of it."""
    return pickle.dumps(do(dataset, pickle.loads(chore.work)))
