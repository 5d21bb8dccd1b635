"""OmniGraph: a typed, versioned property graph over the Lance columnar format.

    graph = omnigraph.init("people.omni", "node Person { name: String @key }")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}], mode="append")
    graph.query("query all() { match { $p: Person } return { $p.name } }").rows

Names are imported on first use, so that `import omnigraph` is quick and loads neither Lance nor Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph import errors as errors
from omnigraph.errors import *  # noqa: F403 - every error is part of the surface
from omnigraph.errors import OmniError, OmniWarning

if TYPE_CHECKING:
    from omnigraph.api.comparisons import Baseline as Baseline
    from omnigraph.api.comparisons import Change as Change
    from omnigraph.api.comparisons import ChangePage as ChangePage
    from omnigraph.api.comparisons import ChangeStream as ChangeStream
    from omnigraph.api.comparisons import Conflict as Conflict
    from omnigraph.api.comparisons import Diff as Diff
    from omnigraph.api.comparisons import MergeResult as MergeResult
    from omnigraph.api.graph import Graph as Graph
    from omnigraph.api.opening import discard_recovery as discard_recovery
    from omnigraph.api.opening import init as init
    from omnigraph.api.opening import open as open
    from omnigraph.api.opening import relocate as relocate
    from omnigraph.api.query_results import Explanation as Explanation
    from omnigraph.api.query_results import QueryResult as QueryResult
    from omnigraph.api.query_results import QueryStream as QueryStream
    from omnigraph.api.results import Branch as Branch
    from omnigraph.api.results import Commit as Commit
    from omnigraph.api.results import LoadResult as LoadResult
    from omnigraph.api.results import MutationResult as MutationResult
    from omnigraph.api.results import SchemaApplyResult as SchemaApplyResult
    from omnigraph.api.snapshot import Snapshot as Snapshot
    from omnigraph.api.texts import lint as lint
    from omnigraph.api.texts import parse_schema as parse_schema
    from omnigraph.catalog.diff.steps import SchemaPlan as SchemaPlan
    from omnigraph.catalog.model import Catalog as Catalog
    from omnigraph.language.diagnostics import Diagnostic as Diagnostic
    from omnigraph.pipeline.progress import Progress as Progress

__version__ = "0.1.0"

_HOMES = {
    "lint": "omnigraph.api.texts",
    "parse_schema": "omnigraph.api.texts",
    "Catalog": "omnigraph.catalog.model",
    "Diagnostic": "omnigraph.language.diagnostics",
    "SchemaPlan": "omnigraph.catalog.diff.steps",
    "init": "omnigraph.api.opening",
    "open": "omnigraph.api.opening",
    "discard_recovery": "omnigraph.api.opening",
    "relocate": "omnigraph.api.opening",
    "Graph": "omnigraph.api.graph",
    "Snapshot": "omnigraph.api.snapshot",
    "Explanation": "omnigraph.api.query_results",
    "QueryStream": "omnigraph.api.query_results",
    "Branch": "omnigraph.api.results",
    "Commit": "omnigraph.api.results",
    "Baseline": "omnigraph.api.comparisons",
    "Change": "omnigraph.api.comparisons",
    "ChangePage": "omnigraph.api.comparisons",
    "ChangeStream": "omnigraph.api.comparisons",
    "Conflict": "omnigraph.api.comparisons",
    "Diff": "omnigraph.api.comparisons",
    "MergeResult": "omnigraph.api.comparisons",
    "LoadResult": "omnigraph.api.results",
    "Progress": "omnigraph.pipeline.progress",
    "MutationResult": "omnigraph.api.results",
    "QueryResult": "omnigraph.api.query_results",
    "SchemaApplyResult": "omnigraph.api.results",
}

__all__ = ["OmniError", "OmniWarning", "errors", *sorted(name for name in _HOMES if name != "open")]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
