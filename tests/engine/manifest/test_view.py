"""A view is captured once; the contract behind it is looked at every time and read only when it changed."""

import json
import threading
from collections.abc import Callable
from dataclasses import field, replace

import pytest

from omnigraphdb.catalog.ir.contract import advance
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.errors import NotFound, RecoveryRequired, SchemaContractError
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.ids import MAIN, BranchName, TableKey, Version
from omnigraphdb.limits import CONTRACT_ROUNDS_MAX
from omnigraphdb.manifest.accepted_schema import (
    AcceptedSchema,
    AcceptedSchemas,
    bootstrap_contract,
    load_contract,
)
from omnigraphdb.manifest.branches import create_branch
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import Published, publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.view import Views, capture
from omnigraphdb.storage.counters import counting
from omnigraphdb.storage.layout import (
    SCHEMA_FILES,
    SCHEMA_IR,
    SCHEMA_PG,
    SCHEMA_STATE,
    staging_path,
)
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.values import Incarnation
from omnigraphdb.values import dataclass
from tests.support.graphs import SCHEMA, init, manifest_of
from tests.support.manifests import StillRuntime

PERSON, CITY = TableKey("node:Person"), TableKey("node:City")


@pytest.fixture
def manifest(store: Store) -> Manifest:
    """A graph of three tables, with its schema files."""
    init(store)
    return manifest_of(store)


@pytest.fixture
def contracts(store: Store, manifest: Manifest) -> AcceptedSchemas:
    return AcceptedSchemas(store.objects, StillRuntime())


def move(manifest: Manifest, table: TableKey) -> Published:
    """Publish the next version of a table."""
    entry = manifest.current(MAIN).snapshot.entries[table]
    at = replace(entry.at, version=Version(entry.version + 1))
    draft = Draft(commit=manifest.runtime.new_id(), kind=CommitKind.MUTATION)  # type: ignore[arg-type]
    moved = Update(table_key=table, at=at, row_count=1)
    return publish(manifest, Change(branch=MAIN, updates=(moved,), draft=draft))


def next_schema(store: Store, text: str) -> AcceptedSchema:
    stored = load_contract(store.objects)
    return AcceptedSchema(source=text, contract=advance(stored.contract, compile_schema(text)))


# ---- the view


@pytest.mark.parametrize("at_once", [False, True])
def test_a_view_holds_branch_head_catalog_and_snapshot_of_one_moment(
    manifest: Manifest, contracts: AcceptedSchemas, at_once: bool
) -> None:
    views: Views = Recent(2)
    view = capture(manifest, contracts, views, at_once=at_once)
    published = move(manifest, PERSON)
    assert (view.branch, view.snapshot.pins[PERSON]) == (MAIN, 1)
    assert sorted(view.catalog.tables) == ["edge:Knows", "node:City", "node:Person"]
    assert published.commit is not None
    assert view.commit == published.commit.parent
    later = capture(manifest, contracts, views, at_once=at_once)
    assert (later.head, later.snapshot.pins[PERSON]) == (published.commit, 2)
    assert len(later.lineage.commits) == len(view.lineage.commits) + 1
    assert later.version == view.version + 1


@pytest.mark.parametrize("at_once", [False, True])
def test_a_view_is_the_same_until_tables_or_schema_change(
    store: Store, manifest: Manifest, contracts: AcceptedSchemas, at_once: bool
) -> None:
    views: Views = Recent(2)
    first = capture(manifest, contracts, views, at_once=at_once)
    assert capture(manifest, contracts, views, at_once=at_once) is first
    move(manifest, PERSON)
    second = capture(manifest, contracts, views, at_once=at_once)
    assert second is not first
    text = store.objects.read(SCHEMA_PG)
    assert text is not None
    store.objects.put(SCHEMA_PG, text + "\n// a remark")
    third = capture(manifest, contracts, views, at_once=at_once)
    assert third.accepted.source.endswith("// a remark")
    assert third.state is second.state


def test_a_view_of_the_past_has_the_catalog_of_today(
    manifest: Manifest, contracts: AcceptedSchemas
) -> None:
    genesis = manifest.current(MAIN).head
    move(manifest, PERSON)
    assert genesis is not None
    view = capture(manifest, contracts, Recent(2), at=genesis.id)
    assert (view.commit, view.snapshot.pins[PERSON]) == (genesis.id, 1)
    assert PERSON in view.catalog.tables


