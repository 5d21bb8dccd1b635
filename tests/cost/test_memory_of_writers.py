"""A process that writes for long keeps no more in memory for it: what it caches of versions is bounded."""

import gc
import random
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.limits import MANIFEST_CACHE_BYTES, METADATA_CACHE_BYTES
from omnigraphdb.storage.lance.tables import LanceTables

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DELETE = "query q($n: String) { delete Person where name = $n }"
MIB = 1024 * 1024
SLACK_BYTES = MIB
"""By which Lance passes a bound before it makes room."""


def write(graph: Graph, names: list[str], first: int, count: int, chance: random.Random) -> None:
    """Insert, update and delete, in 70, 20 and 10 of 100 commits."""
    for number in range(first, first + count):
        kind = chance.random()
        if kind < 0.7 or len(names) < 5:
            names.append(f"p{number}")
            graph.mutate(INSERT, params={"n": names[-1], "a": number})
        elif kind < 0.9:
            graph.mutate(UPDATE, params={"n": chance.choice(names), "a": number})
        else:
            graph.mutate(DELETE, params={"n": names.pop(chance.randrange(len(names)))})


def cached_bytes(graph: Graph) -> tuple[int, int]:
    """The bytes that Lance caches of the manifest, and of the tables."""
    store = graph._engine.store
    assert isinstance(store.tables, LanceTables)
    return (
        store.internal.session.size_bytes(),
        store.tables._datasets.session.size_bytes(),
    )


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_versions_of_the_manifest_are_cached_within_a_bound(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        assert not graph._engine.store.internal.session.is_same_as(
            graph._engine.store.tables._datasets.session  # type: ignore[attr-defined]
        )
        write(graph, [], 0, 700, random.Random(1))
        manifest, tables = cached_bytes(graph)
        assert manifest <= MANIFEST_CACHE_BYTES + SLACK_BYTES
        assert tables <= METADATA_CACHE_BYTES + SLACK_BYTES


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_long_lived_writer_does_not_grow(tmp_path: Path) -> None:
    """3,000 commits took a process from 274 to 387 MiB while the caches held 256 MiB, 72 MiB of them former versions."""
    names: list[str] = []
    chance = random.Random(1)
    resident: dict[int, int] = {}
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        for first in range(0, 10_000, 1_000):
            write(graph, names, first, 1_000, chance)
            resident[first + 1_000] = resident_bytes() // MIB
        manifest, tables = cached_bytes(graph)
        assert manifest + tables <= MANIFEST_CACHE_BYTES + METADATA_CACHE_BYTES + SLACK_BYTES
        assert resident[10_000] - resident[1_000] <= 160, resident
        # The caches fill up, and then little is added: 39 MiB since commit 5,000 and 7 since 8,000 were measured.
        assert resident[10_000] - resident[5_000] <= 60, resident
        assert resident[10_000] - resident[8_000] <= 30, resident
