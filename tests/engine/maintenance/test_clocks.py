"""Cleanup on an object store tells ages by the store's clock, or by its machine's own while the two agree."""

import json
import re
from datetime import timedelta

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ClockSkew
from omnigraphdb.limits import CLEANUP_SKEW_SECONDS_MAX, HEARTBEAT_SECONDS, SMALL_FRAGMENTS_MAX
from omnigraphdb.storage.layout import heartbeat_path
from tests.support.maintenance import OLDER, PERSON, SCHEMA, entry, records, tables_of
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

pytestmark = pytest.mark.s3

FAR, NEAR = 2 * CLEANUP_SKEW_SECONDS_MAX, CLEANUP_SKEW_SECONDS_MAX / 2
OPERATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def graph(bucket: Bucket) -> Graph:
    made: Graph = omnigraphdb.init(
        f"{bucket.uri}/g", SCHEMA, storage_options=bucket.storage_options
    )
    made.load(records(), mode="append")
    for number in range(3):
        made.mutate(OLDER, {"name": "p1", "age": number})
    return made


def versions(graph: Graph) -> list[int]:
    return [info.version for info in tables_of(graph).versions(entry(graph).at.path)]


@pytest.mark.parametrize("seconds", [FAR, -FAR, 600.0, -600.0])
@pytest.mark.parametrize("confirm", [True, False])
def test_cleanup_is_refused_by_name_when_its_clock_is_far_from_the_stores(
    graph: Graph, bucket: Bucket, seconds: float, confirm: bool
) -> None:
    before = versions(graph)
    bucket.pass_time(seconds)
    with pytest.raises(ClockSkew, match="nothing was removed") as refused:
        graph.cleanup(keep=1, older_than=timedelta(0), confirm=confirm)
    told = re.search(r"at least (\d+) s (behind|ahead of) that", str(refused.value))
    assert told is not None
    assert told[2] == ("behind" if seconds > 0 else "ahead of")
    assert abs(seconds) - 5 < int(told[1]) <= abs(seconds)
    assert refused.value.kind == "clock_skew"
    assert versions(graph) == before
    bucket.pass_time(-seconds)
    graph.cleanup(keep=1, confirm=True)
    assert len(versions(graph)) == 1


@pytest.mark.parametrize("seconds", [NEAR, -NEAR])
def test_cleanup_goes_on_while_its_clock_is_near_the_stores(
    graph: Graph, bucket: Bucket, seconds: float
) -> None:
    bucket.pass_time(seconds)
    graph.cleanup(keep=1, confirm=True)
    assert len(versions(graph)) == 1


@pytest.mark.parametrize("seconds", [600.0, -600.0])
def test_no_write_and_no_maintenance_of_its_own_is_refused_for_a_clock(
    graph: Graph, bucket: Bucket, seconds: float
) -> None:
    bucket.pass_time(seconds)
    for number in range(SMALL_FRAGMENTS_MAX + 2):
        name = f"late{number}"
        graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
    assert tables_of(graph).open(entry(graph).at).fragment_count() <= SMALL_FRAGMENTS_MAX
    graph.optimize()
    graph.branch_create("work")
    graph.branch_delete("work")
    graph.cleanup_preview(keep=1)
    assert_settled(graph)


# ---- loads of machines with other clocks


@pytest.mark.parametrize("loader_ahead", [-3600.0, -600.0, 0.0, 3600.0])
def test_a_load_counts_as_running_by_the_stores_date_of_its_heartbeat(
    graph: Graph, bucket: Bucket, loader_ahead: float
) -> None:
    objects, before = graph._engine.store.objects, versions(graph)
    expires = graph._engine.runtime.now_us() + int((HEARTBEAT_SECONDS + loader_ahead) * 1_000_000)
    objects.put(f"__staging/{OPERATION}/part-0", "x")
    objects.put(heartbeat_path(OPERATION), json.dumps({"expires_us": expires}))
    report = graph.cleanup(older_than=timedelta(0), confirm=True)
    errors = {one.table_key: one.error or "" for one in report.tables}
    assert "load is writing" in errors[PERSON]
    assert (report.scratch_removed, versions(graph)) == ((), before)
    assert objects.exists(f"__staging/{OPERATION}/part-0")


@pytest.mark.parametrize("loader_ahead", [-3600.0, 3600.0])
def test_a_load_that_died_is_swept_by_the_stores_date_of_its_heartbeat(
    graph: Graph, bucket: Bucket, loader_ahead: float
) -> None:
    objects = graph._engine.store.objects
    expires = graph._engine.runtime.now_us() + int(loader_ahead * 1_000_000)
    bucket.pass_time(-HEARTBEAT_SECONDS - 60)
    objects.put(f"__staging/{OPERATION}/part-0", "x")
    objects.put(heartbeat_path(OPERATION), json.dumps({"expires_us": expires}))
    bucket.pass_time(HEARTBEAT_SECONDS + 60)
    report = graph.cleanup(older_than=timedelta(0), confirm=True)
    assert [one.error for one in report.tables if one.error] == []
    assert report.scratch_removed == (OPERATION,)
    assert not objects.exists(f"__staging/{OPERATION}/part-0")
    assert len(versions(graph)) == 1
