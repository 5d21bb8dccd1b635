"""Chains of schema changes that use few names again and again: the present is what was written, the past what it said."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.histories import Draw
from tests.support.settled import assert_settled

NAMES = ("a", "b", "z")
KEYS = ("k0", "k1", "k2")
VALUES: dict[str, list[Any]] = {
    "I32?": [1, -3],
    "I64?": [2**40],
    "String?": ["", "text"],
    "Date?": ["2020-01-02"],
    "DateTime?": ["2020-01-02T03:04:05.006Z"],
    "Bool?": [True, False],
    "[String]?": [["x"], []],
    "Vector(2)?": [[1.0, 0.5]],
    "Vector(3)?": [[1.0, 0.5, 0.0]],
}
STEPS = ("write", "write", "add", "add", "drop", "hard drop", "rename", "optimize", "reopen")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a commit said while it was the newest."""

    commit: str
    query: str
    rows: list[dict[str, Any]]
    records: list[dict[str, Any]]
    entity: dict[str, Any] | None
    properties: dict[str, int]
    """Which property each name stood for."""

    def means_the_same(self, properties: dict[str, int]) -> bool:
        """Whether its query reads what it read: one that does not fit the names of now is one of then."""
        if any(name not in properties for name in self.properties):
            return True
        return all(properties[name] == one for name, one in self.properties.items())


@dataclass
class Chain:
    """A graph of one type, what it should hold, and what its commits said."""

    graph: Graph
    types: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=lambda: {key: {} for key in KEYS})
    memories: list[Memory] = field(default_factory=list)
    properties: dict[str, int] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def schema(self, renamed: dict[str, str] | None = None) -> str:
        old = renamed or {}
        hints = {new: f' @rename_from("{before}")' for new, before in old.items()}
        properties = (f"{name}: {type_}{hints.get(name, '')}" for name, type_ in self.types.items())
        return f"node Thing {{ key: String @key  {'  '.join(properties)} }}"

    def query(self) -> str:
        columns = ", ".join(f"$t.{name}" for name in ("key", *self.types))
        return f"query q() {{ match {{ $t: Thing }} return {{ {columns} }} order {{ $t.key }} }}"

    def expected(self) -> list[dict[str, Any]]:
        return [
            {"t.key": key} | {f"t.{name}": row.get(name) for name in self.types}
            for key, row in self.rows.items()
        ]

    def step(self, name: str, draw: Draw) -> None:
        free = [one for one in NAMES if one not in self.types]
        match name:
            case "write":
                self.write(draw)
            case "add" if free:
                fresh = draw(st.sampled_from(free))
                self.types[fresh] = draw(st.sampled_from(list(VALUES)))
                self.properties[fresh] = next(self.numbers)
                self.graph.schema_apply(self.schema())
            case "drop" | "hard drop" if self.types:
                self.forget(draw(st.sampled_from(list(self.types))))
                self.graph.schema_apply(self.schema(), allow_data_loss=name == "hard drop")
                if name == "hard drop":
                    self.memories.clear()
            case "rename" if self.types and free:
                self.rename(draw(st.sampled_from(list(self.types))), draw(st.sampled_from(free)))
            case "optimize":
                self.graph.optimize()
            case "reopen":
                self.graph.close()
                self.graph = omnigraphdb.open(self.graph.uri)
            case _:
                return
        event(name)

    def write(self, draw: Draw) -> None:
        key = draw(st.sampled_from(KEYS))
        # A record replaces the row of its key: what it leaves out is NULL.
        named = draw(st.lists(st.sampled_from(NAMES), unique=True))
        self.rows[key] = {
            name: draw(st.sampled_from(VALUES[type_]))
            for name, type_ in self.types.items()
            if name in named
        }
        self.graph.load([{"type": "Thing", "data": {"key": key} | self.rows[key]}], mode="merge")

    def forget(self, name: str) -> None:
        del self.types[name], self.properties[name]
        for row in self.rows.values():
            row.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        self.types[new] = self.types.pop(old)
        self.properties[new] = self.properties.pop(old)
        for row in self.rows.values():
            if old in row:
                row[new] = row.pop(old)
        self.graph.schema_apply(self.schema({new: old}))

    def check(self) -> None:
        # A column is held in memory after it was asked for a few times.
        for _ in range(3):
            assert self.graph.query(self.query()).rows == self.expected()
        for memory in self.memories:
            then = self.graph.query(memory.query, at=memory.commit).rows
            assert then == memory.rows or not memory.means_the_same(self.properties)
            assert list(self.graph.export(at=memory.commit)) == memory.records
            assert self.graph.entity("Thing", "k0", at=memory.commit) == memory.entity
        self.remember()

    def remember(self) -> None:
        self.memories.append(
            Memory(
                commit=self.graph.commits(limit=1)[0].id,
                query=self.query(),
                rows=self.graph.query(self.query()).rows,
                records=list(self.graph.export()),
                entity=self.graph.entity("Thing", "k0"),
                properties=dict(self.properties),
            )
        )


@contextmanager
def begun() -> Iterator[Chain]:
    with tempfile.TemporaryDirectory() as place:
        chain = Chain(omnigraphdb.init(Path(place) / "g", "node Thing { key: String @key }"))
        things = [{"type": "Thing", "data": {"key": key}} for key in KEYS]
        chain.graph.load(things, mode="append")
        chain.remember()
        yield chain
        assert_settled(chain.graph)
        chain.graph.close()


@settings(max_examples=6)
@given(data=st.data())
def test_names_that_come_again_are_never_taken_for_one_another(data: st.DataObject) -> None:
    with begun() as chain:
        for name in data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=12)):
            chain.step(name, data.draw)
            chain.check()
