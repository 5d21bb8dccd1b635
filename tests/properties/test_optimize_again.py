"""Optimise again and again between writes and index builds: the rows stay, and every kind of index is used and right."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.read import costs, vectors
from omnigraphdb.ids import MAIN, TableKey
from omnigraphdb.storage.lance import fragments
from omnigraphdb.storage.tables import Table
from tests.support.search_model import by_distance, matching
from tests.support.settled import assert_settled

SCHEMA = """
node Note {
    code: String @key
    body: String? @index
    shelf: I32 @index
    mood: enum(calm, wild)? @index
    sig: Vector(2)? @index
    scan: Blob?
}
node Box { size: I32 @index  label: String? @index }
edge Holds: Box -> Note { since: I32? }
"""
FULL = 40
"""Rows of a full fragment here: a few hundred rows are as many fragments as millions elsewhere."""
WORDS = ("rope", "harbour", "knot", "plank", "anchor", "tide", "buoy", "mast", "keel")
PLACES = ("calm", "wild", None)
SEARCH = "query q($t: String) { match { $n: Note  search($n.body, $t) } return { $n.code } }"
NEAREST = "query q($v: Vector(2)) { match { $n: Note } return { $n.code } order { nearest($n.sig, $v) } limit 6 }"
HELD = "query q($s: I32) { match { $b: Box { size: $s }  $b holds $n } return { $n.code } }"
GONE = "query q($c: [String]) { delete Note where code in $c }"
MOVED = "query q($s: I32, $t: I32) { update Note set { shelf: $t } where shelf = $s }"

Row = dict[str, Any]


class Model:
    """A graph, and its rows as plain dictionaries."""

    def __init__(self, root: Path, seed: int, config: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.graph: Graph = omnigraphdb.init(root, SCHEMA, config=config)
        self.notes: dict[str, Row] = {}
        self.boxes: dict[str, Row] = {}
        self.edges: dict[str, Row] = {}
        self.added = 0

    # ---- writes

    def append(self, count: int | None = None) -> None:
        """New notes, a box that holds some of them."""
        count = count or self.random.choice([1, 3, 30, 70])
        codes = [f"n{self.added + number:05}" for number in range(count)]
        self.added += count
        new = {code: self._note(code) for code in codes}
        box: Row = {"id": f"b{self.added}", "size": count, "label": self._text()}
        held = {
            f"h-{code}": {"id": f"h-{code}", "src": box["id"], "dst": code, "since": number}
            for number, code in enumerate(codes[:20])
        }
        self._load("append", [*new.values()], [box], [*held.values()])
        self.notes |= new
        self.boxes[box["id"]] = box
        self.edges |= held

    def update(self) -> None:
        """Some notes and edges say something else: few, or so many that no fragment stays as it is."""
        codes = self._some(self.notes, len(self.notes) // self.random.choice([3, 10]) + 1)
        changed = {code: self._note(code) for code in codes}
        edges = {id: self.edges[id] | {"since": -1} for id in self._some(self.edges, 9)}
        self._load("merge", [*changed.values()], [], [*edges.values()])
        self.notes |= changed
        self.edges |= edges

    def move(self) -> None:
        """All notes of one shelf go to another."""
        old, new = self.random.randrange(9), self.random.randrange(9)
        self.graph.mutate(MOVED, {"s": old, "t": new})
        for note in self.notes.values():
            note["shelf"] = new if note["shelf"] == old else note["shelf"]

    def delete(self) -> None:
        """Notes go, and the edges to them."""
        codes = self._some(self.notes, self.random.choice([1, 5, len(self.notes) // 3]))
        self.graph.mutate(GONE, {"c": codes})
        for code in codes:
            del self.notes[code]
            self.edges.pop(f"h-{code}", None)

    def index(self) -> None:
        """The missing indexes."""
        self.graph.ensure_indices()

    def optimize(self) -> None:
        """What is tested."""
        self.graph.optimize()

    def _load(
        self, mode: Literal["append", "merge"], notes: list[Row], boxes: list[Row], edges: list[Row]
    ) -> None:
        tables = {"Note": notes, "Box": boxes, "Holds": edges}
        rows = {name: pa.Table.from_pylist(rows) for name, rows in tables.items() if rows}
        self.graph.load(rows, mode=mode)

    def _note(self, code: str) -> Row:
        pick = self.random
        return {
            "code": code,
            "body": self._text(),
            "shelf": pick.randrange(9),
            "mood": pick.choice(PLACES),
            "sig": pick.choice([None, [float(pick.randrange(9)), float(pick.randrange(9))]]),
            "scan": pick.choice([None, b"ink-" + code.encode()]),
        }

    def _text(self) -> str | None:
        words = self.random.sample(WORDS, self.random.randrange(4))
        return " ".join(words) if words else None

    def _some(self, rows: dict[str, Row], count: int) -> list[str]:
        return self.random.sample(sorted(rows), min(count, len(rows)))

    # ---- comparison

    def check(self, *, complete: bool) -> None:
        """Compare rows and every index with the model; complete indexes are used."""
        for name, rows in {"Note": self.notes, "Box": self.boxes, "Holds": self.edges}.items():
            columns = [c for c in next(iter(rows.values())) if c != "scan"]
            table = self.graph.table(name).sort_by("id").select(columns).to_pylist()
            assert table == [{c: row[c] for c in columns} for _, row in sorted(rows.items())]
        self._check_answers()
        if complete:
            self._check_indexes()

    def _check_answers(self) -> None:
        self._check_searches(self.graph)
        box = self._some(self.boxes, 1)[0]
        size = self.boxes[box]["size"]
        rows = self.graph.query(HELD, {"s": size}).to_list()
        boxes = {id for id, one in self.boxes.items() if one["size"] == size}
        held = (edge["dst"] for edge in self.edges.values() if edge["src"] in boxes)
        assert sorted(row["n.code"] for row in rows) == sorted(held)
        for code in self._some(self.notes, 2):
            ink = self.notes[code]["scan"]
            assert ink is None or self.graph.blob("Note", code, "scan").read() == ink

    def _check_indexes(self) -> None:
        states = self.graph.index_status().indexes
        # A fragment without any vector has nothing to train an index with.
        assert {str(one.state) for one in states if one.column != "sig"} == {"ready"}
        note, holds = self._table("node:Note"), self._table("edge:Holds")
        code, edge = self._some(self.notes, 1)[0], self._some(self.edges, 1)[0]
        box, mood = self.edges[edge]["src"], self.random.choice(PLACES[:2])
        assert self._indexed(note, f"id = '{code}'") == [code]
        assert self._indexed(note, "shelf = 3") == self._where(lambda n: n["shelf"] == 3)
        assert self._indexed(note, f"mood = '{mood}'") == self._where(lambda n: n["mood"] == mood)
        among = sorted(id for id, one in self.edges.items() if one["src"] == box)
        assert self._indexed(holds, f"src = '{box}'") == among
        with omnigraphdb.open(self.graph.uri, read_only=True) as cold:
            # A handle that has looked at some rows takes its own terms and vectors sooner or later.
            for query, index in ((SEARCH, "text index on body"), (NEAREST, "vector index on sig")):
                params = {"t": "rope"} if query is SEARCH else {"v": [1.0, 2.0]}
                assert index in str(cold.explain(query, params, profile=True))
            self._check_searches(cold)

    def _check_searches(self, graph: Graph) -> None:
        texts = {code: one["body"] for code, one in self.notes.items()}
        for word in (*self.random.sample(WORDS, 3), "rope tide"):
            rows = graph.query(SEARCH, {"t": word}).to_list()
            assert sorted(row["n.code"] for row in rows) == sorted(matching(texts, word))
        vectors = {code: one["sig"] for code, one in self.notes.items()}
        for at in ([0.0, 0.0], [4.0, 5.0]):
            rows = graph.query(NEAREST, {"v": at}).to_list()
            expected = by_distance(vectors, at, set(vectors))
            assert [row["n.code"] for row in rows] == expected[:6]

    def _table(self, key: str) -> Table:
        engine = self.graph._engine
        return engine.store.tables.open(engine.view(MAIN).snapshot.entry(TableKey(key)).at)

    def _indexed(self, table: Table, filter: str) -> list[str]:
        assert "ScalarIndexQuery" in table.explain(filter)
        return self._codes(table.read(("id",), filter), "id")

    def _where(self, test: Callable[[Row], bool]) -> list[str]:
        return sorted(code for code, note in self.notes.items() if test(note))

    @staticmethod
    def _codes(table: pa.Table, column: str) -> list[str]:
        return sorted(table.column(column).to_pylist())


CONFIGS: tuple[dict[str, Any], ...] = (
    {"maintenance": "off", "cache_bytes": 0},
    {"maintenance": "auto"},
    {"maintenance": "off", "unofficial_lance": "off"},
)
LONG = [
    pytest.param(seed, 60, config, marks=pytest.mark.soak, id=f"{seed}-long")
    for seed in range(10, 14)
    for config in CONFIGS
]


@pytest.mark.parametrize(
    ("seed", "rounds", "config"), [(1, 6, CONFIGS[0]), (2, 6, CONFIGS[1]), *LONG]
)
def test_optimizing_again_and_again_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int, config: dict[str, Any]
) -> None:
    monkeypatch.setattr(fragments, "FRAGMENT_ROWS_MIN", FULL)
    monkeypatch.setattr(fragments, "FRAGMENT_ROWS_MAX", FULL)
    # Memory is dear: every index that there is must be asked.
    for cost in ("SCANNED_ROW", "SCANNED_NUMBER", "KEY_ROW", "EDGE_ROW", "TEXT_ROW"):
        monkeypatch.setattr(costs, cost, 1e9)
    monkeypatch.setattr(vectors, "_SLACK", 0)
    model = Model(tmp_path / "g", seed, config)
    model.append(200)
    steps = [model.append, model.update, model.update, model.move, model.delete, model.index]
    for _ in range(rounds):
        for step in model.random.choices(steps, k=model.random.randrange(1, 4)):
            step()
        model.check(complete=False)
        model.optimize()
        model.check(complete=True)
    model.graph.optimize()
    assert_settled(model.graph)
    assert not model.graph.doctor(deep=True)
    model.graph.close()
