"""A publisher on an object store that sleeps between its look and its swap, while cleanup goes over the manifest.

Nobody holds it back there: the version that its swap should have collided with may be gone.
"""

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_graph
from omnigraphdb.errors import RecoveryRequired
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN, Version
from omnigraphdb.limits import MANIFEST_SECONDS_MIN
from omnigraphdb.manifest.manifest import ClockReading
from omnigraphdb.runtime import SystemRuntime
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.layout import MANIFEST
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, content, note

ADD = 'query q() { insert Person { k: "slept" } }'


class Sleeper(SystemRuntime):
    """A clock that jumps when the machine was asleep; the other clock stood still meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.slept_us


def test_the_age_of_a_state_is_told_by_the_clock_that_shows_more() -> None:
    earlier = ClockReading(monotonic=10.0, wall_us=5_000_000)
    assert ClockReading(monotonic=11.0, wall_us=3_605_000_000).seconds_since(earlier) == 3600
    assert ClockReading(monotonic=25.0, wall_us=0).seconds_since(earlier) == 15


@pytest.mark.s3
@pytest.mark.parametrize("is_passed", [False, True])
def test_a_swap_of_a_publisher_that_slept_is_believed_only_when_it_shows(
    bucket: Bucket, is_passed: bool
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
    runtime = Sleeper()
    sleeper = Graph(open_graph(uri, storage_options=options, runtime=runtime))
    others = omnigraphdb.open(uri, storage_options=options)
    before = content(others)

    def sleep() -> None:
        if is_passed:
            known = sleeper._engine.manifest.current(MAIN).version
            for number in range(3):
                note(others, "main", f"meanwhile {number}")
            others._engine.store.objects.delete(version_file(MANIFEST, Version(known + 1)))
        runtime.slept_us = int(MANIFEST_SECONDS_MIN * 1_000_000)

    with armed(Failpoint.PUBLISH_PREPARED, once(sleep)):
        if is_passed:
            with pytest.raises(RecoveryRequired):
                sleeper.mutate(ADD)
        else:
            sleeper.mutate(ADD)
    with Graph(open_graph(uri, storage_options=options, runtime=runtime)) as again:
        people = [one for one in content(again) if '"Note"' not in one]
        assert len(people) == len([one for one in before if '"Note"' not in one]) + 1
        assert_settled(again)
