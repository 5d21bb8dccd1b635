"""An opened graph root: its texts, its tables, its manifest and its locks."""

import os
from collections.abc import Mapping

from lance.lance import _Session as Session

from omnigraphdb.errors import ConfigError
from omnigraphdb.limits import INDEX_CACHE_BYTES, MANIFEST_CACHE_BYTES, METADATA_CACHE_BYTES
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.counters import Cost
from omnigraphdb.storage.lance import branches
from omnigraphdb.storage.lance.datasets import CostLabels, Datasets
from omnigraphdb.storage.lance.rows import LanceRows
from omnigraphdb.storage.lance.tables import LanceTables
from omnigraphdb.storage.lance.unofficial.addresses import relocate_branch
from omnigraphdb.storage.lance.unofficial.drafts import Drafts
from omnigraphdb.storage.lance.unofficial.local_drafts import LocalDrafts
from omnigraphdb.storage.layout import MANIFEST, Root, root_of
from omnigraphdb.storage.locks.table import Locks, open_locks
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.options import lance_options
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.rows import Rows
from omnigraphdb.storage.scratch import Scratch
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

MANIFEST_KEY = "object_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Everything a graph keeps, behind its seams."""

    root: Root
    objects: Objects
    tables: Tables
    manifest: Rows
    locks: Locks
    scratch: Scratch
    internal: Datasets
    """For `keyed_rows`: the small tables beside the manifest share its session and its counts."""

    def relocate(self, path: str) -> int:
        """Give every branch of a table the address of this root; says how many files were rewritten."""
        if not self.internal.unofficial:
            raise ConfigError(
                "relocate rewrites addresses inside Lance's own files, and the setting 'unofficial_lance' is off; "
                "no changes were made",
                hint="relocate with OMNIGRAPH_UNOFFICIAL_LANCE=on, or move the graph back to its former address",
            )
        if self.root.is_memory:
            return 0
        rewritten = 0
        for branch in sorted(branches.names(self.internal, self.objects, path)):
            rewritten += relocate_branch(self.root, self.objects, path, branch)
            self.internal.forget(path, branch)
        return rewritten

    def keyed_rows(self, path: str, key: str) -> Rows:
        """Give another small keyed table of this root, such as the audit of recoveries."""
        return LanceRows(self.internal, self.objects, path, key)


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    runtime: Runtime = SYSTEM,
    *,
    fsync: bool = False,
    unofficial: bool = True,
    read_only: bool = False,
) -> Store:
    """Open a root; nothing is read or written yet.

    `fsync` makes local commits survive a power failure. `unofficial` is the switch of `storage.lance.unofficial`.
    """
    root = root_of(uri)
    objects = open_objects(root, storage_options, fsync=fsync, runtime=runtime)
    options = lance_options(root, storage_options)
    session = Session(
        index_cache_size_bytes=INDEX_CACHE_BYTES, metadata_cache_size_bytes=METADATA_CACHE_BYTES
    )
    conditions = Conditions(objects)
    # Versions of the manifest are read once, as images; in one cache they would push out the data of tables.
    manifest_session = Session(
        index_cache_size_bytes=0, metadata_cache_size_bytes=MANIFEST_CACHE_BYTES
    )
    drafts = _open_drafts(root, objects, conditions, runtime) if unofficial else None
    counted = CostLabels(opens=Cost.MANIFEST_OPENS, probes=Cost.MANIFEST_PROBES)
    # A process that removes versions of the manifest leaves a mark first.
    internal = Datasets(
        root,
        options,
        manifest_session,
        unofficial=unofficial,
        costing=counted,
        gapless=True,
        fsync=fsync,
        drafts=drafts,
        runtime=runtime,
    )
    datasets = Datasets(
        root,
        options,
        session,
        unofficial=unofficial,
        fsync=fsync,
        drafts=drafts,
        runtime=runtime,
    )
    return Store(
        root=root,
        objects=objects,
        tables=LanceTables(datasets, objects, conditions),
        manifest=LanceRows(internal, objects, MANIFEST, MANIFEST_KEY),
        locks=open_locks(root, objects, runtime, read_only=read_only),
        scratch=Scratch(datasets),
        internal=internal,
    )


def _open_drafts(
    root: Root, objects: Objects, conditions: Conditions, runtime: Runtime
) -> Drafts | None:
    if root.is_memory:
        return None
    if root.is_distant:
        return Drafts(objects, conditions)
    return LocalDrafts(objects, conditions, runtime)
