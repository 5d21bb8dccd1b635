"""One contract for the texts of a graph root, on every store (ST-23)."""

import multiprocessing
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraphdb.errors import InternalError, StorageError
from omnigraphdb.failpoints import PARK_SECONDS_MAX
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.layout import OBJECT_GUARD, root_of
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.objects.protocol import Objects
from tests.engine.storage.conftest import KINDS, make_root
from tests.support.races import (
    count_up,
    create_each,
    is_whole,
    replace_each,
    whole_text,
    write_until_killed,
)
from tests.support.store_roots import (
    StoreRoot,
    in_processes,
    in_threads,
    race_processes,
    race_threads,
)

THREADS, PROCESSES = 16, 4
ON_S3 = pytest.param("s3", marks=pytest.mark.s3)
across_processes = pytest.mark.parametrize("store_root", ["local", "fsync", ON_S3], indirect=True)
off_disk = pytest.mark.parametrize("store_root", ["memory", ON_S3], indirect=True)


@pytest.fixture(params=[*KINDS, "simulated"])
def store_root(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """An empty root on each kind of store, and on the one that the simulator simulates."""
    return make_root(request, tmp_path)


# ---- one caller


def test_a_text_is_read_back_as_it_was_put(objects: Objects) -> None:
    text = 'line\r\nnext\n\ttab "ü" 日本 😀 \u2028 end'
    objects.put("__recovery/one.json", text)
    assert objects.read("__recovery/one.json") == text
    objects.put("__recovery/one.json", "")
    assert objects.read("__recovery/one.json") == ""


def test_a_missing_text_reads_as_none(objects: Objects) -> None:
    objects.put("dir/there", "x")
    assert objects.read("nowhere") is None
    assert objects.read_versioned("dir/not/there") is None
    assert objects.read("dir") is None
    assert objects.read("dir/there/below") is None


def test_looking_at_a_place_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path / "absent" / "graph"))
    assert objects.read("a") is None
    assert objects.list("") == ()
    assert not objects.exists("a")
    assert objects.put_if_match("a", "text", "token") is None
    objects.delete("a")
    objects.delete_prefix("a")
    with pytest.raises(StorageError):
        objects.rename("a", "b/c")
    assert os.listdir(tmp_path) == []


def test_several_texts_are_read_in_the_order_asked(objects: Objects) -> None:
    objects.put("one", "1")
    objects.put("two", "2")
    assert objects.read_all(["two", "missing", "one"]) == ["2", None, "1"]


def test_a_mapped_file_outlives_its_replacement(objects: Objects) -> None:
    objects.put_bytes("large", b"before" * 10_000)
    objects.put_bytes("empty", b"")
    mapped = objects.map_bytes("large")
    objects.put_bytes("large", b"after")
    objects.delete("large")
    assert mapped is not None
    assert bytes(mapped) == b"before" * 10_000
    assert objects.map_bytes("empty") == memoryview(b"")
    assert objects.map_bytes("large") is None


def test_a_copy_has_the_same_bytes_and_a_life_of_its_own(objects: Objects) -> None:
    objects.put("data/one", "text")
    objects.copy("data/one", "tree/side/data/two")
    objects.put("data/one", "another")
    assert objects.read("tree/side/data/two") == "text"
    objects.delete("data/one")
    assert objects.read("tree/side/data/two") == "text"
    assert objects.list("tree/side/data") == ("tree/side/data/two",)


def test_what_is_not_there_cannot_be_copied_and_leaves_nothing(objects: Objects) -> None:
    objects.put("data/one", "text")
    with pytest.raises(StorageError):
        objects.copy("data/missing", "data/two")
    assert objects.list("data") == ("data/one",)


def test_only_the_first_create_wins_and_leaves_its_text(objects: Objects) -> None:
    assert objects.put_if_absent("_schema.pg", "first")
    assert not objects.put_if_absent("_schema.pg", "second")
    assert objects.read("_schema.pg") == "first"


def test_a_deleted_text_can_be_created_again(objects: Objects) -> None:
    assert objects.put_if_absent("x", "1")
    objects.delete("x")
    assert objects.put_if_absent("x", "2")


def test_a_replace_needs_the_token_of_what_is_there(objects: Objects) -> None:
    objects.put("x", "1")
    first = objects.read_versioned("x")
    assert first is not None
    second = objects.put_if_match("x", "2", first.token)
    assert second is not None
    assert second != first.token
    assert objects.put_if_match("x", "3", first.token) is None
    assert objects.read("x") == "2"
    assert objects.put_if_match("x", "3", second) is not None
    assert objects.read("x") == "3"


