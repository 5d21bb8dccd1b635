"""Relocate: gives the branches of a moved or copied graph the address of its present directory."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypedDict

from omnigraphdb.commit.locks import LockKey
from omnigraphdb.engine.session.open import open_unsettled
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, TableKey
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS, MANIFEST
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Codec, Value, wire

_RELOCATE = LockKey(TableKey("__relocate__"))


class MovedBranch(TypedDict):
    """A branch whose paths were rewritten."""

    branch: str
    old_uri: str


_MOVED: Final = Codec(
    encode=lambda branches: [{"branch": name, "old_uri": old} for name, old in branches.items()],
    decode=lambda moved: {entry["branch"]: entry["old_uri"] for entry in moved},
    hint=list[MovedBranch],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateReport(Value):
    """The branches that got another address, each with its old address, and the number of files rewritten for it."""

    uri: str
    branches: Mapping[str, str] = field(metadata=wire(codec=_MOVED))
    files_rewritten: int


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
        moved_branches = dict(engine.manifest.rows.branches_outside())
        table_history = engine.manifest.current(MAIN).table_history.by_key.values()
        tables = sorted(
            {incarnation.path for incarnations in table_history for incarnation in incarnations}
        )
        files = sum(map(store.relocate, (*tables, LEGACY_COMMITS, LEGACY_ACTORS)))
        fail(Failpoint.RELOCATE_TABLES_DONE)
        files += store.relocate(MANIFEST)
    return RelocateReport(uri=engine.uri, branches=moved_branches, files_rewritten=files)
