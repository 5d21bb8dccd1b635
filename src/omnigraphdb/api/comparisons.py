"""What merge, diff and the change feed return: values of the engine, under their public name."""

from omnigraphdb.engine.history.changes import (
    Baseline,
    Change,
    ChangeBlock,
    ChangePage,
    ChangeStream,
    Diff,
    DiffStats,
)
from omnigraphdb.engine.history.entity import EntityHistory, HistoryChange, HistoryGap
from omnigraphdb.engine.history.feed import BaselineStream
from omnigraphdb.engine.history.pages import DiffPage, FeedPage
from omnigraphdb.engine.merge.conflicts import Conflict
from omnigraphdb.engine.merge.merge import MergeResult

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
