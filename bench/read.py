"""Reading, against Ladybug and DuckDB where they are installed: same graph, same answers, taking turns.

    python bench/read.py [--scale xs|s|m] [--pairs N] [--only NAME…]

Every case checks that all arms give the same answers before it is timed. What counts is the ratio of two arms that
took turns in one process; the ratio of an arm to itself shows what of it is noise.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench.social import EDGES, NODES, SCALES, schema, social_graph
from bench.support.paired import compare

import omnigraph
from omnigraph.compile.checked import Direction
from omnigraph.engine.held.cache import ByteCache
from omnigraph.engine.read.adjacency import Each
from omnigraph.engine.read.entities import Entities
from omnigraph.engine.read.topology import Topology
from omnigraph.ids import TableKey

ARGUMENTS = 20
"""Different people a case asks for, in turn; one operation asks for all of them."""

Ask = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question in every dialect; those about one person take `$id`."""

    name: str
    ours: str
    ladybug: str
    duckdb: str
    personal: bool = False


CASES = (
    Case(
        name="Q1 point",
        ours="match { $p: Person { key: $id } } return { $p.first_name, $p.age, $p.city }",
        ladybug="MATCH (p:Person {id: $id}) RETURN p.first_name, p.age, p.city",
        duckdb="SELECT first_name, age, city FROM Person WHERE id = $id",
        personal=True,
    ),
    Case(
        name="Q2 one hop",
        ours="match { $p: Person { key: $id }  $p knows $f } return { $f.key, $f.first_name }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows]->(f:Person) RETURN f.id, f.first_name",
        duckdb="SELECT f.id, f.first_name FROM Knows k JOIN Person f ON f.id = k.dst WHERE k.src = $id",
        personal=True,
    ),
    Case(
        name="Q3 within two hops",
        ours="match { $p: Person { key: $id }  $p knows{1,2} $f } return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows*1..2]->(f:Person) WHERE f.id <> $id "
        "RETURN count(DISTINCT id(f))",
        duckdb="SELECT count(*) FROM (SELECT dst FROM Knows WHERE src = $id UNION SELECT b.dst FROM Knows a "
        "JOIN Knows b ON a.dst = b.src WHERE a.src = $id) WHERE dst <> $id",
        personal=True,
    ),
    Case(
        name="Q4 within three hops",
        ours="match { $p: Person { key: $id }  $p knows{1,3} $f } return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows*1..3]->(f:Person) WHERE f.id <> $id "
        "RETURN count(DISTINCT id(f))",
        duckdb="SELECT count(*) FROM (SELECT dst FROM Knows WHERE src = $id UNION SELECT b.dst FROM Knows a "
        "JOIN Knows b ON a.dst = b.src WHERE a.src = $id UNION SELECT c.dst FROM Knows a JOIN Knows b "
        "ON a.dst = b.src JOIN Knows c ON b.dst = c.src WHERE a.src = $id) WHERE dst <> $id",
        personal=True,
    ),
    Case(
        name="Q5 filtered two hops",
        ours='match { $p: Person { city: "city003" }  $p knows $m  $m knows $f  $f.age > 60 } '
        "return { count($f) as n }",
        ladybug="MATCH (p:Person {city: 'city003'})-[:Knows]->(m:Person)-[:Knows]->(f:Person) "
        "WHERE f.age > 60 RETURN count(*)",
        duckdb="SELECT count(*) FROM Person p JOIN Knows a ON a.src = p.id JOIN Knows b ON b.src = a.dst "
        "JOIN Person f ON f.id = b.dst WHERE p.city = 'city003' AND f.age > 60",
    ),
    Case(
        name="all two-paths",
        ours="match { $p: Person  $p knows $m  $m knows $f } return { count($f) as n }",
        ladybug="MATCH (:Person)-[:Knows]->(:Person)-[:Knows]->(:Person) RETURN count(*)",
        duckdb="SELECT count(*) FROM Knows a JOIN Knows b ON a.dst = b.src",
    ),
    Case(
        name="Q6 top ten by degree",
        ours="match { $p: Person  $p knows $f } return { $p.key, count($f) as n } order { n desc } limit 10",
        ladybug="MATCH (p:Person)-[:Knows]->(f:Person) WITH p.id AS key, count(id(f)) AS n "
        "RETURN key, n ORDER BY n DESC, key LIMIT 10",
        duckdb="SELECT src, count(*) AS n FROM Knows GROUP BY src ORDER BY n DESC, src LIMIT 10",
    ),
    Case(
        name="Q7 whose posts a city likes",
        ours='match { $p: Person { city: "city003" }  $p likes $t  $t hasCreator $a } '
        "return { $a.key, count($t) as n } order { n desc } limit 10",
        ladybug="MATCH (p:Person {city: 'city003'})-[:Likes]->(t:Post)-[:HasCreator]->(a:Person) "
        "WITH a.id AS key, count(*) AS n RETURN key, n ORDER BY n DESC, key LIMIT 10",
        duckdb="SELECT c.dst, count(*) AS n FROM Person p JOIN Likes l ON l.src = p.id "
        "JOIN HasCreator c ON c.src = l.dst WHERE p.city = 'city003' GROUP BY c.dst "
        "ORDER BY n DESC, c.dst LIMIT 10",
    ),
    Case(
        name="scan and filter",
        ours="match { $p: Person  $p.age > 80 } return { count($p) as n }",
        ladybug="MATCH (p:Person) WHERE p.age > 80 RETURN count(*)",
        duckdb="SELECT count(*) FROM Person WHERE age > 80",
    ),
)

