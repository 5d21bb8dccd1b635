"""The scripted store fails as it is told, where it is told, and no more often."""

from pathlib import Path

import pytest

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import open_objects
from tests.support.fault_objects import Failure, FaultObjects


@pytest.fixture
def faulty(tmp_path: Path) -> FaultObjects:
    root = root_of(tmp_path)
    return FaultObjects(open_objects(root), root)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure.ERROR, "unknown"),
        (Failure.FULL, "permanent"),
        (Failure.DENIED, "configuration"),
    ],
)
def test_a_scripted_failure_happens_once_and_changes_nothing(
    faulty: FaultObjects, failure: Failure, kind: str
) -> None:
    faulty.fail("put", "__recovery/*", failure)
    with pytest.raises(StorageError, match=r"__recovery/1\.json") as failed:
        faulty.put("__recovery/1.json", "text")
    assert failed.value.storage_kind == kind
    assert faulty.list("__recovery") == ()
    faulty.put("__recovery/1.json", "text")
    assert faulty.read("__recovery/1.json") == "text"


def test_a_lost_answer_comes_after_the_effect(faulty: FaultObjects) -> None:
    faulty.fail("put_if_absent", failure=Failure.LOST)
    with pytest.raises(StorageError) as failed:
        faulty.put_if_absent("x", "text")
    assert failed.value.storage_kind == "transient"
    assert faulty.read("x") == "text"


def test_only_the_named_operation_on_the_named_paths_fails(faulty: FaultObjects) -> None:
    faulty.fail("delete", "__recovery/2*", times=None)
    for number in (1, 2):
        faulty.put(f"__recovery/{number}.json", "text")
    faulty.delete("__recovery/1.json")
    for _ in range(2):
        with pytest.raises(StorageError):
            faulty.delete("__recovery/2.json")
    faulty.clear()
    faulty.delete("__recovery/2.json")
    assert faulty.list("__recovery") == ()


def test_arrivals_can_be_let_through_first(faulty: FaultObjects) -> None:
    faulty.fail("list", skip=2)
    assert faulty.list("a") == faulty.list("a") == ()
    with pytest.raises(StorageError):
        faulty.list("a")
    assert faulty.list("a") == ()
    assert faulty.calls == [("list", "a")] * 4


def test_a_rename_is_known_by_either_name(faulty: FaultObjects) -> None:
    faulty.put("a", "text")
    faulty.fail("rename", "b")
    with pytest.raises(StorageError):
        faulty.rename("a", "b")
    assert faulty.read("a") == "text"
