"""Cleanup gives old versions of the manifest back, and keeps every commit that its rules keep readable."""

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance import manifest_versions
from omnigraphdb.errors import (
    ConflictError,
    HistoryReclaimed,
    NotFoundError,
    OmniError,
    RecoveryRequired,
)
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, parked
from omnigraphdb.ids import MAIN, BranchName, CommitId
from omnigraphdb.manifest import manifest
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.manifest import PublishLock
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import KEY, CommitKind, head_row, lance_branch
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.layout import MANIFEST
from tests.support.maintenance import ADD, GONE, OLDER, SCHEMA, content, made, records
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

Content = dict[str, list[dict[str, Any]]]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g", config={"maintenance": "off"})
    yield opened
    opened.close()


def age(graph: Graph, times: int = 6, branch: str = MAIN) -> None:
    for number in range(times):
        graph.mutate(OLDER, {"name": "p1", "age": number}, branch=branch)


def list_versions(graph: Graph, branch: str = MAIN) -> list[int]:
    name = lance_branch(BranchName(branch))
    return [one.version for one in graph._engine.manifest.rows.versions(name)]


def count_bytes(graph: Graph) -> int:
    return sum(f.stat().st_size for f in Path(graph.uri, MANIFEST).rglob("*") if f.is_file())


def read_at(graph: Graph, commit: str, branch: str) -> Content:
    seen = graph.snapshot(branch=branch, at=commit)
    return {key: seen.table(key).sort_by("id").to_pylist() for key in sorted(seen.tables())}


def read_history(graph: Graph) -> dict[tuple[str, str], Content]:
    """What every commit of every branch shows, as far as it can be read, by a handle that has seen nothing yet."""
    found: dict[tuple[str, str], Content] = {}
    with omnigraphdb.open(graph.uri, read_only=True) as fresh:
        for branch in fresh.branches():
            for commit in fresh.commits(branch=branch.name):
                with suppress(HistoryReclaimed):
                    found[branch.name, commit.id] = read_at(fresh, commit.id, branch.name)
    return found


# ---- what goes, and what stays


def test_old_versions_go_and_the_report_says_so_before_and_after(graph: Graph) -> None:
    age(graph, 40)
    preview = graph.cleanup(keep=5)
    assert list_versions(graph)[0] == 1
    before = count_bytes(graph)
    done = graph.cleanup(keep=5, confirm=True)
    assert done.manifest == preview.manifest
    assert done.manifest.table_key == MANIFEST
    assert done.manifest.versions_removed >= 34
    assert before - count_bytes(graph) >= done.manifest.bytes_removed * 0.9 > 0
    assert done.to_dict()["manifest"]["versions_removed"] == done.manifest.versions_removed
    assert graph.cleanup(keep=5, confirm=True).manifest.versions_removed == 0
    assert_settled(graph)


def test_commits_whose_tables_stay_can_be_read_and_the_others_are_told_to_be_gone(
    graph: Graph,
) -> None:
    age(graph, 12)
    shown = read_history(graph)
    graph.cleanup(keep=4, confirm=True)
    left = read_history(graph)
    assert len(left) == 4
    assert left == {name: shown[name] for name in left}
    commits = [commit.id for commit in graph.commits()]
    with omnigraphdb.open(graph.uri) as fresh:
        assert len(fresh.changes(since=commits[3]).blocks) == 3
        assert fresh.diff(commits[3], commits[0]).changes
        with pytest.raises(HistoryReclaimed) as told:
            fresh.diff(commits[4], commits[0])
        assert commits[4] in str(told.value)
        with pytest.raises(HistoryReclaimed):
            fresh.snapshot(at=1)


def test_an_age_keeps_every_commit_that_was_seen_within_it(graph: Graph) -> None:
    age(graph, 5)
    shown = read_history(graph)
    done = graph.cleanup(older_than=timedelta(hours=1), confirm=True)
    assert done.manifest.versions_removed == 0
    assert read_history(graph) == shown