def test_the_token_of_a_replace_is_the_token_a_reader_sees(objects: Objects) -> None:
    objects.put("x", "1")
    seen = objects.read_versioned("x")
    assert seen is not None
    token = objects.put_if_match("x", "2", seen.token)
    again = objects.read_versioned("x")
    assert again is not None
    assert (again.text, again.token) == ("2", token)


def test_a_replace_loses_against_a_put_and_against_a_delete(objects: Objects) -> None:
    objects.put("x", "1")
    seen = objects.read_versioned("x")
    assert seen is not None
    objects.put("x", "by another")
    assert objects.put_if_match("x", "2", seen.token) is None
    now = objects.read_versioned("x")
    assert now is not None
    objects.delete("x")
    assert objects.put_if_match("x", "2", now.token) is None
    assert objects.read("x") is None


def test_a_text_or_a_text_below_makes_a_path_exist(objects: Objects) -> None:
    objects.put("nodes/1f/data/x.lance", "")
    assert objects.exists("nodes/1f/data/x.lance")
    assert objects.exists("nodes/1f")
    assert objects.exists("nodes")
    assert not objects.exists("nodes/1")
    assert not objects.exists("node")
    objects.delete("nodes/1f/data/x.lance")
    assert not objects.exists("nodes")


def test_a_rename_replaces_its_target(objects: Objects) -> None:
    objects.put("_schema.pg.staging", "new")
    objects.put("_schema.pg", "old")
    objects.rename("_schema.pg.staging", "_schema.pg")
    assert objects.read("_schema.pg") == "new"
    assert objects.read("_schema.pg.staging") is None


def test_a_rename_may_lead_into_a_new_directory(objects: Objects) -> None:
    objects.put("a", "text")
    objects.rename("a", "deep/down/b")
    assert objects.read("deep/down/b") == "text"


def test_a_rename_onto_itself_keeps_the_text(objects: Objects) -> None:
    objects.put("a", "text")
    objects.rename("a", "a")
    assert objects.read("a") == "text"


def test_a_rename_of_nothing_is_an_error_that_names_it(
    objects: Objects, store_root: StoreRoot
) -> None:
    objects.put("b", "kept")
    with pytest.raises(StorageError, match="rename") as failed:
        objects.rename("a", "b")
    assert failed.value.storage_kind == "not_found"
    assert store_root.root.at("a") in str(failed.value)
    assert objects.read("b") == "kept"


def test_deleting_twice_is_deleting_once(objects: Objects) -> None:
    objects.put("dir/a", "text")
    objects.delete("dir/a")
    objects.delete("dir/a")
    objects.delete("never/there")
    objects.delete("dir")
    assert objects.list("dir") == ()


def test_a_listing_shows_direct_children_sorted_and_nothing_else(objects: Objects) -> None:
    for path in ("d/b.json", "d/a.json", "d/sub/c.json", "d2/x.json", "d.json", "da/y.json"):
        objects.put(path, path)
    assert objects.list("d") == ("d/a.json", "d/b.json")
    assert objects.list("d/") == ("d/a.json", "d/b.json")
    assert objects.list("") == ("d.json",)
    assert objects.list("nowhere") == ()
    assert objects.list("d/a.json") == ()
    assert [objects.read(path) for path in objects.list("d")] == ["d/a.json", "d/b.json"]


def test_times_grow_with_what_is_written_later(objects: Objects) -> None:
    objects.put("d/old", "1")
    objects.put("d/sub/c", "1")
    first = objects.times("d")
    assert first.keys() == {"d/old"}
    objects.put("d/new", "1")
    later = objects.times("d")
    assert later["d/old"] == first["d/old"] <= later["d/new"]
    assert abs(later["d/new"] - SYSTEM.now_us()) < 60_000_000
    assert objects.times("nowhere") == {}


def test_a_listing_of_a_thousand_and_more_is_complete(objects: Objects) -> None:
    paths = tuple(sorted(f"many/{number:05d}" for number in range(1_200)))

    def put_all(some: tuple[str, ...]) -> None:
        for path in some:
            objects.put(path, "")

    in_threads(put_all, [(paths[i::4],) for i in range(4)])
    assert objects.list("many") == paths
    objects.delete_prefix("many")
    assert objects.list("many") == ()


