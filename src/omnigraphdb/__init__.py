"""OmniGraph: a typed, versioned property graph over the Lance columnar format.

A graph is a directory, or a prefix of an object store. Its schema names node types, edge types and their rules:

    >>> import omnigraphdb
    >>> graph = omnigraphdb.init("friends.omni", '''
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

A branch shows the rows of its source and keeps its own changes; a merge brings them back:

    >>> review = graph.branch_create("review")
    >>> done = graph.mutate('query q() { insert Person { name: "Cy" } }', branch="review", actor="ada")
    >>> [change.id for change in graph.diff("main", "review").changes]
    ['Cy']
    >>> str(graph.merge("review").outcome)
    'fast_forward'

Where to look next:

    omnigraphdb.init, omnigraphdb.open   make a graph, open one
    omnigraphdb.connect                reach a graph that `omnigraphdb serve` serves
    omnigraphdb.show                   a graph as a page in a notebook
    omnigraphdb.Graph                  every verb: query, load, mutate, branches, merge, diff, schema, maintenance
    omnigraphdb.Snapshot               reads of one moment
    omnigraphdb.Cancellation           stops reads that take too long
    omnigraphdb.lint, parse_schema     schemas and queries as texts, without a graph
    omnigraphdb.errors                 the tree of errors; each is importable from omnigraphdb as well

`open` is not part of `from omnigraphdb import *`, since it would hide the built-in function. Names are imported on first
use, so that `import omnigraphdb` is quick and loads neither Lance nor Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraphdb import errors as errors
from omnigraphdb.errors import *  # noqa: F403 - every error is part of the surface
from omnigraphdb.errors import (
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
from omnigraphdb.version import VERSION

if TYPE_CHECKING:
    from omnigraphdb.api.analytics import Projection, Scores
    from omnigraphdb.api.branches import Branch
    from omnigraphdb.api.comparisons import (
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
    from omnigraphdb.api.description import Description
    from omnigraphdb.api.frames import rejects_frame
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.api.movers import compare
    from omnigraphdb.api.opening import discard_recovery, init, relocate
    from omnigraphdb.api.opening import open as open
    from omnigraphdb.api.query_results import Explanation, QueryResult, QueryStream
    from omnigraphdb.api.reports import (
        CleanupReport,
        Examination,
        ExportReport,
        IndexReport,
        OptimizeReport,
        RelocateReport,
        RepairReport,
    )
    from omnigraphdb.api.results import (
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
    from omnigraphdb.api.snapshot import Snapshot
    from omnigraphdb.api.texts import infer_schema, lint, parse_schema
    from omnigraphdb.cancellation import Cancellation
    from omnigraphdb.catalog.diff.steps import SchemaPlan
    from omnigraphdb.catalog.model import Catalog
    from omnigraphdb.engine.schema.infer import SchemaProposal
    from omnigraphdb.language.diagnostics import Diagnostic
    from omnigraphdb.pipeline.progress import Progress
    from omnigraphdb.remote.graph import RemoteGraph, connect
    from omnigraphdb.surfaces.http.notebook import show

__version__ = VERSION

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
    "omnigraphdb.api.analytics": "Projection Scores",
    "omnigraphdb.api.branches": "Branch",
    "omnigraphdb.api.comparisons": (
        "Baseline Change ChangeBlock ChangePage ChangeStream Conflict Diff EntityHistory MergeResult"
    ),
    "omnigraphdb.api.description": "Description",
    "omnigraphdb.api.frames": "rejects_frame",
    "omnigraphdb.api.graph": "Graph",
    "omnigraphdb.api.movers": "compare",
    "omnigraphdb.api.opening": "discard_recovery init open relocate",
    "omnigraphdb.api.query_results": "Explanation QueryResult QueryStream",
    "omnigraphdb.api.reports": (
        "CleanupReport Examination ExportReport IndexReport OptimizeReport RelocateReport RepairReport"
    ),
    "omnigraphdb.api.results": (
        "Commit DiscardedRecovery Job LoadResult MutationResult OperationStatus RecoveryAudit"
        " RecoverySidecar SchemaApplyResult Tag"
    ),
    "omnigraphdb.api.snapshot": "Snapshot",
    "omnigraphdb.api.texts": "infer_schema lint parse_schema",
    "omnigraphdb.cancellation": "Cancellation",
    "omnigraphdb.catalog.diff.steps": "SchemaPlan",
    "omnigraphdb.catalog.model": "Catalog",
    "omnigraphdb.engine.schema.infer": "SchemaProposal",
    "omnigraphdb.language.diagnostics": "Diagnostic",
    "omnigraphdb.pipeline.progress": "Progress",
    "omnigraphdb.remote.graph": "RemoteGraph connect",
    "omnigraphdb.surfaces.http.notebook": "show",
}
_HOMES = {name: home for home, names in _NAMES_OF.items() for name in names.split()}

if not TYPE_CHECKING:
    # A checker that saw this function would take every misspelt name for one of unknown type.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'omnigraphdb' has no attribute '{name}'")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