@pytest.mark.parametrize("at_once", [False, True])
def test_a_view_of_an_unknown_branch_names_what_exists(
    store: Store, manifest: Manifest, contracts: AcceptedSchemas, at_once: bool
) -> None:
    create_branch(manifest, store.tables, "review")
    with pytest.raises(NotFound, match="did you mean 'review'"):
        capture(manifest, contracts, Recent(2), BranchName("revieww"), at_once=at_once)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_warm_view_costs_one_probe_and_one_listing(
    manifest: Manifest, contracts: AcceptedSchemas, at_once: bool
) -> None:
    capture(manifest, contracts, Recent(2), at_once=at_once)
    with counting() as costs:
        capture(manifest, contracts, Recent(2), at_once=at_once)
    assert costs.as_dict() == {"manifest_probes": 1, "object_lists": 1}


@dataclass(frozen=True, kw_only=True)
class WatchedManifest(Manifest):
    """A manifest that tells when a branch was read."""

    was_read: threading.Event = field(default_factory=threading.Event)

    def current(
        self,
        branch: BranchName,
        branch_incarnation: Incarnation | None = None,
        *,
        remember: bool = True,
    ) -> BranchState:
        found = Manifest.current(self, branch, branch_incarnation, remember=remember)
        self.was_read.set()
        return found


def test_tables_that_were_read_before_a_new_schema_are_read_again(
    store: Store, manifest: Manifest
) -> None:
    """Read at once, the tables may be older than the schema: their change shows in neither."""
    watched = WatchedManifest(rows=manifest.rows, runtime=manifest.runtime)

    class ChangingSchemas(AcceptedSchemas):
        """Schemas that another process changes once the tables were read."""

        def current(self) -> AcceptedSchema:
            if self.cached is not None:
                assert watched.was_read.wait(10)
                move(manifest, PERSON)
                store.objects.put(SCHEMA_PG, SCHEMA + "// a remark")
            return super().current()

    contracts = ChangingSchemas(store.objects, StillRuntime())
    contracts.current()
    view = capture(watched, contracts, Recent(2), at_once=True)
    assert view.accepted.source.endswith("// a remark")
    assert view.snapshot.pins[PERSON] == 2


# ---- the contract


def test_an_unchanged_contract_is_compiled_once(store: Store, contracts: AcceptedSchemas) -> None:
    assert contracts.current() is contracts.current()
    store.objects.put("unrelated.txt", "x")
    assert contracts.current() is contracts.current()


def test_a_comment_is_no_drift_and_is_noticed(store: Store, contracts: AcceptedSchemas) -> None:
    before = contracts.current()
    store.objects.put(SCHEMA_PG, SCHEMA + "\n// a comment\n")
    after = contracts.current()
    assert after.source != before.source
    assert after.contract.ir_hash == before.contract.ir_hash


def broken_ir(text: str) -> str:
    document = json.loads(text)
    document["next_identity_id"] += 1
    return json.dumps(document, indent=2) + "\n"


DRIFTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "another source": (SCHEMA_PG, lambda text: text + "\nnode Extra { a: I32 }\n"),
    "a source that does not parse": (SCHEMA_PG, lambda text: "nonsense"),
    "another contract": (SCHEMA_IR, broken_ir),
    "a contract that is no JSON": (SCHEMA_IR, lambda text: "{"),
    "another seal": (SCHEMA_STATE, lambda text: text.replace("sha256:", "sha256:0")),
    "a later seal": (SCHEMA_STATE, lambda text: text.replace('_version": 1', '_version": 2')),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_a_long_lived_handle_notices_drift_on_its_next_look(
    store: Store, contracts: AcceptedSchemas, drift: str
) -> None:
    contracts.current()
    path, changed = DRIFTS[drift]
    text = store.objects.read(path)
    assert text is not None
    store.objects.put(path, changed(text))
    with pytest.raises(SchemaContractError):
        contracts.current()
    store.objects.put(path, text)
    contracts.current()


@pytest.mark.parametrize("gone", SCHEMA_FILES)
def test_a_missing_file_is_drift(store: Store, contracts: AcceptedSchemas, gone: str) -> None:
    contracts.current()
    store.objects.delete(gone)
    with pytest.raises(SchemaContractError):
        contracts.current()


def test_a_failed_read_is_not_remembered(store: Store, contracts: AcceptedSchemas) -> None:
    with armed(Failpoint.CONTRACT_READ), pytest.raises(Injected):
        contracts.current()
    assert contracts.current().source == SCHEMA


