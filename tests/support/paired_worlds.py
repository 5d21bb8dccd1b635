"""One graph in two systems: as a graph of ours and as tables of DuckDB, changed in the same ways."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.paired_random import ORDERED, VALUES, stored
from tests.support.paired_reads import (
    EDGES,
    ITEMS,
    KEYS,
    NODES,
    REACH_MAX,
    REQUIRED,
    SCHEMA,
    SQL_TYPES,
    Read,
    gq,
    literal,
    properties,
    sql,
    unlimited,
)

NOTHING = (
    'update P set { l: ["a"], n: [1], v: [1.0, 2.0], x: "base64:aGk=" } where k = "nobody"'
    ' update Q set { d: date("2020-02-29") } where s = "nobody"'
)
Rows = dict[str, list[dict[str, Any]]]
Row = tuple[Any, ...]


# ---- DuckDB


def mirror(rows: Rows) -> duckdb.DuckDBPyConnection:
    """The same rows as tables of DuckDB, with the walks of every edge laid out."""
    base = duckdb.connect()
    base.execute("SET threads = 1")
    for name, kinds in {**NODES, **{edge: ends[2] for edge, ends in EDGES.items()}}.items():
        columns = {"id": "VARCHAR"} | (
            {"src": "VARCHAR", "dst": "VARCHAR"} if name in EDGES else {}
        )
        columns |= {one: SQL_TYPES[kind] for one, kind in kinds.items()}
        base.execute(f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in columns.items())})")
        if rows[name]:
            marks = ", ".join("?" for _ in columns)
            base.executemany(
                f"INSERT INTO {name} VALUES ({marks})",
                [[_plain(row.get(column)) for column in columns] for row in rows[name]],
            )
    for edge, (source, target, _) in EDGES.items():
        if source == target:
            for way in ("out", "both"):
                base.execute(f"CREATE TABLE {edge}_{way} AS {_walks(edge, way)}")
    return base


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _walks(edge: str, way: str) -> str:
    """Pairs of nodes with their shortest distance; a node reaches itself only over a loop."""
    steps = f"SELECT src, dst FROM {edge}"
    if way == "both":
        steps += f" UNION SELECT dst, src FROM {edge}"
    return f"""
      WITH RECURSIVE steps AS ({steps}),
      walked(src, dst, hops) AS (
        SELECT src, dst, 1 FROM steps
        UNION SELECT walked.src, steps.dst, hops + 1
        FROM walked JOIN steps ON walked.dst = steps.src WHERE hops < {REACH_MAX}
      )
      SELECT src, dst, min(hops) AS hops FROM walked
      GROUP BY src, dst HAVING src <> dst OR min(hops) = 1
    """


# ---- comparing


@dataclass
class Seen:
    """What came of asking both."""

    asked: int = 0
    found: int = 0
    """How many of the answers had rows."""
    lost: int = 0
    """How often DuckDB failed in its own planner."""


def assert_same(read: Read, found: pa.Table, base: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    """Require the rows DuckDB gives: in their order where there is one, else as a bag."""
    try:
        expected = exact_rows(base.execute(sql(read)).fetchall())
    except duckdb.InternalException:
        # Some nested lateral joins make its planner index past the end of a list.
        seen.lost += 1
        return
    actual = exact_rows(python_rows(found))
    seen.asked += 1
    seen.found += bool(actual)
    cut = read.limit is not None or read.offset is not None
    shown = f"\n{gq(read)}\n{read.arguments}\n{sql(read)}\nours:   {actual}\nDuckDB: {expected}"
    if read.is_ordered:
        assert actual == expected, shown
    elif cut:
        # Without an order any rows will do, as long as they are rows of the result. How many is counted
        # here: behind some lateral joins DuckDB gives more rows than its LIMIT says.
        every = exact_rows(base.execute(sql(unlimited(read))).fetchall())
        left = max(len(every) - (read.offset or 0), 0)
        assert len(actual) == (left if read.limit is None else min(left, read.limit)), shown
        assert not Counter(actual) - Counter(every), shown
    else:
        assert Counter(actual) == Counter(expected), shown


def python_rows(table: pa.Table) -> list[Row]:
    """The rows of a result as Python values."""
    columns = [_python(column) for column in table.columns]
    return list(zip(*columns, strict=True))


def _python(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date64(column.type):
        column = column.cast(pa.timestamp("ms", tz="UTC"))
    return column.to_pylist()


def exact_rows(rows: list[Row]) -> list[Row]:
    """Rows that can be compared."""
    return [tuple(_cell(cell) for cell in row) for row in rows]


def _cell(cell: Any) -> Any:
    """A value that can be compared: the order of adding floats is no part of an answer."""
    if isinstance(cell, float) and math.isfinite(cell):
        return float(f"{cell:.9g}") + 0.0
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=UTC)
    return tuple(cell) if isinstance(cell, list) else cell


# ---- graphs


def random_rows(chance: Random) -> Rows:
    """Entities of every type, some types without any."""
    rows: Rows = {}
    for name, kinds in NODES.items():
        most = {"P": 12, "Q": 7, "R": 6}[name]
        number = 0 if chance.random() < 0.15 else chance.randint(1, most)
        rows[name] = [_entity(name, place, kinds, chance) for place in range(number)]
    for name, (source, target, kinds) in EDGES.items():
        number = 0 if chance.random() < 0.15 else chance.randint(1, 16)
        ends = [[row["id"] for row in rows[end]] for end in (source, target)]
        number = number if all(ends) else 0
        rows[name] = [
            {
                "id": f"{name}{place:02d}",
                "src": chance.choice(ends[0]),
                "dst": chance.choice(ends[1]),
                **{one: stored(kind, chance) for one, kind in kinds.items()},
            }
            for place in range(number)
        ]
    return rows


def _entity(name: str, place: int, kinds: Mapping[str, str], chance: Random) -> dict[str, Any]:
    key = place - 2 if kinds[KEYS[name]] == "i32" else f"{name.lower()}{place:02d}"
    row = {n: stored(kind, chance, required=(name, n) in REQUIRED) for n, kind in kinds.items()}
    return {"id": str(key), **row, KEYS[name]: key}


def records(rows: Rows) -> list[dict[str, Any]]:
    """The rows as records of a load."""
    nodes = [
        {"type": name, "data": {n: _json(row[n]) for n in NODES[name]}}
        for name in NODES
        for row in rows[name]
    ]
    edges = [
        {
            "edge": name,
            "from": row["src"],
            "to": row["dst"],
            "data": {"id": row["id"], **{n: _json(row[n]) for n in EDGES[name][2]}},
        }
        for name in EDGES
        for row in rows[name]
    ]
    return nodes + edges


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


@dataclass
class Moment:
    """A state of the graph, how it is asked for, and the tables that mirror it."""

    at: dict[str, Any]
    rows: Rows
    base: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        self.base = mirror(self.rows)


class PairedWorld:
    """A graph and its mirror, laid out in one of several ways."""

    def __init__(self, place: Path, chance: Random) -> None:
        self.chance, self.place = chance, place
        self.rows = random_rows(chance)
        self.graph: Graph = omnigraphdb.init(str(place), SCHEMA)
        self._load()
        self.moments = [Moment({}, self.rows)]
        self._go_on()

    def close(self) -> None:
        """Let go of the graph."""
        self.graph.close()

    def _load(self) -> None:
        """Load in one part or in several, which are fragments of their own."""
        every = records(self.rows)
        nodes = sum(len(self.rows[name]) for name in NODES)
        cut = self.chance.choice((len(every), nodes, self.chance.randint(0, nodes)))
        for part in (every[:cut], every[cut:]):
            if part:
                self.graph.load(part, mode="append")

    def _go_on(self) -> None:
        """Change the graph: in place, on a branch, or not at all; then perhaps build what makes reads fast."""
        layout = self.chance.choice(("fresh", "indexed", "changed", "changed", "branch", "past"))
        at: dict[str, Any] = {}
        if layout == "branch":
            self.graph.branch_create("task")
            at = {"branch": "task"}
        if layout == "past":
            self.moments = [Moment({"at": self.graph.commits()[0].id}, self.rows)]
        if layout in ("changed", "branch", "past"):
            for _ in range(self.chance.randint(1, 4)):
                self.change(at)
            self.moments = [*self.moments[layout == "changed" :], Moment(at, self.rows)]
        if layout == "indexed" or self.chance.random() < 0.3:
            self.graph.optimize()

    # ---- changes

    def change(self, at: dict[str, Any]) -> None:
        """Make one change in the graph and in the rows; what it matched must be the same."""
        name = self.chance.choice(("P", "P", "Q", "R", "Knows", "Likes"))
        kind = "delete" if name in EDGES else self.chance.choice(("update", "update", "delete"))
        column, op, value = self._where(name)
        test = f"{column} {op} {literal(value)}"
        hit = [row for row in self.rows[name] if _holds(row[_stored(column)], op, value)]
        if kind == "update":
            sets = self._sets(name)
            written = ", ".join(f"{one}: {literal(new)}" for one, new in sets.items())
            # What matches nothing leaves the statements beside it alone.
            beside = self.chance.choice(("", NOTHING))
            done = self.graph.mutate(
                f"use extensions query m() {{ update {name} set {{ {written} }} where {test} {beside} }}",
                **at,
            )
            ids = {row["id"] for row in hit}
            kept = {one: new for one, new in sets.items() if one in NODES[name]}
            changed = [row | kept if row["id"] in ids else row for row in self.rows[name]]
            self.rows = {**self.rows, name: changed}
            assert (done.affected_nodes, done.affected_edges) == (len(hit), 0), (test, hit)
            return
        done = self.graph.mutate(f"use extensions query m() {{ delete {name} where {test} }}", **at)
        nodes, edges = self._delete(name, {row["id"] for row in hit})
        assert (done.affected_nodes, done.affected_edges) == (nodes, edges), (test, hit)

    def _where(self, name: str) -> tuple[str, str, Any]:
        if name in EDGES and self.chance.random() < 0.5:
            side, end = self.chance.choice((("from", EDGES[name][0]), ("to", EDGES[name][1])))
            ids = [row["id"] for row in self.rows[end]]
            return side, "=", self.chance.choice([*ids, "nobody"])
        plain = [n for n, kind in properties(name).items() if kind not in ITEMS]
        column = self.chance.choice([*plain, *(2 * [KEYS[name]] if name in KEYS else [])])
        kind = properties(name)[column]
        if column == KEYS.get(name):
            ids = [row[column] for row in self.rows[name]]
            return column, "=", self.chance.choice([*ids, 77 if kind == "i32" else "nobody"])
        return column, self.chance.choice(ORDERED), self.chance.choice(VALUES[kind])

    def _sets(self, name: str) -> dict[str, Any]:
        """New values; a vector and a blob among them, which no read looks at."""
        free = [n for n in NODES[name] if n != KEYS[name]]
        chosen = self.chance.sample(free, self.chance.randint(1, min(3, len(free))))
        sets = {
            one: stored(NODES[name][one], self.chance, required=(name, one) in REQUIRED)
            for one in chosen
        }
        if name == "P" and self.chance.random() < 0.5:
            sets |= {"v": (1.0, 2.0), "x": "base64:aGk="}
        return sets

    def _delete(self, name: str, ids: set[str]) -> tuple[int, int]:
        gone = {name: ids}
        if name in NODES:
            for edge, (source, target, _) in EDGES.items():
                sides = [side for side, end in (("src", source), ("dst", target)) if end == name]
                gone[edge] = {
                    row["id"] for row in self.rows[edge] if any(row[side] in ids for side in sides)
                }
        self.rows = {
            one: [row for row in rows if row["id"] not in gone.get(one, ())]
            for one, rows in self.rows.items()
        }
        counts = {one: len(found) for one, found in gone.items()}
        nodes = counts.pop(name) if name in NODES else 0
        return nodes, sum(counts.values())


def _stored(column: str) -> str:
    return {"from": "src", "to": "dst"}.get(column, column)


def _holds(value: Any, op: str, other: Any) -> bool:
    if value is None:
        return False
    match op:
        case "=":
            return bool(value == other)
        case "!=":
            return bool(value != other)
        case "<":
            return bool(value < other)
        case "<=":
            return bool(value <= other)
        case ">":
            return bool(value > other)
        case _:
            return bool(value >= other)


def worlds(seed: int, place: Path) -> Iterator[PairedWorld]:
    """Worlds without end, the same for the same seed."""
    number = 0
    while True:
        yield PairedWorld(place / f"w{number}", Random(seed * 1_000_003 + number))
        number += 1
