"""Time travel: commits, versions and moments, on main, on branches and through them."""

from dataclasses import replace

import pytest

from omnigraphdb.errors import HistoryReclaimed, NotFound, TableNotFound, UserInputError
from omnigraphdb.ids import MAIN, BranchName, CommitId, Version
from omnigraphdb.manifest.branches import create_branch, delete_branch
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.manifest.travel import find_commit, state_at
from omnigraphdb.runtime import datetime_of
from omnigraphdb.storage.rows import Image
from tests.support.manifests import (
    CITY,
    PERSON,
    START_US,
    FakeForks,
    another_handle,
    change,
    update,
    write,
)
from tests.support.wrapped_rows import WrappedRows

SPRING = BranchName("spring")


def commit(manifest: Manifest, *tables: str, branch: BranchName = MAIN) -> GraphCommit:
    made = write(manifest, *tables, branch=branch).commit  # type: ignore[arg-type]
    assert made is not None
    return made


def test_every_commit_keeps_what_it_showed(manifest: Manifest) -> None:
    made = [commit(manifest, PERSON), commit(manifest, CITY), commit(manifest, PERSON, CITY)]
    truth = [{PERSON: 2, CITY: 1}, {PERSON: 2, CITY: 2}, {PERSON: 3, CITY: 3}]
    for handle in (manifest, another_handle(manifest)):
        for one, pins in zip(made, truth, strict=True):
            for at in (one.id, one.id.lower(), one.manifest_version):
                state = state_at(handle, MAIN, at)
                assert state.snapshot.pins == pins
                assert state.head == one


def test_a_unique_prefix_names_a_commit_and_a_shared_one_is_refused(manifest: Manifest) -> None:
    first, second = commit(manifest, PERSON), commit(manifest, PERSON)
    named = replace(change(manifest, CITY), draft=None)
    draft = Draft(commit=CommitId("01UNIQUE000000000000000001"), kind=CommitKind.LOAD)
    publish(manifest, replace(named, draft=draft))
    commit(manifest, PERSON)
    head = state_at(manifest, MAIN, "01unique").head
    assert head is not None
    assert head.id == draft.commit
    assert first.id[:10] == second.id[:10]
    with pytest.raises(UserInputError, match="not unique"):
        state_at(manifest, MAIN, first.id[:10])


def test_a_moment_names_the_state_of_that_moment(manifest: Manifest) -> None:
    first, second = commit(manifest, PERSON), commit(manifest, PERSON)
    assert state_at(manifest, MAIN, datetime_of(first.created_at)).head == first
    assert state_at(manifest, MAIN, datetime_of(second.created_at - 1)).head == first
    assert state_at(manifest, MAIN, datetime_of(second.created_at + 10**9)).head == second
    with pytest.raises(NotFound) as refused:
        state_at(manifest, MAIN, datetime_of(START_US - 1))
    assert "did not exist yet" in str(refused.value.hint)


@pytest.mark.parametrize("version", [0, -1, 99])
def test_a_version_that_never_was_is_not_found(manifest: Manifest, version: int) -> None:
    with pytest.raises(NotFound, match=str(version)):
        state_at(manifest, MAIN, version)


