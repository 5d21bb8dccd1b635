"""Relocate: gives the branches of a moved or copied graph the address of its present directory."""

from collections.abc import Mapping
from typing import Any

from omnigraph.commit.locks import LockKey
from omnigraph.engine.session.open import open_unsettled
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, TableKey
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS, MANIFEST
from omnigraph.storage.locks.holders import Activity
from omnigraph.values import dataclass

_RELOCATE = LockKey(TableKey("__relocate__"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateReport:
    """The branches that got another address, each with the one it had, and how many files were rewritten for it."""

    uri: str
    branches: Mapping[str, str]
    files_rewritten: int

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "branches": [{"branch": b, "old_uri": old} for b, old in self.branches.items()],
            "files_rewritten": self.files_rewritten,
        }


def relocate_graph(
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    runtime: Runtime = SYSTEM,
) -> RelocateReport:
    """Rewrite the addresses in every branch manifest; a relocation that was killed is completed by the next one.

    The manifest of the graph comes last. Writers read the address of a branch there alone: once it is right, the
    addresses in all tables are right.
    """
    engine = open_unsettled(uri, storage_options=storage_options, runtime=runtime)
    store = engine.store
    with engine.committer.locks.acquire([_RELOCATE], Activity("relocate")):
        strayed = dict(engine.manifest.rows.branches_outside())
        table_history = engine.manifest.current(MAIN).table_history.by_key.values()
        tables = sorted({one.path for incarnations in table_history for one in incarnations})
        files = sum(map(store.relocate, (*tables, LEGACY_COMMITS, LEGACY_ACTORS)))
        fail(Failpoint.RELOCATE_TABLES_DONE)
        files += store.relocate(MANIFEST)
    return RelocateReport(uri=engine.uri, branches=strayed, files_rewritten=files)
