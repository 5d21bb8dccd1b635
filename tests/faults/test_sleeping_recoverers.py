"""A recoverer on an object store that stands still past the end of its leases, before it restores a table.

Others write meanwhile. What they were acknowledged stays, whatever the recoverer does when it goes on.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint
from omnigraphdb.ids import MAIN, OperationId, TableKey, Version
from omnigraphdb.manifest.change import Change, Update
from omnigraphdb.recovery.commits import draft_commit, publish_commit
from omnigraphdb.storage.lance.commit import OPERATION_ID
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.leases import assert_taken_over, lease_tokens, resume, shorten_leases, stop
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"
PERSON = TableKey("node:Person")
Options = Mapping[str, str]


def insert(uri: str, branch: str, options: Options) -> None:
    """Insert a person."""
    shorten_leases()
    with omnigraphdb.open(uri, storage_options=options, config={"maintenance": "off"}) as graph:
        graph.mutate(ADD, {"n": "dead"}, branch=branch)


def recover(uri: str, config: Mapping[str, str], options: Options) -> None:
    """Open again and again until nothing is left to recover: the leases of the dead run out some time."""
    shorten_leases()
    with suppress(omnigraphdb.OmniError):
        while True:
            with omnigraphdb.open(uri, storage_options=options, config=config) as graph:
                if not graph.pending_recoveries():
                    return


def names(graph: Graph, branch: str) -> list[str]:
    return sorted(graph.table("Person", branch=branch)["name"].to_pylist())


@pytest.mark.s3
@pytest.mark.parametrize("unofficial", ["on", "off"])
@pytest.mark.parametrize("branch", ["main", "b"])
def test_a_restore_that_comes_late_undoes_no_acknowledged_write(
    bucket: Bucket, short_leases: float, branch: str, unofficial: str
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    config = {"maintenance": "off", "unofficial_lance": unofficial}
    with omnigraphdb.init(uri, SCHEMA, storage_options=options, config=config) as graph:
        if branch != "main":
            graph.branch_create(branch)
        graph.mutate(ADD, {"n": "first"}, branch=branch)
        died = run_child(insert, uri, branch, dict(options), failpoints=f"{Failpoint.ARMED}=exit")
        assert died == KILLED
        with run_parked_child(
            recover, uri, config, dict(options), at=Failpoint.RESTORE_LOOKED
        ) as sleeper:
            before = lease_tokens(graph)
            stop(sleeper.process)
            acknowledged = [graph.mutate(ADD, {"n": n}, branch=branch).commit for n in ("a", "b")]
            assert_taken_over(before, lease_tokens(graph))
            resume(sleeper.process)
            sleeper.release()
        assert names(graph, branch) == ["a", "b", "first"]
    with omnigraphdb.open(uri, storage_options=options, config=config) as later:
        assert names(later, branch) == ["a", "b", "first"]
        assert [row.recovery_kind.value for row in later.recoveries()] == ["RolledBack"]
        log = {one.id for one in later.commits(branch=branch)}
        assert {one.id for one in acknowledged if one is not None} <= log
        later.mutate(ADD, {"n": "next"}, branch=branch)
        assert_settled(later)


# ---- graphs in which a release before conditional Restores left one over the commits of others


def restore_blindly(graph: Graph, version: Version, operation: OperationId) -> Version:
    """Let Lance restore the people as it does without a condition: over whatever was committed since."""
    engine = graph._engine
    at = engine.manifest.load(MAIN).snapshot.entry(PERSON).at
    change = Transaction(
        version, LanceOperation.Restore(version), transaction_properties={OPERATION_ID: operation}
    )
    uri = f"{engine.store.root.uri}/{at.path}"
    options = dict(engine.location.options)
    base = lance.dataset(uri, version=version, storage_options=options)
    landed = LanceDataset.commit(base, change, max_retries=0)
    return Version(landed.version)


@pytest.fixture
def hurt(tmp_path: Path) -> tuple[Graph, OperationId]:
    """A graph with two commits, over which the recovery of an operation restores the version before them."""
    uri = str(tmp_path / "g")
    graph = omnigraphdb.init(uri, SCHEMA, config={"maintenance": "off"})
    graph.mutate(ADD, {"n": "first"})
    assert run_child(insert, uri, "main", {}, failpoints=f"{Failpoint.ARMED}=exit") == KILLED
    (pending,) = graph.pending_recoveries()
    first = graph._engine.manifest.load(MAIN).snapshot.pins[PERSON]
    for name in ("a", "b"):
        graph.mutate(ADD, {"n": name})
    operation = OperationId(pending.operation_id)
    restore_blindly(graph, first, operation)
    return graph, operation


def test_a_restore_that_no_sidecar_explains_is_undone_by_the_next_write(
    hurt: tuple[Graph, OperationId],
) -> None:
    graph, operation = hurt
    assert [one.check for one in graph.doctor()] == ["drift"]
    assert [row.operation_id for row in graph.recoveries()] == [operation]
    graph.mutate(ADD, {"n": "next"})
    assert names(graph, "main") == ["a", "b", "first", "next"]
    assert_settled(graph)


@pytest.mark.s3
def test_a_restore_of_what_is_not_visible_any_more_is_no_finished_one(
    bucket: Bucket, short_leases: float
) -> None:
    uri, options, config = f"{bucket.uri}/g", bucket.storage_options, {"maintenance": "off"}
    with omnigraphdb.init(uri, SCHEMA, storage_options=options, config=config) as graph:
        graph.mutate(ADD, {"n": "first"})
        first = graph._engine.manifest.load(MAIN).snapshot.pins[PERSON]
        died = run_child(insert, uri, "main", dict(options), failpoints=f"{Failpoint.ARMED}=exit")
        assert died == KILLED
        place = (uri, config, dict(options))
        with run_parked_child(recover, *place, at=Failpoint.RESTORE_LOOKED) as recoverer:
            recoverer.kill()
        for name in ("a", "b"):
            graph.mutate(ADD, {"n": name})
        (pending,) = graph.pending_recoveries()
        restore_blindly(graph, first, OperationId(pending.operation_id))
        assert {one.check for one in graph.doctor()} == {"pending recovery", "drift"}
    recover(*place)
    with omnigraphdb.open(uri, storage_options=options, config=config) as later:
        assert names(later, "main") == ["a", "b", "first"]
        assert [row.recovery_kind.value for row in later.recoveries()] == ["RolledBack"]
        later.mutate(ADD, {"n": "next"})
        assert_settled(later)


def test_the_doctor_names_the_commits_that_a_published_restore_undid(
    hurt: tuple[Graph, OperationId],
) -> None:
    graph, operation = hurt
    engine, acknowledged = graph._engine, [one.id for one in graph.commits()[:2]]
    entry = engine.manifest.load(MAIN).snapshot.entry(PERSON)
    head = engine.store.tables.head(entry.at.path, None)
    update = Update(table_key=PERSON, at=replace(entry.at, version=head), row_count=1)
    change = Change(
        branch=MAIN,
        updates=(update,),
        expected={PERSON: entry.version},
        draft=draft_commit(engine.committer, operation),
    )
    publish_commit(engine.committer, change)
    omnigraphdb.open(graph.uri).close()
    (issue,) = graph.doctor()
    assert (issue.check, issue.table_key) == ("undone commits", PERSON)
    assert all(commit in issue.message for commit in acknowledged)
    assert f"at commit {acknowledged[0]}" in issue.remedy
    at = graph.table("Person", at=acknowledged[0])["name"].to_pylist()
    assert sorted(at) == ["a", "b", "first"]
