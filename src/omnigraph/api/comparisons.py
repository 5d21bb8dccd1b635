"""What merge, diff and the change feed return: values of the engine, under their public name."""

from omnigraph.engine.history.changes import (
    Baseline,
    Change,
    ChangeBlock,
    ChangePage,
    ChangeStream,
    Diff,
    DiffStats,
)
from omnigraph.engine.history.entity import EntityHistory, HistoryChange, HistoryGap
from omnigraph.engine.history.feed import BaselineStream
from omnigraph.engine.history.pages import DiffPage, FeedPage
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.merge import MergeResult

__all__ = [
    "Baseline",
    "BaselineStream",
    "Change",
    "ChangeBlock",
    "ChangePage",
    "ChangeStream",
    "Conflict",
    "Diff",
    "DiffPage",
    "DiffStats",
    "EntityHistory",
    "FeedPage",
    "HistoryChange",
    "HistoryGap",
    "MergeResult",
]
