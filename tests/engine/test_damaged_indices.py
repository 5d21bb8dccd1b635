"""Damaged index files: every read and write does its work by a scan and says so, and a build mends what is damaged."""

import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import MAIN, TableKey

PERSON = TableKey("node:Person")
SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? @index  like: Vector(4)? @index }
edge Knows: Person -> Person
"""
ROWS = 30_000
"""Enough for a query to ask every kind of index."""


def edge_bytes(content: bytes) -> bytes:
    return bytes(b ^ 0xFF for b in content[:64]) + content[64:]


def middle_bytes(content: bytes) -> bytes:
    middle = len(content) // 2
    flipped = bytes(b ^ 0xFF for b in content[middle : middle + 64])
    return content[:middle] + flipped + content[middle + 64 :]


HOW: dict[str, Callable[[bytes], bytes] | None] = {
    "gone": None,
    "cut": lambda content: content[: len(content) // 2],
    "head flipped": edge_bytes,
    "middle flipped": middle_bytes,
}


def rows(query: str) -> Callable[[Graph], object]:
    return lambda graph: graph.query(query).rows


NEAR = "nearest($p.like, [0.5, 0.5, 0.5, 0.5])"
POINT = 'query q() { match { $p: Person { name: "p77" } } return { $p.age } }'
HOP = 'query q() { match { $p: Person { name: "p7" }  $p knows $f } return { $f } }'
SEARCH = 'query q() { match { $p: Person  search($p.bio, "word79") } return { $p.name } }'
NEAREST = f"query q() {{ match {{ $p: Person }} return {{ $p.name }} order {{ {NEAR} }} limit 3 }}"
READS: dict[str, tuple[str, Callable[[Graph], object]]] = {
    "point": ("id", rows(POINT)),
    "hop": ("src", rows(HOP)),
    "search": ("bio", rows(SEARCH)),
    "nearest": ("like", rows(NEAREST)),
    "filter": (
        "age",
        lambda graph: graph.snapshot().scan("Person", ["name"], "age = 78").read_all().to_pylist(),
    ),
}
WRITES: dict[str, Callable[[Graph], Any]] = {
    "update": lambda graph: graph.mutate(
        'query q() { update Person set { age: 9 } where name = "p5" }'
    ),
    "delete": lambda graph: graph.mutate('query q() { delete Person where name = "p6" }'),
    "upsert": lambda graph: graph.load(
        [{"type": "Person", "data": {"name": "p8", "age": 5}}], mode="merge"
    ),
    "load": lambda graph: graph.load(
        [{"type": "Person", "data": {"name": f"new{n}", "age": n}} for n in range(3)],
        mode="append",
    ),
    "merge": lambda graph: graph.merge("side"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with every kind of index, one branch, and a copy of all of it beside it."""
    place = tmp_path_factory.mktemp("damaged") / "g"
    numbers = np.arange(ROWS)
    likes = np.random.default_rng(7).random(ROWS * 4, np.float32)
    people = pa.table(
        {
            "name": pa.array([f"p{n}" for n in numbers]),
            "age": pa.array(numbers, pa.int32()),
            "bio": pa.array([f"word{n} tea" for n in numbers]),
            "like": pa.FixedSizeListArray.from_arrays(pa.array(likes), 4),
        }
    )
    ends = {"from": [f"p{n}" for n in range(3_000)], "to": [f"p{n + 1}" for n in range(3_000)]}
    with omnigraphdb.init(place, SCHEMA) as graph:
        graph.load(people, type="Person", mode="append")
        graph.load(pa.table(ends), type="Knows", mode="append")
        graph.branch_create("side")
        graph.mutate('query q() { update Person set { age: 3 } where name = "p3" }', branch="side")
        graph.mutate('query q() { delete Person where name = "p29000" }')
        assert {str(one.state) for one in graph.index_status().indexes} == {"ready"}
    shutil.copytree(place, place.with_name("whole"))
    return place


@pytest.fixture
def whole(home: Path) -> Path:
    """The same graph as it was before any damage."""
    shutil.rmtree(home)
    shutil.copytree(home.with_name("whole"), home)
    return home


def damage(home: Path, how: str, columns: frozenset[str] | None = None) -> None:
    """Damage the files of all indexes, or of those on some columns."""
    change = HOW[how]
    with omnigraphdb.open(home, read_only=True) as graph:
        entries = graph._engine.view(MAIN).snapshot.entries.values()
        tables = [graph._engine.store.tables.open(entry.at) for entry in entries]
        found = [
            home / table.at.path / "_indices" / segment
            for table in tables
            for info in table.indices()
            for segment in info.segments
            if columns is None or info.column in columns
        ]
    files = [file for place in found for file in place.rglob("*") if file.is_file()]
    assert files
    for file in files:
        content = file.read_bytes()
        file.unlink() if change is None else file.write_bytes(change(content))


# ---- reads and writes