SEARCHES = {
    "V3 text, top ten": 'match { $t: Post } return { $t.key, bm25($t.content, "w00100 w00500") as s } '
    "order { s } limit 10",
    "text filter": 'match { $t: Post  search($t.content, "w00100") } return { count($t) as n }',
}


# ---- arms


def our_arm(root: Path, tables: dict[str, pa.Table]) -> tuple[omnigraph.Graph, float]:
    """Load the graph; give it and the rows per second of the load."""
    graph = omnigraph.init(root, schema())
    frames = {
        name: table.rename_columns(["key", *table.column_names[1:]])
        if name in NODES
        else table.rename_columns(["id", "from", "to", *table.column_names[3:]])
        for name, table in tables.items()
    }
    start = time.perf_counter()
    graph.load(frames, mode="append")
    taken = time.perf_counter() - start
    return graph, sum(table.num_rows for table in tables.values()) / taken


def asking_us(graph: omnigraph.Graph, case: Case) -> Ask:
    text = f"query q({'$id: String' if case.personal else ''}) {{ {case.ours} }}"

    def ask(key: str) -> Sequence[tuple[Any, ...]]:
        found = graph.query(text, {"id": key} if case.personal else {})
        return [tuple(row.values()) for row in found.rows]

    return ask


def ladybug_arm(root: Path, tables: dict[str, pa.Table]) -> Any | None:
    """Copy the graph into Ladybug, if it is there."""
    try:
        import ladybug
    except ImportError:
        return None
    files = root / "parquet"
    files.mkdir()
    connection = ladybug.Connection(ladybug.Database(str(root / "ladybug")))
    for name, table in tables.items():
        pq.write_table(_without_edge_ids(name, table), files / f"{name}.parquet")
        columns = table.schema if name in NODES else list(table.schema)[3:]
        declared = ", ".join(f"{f.name} {_ladybug_type(f.type)}" for f in columns)
        if name in NODES:
            connection.execute(f"CREATE NODE TABLE {name}({declared}, PRIMARY KEY(id))")
        else:
            source, target = EDGES[name]
            more = f", {declared}" if declared else ""
            connection.execute(f"CREATE REL TABLE {name}(FROM {source} TO {target}{more})")
    for name in tables:
        connection.execute(f"COPY {name} FROM '{files / f'{name}.parquet'}'")
    return connection


def _without_edge_ids(name: str, table: pa.Table) -> pa.Table:
    return table if name in NODES else table.drop_columns(["id"])