@pytest.mark.parametrize("name", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3ND", "short", ""])
def test_a_commit_that_never_was_is_not_found_and_the_forms_are_named(
    manifest: Manifest, name: str
) -> None:
    with pytest.raises(NotFound) as refused:
        state_at(manifest, MAIN, name)
    assert name in str(refused.value)
    assert "at least 8" in str(refused.value.hint)


class Reclaimed(WrappedRows):
    """Rows whose old versions are gone."""

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        if version is not None and version < self.inner.head(branch):
            raise TableNotFound(f"version {version}")
        return self.inner.load(branch, version)


def test_a_version_that_was_removed_is_reclaimed_not_unknown(manifest: Manifest) -> None:
    gone = commit(manifest, PERSON)
    commit(manifest, PERSON)
    handle = replace(another_handle(manifest), rows=Reclaimed(manifest.rows))  # type: ignore[arg-type]
    for at in (gone.id, gone.manifest_version):
        with pytest.raises(HistoryReclaimed):
            state_at(handle, MAIN, at)


def test_the_head_is_read_as_it_is_now_maintenance_included(manifest: Manifest) -> None:
    head = commit(manifest, PERSON)
    publish(manifest, Change(branch=MAIN, updates=(update(manifest, PERSON, rows=0),)))
    state = state_at(manifest, MAIN, head.id)
    assert state.snapshot.pins[PERSON] == 3
    assert state.head == head
    commit(manifest, CITY)
    assert state_at(manifest, MAIN, head.id).snapshot.pins[PERSON] == 2


# ---- branches


def test_a_branch_travels_through_what_it_inherited(manifest: Manifest, tables: FakeForks) -> None:
    early, fork = commit(manifest, PERSON), commit(manifest, CITY)
    create_branch(manifest, tables, "spring")
    own = commit(manifest, PERSON, branch=SPRING)
    commit(manifest, CITY)
    last = commit(manifest, CITY, branch=SPRING)
    expected = {
        early.id: {PERSON: 2, CITY: 1},
        fork.id: {PERSON: 2, CITY: 2},
        own.id: {PERSON: 3, CITY: 2},
        last.id: {PERSON: 3, CITY: 3},
    }
    for name, pins in expected.items():
        assert state_at(manifest, SPRING, name).snapshot.pins == pins
    for one in (early, fork, own, last):
        state = state_at(manifest, SPRING, one.manifest_version)
        assert (state.snapshot.pins, state.head) == (expected[one.id], one)


def test_a_branch_of_a_branch_reaches_back_to_main(manifest: Manifest, tables: FakeForks) -> None:
    early = commit(manifest, PERSON)
    create_branch(manifest, tables, "spring")
    middle = commit(manifest, CITY, branch=SPRING)
    april = BranchName("april")
    create_branch(manifest, tables, april, source=SPRING)
    commit(manifest, CITY, branch=april)
    commit(manifest, CITY, branch=april)
    for one in (early, middle):
        assert state_at(manifest, april, one.id).head == one
        assert state_at(manifest, april, one.manifest_version).head == one


def test_a_commit_of_a_branch_is_unknown_on_main_and_found_anywhere(
    manifest: Manifest, tables: FakeForks
) -> None:
    create_branch(manifest, tables, "spring")
    own = commit(manifest, PERSON, branch=SPRING)
    with pytest.raises(NotFound, match=own.id):
        state_at(manifest, MAIN, own.id)
    assert find_commit(manifest, own.id) == own
    assert find_commit(another_handle(manifest), own.id).branch == SPRING
    with pytest.raises(NotFound):
        find_commit(manifest, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    delete_branch(manifest, tables, "spring")
    with pytest.raises(NotFound):
        find_commit(manifest, own.id)


def test_a_prefix_must_be_unique_among_all_branches(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    own, main = commit(manifest, PERSON, branch=SPRING), commit(manifest, CITY)
    shared = own.id[:10]
    assert main.id.startswith(shared)
    with pytest.raises(UserInputError, match="not unique"):
        find_commit(manifest, shared)


def test_the_past_of_a_former_life_is_not_the_past_of_the_new_one(
    manifest: Manifest, tables: FakeForks
) -> None:
    reader = another_handle(manifest)
    create_branch(manifest, tables, "spring")
    commit(manifest, PERSON, branch=SPRING)
    commit(manifest, PERSON, branch=SPRING)
    # The first write of a branch is two versions: the first one carries the incarnation.
    assert state_at(reader, SPRING, 3).snapshot.pins == {PERSON: 2, CITY: 1}
    delete_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "spring")
    commit(manifest, CITY, branch=SPRING)
    commit(manifest, CITY, branch=SPRING)
    assert state_at(reader, SPRING, 3).snapshot.pins == {PERSON: 1, CITY: 2}
