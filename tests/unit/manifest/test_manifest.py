"""Warm states: the newest is kept, nothing grows without bound, and caches are told what they lost."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from omnigraphdb.errors import NotFound, PublishContention
from omnigraphdb.ids import MAIN, BranchName, TableKey
from omnigraphdb.limits import BRANCH_STATES_MAX
from omnigraphdb.manifest.branches import create_branch, delete_branch
from omnigraphdb.manifest.manifest import Heads, Manifest
from omnigraphdb.manifest.travel import find_commit
from tests.simulation.rows import make_lone_rows
from tests.support.manifests import (
    CITY,
    PERSON,
    FakeForks,
    another_handle,
    new_manifest,
    together,
    write,
)


@pytest.fixture
def manifest() -> Manifest:
    return new_manifest(make_lone_rows())


def test_an_older_state_never_replaces_a_newer_one(manifest: Manifest) -> None:
    old = manifest.load(MAIN)
    write(manifest, PERSON)
    new = manifest.current(MAIN)
    manifest.heads.keep(old)
    assert manifest.heads.get(MAIN) is new


def test_the_longest_unused_branch_is_forgotten_and_its_caches_told(manifest: Manifest) -> None:
    told: list[str] = []
    heads = Heads(told.append)
    handle = Manifest(rows=manifest.rows, runtime=manifest.runtime, heads=heads)
    names = [BranchName(f"b{number:02d}") for number in range(BRANCH_STATES_MAX)]
    for name in names:
        create_branch(manifest, FakeForks(), name)
        handle.current(name)
    handle.current(names[0])
    handle.current(MAIN)
    assert told == [names[1]]
    assert heads.get(names[1]) is None
    assert heads.get(names[0]) is not None


def test_looking_at_all_branches_forgets_none_in_use(manifest: Manifest) -> None:
    tables = FakeForks()
    for number in range(BRANCH_STATES_MAX + 3):
        create_branch(manifest, tables, f"b{number:02d}")
    create_branch(manifest, tables, "gone")
    used = manifest.current(BranchName("b00"))
    delete_branch(manifest, tables, "gone")
    with pytest.raises(NotFound):
        find_commit(manifest, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert manifest.heads.get(BranchName("b00")) is used


def test_past_states_are_bounded(manifest: Manifest) -> None:
    for _ in range(BRANCH_STATES_MAX + 5):
        write(manifest, PERSON)
    states = [manifest.past(MAIN, n) for n in range(1, BRANCH_STATES_MAX + 5)]  # type: ignore[arg-type]
    again = [manifest.past(MAIN, s.version) for s in states]
    assert [s.snapshot.pins for s in states] == [s.snapshot.pins for s in again]
    assert len(manifest.heads._past) == BRANCH_STATES_MAX


def test_clearing_forgets_everything(manifest: Manifest) -> None:
    state = manifest.current(MAIN)
    manifest.heads.clear()
    assert manifest.heads.get(MAIN) is None
    assert manifest.current(MAIN) is not state


def until_published(publish: Callable[[], object]) -> None:
    for _ in range(100):
        with suppress(PublishContention):
            publish()
            return
    raise AssertionError("a rival won a hundred publishes")


def test_threads_that_read_and_write_at_once_agree_in_the_end(manifest: Manifest) -> None:
    rival = another_handle(manifest)

    def writes(handle: Manifest, table: str) -> None:
        for _ in range(20):
            # Nobody waits here, so that a rival may win every round of a publish.
            until_published(partial(write, handle, TableKey(table)))

    def reads() -> list[int]:
        return [manifest.current(MAIN).version for _ in range(200)]

    results = together(
        partial(writes, manifest, PERSON), partial(writes, rival, CITY), reads, reads
    )
    seen = [result for result in results if isinstance(result, list)]
    assert len(seen) == 2
    for versions in seen:
        assert versions == sorted(versions)
    assert manifest.current(MAIN).snapshot.pins == {PERSON: 21, CITY: 21}
    assert rival.current(MAIN).snapshot.pins == {PERSON: 21, CITY: 21}