def test_deleting_a_directory_spares_its_siblings(objects: Objects) -> None:
    for path in ("t/1/a", "t/1/b/c/d", "t/10/a", "t/1.json"):
        objects.put(path, path)
    objects.delete_prefix("t/1")
    objects.delete_prefix("t/1")
    assert not objects.exists("t/1")
    assert objects.read("t/10/a") == "t/10/a"
    assert objects.read("t/1.json") == "t/1.json"


@off_disk
def test_deleting_a_directory_keeps_the_text_of_that_very_name(store_root: StoreRoot) -> None:
    objects = store_root.open()
    objects.put("a", "text")
    objects.put("a/b", "below")
    objects.delete_prefix("a")
    assert objects.read("a") == "text"
    assert objects.read("a/b") is None


def test_the_whole_root_cannot_be_deleted_by_accident(objects: Objects) -> None:
    objects.put("a", "text")
    for prefix in ("", "/"):
        with pytest.raises(InternalError):
            objects.delete_prefix(prefix)
    assert objects.read("a") == "text"


def test_two_roots_side_by_side_never_see_each_other(store_root: StoreRoot) -> None:
    sibling = StoreRoot(
        kind=store_root.kind, uri=store_root.uri + "2", options=store_root.options
    ).open()
    objects = store_root.open()
    objects.put("x", "mine")
    sibling.put("y", "other")
    assert objects.list("") == ("x",)
    assert sibling.list("") == ("y",)
    assert not sibling.exists("x")
    sibling.delete_prefix("x")
    assert objects.read("x") == "mine"


def test_a_second_handle_sees_what_the_first_wrote(store_root: StoreRoot) -> None:
    store_root.open().put("x", "text")
    assert store_root.open().read("x") == "text"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "a/../b", "a\nb", "a#1", "d/a#007"])
def test_a_path_that_not_every_store_can_hold_is_refused_everywhere(
    objects: Objects, path: str
) -> None:
    operations: tuple[Callable[[], object], ...] = (
        lambda: objects.read(path),
        lambda: objects.put(path, "text"),
        lambda: objects.put_if_absent(path, "text"),
        lambda: objects.put_if_match(path, "text", "token"),
        lambda: objects.exists(path),
        lambda: objects.delete(path),
        lambda: objects.rename("x", path),
    )
    objects.put("x", "text")
    for operation in operations:
        with pytest.raises(InternalError):
            operation()
    assert objects.list("") == ("x",)


_PART = st.text(
    st.sampled_from(" #%?&+=*~@:;,'\"<>|\\$!()[]{}^`._-aZ09üß日本😀\u0301")
    | st.characters(categories=("L", "N", "P", "S"), exclude_characters="/"),
    min_size=1,
    max_size=16,
).filter(lambda part: part not in (".", "..") and not re.search(r"#\d+\Z", part))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(directory=_PART, names=st.sets(_PART, min_size=1, max_size=3), text=st.text(max_size=50))
def test_any_name_comes_back_from_a_listing_as_it_went_in(
    objects: Objects, directory: str, names: set[str], text: str
) -> None:
    paths = tuple(sorted(f"{directory}/{name}" for name in names))
    for path in paths:
        objects.put(path, text)
    assert objects.list(directory) == paths
    assert all(objects.read(path) == text and objects.exists(path) for path in paths)
    objects.rename(paths[0], f"{directory} moved/x")
    assert objects.read(f"{directory} moved/x") == text
    objects.delete_prefix(directory)
    objects.delete_prefix(f"{directory} moved")
    assert not objects.exists(directory)


def test_what_succeeded_is_counted(objects: Objects) -> None:
    with counting() as costs:
        objects.put("a", "1")
        assert objects.put_if_absent("b", "1")
        objects.read("a")
        objects.list("")
        objects.delete("a")
        with pytest.raises(StorageError):
            objects.rename("nowhere", "c")
    assert costs[Cost.OBJECT_WRITES] == 2
    assert costs[Cost.OBJECT_READS] == costs[Cost.OBJECT_LISTS] == costs[Cost.OBJECT_DELETES] == 1


# ---- many callers


def test_of_sixteen_threads_exactly_one_creates(store_root: StoreRoot) -> None:
    paths = [f"race/{number}" for number in range(25)]
    won = race_threads(create_each, [(store_root, me, paths) for me in range(THREADS)])
    assert sorted(path for each in won for path in each) == sorted(paths)
    objects = store_root.open()
    for me, each in enumerate(won):
        assert all(objects.read(path) == str(me) for path in each)