def _ladybug_type(kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return "DATE"
    return "INT32" if pa.types.is_int32(kind) else "STRING"


def asking_ladybug(connection: Any, case: Case) -> Ask:
    prepared = connection.prepare(case.ladybug)

    def ask(key: str) -> Sequence[tuple[Any, ...]]:
        found = connection.execute(prepared, {"id": key} if case.personal else {})
        return [tuple(row) for row in found.get_all()]

    return ask


def duckdb_arm(tables: dict[str, pa.Table]) -> Any | None:
    """Copy the graph into DuckDB, if it is there."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register("incoming", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        connection.unregister("incoming")
        if name in NODES:
            connection.execute(f"CREATE UNIQUE INDEX {name}_id ON {name}(id)")
    return connection


def asking_duckdb(connection: Any, case: Case) -> Ask:
    def ask(key: str) -> Sequence[tuple[Any, ...]]:
        found = connection.execute(case.duckdb, {"id": key} if case.personal else {})
        return [tuple(row) for row in found.fetchall()]

    return ask


@dataclass(frozen=True, slots=True)
class AskArm:
    """Asks one question about everyone in turn."""

    ask: Ask
    keys: Sequence[str]

    def ready(self, n: int) -> None:
        pass

    def run(self, n: int) -> None:
        for _ in range(n):
            for key in self.keys:
                self.ask(key)


# ---- timing


def agree(name: str, arms: dict[str, Ask], keys: Sequence[str]) -> None:
    """Stop when two arms answer differently."""
    answers = {arm: [sorted(map(tuple, ask(key))) for key in keys] for arm, ask in arms.items()}
    first = answers["ours"]
    for arm, found in answers.items():
        if found != first:
            raise SystemExit(f"{name}: {arm} gives {found[:1]}, we give {first[:1]}")


def people(count: int, chance: np.random.Generator) -> list[str]:
    return [f"p{number:08d}" for number in chance.integers(0, count, ARGUMENTS)]


def warm(ask: Ask, keys: Sequence[str], rounds: int) -> float:
    """Ask until nothing more is brought into memory; give the time of the very first answer."""
    start = time.perf_counter()
    ask(keys[0])
    cold = time.perf_counter() - start
    for _ in range(rounds):
        for key in keys:
            ask(key)
    return cold


def run_cases(
    graph: omnigraph.Graph, rivals: dict[str, tuple[Any, Any]], keys: Sequence[str], pairs: int,
    only: Sequence[str],
) -> None:  # fmt: skip
    for case in CASES:
        if only and not any(word in case.name for word in only):
            continue
        asked = keys if case.personal else keys[:1]
        ours = asking_us(graph, case)
        arms = {name: make(connection, case) for name, (connection, make) in rivals.items()}
        cold = warm(ours, asked, 200 if len(asked) == 1 else 30)
        agree(case.name, {"ours": ours, **arms}, asked)
        for rival, theirs in arms.items():
            found = compare(
                f"{case.name} / {rival}", AskArm(ours, asked), AskArm(theirs, asked), pairs=pairs
            )
            each = len(asked)
            print(
                f"{case.name:30} {rival:8} ours {found.ours_ms / each:9.3f} ms  theirs "
                f"{found.raw_ms / each:9.3f} ms  ratio {found.ratio}  A/A {found.noise}  "
                f"(first answer {1000 * cold:.0f} ms)",
                flush=True,
            )
        if not arms:
            taken = min(
                timed(lambda ask=ours, all=asked: [ask(key) for key in all]) for _ in range(9)
            )
            print(f"{case.name:30} ours {1000 * taken / len(asked):.3f} ms")


def run_searches(graph: omnigraph.Graph, only: Sequence[str]) -> None:
    for name, body in SEARCHES.items():
        if only and not any(word in name for word in only):
            continue
        text = f"query q() {{ {body} }}"
        cold = timed(lambda text=text: graph.query(text))
        for _ in range(50):
            graph.query(text)
        taken = sorted(timed(lambda text=text: graph.query(text)) for _ in range(21))
        print(f"{name:30} ours {1000 * taken[10]:.3f} ms (first answer {1000 * cold:.0f} ms)")


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ---- the adjacency itself


def run_topology(graph: omnigraph.Graph, rounds: int = 5) -> None:
    """Building the adjacency of `Knows` against doing the least by hand; and following a commit of one edge."""
    engine = graph._engine
    raw, built = [], []
    for _ in range(rounds):
        raw.append(timed(lambda: _by_hand(engine)))
        built.append(timed(lambda: _topology(engine).adjacency(Direction.OUT, Each.PAIR)))
    print(
        f"Q9 adjacency of {_rows(engine)} edges: {1000 * min(built):.0f} ms, by hand {1000 * min(raw):.0f} ms, "
        f"ratio {min(built) / min(raw):.2f}"
    )
    cache = ByteCache(1 << 30)
    _topology(engine, cache).adjacency(Direction.OUT, Each.PAIR)
    followed = []
    insert = 'query add($a: String, $b: String) { insert Knows { from: $a, to: $b, since: date("2020-01-01") } }'
    for number in range(5):
        graph.mutate(insert, {"a": f"p{number:08d}", "b": "p00000099"})
        topology = _topology(engine, cache)
        followed.append(timed(lambda one=topology: one.adjacency(Direction.OUT, Each.PAIR)))
    print(f"Q9 after a commit of one edge: {1000 * sorted(followed)[2]:.1f} ms")


def _entities(engine: Any, key: str, cache: ByteCache) -> Entities:
    view = engine.view()
    table = TableKey(key)
    entry = view.snapshot.entries[table]
    return Entities(view.catalog.tables[table], entry, engine.store.tables, cache)


def _topology(engine: Any, cache: ByteCache | None = None) -> Topology:
    cache = cache or ByteCache(1 << 30)
    nodes = _entities(engine, "node:Person", cache)
    return Topology(edges=_entities(engine, "edge:Knows", cache), sources=nodes, targets=nodes)


def _rows(engine: Any) -> int:
    return len(_topology(engine).edges)


def _by_hand(engine: Any) -> object:
    cache = ByteCache(0)
    ids = _entities(engine, "node:Person", cache).table.read(("id",))["id"].combine_chunks()
    rows = _entities(engine, "edge:Knows", cache).table.read(("src", "dst"))
    near, far = (
        pc.index_in(rows[name], value_set=ids).to_numpy().astype(np.int64)
        for name in ("src", "dst")
    )
    keys = np.sort(near * len(ids) + far)
    return np.cumsum(np.bincount(keys // len(ids), minlength=len(ids)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="s", choices=sorted(SCALES))
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        tables = social_graph(chosen.scale)
        graph, speed = our_arm(root / "graph", tables)
        print(f"scale {chosen.scale}: loaded {speed:,.0f} rows/s")
        rivals = {
            "ladybug": (ladybug_arm(root, tables), asking_ladybug),
            "duckdb": (duckdb_arm(tables), asking_duckdb),
        }
        there = {name: pair for name, pair in rivals.items() if pair[0] is not None}
        keys = people(SCALES[chosen.scale].people, np.random.default_rng(7))
        run_cases(graph, there, keys, chosen.pairs, chosen.only)
        run_searches(graph, chosen.only)
        if not chosen.only:
            run_topology(graph)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