def test_a_head_that_was_optimized_is_read_by_its_commit_after_the_next_one(graph: Graph) -> None:
    """Maintenance makes another version of the same commit; cleanup may keep that one only."""
    age(graph, 3)
    head, rows = graph.commits()[0].id, content(graph)
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    graph.mutate(ADD, {"name": "later"})
    with omnigraphdb.open(graph.uri) as fresh:
        assert read_at(fresh, head, MAIN) == rows


def test_tags_keep_their_commits(graph: Graph) -> None:
    graph.branch_create("work")
    age(graph, 3, "work")
    age(graph, 3)
    tagged = {}
    for branch in (MAIN, "work"):
        commit = graph.commits(branch=branch)[1].id
        graph.tag(f"on-{branch}", commit, branch=branch)
        tagged[branch] = (commit, read_at(graph, commit, branch))
        age(graph, 5, branch)
    graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh:
        for branch, (commit, rows) in tagged.items():
            assert read_at(fresh, commit, branch) == rows
            assert read_at(fresh, f"on-{branch}", branch) == rows
        fresh.tag_delete("on-main")
    graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh, pytest.raises(HistoryReclaimed):
        read_at(fresh, tagged[MAIN][0], MAIN)


@pytest.mark.parametrize("is_tagged_first", [True, False])
def test_a_tagged_head_that_was_optimized_is_read_after_the_next_commit(
    graph: Graph, is_tagged_first: bool
) -> None:
    age(graph, 3)
    head, rows = graph.commits()[0].id, content(graph)
    if is_tagged_first:
        graph.tag("v")
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    graph.tag("v")
    for number in range(2):
        graph.mutate(ADD, {"name": f"later{number}"})
        with omnigraphdb.open(graph.uri) as fresh:
            assert read_at(fresh, "v", MAIN) == read_at(fresh, head, MAIN) == rows
        graph.cleanup(keep=1, confirm=True)
    assert_settled(graph)


def test_a_tag_is_read_where_older_versions_of_its_manifest_outlive_their_tables() -> None:
    """Where publishers have no locks, cleanup keeps young versions of the manifest, whatever became of the tables."""
    with made("memory://tagged/g", config={"maintenance": "off"}) as graph:
        age(graph, 3)
        rows = content(graph)
        graph.optimize()
        graph.cleanup(keep=1, confirm=True)
        graph.tag("v")
        for number in range(2):
            graph.mutate(ADD, {"name": f"later{number}"})
            assert read_at(graph, "v", MAIN) == rows
            graph.cleanup(keep=1, confirm=True)


def test_a_key_is_answered_from_its_row_after_its_commit_is_gone(graph: Graph) -> None:
    first = graph.mutate(ADD, {"name": "keyed"}, idempotency_key="k1")
    age(graph, 5)
    graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh:
        again = fresh.mutate(ADD, {"name": "keyed"}, idempotency_key="k1")
        assert (again.replayed, again.commit) == (True, first.commit)
        assert fresh.operation("k1").commit == first.commit
        assert len(fresh.commits()) == 8


def test_branches_read_and_merge_as_before(graph: Graph) -> None:
    for name, source in (("a", MAIN), ("b", MAIN), ("c", "a"), ("gone", MAIN)):
        graph.branch_create(name, from_branch=source)
        graph.mutate(ADD, {"name": f"on-{name}"}, branch=name)
        age(graph, 2, MAIN)
    graph.merge("gone", into="b")
    graph.branch_delete("gone")
    age(graph, 3, "c")
    shown = {branch.name: content(graph, branch.name) for branch in graph.branches()}
    done = graph.cleanup(keep=1, confirm=True)
    assert done.manifest.versions_removed > 0
    assert done.manifest.error is None
    with omnigraphdb.open(graph.uri) as fresh:
        assert {branch.name: content(fresh, branch.name) for branch in fresh.branches()} == shown
        for source, target in (("c", "a"), ("b", MAIN), (MAIN, "a"), ("a", MAIN), ("c", "b")):
            fresh.merge(source, into=target)
        names = {row["name"] for row in fresh.table("Person").to_pylist()}
        assert names >= {"on-a", "on-b", "on-c", "on-gone"}
        assert_settled(fresh)


