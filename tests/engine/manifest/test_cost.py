"""What reading and publishing cost, counted on a real store with a rival that shares nothing but the disk."""

import pytest

from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.manifest.branches import create_branch, delete_branch
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.store import Store, open_store
from tests.support.manifests import CITY, PERSON, change, new_manifest, write

SPRING = BranchName("spring")


@pytest.fixture
def manifest(store: Store) -> Manifest:
    """A graph on disk."""
    return new_manifest(store.manifest)


@pytest.fixture
def rival(store: Store, manifest: Manifest) -> Manifest:
    """Another process' handle on it."""
    return Manifest(rows=open_store(store.root.uri).manifest, runtime=manifest.runtime)


def test_a_warm_read_is_one_probe(manifest: Manifest) -> None:
    first = manifest.current(MAIN)
    with counting() as costs:
        again = manifest.current(MAIN)
    assert again is first
    assert costs.as_dict() == {"manifest_probes": 1}


def test_a_warm_read_of_a_branch_is_one_probe_and_one_small_read(
    store: Store, manifest: Manifest
) -> None:
    create_branch(manifest, store.tables, "spring")
    manifest.current(SPRING)
    with counting() as costs:
        manifest.current(SPRING)
    assert costs.as_dict() == {"manifest_probes": 1, "object_reads": 1}


def test_a_reader_sees_a_rivals_commit_with_one_scan(manifest: Manifest, rival: Manifest) -> None:
    manifest.current(MAIN)
    write(rival, PERSON)
    with counting() as costs:
        seen = manifest.current(MAIN)
    assert seen.snapshot.pins == {PERSON: 2, CITY: 1}
    assert costs.as_dict() == {"manifest_opens": 1, "manifest_probes": 1, "manifest_scans": 1}


def test_a_stale_publish_scans_once_for_its_second_attempt(
    manifest: Manifest, rival: Manifest
) -> None:
    manifest.current(MAIN)
    write(rival, CITY)
    prepared = change(rival, PERSON)
    with counting() as costs:
        publish(manifest, prepared)
    assert (costs[Cost.MANIFEST_SCANS], costs[Cost.MANIFEST_SWAPS]) == (1, 1)
    assert costs[Cost.MANIFEST_OPENS] == 1
    assert len(manifest.load(MAIN).lineage.commits) == 3


def test_a_warm_publish_on_a_branch_looks_once_which_life_it_is(
    store: Store, manifest: Manifest
) -> None:
    create_branch(manifest, store.tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    prepared = change(manifest, PERSON, branch=SPRING)
    with counting() as costs:
        publish(manifest, prepared)
    assert costs.as_dict() == {"manifest_probes": 1, "manifest_swaps": 1, "object_reads": 1}


def test_a_past_state_is_loaded_once(manifest: Manifest, rival: Manifest) -> None:
    first = write(rival, PERSON).commit
    write(rival, CITY)
    assert first is not None
    state_at(manifest, MAIN, first.id)
    with counting() as costs:
        state_at(manifest, MAIN, first.id)
    assert costs[Cost.MANIFEST_SCANS] == costs[Cost.MANIFEST_OPENS] == 0


def test_creating_a_branch_costs_the_same_at_any_depth(store: Store, manifest: Manifest) -> None:
    counts = []
    for number in (1, 2):
        manifest.current(MAIN)
        with counting() as costs:
            create_branch(manifest, store.tables, f"b{number}")
        counts.append(costs.as_dict())
        for _ in range(40):
            write(manifest, PERSON)
    assert counts[0] == counts[1]
    assert counts[0].get("manifest_scans", 0) == 0


def test_deleting_a_branch_that_owns_no_table_asks_nothing_of_the_others(
    store: Store, manifest: Manifest
) -> None:
    def cost(survivors: int) -> dict[str, int]:
        for number in range(survivors):
            name = BranchName(f"s{number}")
            if name not in manifest.rows.branches():
                create_branch(manifest, store.tables, name)
            manifest.current(name)
        create_branch(manifest, store.tables, "gone")
        with counting() as costs:
            delete_branch(manifest, store.tables, "gone")
        return costs.as_dict()

    # The first branch of a name has none before it to be looked at.
    cost(1)
    few, many = cost(4), cost(12)
    grown = {name: many.get(name, 0) - few.get(name, 0) for name in many}
    assert grown["manifest_probes"] == 0
    assert grown["manifest_opens"] <= 1
    assert grown.get("manifest_scans", 0) == grown["object_reads"] == 0
