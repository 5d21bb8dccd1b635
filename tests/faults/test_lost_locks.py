"""Writers on an object store that lose their locks while they work: whoever may have lost them destroys nothing.

A writer that is *cut off* sees by its own clock that its leases ran out. One that is *paused*, with its machine, does not.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_graph
from omnigraphdb.failpoints import Failpoint, parked
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.runtime import SystemRuntime
from omnigraphdb.storage.locks import table
from tests.support.child import run_parked_child, spawn
from tests.support.leases import assert_taken_over, lease_tokens, resume, shorten_leases, stop
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

pytestmark = pytest.mark.s3

SCHEMA: Final = "node P { k: String @key }\nnode Q { k: String @key }\nedge E: P -> Q\n"
INSERT: Final = "query m($k: String) { insert P { k: $k } }"
INSERT_ALL: Final = """query m($k: String) {
  insert P { k: $k }
  insert Q { k: $k }
  insert E { from: $k, to: $k } }"""
QUIET: Final = {"maintenance": "off"}
VERSION_OF_P: Final = r"nodes/[^/]+/_versions/"
Options = Mapping[str, str]


class PausedRuntime(SystemRuntime):
    """The clocks of a machine that is paused with all that runs on it: it does not notice that time passes."""

    def __init__(self) -> None:
        super().__init__()
        self._now = super().now_us(), super().monotonic()

    def now_us(self) -> int:
        return self._now[0]

    def monotonic(self) -> float:
        return self._now[1]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A writer that stands still past the end of its leases, and the end of its write that the test expects."""

    text: str
    branch: str
    is_paused: bool
    ends: tuple[str, ...]

    def write(self, uri: str, options: Options) -> None:
        """Write, and check how the write ends and what its error advises."""
        shorten_leases()
        runtime = SystemRuntime()
        if self.is_paused:
            runtime = PausedRuntime()
            # A renewal would notice that somebody else has the lease.
            vars(table).update(LEASE_RENEW_SECONDS=10_000.0)
        engine = open_graph(uri, storage_options=options, config=QUIET, runtime=runtime)
        with Graph(engine) as graph:
            try:
                graph.mutate(self.text, {"k": "sleeper"}, branch=self.branch)
                end, advice = "acknowledged", ""
            except omnigraphdb.OmniError as error:
                end, advice = type(error).__name__, f"{error} {error.hint}"
        assert end in self.ends, f"{end}: {advice}"
        assert "omnigraphdb repair" not in advice


@pytest.fixture
def graph(bucket: Bucket, short_leases: float) -> Graph:
    """The handle of the rival."""
    found = omnigraphdb.init(
        f"{bucket.uri}/g", SCHEMA, storage_options=bucket.storage_options, config=QUIET
    )
    found.branch_create("b")
    return found


def take_over(graph: Graph, before: Mapping[str, int]) -> None:
    """Recover again and again, until the leases of a writer that stands still have run out by the clock of this process."""
    while not graph.recoveries():
        with suppress(omnigraphdb.LockTimeout):
            graph.refresh(roll_back=True)
    assert_taken_over(before, lease_tokens(graph))


def wait_until(is_done: Callable[[], bool], what: str) -> None:
    """Look until another process did something."""
    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)


def list_keys(graph: Graph, branch: str) -> dict[str, set[str]]:
    """The keys that a branch shows, by type; edges by the keys of their ends."""
    columns = {"P": "k", "Q": "k", "E": "src"}
    return {
        name: set(graph.table(name, branch=branch).column(column).to_pylist())
        for name, column in columns.items()
    }


def assert_record_is_true(graph: Graph, branch: str) -> None:
    """Every operation that the audit calls rolled back shows nowhere: of its commits there are those of recovery alone."""
    commits = graph._engine.manifest.current(BranchName(branch)).lineage.commits
    shown = {commit.operation_id for commit in commits if commit.actor != RECOVERY_ACTOR}
    rows = graph.recoveries()
    back = {row.operation_id for row in rows if row.recovery_kind is RecoveryKind.ROLLED_BACK}
    assert back
    assert shown.isdisjoint(back)


CUT_OFF: Final = pytest.param(False, id="cut off")
PAUSED: Final = pytest.param(True, id="paused")