# ---- beside others


def count_heads(graph: Graph) -> int:
    rows = graph._engine.manifest.load(MAIN).image.rows
    return int(pc.sum(pc.equal(rows[KEY], head_row(MAIN))).as_py())


@pytest.mark.parametrize("tagged", [False, True], ids=["removed", "kept"])
def test_a_handle_that_slept_through_a_cleanup_goes_on_from_the_newest_version(
    graph: Graph, tagged: bool
) -> None:
    """The version it knows may be gone, or be kept while all its neighbours are gone."""
    with omnigraphdb.open(graph.uri, config={"maintenance": "off"}) as other:
        age(other, 2)
        graph.mutate(ADD, {"name": "mine"})
        known = graph._engine.manifest.current(MAIN).version
        if tagged:
            other.tag("here")
        age(other, 6)
        other.mutate(ADD, {"name": "theirs"})
        other.cleanup(keep=1, confirm=True)
        assert (known in list_versions(other), known + 1 in list_versions(other)) == (tagged, False)
        assert "theirs" in {row["name"] for row in graph.table("Person").to_pylist()}
        graph.mutate(ADD, {"name": "again"})
        assert count_heads(graph) == 1
        names = {row["name"] for row in other.table("Person").to_pylist()}
        assert names >= {"mine", "theirs", "again"}
    assert_settled(graph)


def test_a_stale_publisher_does_not_land_past_a_gap(graph: Graph) -> None:
    """Lance sees a rival by the versions in between; where cleanup removed them, the publisher must look itself."""
    with omnigraphdb.open(graph.uri, config={"maintenance": "off"}) as other:
        graph.mutate(ADD, {"name": "first"})
        with parked(Failpoint.TABLES_COMMITTED) as park:
            thread = threading.Thread(
                target=graph.mutate, args=('query q() { insert City { name: "x" } }',)
            )
            thread.start()
            assert park.reached.wait(PARK_SECONDS_MAX)
            age(other, 4)
            with suppress(OmniError):
                other._engine.manifest.reclaim(MAIN, [*list_versions(other)[1:-1]], dry_run=False)  # type: ignore[list-item]
            park.release()
            thread.join()
    assert count_heads(graph) == 1
    assert "x" in {row["name"] for row in graph.table("City").to_pylist()}
    assert_settled(graph)