# Lance does not read what lies in the middle of a text index for every question.
@pytest.mark.parametrize(
    ("read", "how"), [one for one in product(READS, HOW) if one != ("search", "middle flipped")]
)
def test_a_read_scans_instead_and_says_so_once(
    whole: Path, read: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
    column, ask = READS[read]
    with omnigraphdb.open(whole) as graph:
        expected = ask(graph)
    damage(whole, how, frozenset({column}))
    with omnigraphdb.open(whole) as graph:
        with pytest.warns(omnigraphdb.OmniWarning, match=f"on '{column}' of .* is damaged") as told:
            assert ask(graph) == expected
        assert len(told) == 1
        assert ask(graph) == expected


@pytest.mark.parametrize("how", HOW)
def test_every_write_does_its_work_beside_damaged_indexes(whole: Path, how: str) -> None:
    damage(whole, how)
    before = people(whole)
    for write in WRITES.values():
        with omnigraphdb.open(whole) as graph, quietly():
            write(graph)
    expected = {**before, "p5": 9, "p8": 5, "p3": 3, "new0": 0, "new1": 1, "new2": 2}
    del expected["p6"]
    assert people(whole) == expected


def people(home: Path) -> dict[str, int]:
    with omnigraphdb.open(home, read_only=True) as graph:
        found = graph.table("Person")
    return dict(zip(found["name"].to_pylist(), found["age"].to_pylist(), strict=True))


@contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", omnigraphdb.OmniWarning)
        yield


# ---- telling and mending


@pytest.mark.parametrize("how", HOW)
def test_damage_is_told_and_a_build_mends_it(whole: Path, how: str) -> None:
    damage(whole, how)
    with omnigraphdb.open(whole) as graph:
        status = graph.index_status().indexes
        assert {str(one.state) for one in status} == {"damaged"}
        assert all(one.reason and not one.rows_indexed for one in status)
        found = {(one.check, one.branch) for one in graph.doctor()}
        assert found == {("damaged index", "main"), ("damaged index", "side")}
    with omnigraphdb.open(whole) as graph:
        assert graph.ensure_indices().built == len(status)
        assert graph.ensure_indices().built == 0
        assert {one.branch for one in graph.doctor()} == {"side"}
        assert graph.ensure_indices(branch="side").built
        assert graph.doctor() == []
    with omnigraphdb.open(whole) as graph:
        # A warning would be an error here.
        answers = [ask(graph) for _, ask in READS.values()]
        assert {str(one.state) for one in graph.index_status().indexes} == {"ready"}
    assert all(answers)


def test_a_read_only_handle_reads_beside_a_damaged_index(whole: Path) -> None:
    damage(whole, "gone", frozenset({"id"}))
    with omnigraphdb.open(whole, read_only=True) as graph, pytest.warns(omnigraphdb.OmniWarning):
        assert READS["point"][1](graph) == [{"p.age": 77}]


def test_a_load_builds_a_damaged_index_anew_once_it_knows(whole: Path) -> None:
    damage(whole, "gone", frozenset({"id"}))
    with omnigraphdb.open(whole) as graph:
        with pytest.warns(omnigraphdb.OmniWarning):
            READS["point"][1](graph)
        WRITES["load"](graph)
        status = [one for one in graph.index_status().indexes if one.table_key == PERSON]
        assert {str(one.state) for one in status} <= {"ready", "partial"}


def test_a_branch_that_reads_the_indexes_of_main_builds_its_own(whole: Path) -> None:
    damage(whole, "cut", frozenset({"id"}))
    with omnigraphdb.open(whole) as graph:
        status = graph.index_status(branch="side").indexes
        damaged = {one.table_key for one in status if one.state == "damaged"}
        assert damaged == {PERSON, "edge:Knows"}
        assert graph.ensure_indices(branch="side").built == 1
        with quietly():
            assert READS["point"][1](graph) == [{"p.age": 77}]
        assert graph.query(POINT, branch="side").rows == [{"p.age": 77}]


def test_compaction_goes_on_beside_damaged_indexes(whole: Path) -> None:
    with omnigraphdb.open(whole, config={"maintenance": "off"}) as graph:
        for number in range(4):
            graph.mutate(f'query q() {{ insert Person {{ name: "late{number}" }} }}')
    damage(whole, "cut")
    with omnigraphdb.open(whole) as graph:
        with quietly():
            report = graph.optimize()
        assert [one.table_key for one in report.tables if one.committed]
        assert graph.ensure_indices().built
        assert {one.branch for one in graph.doctor()} == {"side"}


# ---- deletion files


def test_a_search_over_a_damaged_deletion_file_ends(whole: Path) -> None:
    """A thread of Lance panics over one of these bytes, and a search would wait for it without end."""
    with omnigraphdb.open(whole, read_only=True) as graph:
        at = graph._engine.view(MAIN).snapshot.entries[PERSON].at
    (file,) = (whole / at.path / "_deletions").iterdir()
    script = f"""
        import pathlib, omnigraphdb
        file = pathlib.Path({str(file)!r})
        content = file.read_bytes()
        for place in range(235, 238):
            file.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1:])
            for query in {[SEARCH, NEAREST]!r}:
                with omnigraphdb.open({str(whole)!r}) as graph:
                    try:
                        graph.query(query)
                    except omnigraphdb.errors.StorageError as error:
                        print(error.storage_kind, error)
    """
    ended = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, timeout=100
    )
    told = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert sum("producer terminated" in one for one in told) >= 2
    assert {one.split()[0] for one in told} == {"permanent"}
