"""What maintenance and export report: values of the engine, under their public name."""

from omnigraph.engine.history.export_files import ExportReport, Part
from omnigraph.engine.maintenance.cleanup import CleanupReport, TableCleaned
from omnigraph.engine.maintenance.indexes import IndexReport, IndexState, IndexStatus
from omnigraph.engine.maintenance.issues import Examination, Issue
from omnigraph.engine.maintenance.optimize import OptimizeReport, Skipped, TableOptimized
from omnigraph.engine.maintenance.relocate import RelocateReport
from omnigraph.engine.maintenance.repair import Action, Classification, RepairReport, TableRepaired
from omnigraph.storage.values import IndexKind

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
