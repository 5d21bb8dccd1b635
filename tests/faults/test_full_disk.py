"""A disk that is full and a process that has too many files open: the cause is told, and nothing stays blocked."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lance import LanceDataset

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, RecoveryRequired, StorageError
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.values import Staged
from tests.support.child import run_child
from tests.support.disks import small_disk
from tests.support.settled import assert_settled
from tests.support.watched_tables import watched

BASE = "node Person { name: String @key  age: I32? } node City { name: String @key  size: I32? }"
INDEXED = BASE.replace("age: I32?", "age: I32?  town: String? @index").replace(
    "size: I32?", "size: I32?  land: String? @index"
)
ADD = 'query m() { insert Person { name: "after" } insert City { name: "after" } }'


def made(root: Path) -> Graph:
    graph: Graph = omnigraphdb.init(root, BASE)
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(20)]
    graph.load([*people, {"type": "City", "data": {"name": "Rome"}}], mode="append")
    return graph


# ---- the cause is told


def test_a_disk_that_fills_while_the_schema_is_locked_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance has written the files of the lock, and has no room for its ref."""
    graph = made(tmp_path / "g")
    ref = tmp_path / "g" / MANIFEST / "_refs" / "branches" / f"{SCHEMA_APPLY_LOCK}.json"
    real = LanceDataset.create_branch

    def full(self: LanceDataset, *arguments: object, **options: object) -> LanceDataset:
        real(self, *arguments, **options)  # type: ignore[arg-type]
        ref.unlink()
        raise OSError("LanceError(IO): No space left on device (os error 28), /lance/io.rs:1:1")

    with monkeypatch.context() as patch:
        patch.setattr(LanceDataset, "create_branch", full)
        with pytest.raises(StorageError) as caught:
            graph.schema_apply(INDEXED)
    assert caught.value.storage_kind == "permanent"
    assert "the disk is full" in str(caught.value)
    assert MANIFEST in str(caught.value)
    assert "free some space" in str(caught.value.hint)
    assert graph.schema_apply(INDEXED).applied
    assert_settled(graph)


def starve(uri: str) -> None:
    """Open a graph and use up what this process may open; what fails then must name the cause."""
    with omnigraphdb.open(uri) as graph:
        # What a write imports is there before.
        graph.mutate(ADD)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        held = []
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        try:
            graph.mutate(ADD.replace("after", "starved"))
        except StorageError as error:
            told = error
        for file in held:
            os.close(file)
        assert told.storage_kind == "configuration", told
        assert "too many files are open" in str(told), told
        assert "overloaded" not in str(told)
        assert "ulimit" in str(told.hint)
        graph.mutate(ADD.replace("after", "fed"))


def test_too_many_open_files_are_told_as_what_they_are(tmp_path: Path) -> None:
    made(tmp_path / "g").close()
    assert run_child(starve, str(tmp_path / "g")) == 0


# ---- nothing stays blocked


def failing(times: Callable[[int], bool]) -> Callable[[Staged], None]:
    """Refuse the commits whose number says so, as a full disk does."""
    commits: list[Staged] = []

    def before(staged: Staged) -> None:
        commits.append(staged)
        if times(len(commits)):
            raise StorageError("the disk is full", storage_kind="permanent")

    return before


def test_an_index_build_that_a_full_disk_stopped_half_way_is_settled_by_the_next_write(
    tmp_path: Path,
) -> None:
    """The change commits two tables, the index build that follows it one of two."""
    graph = watched(made(tmp_path / "g"), before=failing(lambda number: number == 4))
    done = graph.schema_apply(INDEXED)
    assert done.applied
    assert set(done.pending_indexes) >= {"node:Person.town"}
    assert [one.writer_kind for one in graph.pending_recoveries()] == ["EnsureIndices"]
    graph.mutate(ADD)
    assert graph.pending_recoveries() == []
    assert_settled(graph)
    assert graph.ensure_indices().built > 0
    assert_settled(graph)


def test_while_the_disk_is_full_such_a_build_blocks_its_own_table_only_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    full = {"is": True}

    def restoring() -> None:
        if full["is"]:
            raise StorageError("the disk is full", storage_kind="permanent")

    graph = watched(
        made(tmp_path / "g"), before=failing(lambda number: number == 4), restoring=restoring
    )
    graph.schema_apply(INDEXED)
    (left,) = graph.pending_recoveries()
    free, blocked = ("Person", "City") if "City" in str(left.tables[0]) else ("City", "Person")
    graph.mutate(f'query m() {{ insert {free} {{ name: "free" }} }}')
    with pytest.raises(RecoveryRequired, match="reopen the graph"):
        graph.mutate(f'query m() {{ insert {blocked} {{ name: "blocked" }} }}')
    full["is"] = False
    graph.mutate(f'query m() {{ insert {blocked} {{ name: "blocked" }} }}')
    assert_settled(graph)


def test_another_handle_does_not_roll_back_what_this_one_left(tmp_path: Path) -> None:
    graph = watched(made(tmp_path / "g"), before=failing(lambda number: number == 4))
    other = omnigraphdb.open(graph.uri)
    graph.schema_apply(INDEXED)
    with pytest.raises(RecoveryRequired, match="reopen the graph"):
        other.mutate(ADD)
    graph.mutate(ADD)
    other.mutate(ADD.replace("after", "later"))
    assert_settled(other)


# ---- on a real disk


@pytest.mark.soak
def test_a_schema_change_on_a_disk_that_is_nearly_full_is_whole_or_absent(tmp_path: Path) -> None:
    """With every amount of room: the error names the disk, and the same handle goes on once there is room."""
    with small_disk(tmp_path / "disk", "900k") as disk:
        for room in range(0, 180, 3):
            graph = made(disk / "g")
            fill(disk, room * 1024)
            assert failure(graph) in (None, "the disk is full")
            (disk / "fill").unlink()
            graph.refresh(roll_back=True)
            graph.mutate(ADD)
            assert_settled(graph)
            graph.close()
            shutil.rmtree(disk / "g")


def failure(graph: Graph) -> str | None:
    """What a schema change fails with, if it does."""
    try:
        graph.schema_apply(INDEXED)
    except OmniError as error:
        return "the disk is full" if "the disk is full" in str(error) else repr(error)
    return None


def fill(disk: Path, room: int) -> None:
    free = os.statvfs(disk)
    (disk / "fill").write_bytes(b"x" * max(free.f_bavail * free.f_bsize - room, 0))
