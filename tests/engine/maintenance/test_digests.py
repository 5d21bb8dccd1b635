"""Every file that a write brings is noted with a digest, and a deep examination finds every bit that changed since."""

import pickle
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance.issues import Issue
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.ids import MAIN, BranchName, TableKey
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.lance.digests import digest_file
from omnigraphdb.storage.values import TableAt
from tests.support.releases import Release, thing
from tests.support.s3 import Bucket

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

PERSON = TableKey("node:Person")
WITHOUT_DIGESTS, WITH_DIGESTS = Release("0.1.0-step6"), Release("0.1.0-stamp4")
"""Graphs of two trees: one before files had digests, one since."""

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? @index  like: Vector(4)? @index  face: Blob? }
edge Knows: Person -> Person
"""
ADD = "query add($n: String) { insert Person { name: $n } }"


def people(start: int, count: int, mode: "Mode", graph: Graph, **options: Any) -> None:
    numbers = np.arange(start, start + count)
    likes = np.random.default_rng(start).random(count * 4, np.float32)
    rows = {
        "name": pa.array([f"p{n}" for n in numbers]),
        "age": pa.array(numbers, pa.int32()),
        "bio": pa.array([f"word{n} tea" for n in numbers]),
        "like": pa.FixedSizeListArray.from_arrays(pa.array(likes), 4),
    }
    graph.load(pa.table(rows), type="Person", mode=mode, **options)


def fill(graph: Graph) -> None:
    """Every kind of write once."""
    people(0, 1_500, "append", graph)
    people(1_000, 1_000, "merge", graph)
    graph.load([{"edge": "Knows", "from": "p1", "to": "p2"}], mode="append")
    graph.mutate('query q() { update Person set { age: 3 } where name = "p3" }')
    graph.mutate('query q() { delete Person where name = "p4" }')
    face = {"name": "faced", "face": "base64:" + "AAAA" * 40_000}
    graph.load([{"type": "Person", "data": face}], mode="append")
    graph.schema_apply(SCHEMA.replace("face: Blob?", "face: Blob?  nick: String?"))
    graph.branch_create("side")
    people(5_000, 1_200, "append", graph, branch="side")
    graph.mutate('query q() { update Person set { age: 8 } where name = "p8" }', branch="side")
    graph.mutate(ADD, {"n": "between"})
    graph.merge("side")
    people(0, 2_000, "merge", graph)
    graph.ensure_indices()
    graph.ensure_indices(branch="side")
    graph.mutate('query q() { delete Person where name = "p9" }')


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("digests") / "g"
    with omnigraphdb.init(home, SCHEMA) as graph:
        fill(graph)
    shutil.copytree(home, home.with_name("whole"))
    return home


@pytest.fixture
def home(filled: Path) -> Path:
    shutil.rmtree(filled)
    shutil.copytree(filled.with_name("whole"), filled)
    return filled


@pytest.fixture
def graph(home: Path) -> Iterator[Graph]:
    with omnigraphdb.open(home) as opened:
        yield opened


def flip(file: Path, place: float = 0.4) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 1
    file.write_bytes(content)


def at_of(graph: Graph, branch: str = "main") -> TableAt:
    return graph._engine.view(BranchName(branch)).snapshot.entries[PERSON].at


def needed(graph: Graph, kind: str, branch: str = "main") -> list[str]:
    """The files of one kind that the newest version of a branch has."""
    listed = graph._engine.store.tables.listed_files(at_of(graph).path)
    found = graph._engine.store.tables.needed_files(at_of(graph, branch))
    return sorted(
        path
        for path in listed
        if f"/{kind}/" in path and any(path.startswith(one) for one in found)
    )


def damaged(graph: Graph) -> list[Issue]:
    return [one for one in graph.doctor(deep=True) if one.check == "damaged file"]


# ---- what is noted


def test_every_file_of_every_kind_of_write_is_noted(graph: Graph) -> None:
    found = graph.doctor(deep=True)
    assert list(found) == []
    assert found.files_without_digest == 0
    assert found.files_compared
    kinds = [kind for kind in ("data", "_deletions", "_indices") if needed(graph, kind)]
    assert kinds == ["data", "_deletions", "_indices"]


def test_a_rewrite_is_noted_and_cleanup_takes_no_digest_of_a_live_file(graph: Graph) -> None:
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    found = graph.doctor(deep=True)
    assert (list(found), found.files_without_digest) == ([], 0)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_recovery_notes_what_the_writer_would_have_noted(
    graph: Graph, home: Path, mode: "Mode"
) -> None:
    start = 10_000 if mode == "append" else 1_900
    with pytest.raises(Injected), armed(Failpoint.TABLES_COMMITTED):
        people(start, 1_200, mode, graph)
    graph.close()
    with omnigraphdb.open(home) as again:
        assert again.recoveries()[-1].recovery_kind == "RolledForward"
        found = again.doctor(deep=True)
        assert (list(found), found.files_without_digest) == ([], 0)
        flip(home / needed(again, "data")[-1])
        assert len(damaged(again)) == 1


def test_receipts_of_workers_carry_digests_wherever_they_travel(graph: Graph) -> None:
    tables, at = graph._engine.store.tables, at_of(graph)
    table = tables.open(at)
    rows = table.read(filter="id = 'p20'", blobs=BlobForm.INPUT)
    written = pickle.loads(pickle.dumps(tables.write(at, rows)))
    address = table.read((), "id = 'p20'", row_address=True)["_rowaddr"].combine_chunks()
    (marked,) = pickle.loads(pickle.dumps(tables.mark(at, address)))
    assert len(written.digests) == len(marked.digests) == 1
    staged = tables.stage_marked(at, [written], [marked])
    assert dict(staged.digests) == {**written.digests, **marked.digests}


def test_a_one_row_commit_notes_few_bytes(graph: Graph) -> None:
    def row_bytes() -> int:
        rows = graph._engine.manifest.current(MAIN).image.rows
        newest = max(rows["object_id"].to_pylist(), key=lambda one: (one.startswith(PERSON), one))
        (row,) = [one for one in rows.to_pylist() if one["object_id"] == newest]
        return len(row["metadata"])

    graph.mutate(ADD, {"n": "small"})
    assert row_bytes() < 180


def test_digests_take_a_small_part_of_a_load(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        before = time.process_time()
        people(0, 60_000, "append", graph)
        loading = time.process_time() - before
    before = time.process_time()
    for file in (tmp_path / "g").rglob("*.lance"):
        digest_file(str(file))
    assert time.process_time() - before < 0.03 * loading


# ---- what is found


@pytest.mark.parametrize("kind", ["data", "_deletions", "_indices"])
@pytest.mark.parametrize("place", [0.0, 0.4, 0.999])
def test_one_flipped_bit_is_found_and_the_file_is_named(
    graph: Graph, home: Path, kind: str, place: float
) -> None:
    path = needed(graph, kind)[0]
    flip(home / path, place)
    (found,) = damaged(graph)
    assert (found.table_key, "main" in (found.branch or "")) == (PERSON, True)
    assert path in found.message
    assert "for version" in found.message
    assert ("index build" if kind == "_indices" else "copy of the graph") in found.remedy


def test_a_file_that_only_history_needs_is_checked_too(graph: Graph, home: Path) -> None:
    before = needed(graph, "data")
    graph.optimize()
    old = next(
        path for path in before if path not in needed(graph, "data") + needed(graph, "data", "side")
    )
    flip(home / old)
    (found,) = damaged(graph)
    assert (found.branch, "only earlier commits need it" in found.message) == (None, True)


def test_a_file_that_is_gone_or_cut_is_told_without_a_traceback(graph: Graph, home: Path) -> None:
    gone, cut = needed(graph, "data")[:2]
    (home / gone).unlink()
    (home / cut).write_bytes((home / cut).read_bytes()[:-7])
    found = graph.doctor(deep=True)
    assert {one.check for one in found} >= {"missing file", "damaged file"}
    assert any(gone in one.message for one in found if one.check == "missing file")
    assert any(cut in one.message and "bytes instead of" in one.message for one in found)


def test_an_unreadable_version_is_told_without_a_traceback(graph: Graph, home: Path) -> None:
    path = at_of(graph).path
    for file in (home / path / "_versions").glob("*.manifest"):
        file.write_bytes(b"?" * 40)
    graph.close()
    with omnigraphdb.open(home) as again:
        found = again.doctor(deep=True)
    assert ("unreadable table", PERSON) in {(one.check, one.table_key) for one in found}


# ---- what nobody noted


@pytest.mark.parametrize(
    ("release", "has_digests"),
    [(WITHOUT_DIGESTS, False), (WITH_DIGESTS, True)],
    ids=["before digests", "since digests"],
)
def test_files_of_an_earlier_release_are_counted_and_found_whole(
    release: Release, has_digests: bool, tmp_path: Path
) -> None:
    with pytest.warns(omnigraphdb.OmniWarning, match="moved or copied"):
        graph = omnigraphdb.open(release.unpack(tmp_path))
    with graph:
        found = graph.doctor(deep=True)
        assert {one.check for one in found} == {"moved graph"}
        compared, without = found.files_compared, found.files_without_digest
        assert (bool(compared), bool(without)) == (has_digests, not has_digests)
        graph.load([thing("new", text="red knot")], mode="merge")
        assert (graph.doctor(deep=True).files_compared or 0) > (compared or 0)


@pytest.mark.s3
def test_an_object_store_is_checked_by_the_bytes_it_lists(bucket: Bucket) -> None:
    uri = f"{bucket.uri}/digests"
    with omnigraphdb.init(uri, SCHEMA, storage_options=bucket.storage_options) as graph:
        people(0, 1_200, "append", graph)
        found = graph.doctor(deep=True)
        assert (list(found), found.files_compared) == ([], 0)
        assert found.files_without_digest
