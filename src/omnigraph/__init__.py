"""OmniGraph: a typed, versioned property graph over the Lance columnar format.

A graph is a directory, or a prefix of an object store. Its schema names node types, edge types and their rules:

    >>> import omnigraph
    >>> graph = omnigraph.init("friends.omni", '''
    ...     node Person { name: String @key  age: I32? }
    ...     edge Knows: Person -> Person { since: Date? }
    ... ''')

Every write is one commit, whole or absent:

    >>> graph.load([
    ...     {"type": "Person", "data": {"name": "Ada", "age": 36}},
    ...     {"type": "Person", "data": {"name": "Bo"}},
    ...     {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2024-05-01"}},
    ... ], mode="append").total_rows
    3

A query matches patterns and returns columns; rows come as dicts, Arrow, pandas or polars:

    >>> friends = "query q($who: String) { match { $p: Person { name: $who } $p knows $f } return { $f.name as friend } }"
    >>> graph.query(friends, {"who": "Ada"}).rows
    [{'friend': 'Bo'}]

A branch shows what its source shows and keeps its own changes; a merge brings them back:

    >>> review = graph.branch_create("review")
    >>> done = graph.mutate('query q() { insert Person { name: "Cy" } }', branch="review", actor="ada")
    >>> [change.id for change in graph.diff("main", "review").changes]
    ['Cy']
    >>> str(graph.merge("review").outcome)
    'fast_forward'

Where to look next:

    omnigraph.init, omnigraph.open   make a graph, open one
    omnigraph.connect                reach a graph that `omnigraph serve` serves
    omnigraph.show                   a graph as a page in a notebook
    omnigraph.Graph                  every verb: query, load, mutate, branches, merge, diff, schema, maintenance
    omnigraph.Snapshot               reads of one moment
    omnigraph.Cancellation           stops reads that take too long
    omnigraph.lint, parse_schema     schemas and queries as texts, without a graph
    omnigraph.errors                 the tree of errors; each is importable from omnigraph as well

`open` is not part of `from omnigraph import *`, since it would hide the built-in function. Names are imported on first
use, so that `import omnigraph` is quick and loads neither Lance nor Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph import errors as errors
from omnigraph.errors import *  # noqa: F403 - every error is part of the surface
from omnigraph.errors import (
    AuthError,
    ConflictError,
    InternalError,
    LimitError,
    NotFoundError,
    OmniError,
    OmniWarning,
    RecoveryError,
    StorageError,
    UserInputError,
)

if TYPE_CHECKING:
    from omnigraph.api.analytics import Projection, Scores
    from omnigraph.api.branches import Branch
    from omnigraph.api.comparisons import (
        Baseline,
        Change,
        ChangeBlock,
        ChangePage,
        ChangeStream,
        Conflict,
        Diff,
        EntityHistory,
        MergeResult,
    )
    from omnigraph.api.description import Description
    from omnigraph.api.frames import rejects_frame
    from omnigraph.api.graph import Graph
    from omnigraph.api.movers import compare
    from omnigraph.api.opening import discard_recovery, init, relocate
    from omnigraph.api.opening import open as open
    from omnigraph.api.query_results import Explanation, QueryResult, QueryStream
    from omnigraph.api.reports import (
        CleanupReport,
        Examination,
        ExportReport,
        IndexReport,
        OptimizeReport,
        RelocateReport,
        RepairReport,
    )
    from omnigraph.api.results import (
        Commit,
        DiscardedRecovery,
        Job,
        LoadResult,
        MutationResult,
        OperationStatus,
        RecoveryAudit,
        RecoverySidecar,
        SchemaApplyResult,
        Tag,
    )
    from omnigraph.api.snapshot import Snapshot
    from omnigraph.api.texts import infer_schema, lint, parse_schema
    from omnigraph.cancellation import Cancellation
    from omnigraph.catalog.diff.steps import SchemaPlan
    from omnigraph.catalog.model import Catalog
    from omnigraph.engine.schema.infer import SchemaProposal
    from omnigraph.language.diagnostics import Diagnostic
    from omnigraph.pipeline.progress import Progress
    from omnigraph.remote.graph import RemoteGraph, connect
    from omnigraph.surfaces.http.notebook import show

__version__ = "0.1.0"

# Type checkers and editors read the list below; it is complete, but for `open`.
__all__ = [
    "AuthError",
    "Baseline",
    "Branch",
    "Cancellation",
    "Catalog",
    "Change",
    "ChangeBlock",
    "ChangePage",
    "ChangeStream",
    "CleanupReport",
    "Commit",
    "Conflict",
    "ConflictError",
    "Description",
    "Diagnostic",
    "Diff",
    "DiscardedRecovery",
    "EntityHistory",
    "Examination",
    "Explanation",
    "ExportReport",
    "Graph",
    "IndexReport",
    "InternalError",
    "Job",
    "LimitError",
    "LoadResult",
    "MergeResult",
    "MutationResult",
    "NotFoundError",
    "OmniError",
    "OmniWarning",
    "OperationStatus",
    "OptimizeReport",
    "Progress",
    "Projection",
    "QueryResult",
    "QueryStream",
    "RecoveryAudit",
    "RecoveryError",
    "RecoverySidecar",
    "RelocateReport",
    "RemoteGraph",
    "RepairReport",
    "SchemaApplyResult",
    "SchemaPlan",
    "SchemaProposal",
    "Scores",
    "Snapshot",
    "StorageError",
    "Tag",
    "UserInputError",
    "compare",
    "connect",
    "discard_recovery",
    "errors",
    "infer_schema",
    "init",
    "lint",
    "parse_schema",
    "rejects_frame",
    "relocate",
    "show",
]

_NAMES_OF = {
    "omnigraph.api.analytics": "Projection Scores",
    "omnigraph.api.branches": "Branch",
    "omnigraph.api.comparisons": (
        "Baseline Change ChangeBlock ChangePage ChangeStream Conflict Diff EntityHistory MergeResult"
    ),
    "omnigraph.api.description": "Description",
    "omnigraph.api.frames": "rejects_frame",
    "omnigraph.api.graph": "Graph",
    "omnigraph.api.movers": "compare",
    "omnigraph.api.opening": "discard_recovery init open relocate",
    "omnigraph.api.query_results": "Explanation QueryResult QueryStream",
    "omnigraph.api.reports": (
        "CleanupReport Examination ExportReport IndexReport OptimizeReport RelocateReport RepairReport"
    ),
    "omnigraph.api.results": (
        "Commit DiscardedRecovery Job LoadResult MutationResult OperationStatus RecoveryAudit"
        " RecoverySidecar SchemaApplyResult Tag"
    ),
    "omnigraph.api.snapshot": "Snapshot",
    "omnigraph.api.texts": "infer_schema lint parse_schema",
    "omnigraph.cancellation": "Cancellation",
    "omnigraph.catalog.diff.steps": "SchemaPlan",
    "omnigraph.catalog.model": "Catalog",
    "omnigraph.engine.schema.infer": "SchemaProposal",
    "omnigraph.language.diagnostics": "Diagnostic",
    "omnigraph.pipeline.progress": "Progress",
    "omnigraph.remote.graph": "RemoteGraph connect",
    "omnigraph.surfaces.http.notebook": "show",
}
_HOMES = {name: home for home, names in _NAMES_OF.items() for name in names.split()}

if not TYPE_CHECKING:
    # A checker that saw this function would take every misspelt name for one of unknown type.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
