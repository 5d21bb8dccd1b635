"""Paths between two people of the social graph, against Ladybug where it is installed: same graph, same answers.

    python bench/paths.py [--scale xs|s|m] [--pairs N] [--people N]

What counts is the ratio of arms that take turns in one process, warm: the median over rounds of asking about all pairs.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from social import SCALES, social_graph
from support.questions import Case
from support.rivals import NEVER, Ask, Ladybug, Ours

import omnigraphdb

SCHEMA = "node Person { key: String @key }  edge Knows: Person -> Person { weight: I32 }"
_ENDS = "match { $x: Person { key: $id }  $y: Person { key: $to }  $x $w:knows{1,30%s} $y } return { %s }"
_LADYBUG = "MATCH p = (a:Person {id: $id})-[e:Knows* %s 1..30]->(b:Person {id: $to}) RETURN %s"
CASES = (
    Case(
        name="shortest path",
        ours=_ENDS % ("", "hops($w) as n"),
        ladybug=_LADYBUG % ("SHORTEST", "length(p)"),
        duckdb="",
        goals={"ladybug": 0.1},
    ),
    Case(
        name="cheapest path",
        ours=_ENDS % (" by weight", "sum($w.weight) as n"),
        # Ladybug bounds the hops of a shortest path, not those of a cheapest.
        ladybug=(_LADYBUG % ("WSHORTEST(weight)", "cost(e)")).replace(" 1..30", ""),
        duckdb="",
        goals={"ladybug": 0.3},
    ),
    Case(name="best 3", ours=_ENDS % (" best 3", "hops($w) as n"), ladybug="", duckdb=""),
)


def make_tables(scale: str) -> dict[str, pa.Table]:
    """People and whom they know, with a weight from 1 to 100."""
    tables = social_graph(scale)
    knows = tables["Knows"].select(["id", "src", "dst"])
    weights = np.random.default_rng(3).integers(1, 101, knows.num_rows)
    return {
        "Person": tables["Person"].select(["id"]),
        "Knows": knows.append_column("weight", pa.array(weights, pa.int32())),
    }


def load_ours(home: Path, tables: dict[str, pa.Table]) -> omnigraphdb.Graph:
    """Load the graph in this process, and open it."""
    config = {"small_work_rows": NEVER, "small_work_bytes": NEVER}
    frames = {
        "Person": tables["Person"].rename_columns(["key"]),
        "Knows": tables["Knows"].rename_columns(["id", "from", "to", "weight"]),
    }
    with omnigraphdb.init(home, SCHEMA, config=config) as graph:
        graph.load(frames, mode="append")
    return Ours(home).open()


def ask_ours(graph: omnigraphdb.Graph, case: Case) -> Ask:
    """Ask through the public API; a pair is two ids with a space between."""
    text = f"query q($id: String, $to: String) {{ {case.ours} }}"

    def ask(pair: str) -> list[tuple[object, ...]]:
        start, end = pair.split()
        return [tuple(row.values()) for row in graph.query(text, {"id": start, "to": end}).rows]

    return ask


def ask_ladybug(connection: object, case: Case) -> Ask:
    """Ask a statement that was prepared once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        prepared = connection.prepare(case.ladybug)  # type: ignore[attr-defined]

    def ask(pair: str) -> list[tuple[object, ...]]:
        start, end = pair.split()
        found = connection.execute(prepared, {"id": start, "to": end})  # type: ignore[attr-defined]
        return [tuple(row) for row in found.get_all()]

    return ask


def measure(asks: Sequence[Ask], pairs: Sequence[str], rounds: int) -> list[float]:
    """The median seconds of asking about all pairs, of every arm, taking turns."""
    taken: list[list[float]] = [[] for _ in asks]
    for _ in range(rounds):
        for ask, found in zip(asks, taken, strict=True):
            start = time.perf_counter()
            for pair in pairs:
                ask(pair)
            found.append(time.perf_counter() - start)
    return [statistics.median(one) for one in taken]


def main() -> None:
    """Load the arms, compare their answers, and time them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="s", choices=sorted(SCALES))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--people", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root, tables = Path(folder), make_tables(chosen.scale)
        graph = load_ours(root / "graph", tables)
        rival = Ladybug.loaded(root / "ladybug", tables)
        opened = None if rival is None else rival.open()
        ends = np.random.default_rng(7).integers(0, SCALES[chosen.scale].people, (chosen.people, 2))
        pairs = [f"p{a:08d} p{b:08d}" for a, b in ends]
        alone: dict[str, float] = {}
        for case in CASES:
            asks = [ask_ours(graph, case)]
            if opened is not None and case.ladybug:
                asks.append(ask_ladybug(opened[1], case))
                ours, theirs = ([ask(pair) for pair in pairs] for ask in asks)
                if ours != [[tuple(map(int, row)) for row in one] for one in theirs]:
                    raise SystemExit(f"{case.name}: ladybug gives {theirs}, we give {ours}")
            found = measure(asks, pairs, chosen.pairs)
            alone[case.name] = found[0]
            shown = f"{case.name:16} ours {1000 * found[0] / len(pairs):8.2f} ms"
            if len(found) > 1:
                shown += f"  ladybug {1000 * found[1] / len(pairs):8.2f} ms  ratio {found[0] / found[1]:.3f}"
            print(shown, flush=True)
        print(
            f"best 3 takes {alone['best 3'] / alone['shortest path']:.1f} times one shortest path"
        )
        graph.close()


if __name__ == "__main__":
    main()
