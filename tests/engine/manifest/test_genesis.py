"""The first moments of a graph: all of it, or nothing that looks like one."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial

import pytest

from omnigraphdb.catalog.names import table_path
from omnigraphdb.errors import AlreadyInitialized, SchemaError, StorageError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed
from omnigraphdb.ids import MAIN, TableKey
from omnigraphdb.manifest.accepted_schema import AcceptedSchema, load_contract
from omnigraphdb.manifest.genesis import initialise
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.stamp import CURRENT, STAMP
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.layout import (
    LEGACY_ACTORS,
    LEGACY_COMMITS,
    MANIFEST,
    SCHEMA_FILES,
    SCHEMA_PG,
)
from omnigraphdb.storage.store import Store, open_store
from tests.support.graphs import SCHEMA, accepted, init, manifest_of
from tests.support.manifests import together

KEYS = [TableKey("edge:Knows"), TableKey("node:City"), TableKey("node:Person")]


def schema_files(store: Store) -> list[str]:
    return [path for path in SCHEMA_FILES if store.objects.exists(path)]


def test_a_new_graph_shows_every_table_empty(store: Store) -> None:
    init(store)
    fresh = open_store(store.root.uri)
    state = manifest_of(fresh).current(MAIN)
    assert list(state.snapshot.entries) == KEYS
    for key, entry in state.snapshot.entries.items():
        assert (entry.at.path, entry.version, entry.row_count) == (table_path(key, 1), 1, 0)
        table = fresh.tables.open(entry.at)
        assert table.count() == 0
    person = fresh.tables.open(state.snapshot.entries[KEYS[2]].at)
    assert person.schema.names == ["id", "age", "name"]


def test_genesis_is_one_commit_without_parent_and_actor_at_version_one(store: Store) -> None:
    init(store)
    state = manifest_of(open_store(store.root.uri)).current(MAIN)
    (genesis,) = state.lineage.commits
    assert (genesis.parent, genesis.merged_parent, genesis.actor) == (None, None, None)
    assert (genesis.manifest_version, genesis.kind) == (1, CommitKind.INIT)
    assert genesis.tables == tuple(KEYS)
    heads = [r for r in state.image.rows.to_pylist() if r["object_type"] == "graph_head"]
    assert [row["object_id"] for row in heads] == ["graph_head:main"]


def test_the_creating_commit_carries_stamp_and_rows(store: Store) -> None:
    init(store)
    first = open_store(store.root.uri).manifest.load(None, version=1)  # type: ignore[arg-type]
    assert first.metadata[STAMP] == str(CURRENT)
    assert first.rows.num_rows == 2 * len(KEYS) + 2


def test_no_legacy_table_and_nothing_else_is_created(store: Store) -> None:
    init(store)
    for path in (LEGACY_COMMITS, LEGACY_ACTORS, "__recovery", "__staging"):
        assert not store.objects.exists(path)
    assert store.objects.list("") == tuple(sorted(SCHEMA_FILES))


def test_the_stored_schema_is_the_accepted_one(store: Store) -> None:
    init(store)
    stored = load_contract(open_store(store.root.uri).objects)
    assert stored.source == SCHEMA
    assert stored.contract.ir_hash == accepted().contract.ir_hash
    assert list(stored.catalog.tables) == KEYS


def test_a_graph_without_types_is_a_graph(store: Store) -> None:
    state = init(store, "")
    assert state.snapshot.entries == {}
    assert len(state.lineage.commits) == 1


@pytest.mark.parametrize("force", [False, True])
def test_a_root_that_holds_a_graph_is_refused(store: Store, force: bool) -> None:
    init(store)
    before = {path: store.objects.read(path) for path in SCHEMA_FILES}
    with pytest.raises(AlreadyInitialized):
        init(open_store(store.root.uri), "node Other { a: I32 }", force=force)
    assert {path: store.objects.read(path) for path in SCHEMA_FILES} == before


@pytest.mark.parametrize("left", SCHEMA_FILES)
def test_any_schema_file_makes_a_strict_init_refuse_before_it_compiles(
    store: Store, left: str
) -> None:
    store.objects.put(left, "left by somebody")

    def never() -> AcceptedSchema:
        raise AssertionError("compiled before the root was looked at")

    with pytest.raises(AlreadyInitialized, match="and no graph") as refused:
        initialise(store.objects, store.tables, manifest_of(store), never, uri="x")
    assert "--force" in str(refused.value.hint)
    assert schema_files(store) == [left]


def test_force_takes_over_what_a_dead_init_left(store: Store) -> None:
    store.objects.put(SCHEMA_PG, "node Half { a: I32 }")
    left = accepted().contract.catalog.tables[KEYS[2]]
    store.tables.create(table_path(KEYS[2], 1), left.schema)
    state = init(store, force=True)
    assert list(state.snapshot.entries) == KEYS
    assert load_contract(store.objects).source == SCHEMA


def test_a_schema_that_does_not_compile_leaves_nothing(store: Store) -> None:
    with pytest.raises(SchemaError):
        init(store, "node lower { }")
    assert schema_files(store) == []
    assert not store.manifest.exists()
    init(store)


@pytest.mark.parametrize(
    "at",
    [
        Failpoint.INIT_SCHEMA_WRITTEN,
        Failpoint.INIT_CONTRACT_WRITTEN,
        Failpoint.INIT_TABLES_CREATED,
    ],
)
def test_an_init_that_fails_returns_its_error_and_leaves_no_schema_file(
    store: Store, at: Failpoint
) -> None:
    with armed(at), pytest.raises(Injected):
        init(store)
    assert schema_files(store) == []
    if at is not Failpoint.INIT_TABLES_CREATED:
        assert not store.manifest.exists()
        assert list(init(open_store(store.root.uri)).snapshot.entries) == KEYS


@pytest.mark.parametrize("at", [Failpoint.INIT_SCHEMA_WRITTEN, Failpoint.INIT_CONTRACT_WRITTEN])
def test_an_init_that_dies_leaves_a_claim_that_force_takes_over(
    store: Store, at: Failpoint
) -> None:
    killed(store, at)
    assert SCHEMA_PG in schema_files(store)
    assert not store.manifest.exists()
    with pytest.raises(AlreadyInitialized):
        init(open_store(store.root.uri))
    state = init(open_store(store.root.uri), force=True)
    assert list(state.snapshot.entries) == KEYS
    assert load_contract(store.objects).source == SCHEMA


def test_an_init_that_dies_after_its_manifest_is_a_graph(store: Store) -> None:
    killed(store, Failpoint.INIT_TABLES_CREATED)
    assert load_contract(store.objects).source == SCHEMA
    assert list(manifest_of(open_store(store.root.uri)).current(MAIN).snapshot.entries) == KEYS


def killed(store: Store, at: Failpoint) -> None:
    """Run an init in a process that dies there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.graphs", store.root.uri],
        env=os.environ | {"OMNIGRAPH_FAILPOINTS": f"{at}=exit"},
        check=False,
        timeout=PARK_SECONDS_MAX,
    )
    assert done.returncode == -signal.SIGKILL


