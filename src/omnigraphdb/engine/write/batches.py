"""Batches: a load with a batch id takes effect once; a later load with the same id must make the same request."""

from collections.abc import Collection

from omnigraphdb.errors import BatchConflict
from omnigraphdb.ids import TableKey
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch of a load: its id, the digest of the request, and the types, if the input names them beforehand."""

    id: str
    request: str
    tables: frozenset[TableKey]


def find_loaded_batch(
    view: View, batch_id: str | None, request: str | None, tables: Collection[TableKey] = ()
) -> GraphCommit | None:
    """Find the commit that holds a batch; with such a commit nothing is left to write.

    Raise `BatchConflict` if the same id was used for another request. A commit of an earlier release records only its
    types.
    """
    commit = None if batch_id is None else view.state.find_batch(batch_id)
    if batch_id is None or commit is None:
        return None
    if commit.batch_request is None:
        is_other = bool(tables and commit.tables) and set(tables).isdisjoint(commit.tables)
    else:
        is_other = request != commit.batch_request
    if is_other:
        raise BatchConflict(batch_id, view.branch, commit.id, commit.tables)
    _log.warning("batch.skipped", batch_id=batch_id, commit=str(commit.id))
    return commit