def test_of_sixteen_threads_exactly_one_replaces(store_root: StoreRoot) -> None:
    tokens = _tokens(store_root, 25)
    won = race_threads(replace_each, [(store_root, me, tokens) for me in range(THREADS)])
    _assert_one_winner_each(store_root, tokens, won)


@across_processes
def test_of_four_processes_exactly_one_creates(store_root: StoreRoot) -> None:
    paths = [f"race/{number}" for number in range(100)]
    won = race_processes(create_each, [(store_root, me, paths) for me in range(PROCESSES)])
    assert sorted(path for each in won for path in each) == sorted(paths)


@across_processes
def test_of_four_processes_exactly_one_replaces(store_root: StoreRoot) -> None:
    tokens = _tokens(store_root, 100)
    won = race_processes(replace_each, [(store_root, me, tokens) for me in range(PROCESSES)])
    _assert_one_winner_each(store_root, tokens, won)


def test_no_update_of_a_counter_is_lost_between_threads(store_root: StoreRoot) -> None:
    store_root.open().put("counter", "0")
    in_threads(count_up, [(store_root, "counter", 5)] * THREADS)
    assert store_root.open().read("counter") == str(5 * THREADS)


@across_processes
def test_no_update_of_a_counter_is_lost_between_processes(store_root: StoreRoot) -> None:
    store_root.open().put("counter", "0")
    in_processes(count_up, [(store_root, "counter", 50)] * PROCESSES)
    assert store_root.open().read("counter") == str(50 * PROCESSES)