@pytest.mark.parametrize("is_paused", [CUT_OFF, PAUSED])
def test_a_sidecar_stays_under_the_recoverer_that_works_on_it(
    bucket: Bucket, graph: Graph, is_paused: bool
) -> None:
    """The put of a version is refused, and its writer does not remove its sidecar while another one rolls back."""
    # One that is paused may be told that another process is amid its recovery, or wait for that.
    ends = ("acknowledged", "RecoveryRequired") if is_paused else ("RecoveryRequired",)
    sleeper = Sleeper(INSERT, "main", is_paused, ends)
    on_its_way = bucket.delay_put(VERSION_OF_P)
    process = spawn(sleeper.write, graph.uri, bucket.storage_options)
    on_its_way.wait()
    before = lease_tokens(graph)
    stop(process)
    with parked(Failpoint.ROLLBACK_TABLE_RESTORED) as park:
        rival = threading.Thread(target=take_over, args=(graph, before))
        rival.start()
        assert park.reached.wait(60)
        assert on_its_way.arrive() >= 400
        resume(process)
        if is_paused:
            wait_until(
                lambda: not graph.pending_recoveries(), "the sleeper's removal of its sidecar"
            )
        else:
            process.join(60)
    rival.join(60)
    process.join(60)
    assert process.exitcode == 0
    assert_settled(graph)
    graph.mutate(INSERT, {"k": "next"})
    shown = list_keys(graph, "main")["P"]
    assert shown == {"next"} or (is_paused and shown == {"next", "sleeper"})
    assert_record_is_true(graph, "main")
    assert_settled(graph)


@pytest.mark.parametrize("is_paused", [CUT_OFF, PAUSED])
def test_forks_that_others_adopted_stay(bucket: Bucket, graph: Graph, is_paused: bool) -> None:
    ends = ("acknowledged",) if is_paused else ("RecoveryRequired",)
    sleeper = Sleeper(INSERT_ALL, "b", is_paused, ends)
    write = sleeper.write, graph.uri, bucket.storage_options
    with run_parked_child(*write, at=Failpoint.FORK_CREATED, skip=1) as child:
        before = lease_tokens(graph)
        stop(child.process)
        take_over(graph, before)
        graph.mutate(INSERT_ALL, {"k": "awake"}, branch="b")
        resume(child.process)
        child.release()
    names = {"awake", "sleeper"} if is_paused else {"awake"}
    assert list_keys(graph, "b") == dict.fromkeys("PQE", names)
    assert_record_is_true(graph, "b")
    assert_settled(graph)
    graph.mutate(INSERT_ALL, {"k": "next"}, branch="b")
    assert_settled(graph)


def test_a_write_that_is_prepared_again_is_another_operation(bucket: Bucket, graph: Graph) -> None:
    """A rival rolled the first attempt back; the audit row of that one does not name the second one."""
    sleeper = Sleeper(INSERT, "main", is_paused=True, ends=("acknowledged",))
    on_its_way = bucket.delay_put(VERSION_OF_P)
    process = spawn(sleeper.write, graph.uri, bucket.storage_options)
    on_its_way.wait()
    before = lease_tokens(graph)
    stop(process)
    take_over(graph, before)
    assert on_its_way.arrive() >= 400
    resume(process)
    process.join(60)
    assert process.exitcode == 0
    assert list_keys(graph, "main")["P"] == {"sleeper"}
    assert_record_is_true(graph, "main")
    assert_settled(graph)


def test_a_repeated_request_does_not_replace_a_sidecar_that_is_decided(
    bucket: Bucket, graph: Graph
) -> None:
    sleeper = Sleeper(INSERT_ALL, "main", is_paused=False, ends=())
    first = bucket.delay_put(r"__recovery/", is_repeated=True)
    write: tuple[Callable[..., None], str, Options]
    write = sleeper.write, graph.uri, bucket.storage_options
    with run_parked_child(*write, at=Failpoint.TABLE_COMMITTED) as child:
        before = lease_tokens(graph)
        child.kill()
    with parked(Failpoint.ROLLBACK_DECIDED) as park:
        rival = threading.Thread(target=take_over, args=(graph, before))
        rival.start()
        assert park.reached.wait(60)
        assert first.arrive() >= 400
        (sidecar,) = graph._engine.committer.sidecars.pending()
        assert sidecar.recorded is not None
    rival.join(60)
    assert list_keys(graph, "main") == {"P": set(), "Q": set(), "E": set()}
    graph.mutate(INSERT_ALL, {"k": "next"})
    assert_settled(graph)