class NoManifest:
    """Rows that can be created nowhere."""

    def __init__(self, store: Store) -> None:
        self.inner = store.manifest

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def create(self, *_: object, **__: object) -> None:
        raise StorageError("the disk is full", storage_kind="permanent")


def test_tables_of_an_init_without_manifest_are_removed_again(store: Store) -> None:
    manifest = replace(manifest_of(store), rows=NoManifest(store))  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="full"):
        initialise(store.objects, store.tables, manifest, accepted, uri="x")
    assert schema_files(store) == []
    assert not any(store.tables.exists(table_path(key, 1)) for key in KEYS)
    init(store)


def test_of_concurrent_inits_exactly_one_succeeds(store: Store) -> None:
    sources = [f"node Person {{ name: String @key  n{number}: I32? }}" for number in range(4)]
    roots = [open_store(store.root.uri) for _ in sources]
    results = together(
        *(partial(init, root, text) for root, text in zip(roots, sources, strict=True))
    )
    won = [place for place, result in enumerate(results) if isinstance(result, BranchState)]
    assert len(won) == 1
    assert sum(isinstance(result, AlreadyInitialized) for result in results) == 3
    stored = load_contract(store.objects)
    assert stored.source == sources[won[0]]
    state = manifest_of(open_store(store.root.uri)).current(MAIN)
    assert len(state.lineage.commits) == 1
    person = store.tables.open(state.snapshot.entries[KEYS[2]].at)
    assert f"n{won[0]}" in person.schema.names


def test_a_loser_of_the_claim_does_not_delete_the_winners_files(store: Store) -> None:
    claimed = threading.Event()

    def late() -> AcceptedSchema:
        # The winner claims the root while this one compiles.
        init(open_store(store.root.uri))
        claimed.set()
        return accepted("node Other { a: I32 }")

    with pytest.raises(AlreadyInitialized):
        initialise(store.objects, store.tables, manifest_of(store), late, uri="x")
    assert claimed.is_set()
    assert load_contract(store.objects).source == SCHEMA
    assert store.objects.exists(MANIFEST)