def test_a_replace_never_undoes_a_put_that_came_after_its_look(store_root: StoreRoot) -> None:
    objects = store_root.open()
    for number in range(50):
        objects.put("x", f"old {number}")
        seen = objects.read_versioned("x")
        assert seen is not None
        barrier = threading.Barrier(2)

        def plain(barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            objects.put("x", "plain")

        def conditional(barrier: threading.Barrier = barrier, token: str = seen.token) -> None:
            barrier.wait()
            objects.put_if_match("x", "conditional", token)

        in_threads(lambda work: work(), [(plain,), (conditional,)])
        assert objects.read("x") == "plain"


def test_a_reader_sees_the_old_or_the_new_text_never_a_part(store_root: StoreRoot) -> None:
    objects = store_root.open()
    objects.put("x", whole_text(0))
    readers = [threading.Event(), threading.Event()]

    def write() -> None:
        number = 0
        while not all(done.is_set() for done in readers):
            number += 1
            objects.put("x", whole_text(number))

    def read(done: threading.Event) -> None:
        try:
            texts = [objects.read("x") for _ in range(60)]
        finally:
            done.set()
        assert all(text is not None and is_whole(text) for text in texts)

    in_threads(lambda work, *args: work(*args), [(write,), *((read, done) for done in readers)])


def test_a_writer_killed_anywhere_leaves_a_whole_text_and_no_lock(tmp_path: Path) -> None:
    store_root = StoreRoot(kind="local", uri=str(tmp_path / "graph"))
    context = multiprocessing.get_context("spawn")
    objects = store_root.open()
    for number in range(6):
        started = context.Event()
        writer = context.Process(target=write_until_killed, args=(store_root, "x", started))
        writer.start()
        assert started.wait(PARK_SECONDS_MAX)
        threading.Event().wait(0.01 + 0.007 * number)
        writer.kill()
        writer.join()
        seen = objects.read_versioned("x")
        assert seen is not None
        assert is_whole(seen.text)
        assert objects.put_if_match("x", whole_text(0), seen.token) is not None
        assert objects.list("") == ("x",)


def _tokens(store_root: StoreRoot, count: int) -> list[tuple[str, str]]:
    objects = store_root.open()
    tokens = []
    for number in range(count):
        objects.put(f"race/{number}", "start")
        seen = objects.read_versioned(f"race/{number}")
        assert seen is not None
        tokens.append((f"race/{number}", seen.token))
    return tokens


def _assert_one_winner_each(
    store_root: StoreRoot, tokens: list[tuple[str, str]], won: list[list[tuple[str, str]]]
) -> None:
    assert sorted(path for each in won for path, _ in each) == sorted(path for path, _ in tokens)
    objects = store_root.open()
    for me, each in enumerate(won):
        for path, token in each:
            seen = objects.read_versioned(path)
            assert seen is not None
            assert (seen.text, seen.token) == (f"by {me}", token)


# ---- the disk


def test_unfinished_writes_are_neither_listed_nor_found(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.json#123").write_text("half")
    assert objects.list("d") == ()
    assert not objects.exists("d")
    objects.put("d/x.json", "whole")
    assert objects.list("d") == ("d/x.json",)
    assert objects.read("d/x.json") == "whole"
    objects.delete_prefix("d")
    assert not (tmp_path / "d").exists()


def test_a_finished_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    objects.put("d/x", "1")
    assert not objects.put_if_absent("d/x", "2")
    assert objects.put_if_absent("d/y", "2")
    assert objects.put_if_match("d/y", "3", "stale") is None
    assert sorted(os.listdir(tmp_path / "d")) == ["x", "y"]


def test_the_guard_is_never_listed(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    objects.put("x", "1")
    assert (tmp_path / OBJECT_GUARD).exists()
    assert objects.list("__locks") == ()
    assert not objects.exists("__locks")


def test_a_guard_that_was_removed_is_made_again(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    objects.put("x", "1")
    (tmp_path / OBJECT_GUARD).unlink()
    objects.put("x", "2")
    (tmp_path / OBJECT_GUARD).unlink()
    (tmp_path / OBJECT_GUARD).parent.rmdir()
    objects.delete("x")
    assert objects.list("") == ()


def test_directories_and_broken_links_are_no_texts(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert not objects.exists("empty")
    assert not objects.exists("broken")
    assert objects.list("") == ()


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    open_objects(root_of(tmp_path)).put("x", "text")
    (tmp_path / "plain").write_text("text")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )


def test_a_text_that_is_not_utf8_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ab\xff")
    with pytest.raises(StorageError, match="UTF-8") as failed:
        open_objects(root_of(tmp_path)).read("x")
    assert str(tmp_path / "x") in str(failed.value)
    assert failed.value.storage_kind == "permanent"


def test_a_file_where_a_directory_is_needed_is_an_error(tmp_path: Path) -> None:
    objects = open_objects(root_of(tmp_path))
    objects.put("a", "text")
    for write in (objects.put, objects.put_if_absent):
        with pytest.raises(StorageError, match="a/b") as failed:
            write("a/b", "text")
        assert failed.value.storage_kind == "permanent"
    assert objects.read("a") == "text"


def _tried_without_permission(uri: str) -> dict[str, str]:
    """Run every operation as a user who may not; give the kind of each failure."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    objects = open_objects(root_of(uri))
    operations: dict[str, Callable[[], object]] = {
        "read": lambda: objects.read("closed/x"),
        "read_versioned": lambda: objects.read_versioned("closed/x"),
        "exists": lambda: objects.exists("closed/x"),
        "exists below": lambda: objects.exists("closed"),
        "list": lambda: objects.list("closed"),
        "put": lambda: objects.put("closed/x", "text"),
        "put_if_absent": lambda: objects.put_if_absent("closed/y", "text"),
        "put_if_match": lambda: objects.put_if_match("closed/x", "text", "token"),
        "delete": lambda: objects.delete("closed/x"),
        "rename": lambda: objects.rename("closed/x", "open/y"),
        "new directory": lambda: objects.put("new/x", "text"),
    }
    return {name: _failure(operation) for name, operation in operations.items()}


def _failure(operation: Callable[[], object]) -> str:
    try:
        return f"no error, {operation()!r}"
    except StorageError as error:
        return f"{error.storage_kind}: {'permission denied' in str(error)}"


def test_a_lack_of_permission_is_an_error_never_an_absence() -> None:
    # Not under tmp_path, which other users cannot even enter.
    with tempfile.TemporaryDirectory() as directory:
        closed = Path(directory, "closed")
        closed.mkdir()
        (closed / "x").write_text("text")
        closed.chmod(0o000)
        Path(directory).chmod(0o555)
        try:
            (failures,) = in_processes(_tried_without_permission, [(directory,)])
        finally:
            Path(directory).chmod(0o755)
            closed.chmod(0o755)
    assert failures == dict.fromkeys(failures, "configuration: True")


# ---- memory


def test_memory_stores_are_told_apart_by_name() -> None:
    one, other = open_objects(root_of("memory://one")), open_objects(root_of("memory://other"))
    one.put("x", "text")
    assert other.read("x") is None
    assert open_objects(root_of("memory://one")).read("x") == "text"
