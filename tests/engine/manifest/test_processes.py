"""Publishers of different processes: one chain, nothing lost, and every budget kept."""

from collections import Counter
from dataclasses import replace

from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN
from omnigraphdb.limits import PUBLISH_RETRIES_MAX
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.storage.locks.table import open_locks
from omnigraphdb.storage.store import Store, open_store
from tests.support.manifests import CITY, PERSON, StillRuntime, new_manifest, write
from tests.support.publishers import publish_many
from tests.support.store_roots import in_processes

PUBLISHES = 15


def test_publishers_of_three_processes_form_one_chain(store: Store) -> None:
    new_manifest(store.manifest)
    work = [(PERSON, "a"), (PERSON, "b"), (CITY, "c")]
    lost = in_processes(
        publish_many, [(store.root.uri, table, PUBLISHES, actor) for table, actor in work]
    )
    state = Manifest(rows=open_store(store.root.uri).manifest, runtime=StillRuntime()).load(MAIN)
    commits = state.lineage.commits
    assert len(commits) == 1 + 3 * PUBLISHES
    assert [commit.parent for commit in commits] == [None, *(commit.id for commit in commits[:-1])]
    assert Counter(commit.actor for commit in commits[1:]) == dict.fromkeys("abc", PUBLISHES)
    assert state.snapshot.pins == {PERSON: 1 + 2 * PUBLISHES, CITY: 1 + PUBLISHES}
    rows_of_the_head = [r for r in state.image.rows.to_pylist() if r["object_type"] == "graph_head"]
    assert len(rows_of_the_head) == 1
    # The writer of its own table is never refused for a pin, and nobody runs out of rounds.
    assert lost[2][0] == 0
    assert [contention for _, contention in lost] == [0, 0, 0]


def test_a_turn_that_is_never_given_back_delays_a_publish_and_does_not_stop_it(
    store: Store,
) -> None:
    manifest = replace(new_manifest(store.manifest), publish_locks=store.locks)
    stopped = store.locks.acquire(f"__publish__@{MAIN}", wait=0)
    assert stopped is not None
    quick = open_locks(store.root, store.objects, StillRuntime())
    write(replace(manifest, publish_locks=quick), PERSON)
    store.locks.release(stopped)
    assert manifest.current(MAIN).snapshot.pins == {PERSON: 2, CITY: 1}


def test_a_publisher_that_lost_every_round_without_its_turn_waits_for_it_again(
    store: Store,
) -> None:
    manifest = new_manifest(store.manifest)
    missed = store.locks.acquire(f"__publish__@{MAIN}", wait=0)
    assert missed is not None
    quick = open_locks(store.root, store.objects, StillRuntime())
    with armed(Failpoint.PUBLISH_LOAD, f"{1 + PUBLISH_RETRIES_MAX}*error"):
        write(replace(manifest, publish_locks=quick), PERSON)
    store.locks.release(missed)
    assert manifest.current(MAIN).snapshot.pins == {PERSON: 2, CITY: 1}
