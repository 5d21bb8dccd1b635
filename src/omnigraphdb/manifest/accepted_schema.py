"""The accepted schema of a graph: three texts in its root, read again only when one of them changed."""

from collections.abc import Mapping
from dataclasses import replace

from omnigraphdb.catalog.ir.contract import Contract, create_contract
from omnigraphdb.catalog.ir.decode import make_contract_error
from omnigraphdb.catalog.ir.past import order_as_now
from omnigraphdb.catalog.ir.state import open_contract, seal
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.names import StoredTable
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.errors import RecoveryRequired, SchemaContractError, SchemaError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, CommitId, OperationId
from omnigraphdb.language.source import Source
from omnigraphdb.limits import CONTRACT_ROUNDS_MAX, CONTRACT_WAIT_SECONDS
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.layout import (
    SCHEMA_FILES,
    SCHEMA_IR,
    SCHEMA_PG,
    SCHEMA_STATE,
    past_schema_path,
    staging_path,
)
from omnigraphdb.storage.objects.protocol import Objects, Stamp
from omnigraphdb.values import dataclass

_STAGED = staging_path(SCHEMA_STATE)
"""Written last and put in place last: this file exists while a schema change is published and not in place."""
_WATCHED = (*SCHEMA_FILES, _STAGED)

SCHEMA_COMMITS = frozenset({CommitKind.SCHEMA_APPLY, CommitKind.RECOVERY})
"""The kinds of commits that may change the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSchema:
    """The schema a graph accepted: its text as written, and the contract that seals its meaning.

    `is_staged`: staged files of an unfinished schema change exist.
    """

    source: str
    contract: Contract
    is_staged: bool = False

    @property
    def catalog(self) -> Catalog:
        """The types, with their identities."""
        return self.contract.catalog

    @property
    def texts(self) -> dict[str, str]:
        """The three texts as they are stored, in the order they are written."""
        return {
            SCHEMA_PG: self.source,
            SCHEMA_IR: self.contract.to_json(),
            SCHEMA_STATE: seal(self.contract).to_json(),
        }


def load_contract(objects: Objects) -> AcceptedSchema:
    """Read the three texts as one contract; refuses texts that do not belong together."""
    fail(Failpoint.CONTRACT_READ)
    source, ir, state = objects.read_all(SCHEMA_FILES)
    if source is None:
        raise make_contract_error(SCHEMA_PG, "is missing")
    return AcceptedSchema(
        source=source, contract=open_contract(Source(source, SCHEMA_PG), ir, state)
    )


def make_unplaced_error() -> RecoveryRequired:
    """Make the error of a reader who meets a published change whose files are not in place."""
    return RecoveryRequired(
        "unknown",
        "a schema change is published and its schema files are not in place yet; nothing was changed, open "
        "the graph read-write once",
    )


class AcceptedSchemas:
    """The cached accepted schema; every operation compares the stamps of its texts, and reads them when one changed."""

    def __init__(self, objects: Objects, runtime: Runtime) -> None:
        self._objects = objects
        self._runtime = runtime
        self._cached: tuple[Mapping[str, Stamp], AcceptedSchema] | None = None
        self._replaced: dict[CommitId, Contract | None] = {}

    def current(self) -> AcceptedSchema:
        """Read the accepted schema as it is now; drift of any of its texts is a `SchemaContractError`."""
        cached = self._cached
        if cached is not None and self._objects.have_stamps(_WATCHED, cached[0]):
            return cached[1]
        for _ in range(CONTRACT_ROUNDS_MAX):
            stamps = self._stamps()
            try:
                return self._cache(stamps, load_contract(self._objects))
            except SchemaContractError:
                if not self._is_moving(stamps):
                    raise
            self._runtime.wait(CONTRACT_WAIT_SECONDS)
        return self._load_or_wait_for_recovery()

    def _load_or_wait_for_recovery(self) -> AcceptedSchema:
        """Read the texts after all the waiting; those of a change whose writer died amid it are left to recovery."""
        try:
            return load_contract(self._objects)
        except SchemaContractError as error:
            if _STAGED in self._stamps():
                raise make_unplaced_error() from error
            raise

    @property
    def cached(self) -> AcceptedSchema | None:
        """The cached schema; it may be stale."""
        return None if self._cached is None else self._cached[1]

    def find_unchanged(self) -> AcceptedSchema | None:
        """Give the cached schema, if its texts have the stamps that they had; no text is read."""
        cached = self._cached
        if cached is None or not self._objects.have_stamps(_WATCHED, cached[0]):
            return None
        return cached[1]

    def replaced_by(self, commit: GraphCommit) -> Contract | None:
        """Read the schema that a commit replaced; None when it replaced none.

        The file is written before the commit is published and never changes, so it is read once.
        """
        if commit.id not in self._replaced:
            past = read_replaced(self._objects, commit)
            # A stored schema has its properties by name; people know them in the order of the schema text.
            contract = past is not None and order_as_now(past, self.current().contract)
            self._replaced[commit.id] = contract or None
        return self._replaced[commit.id]

    def adopt(self, accepted: AcceptedSchema) -> None:
        """Cache a contract that was made from the schema text alone, for the files as they are."""
        self._cache(self._stamps(), accepted)

    def forget(self) -> None:
        """Drop the cached schema."""
        self._cached = None

    def _cache(self, stamps: Mapping[str, Stamp], accepted: AcceptedSchema) -> AcceptedSchema:
        cached = replace(accepted, is_staged=_STAGED in stamps)
        self._cached = (stamps, cached)
        return cached

    def _is_moving(self, before: Mapping[str, Stamp]) -> bool:
        """Whether a schema change may be putting the texts in place one by one, so that they disagree now."""
        now = self._stamps()
        return now != before or _STAGED in now

    def _stamps(self) -> Mapping[str, Stamp]:
        return self._objects.stamps(_WATCHED)


def keep_replaced(objects: Objects, operation: OperationId, contract: Contract) -> None:
    """Store a schema for reads of past commits, before the operation that replaces it is published."""
    objects.put(past_schema_path(operation), contract.to_json())


def read_replaced(objects: Objects, commit: GraphCommit) -> Contract | None:
    """Read the schema that a commit replaced as it is stored; None when it replaced none, or none was kept in its time."""
    if commit.kind not in SCHEMA_COMMITS or commit.operation_id is None:
        return None
    path = past_schema_path(commit.operation_id)
    text, expected = objects.read(path), commit.replaced_schema
    if text is None:
        if expected is not None:
            raise make_contract_error(path, f"is missing, and reads before {commit.id} need it")
        return None
    try:
        contract = Contract.from_json(text)
    except SchemaContractError as error:
        raise make_contract_error(
            path, f"holds no schema that was accepted once ({error})"
        ) from error
    if expected not in (None, contract.ir_hash):
        raise make_contract_error(path, f"is not the schema that commit {commit.id} replaced")
    return contract


# ---- graphs that never had a contract


def bootstrap_contract(
    objects: Objects, manifest: Manifest, *, write: bool
) -> AcceptedSchema | None:
    """Seal the schema text of a graph that has neither IR nor state; None when it has one of them.

    Refused when there are other branches: their tables may have a schema that differs from this text.
    """
    source, ir, state = (objects.read(path) for path in SCHEMA_FILES)
    if source is None or ir is not None or state is not None:
        return None
    branches = sorted(set(manifest.rows.branches()) - {SCHEMA_APPLY_LOCK})
    if branches:
        raise make_contract_error(
            f"{SCHEMA_IR} and {SCHEMA_STATE}",
            f"are missing and cannot be made anew while there are branches ({', '.join(branches)})",
        )
    contract = _from_text(source, manifest.current(MAIN).snapshot, manifest.runtime.new_id())
    accepted = AcceptedSchema(source=source, contract=contract)
    if write:
        for path in (SCHEMA_IR, SCHEMA_STATE):
            objects.put(path, accepted.texts[path])
    return accepted


def _from_text(source: str, snapshot: Snapshot, domain: str) -> Contract:
    try:
        catalog = compile_schema(Source(source, SCHEMA_PG), stored=True)
    except SchemaError as error:
        raise make_contract_error(SCHEMA_PG, f"does not compile ({error})") from error
    contract = create_contract(catalog, domain)
    if contract.catalog.tables.keys() != snapshot.entries.keys():
        raise make_contract_error(
            SCHEMA_PG,
            f"declares {', '.join(contract.catalog.tables) or 'no table'}, "
            f"the graph has {', '.join(snapshot.entries) or 'none'}",
        )
    stored_tables = {
        key: StoredTable(entry.at.path, entry.incarnation)
        for key, entry in snapshot.entries.items()
    }
    return replace(contract, stored_tables=stored_tables)
