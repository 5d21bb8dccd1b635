"""Reports of maintenance and export: values of the engine, under their public name."""

from omnigraphdb.engine.history.export_files import ExportReport, Part
from omnigraphdb.engine.maintenance.cleanup import CleanupReport, TableCleaned
from omnigraphdb.engine.maintenance.indexes import IndexReport, IndexState, IndexStatus
from omnigraphdb.engine.maintenance.issues import Examination, Issue
from omnigraphdb.engine.maintenance.optimize import OptimizeReport, Skipped, TableOptimized
from omnigraphdb.engine.maintenance.relocate import RelocateReport
from omnigraphdb.engine.maintenance.repair import (
    Action,
    Classification,
    RepairReport,
    TableRepaired,
)
from omnigraphdb.storage.values import IndexKind

__all__ = [
    "Action",
    "Classification",
    "CleanupReport",
    "Examination",
    "ExportReport",
    "IndexKind",
    "IndexReport",
    "IndexState",
    "IndexStatus",
    "Issue",
    "OptimizeReport",
    "Part",
    "RelocateReport",
    "RepairReport",
    "Skipped",
    "TableCleaned",
    "TableOptimized",
    "TableRepaired",
]