def test_another_handles_schema_change_is_seen(store: Store, contracts: AcceptedSchemas) -> None:
    contracts.current()
    new = next_schema(store, SCHEMA + "node Pet { name: String @key }\n")
    for path, text in new.texts.items():
        store.objects.put(path, text)
    seen = contracts.current()
    assert TableKey("node:Pet") in seen.catalog.tables
    assert not seen.is_staged


class PromotingRuntime(StillRuntime):
    """A clock during whose waits another process renames one more staged file."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        for path in SCHEMA_FILES:
            if self.store.objects.exists(staging_path(path)):
                self.store.objects.rename(staging_path(path), path)
                return


def test_a_change_that_is_being_promoted_is_waited_for(store: Store, manifest: Manifest) -> None:
    runtime = PromotingRuntime(store)
    contracts = AcceptedSchemas(store.objects, runtime)
    contracts.current()
    new = next_schema(store, SCHEMA + "node Pet { name: String @key }\n")
    for path, text in new.texts.items():
        store.objects.put(staging_path(path), text)
    staged = contracts.current()
    assert staged.is_staged
    assert TableKey("node:Pet") not in staged.catalog.tables
    store.objects.rename(staging_path(SCHEMA_PG), SCHEMA_PG)
    seen = contracts.current()
    assert TableKey("node:Pet") in seen.catalog.tables
    assert 0 < len(runtime.waits) < CONTRACT_ROUNDS_MAX


def test_a_promotion_that_died_is_reported_after_a_bounded_wait(
    store: Store, contracts: AcceptedSchemas
) -> None:
    new = next_schema(store, SCHEMA + "node Pet { name: String @key }\n")
    for path in (SCHEMA_IR, SCHEMA_STATE):
        store.objects.put(staging_path(path), new.texts[path])
    store.objects.put(SCHEMA_PG, new.source)
    with pytest.raises(RecoveryRequired, match="open the graph read-write"):
        contracts.current()


# ---- bootstrap


def without_contract(store: Store) -> None:
    for path in (SCHEMA_IR, SCHEMA_STATE):
        store.objects.delete(path)


def test_a_graph_without_contract_gets_one_from_its_text(store: Store, manifest: Manifest) -> None:
    without_contract(store)
    made = bootstrap_contract(store.objects, manifest, write=True)
    assert made is not None
    stored = load_contract(store.objects)
    assert stored.contract.ir_hash == made.contract.ir_hash
    assert {k: h.path for k, h in stored.contract.stored_tables.items()} == {
        key: entry.at.path for key, entry in manifest.current(MAIN).snapshot.entries.items()
    }


def test_a_read_only_open_bootstraps_in_memory_only(store: Store, manifest: Manifest) -> None:
    without_contract(store)
    assert bootstrap_contract(store.objects, manifest, write=False) is not None
    assert not store.objects.exists(SCHEMA_IR)


def test_a_graph_with_branches_is_not_bootstrapped(store: Store, manifest: Manifest) -> None:
    create_branch(manifest, store.tables, "review")
    without_contract(store)
    with pytest.raises(SchemaContractError, match="review"):
        bootstrap_contract(store.objects, manifest, write=True)


@pytest.mark.parametrize("left", [SCHEMA_IR, SCHEMA_STATE])
def test_exactly_one_missing_is_not_bootstrapped(
    store: Store, manifest: Manifest, left: str
) -> None:
    text = store.objects.read(left)
    without_contract(store)
    store.objects.put(left, text or "")
    assert bootstrap_contract(store.objects, manifest, write=True) is None
    with pytest.raises(SchemaContractError):
        load_contract(store.objects)


@pytest.mark.parametrize("source", [SCHEMA + "node Pet { a: I32 }", "node lower {}"])
def test_a_text_that_is_not_the_graphs_is_not_sealed(
    store: Store, manifest: Manifest, source: str
) -> None:
    without_contract(store)
    store.objects.put(SCHEMA_PG, source)
    with pytest.raises(SchemaContractError):
        bootstrap_contract(store.objects, manifest, write=True)
    assert not store.objects.exists(SCHEMA_IR)


def test_a_second_store_sees_the_same_contract(store: Store, contracts: AcceptedSchemas) -> None:
    other = AcceptedSchemas(open_store(store.root.uri).objects, StillRuntime())
    assert other.current().contract == contracts.current().contract