def test_versions_stay_while_a_publisher_that_missed_its_lock_swaps(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rivals are seen by the versions in between, since nobody is locked out."""
    monkeypatch.setattr(manifest, "PUBLISH_LOCK_SECONDS_MAX", 0.05)
    locks = graph._engine.store.locks
    stopped = locks.acquire(PublishLock.BRANCH.key(MAIN), wait=0)
    assert stopped is not None
    with (
        omnigraphdb.open(graph.uri, config={"maintenance": "off"}) as other,
        parked(Failpoint.PUBLISH_PREPARED) as park,
    ):
        # One without a sidecar: cleanup waits for the others.
        draft = Draft(commit=CommitId(SYSTEM.new_id()), kind=CommitKind.REPAIR)
        change = Change(branch=MAIN, draft=draft)
        thread = threading.Thread(target=publish, args=(graph._engine.manifest, change))
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        assert other.cleanup(keep=1, confirm=True).manifest.versions_removed == 0
        locks.release(stopped)
        age(other, 4)
        assert other.cleanup(keep=1, confirm=True).manifest.versions_removed == 0
        park.release()
        thread.join()
        assert graph.commits()[0].id == draft.commit
        assert other.cleanup(keep=1, confirm=True).manifest.versions_removed > 0
    assert count_heads(graph) == 1
    assert_settled(graph)


def test_a_publisher_that_gets_neither_lock_does_not_swap(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "PUBLISH_LOCK_SECONDS_MAX", 0.01)
    locks, before = graph._engine.store.locks, content(graph)
    kinds = (PublishLock.BRANCH, PublishLock.SPARE)
    held = [locks.acquire(kind.key(MAIN), wait=0) for kind in kinds]
    with pytest.raises(RecoveryRequired):
        graph.mutate(ADD, {"name": "waits"})
    assert content(graph) == before
    for lock in held:
        assert lock is not None
        locks.release(lock)
    graph.refresh()
    assert content(graph) != before
    assert_settled(graph)


def test_writers_and_readers_go_on_beside_cleanups(graph: Graph) -> None:
    errors: list[BaseException] = []
    done = threading.Event()
    graph.branch_create("side")

    def run(work: Any) -> threading.Thread:
        def loop() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=loop)
        thread.start()
        return thread

    def write(name: str, branch: str) -> None:
        with omnigraphdb.open(graph.uri, config={"maintenance": "off"}) as handle:
            for number in range(25):
                handle.mutate(ADD, {"name": f"{name}{number}"}, branch=branch)

    def read() -> None:
        with omnigraphdb.open(graph.uri, read_only=True) as handle:
            while not done.is_set():
                handle.query("query q() { match { $p: Person } return { count($p) as n } }")
                handle.branches()

    writers = [run(lambda: write("m", MAIN)), run(lambda: write("s", "side"))]
    readers = [run(read)]
    removed = 0
    while any(thread.is_alive() for thread in writers):
        removed += graph.cleanup(keep=1, confirm=True).manifest.versions_removed
    done.set()
    for thread in (*writers, *readers):
        thread.join()
    assert errors == []
    assert removed > 0
    for name, branch in (("m", MAIN), ("s", "side")):
        rows = {row["name"] for row in graph.table("Person", branch=branch).to_pylist()}
        assert rows >= {f"{name}{number}" for number in range(25)}
    assert count_heads(graph) == 1
    assert_settled(graph)


def test_a_tag_that_is_being_made_is_waited_for(graph: Graph) -> None:
    age(graph, 4)
    old = graph.commits()[2].id
    rows = read_at(graph, old, MAIN)
    with parked(Failpoint.TAG_CHECKED) as park:
        tagging = threading.Thread(target=graph.tag, args=("kept", old))
        tagging.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with omnigraphdb.open(graph.uri) as other:
            cleaning = threading.Thread(target=other.cleanup, kwargs={"keep": 1, "confirm": True})
            cleaning.start()
            park.release()
            tagging.join()
            cleaning.join()
    with omnigraphdb.open(graph.uri) as fresh:
        assert read_at(fresh, "kept", MAIN) == rows


# ---- against a twin that is never cleaned


KINDS = (*("add", "update", "merge") * 3, "delete", "branch", "drop", "merge", "tag")


class Twins:
    """Two graphs that do the same; only one of them is cleaned."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        config = {"maintenance": "off"}
        self.cleaned = made(folder / "cleaned", 4, config=config)
        self.whole = made(folder / "whole", 4, config=config)
        self.number = 0
        for graph in (self.cleaned, self.whole):
            for name in ("a", "b"):
                graph.branch_create(name)

    def branches(self) -> list[str]:
        return [branch.name for branch in self.cleaned.branches()]

    def step(self) -> None:
        kind = self.random.choice(KINDS)
        branch = self.random.choice(self.branches())
        other = self.random.choice([one for one in self.branches() if one != branch] or [MAIN])
        self.number += 1
        name, person = f"x{self.number}", f"p{self.random.randrange(4)}"
        results = [
            self._do(g, kind, branch, other, name, person) for g in (self.cleaned, self.whole)
        ]
        assert results[0] == results[1], (kind, branch, other)
        if self.random.random() < 0.4:
            keep = self.random.choice([1, 1, 2, 5])
            report = self.cleaned.cleanup(keep=keep, confirm=True)
            assert [one.error for one in (*report.tables, report.manifest) if one.error] == []

    def _do(self, graph: Graph, kind: str, branch: str, other: str, name: str, person: str) -> str:
        try:
            match kind:
                case "add":
                    graph.mutate(ADD, {"name": name}, branch=branch)
                case "update":
                    graph.mutate(OLDER, {"name": person, "age": self.number}, branch=branch)
                case "delete":
                    graph.mutate(GONE, {"name": person}, branch=branch)
                case "branch":
                    graph.branch_create(name, from_branch=branch)
                case "drop":
                    graph.branch_delete(branch)
                case "merge":
                    return str(graph.merge(other, into=branch).outcome)
                case "tag":
                    graph.tag(name, branch=branch)
        except (ConflictError, NotFoundError, omnigraphdb.UserInputError) as error:
            return error.kind
        return "done"

    def compare(self) -> None:
        for branch in self.branches():
            assert names(self.cleaned, branch) == names(self.whole, branch), branch
        for tag in self.cleaned.tags():
            assert names(self.cleaned, tag.branch, tag.name) == names(
                self.whole, tag.branch, tag.name
            )


def names(graph: Graph, branch: str, at: str | None = None) -> list[tuple[str, int | None]]:
    rows = graph.table("Person", branch=branch, at=at).to_pylist()
    return sorted((row["name"], row["age"]) for row in rows)


def run_twins(folder: Path, seed: int, steps: int) -> None:
    twins = Twins(folder, seed)
    for _ in range(steps):
        twins.step()
    twins.compare()
    with omnigraphdb.open(twins.cleaned.uri) as fresh:
        twins.cleaned = fresh
        for _ in range(4):
            twins.step()
        twins.compare()
        assert_settled(fresh)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_graph_that_is_cleaned_does_what_one_does_that_is_not(tmp_path: Path, seed: int) -> None:
    run_twins(tmp_path, seed, 25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_graph_that_is_cleaned_does_what_one_does_that_is_not_for_long(
    tmp_path: Path, seed: int
) -> None:
    run_twins(tmp_path, seed, 80)


# ---- on an object store


@pytest.mark.s3
def test_on_an_object_store_young_versions_stay_and_old_ones_go_beside_a_writer(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, config = bucket.storage_options, {"maintenance": "off"}
    writer = omnigraphdb.init(f"{bucket.uri}/g", SCHEMA, storage_options=options, config=config)
    writer.load(records(8), mode="append")
    age(writer, 8)
    cleaner = omnigraphdb.open(writer.uri, storage_options=options, config=config)
    before = list_versions(cleaner)
    assert cleaner.cleanup(keep=2, confirm=True).manifest.versions_removed == 0
    assert list_versions(cleaner) == before
    # As if an hour had passed by the clock of the store since each version was replaced.
    monkeypatch.setattr(manifest_versions, "MANIFEST_SECONDS_MIN", 0)
    preview = cleaner.cleanup(keep=2).manifest
    assert cleaner.cleanup(keep=2, confirm=True).manifest == preview
    assert preview.versions_removed >= 6
    assert len(list_versions(cleaner)) == len(before) - preview.versions_removed
    commits = cleaner.commits()
    writer.mutate(ADD, {"name": "after"})
    with omnigraphdb.open(writer.uri, storage_options=options) as fresh:
        assert fresh.commits()[1:] == commits
        assert fresh.snapshot(at=commits[1].id).table("Person").num_rows
        with pytest.raises(HistoryReclaimed):
            fresh.snapshot(at=commits[4].id)
        assert "after" in fresh.table("Person")["name"].to_pylist()
        assert_settled(fresh)
