"""Searching: vectors with and without a filter, texts, and both, against Lance asked directly and DuckDB."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import omnigraphdb
from support.paired import compare

DOCUMENTS = 100_000
DIMENSION = 128
TOP = 10
SHELVES = 20
SCHEMA = f"""
node Doc {{
  key: String @key  body: String @index  shelf: I32 @index  sig: Vector({DIMENSION}) @index
}}
"""
NEAREST = f"""query q($v: Vector({DIMENSION})) {{ match {{ $d: Doc }} return {{ $d }}
  order {{ nearest($d.sig, $v) }} limit {TOP} }}"""
FILTERED = NEAREST.replace("$d: Doc", "$d: Doc { shelf: 3 }")
TEXT = f"""query q($t: String) {{ match {{ $d: Doc }} return {{ $d }}
  order {{ bm25($d.body, $t) }} limit {TOP} }}"""
HYBRID = f"""query q($v: Vector({DIMENSION}), $t: String) {{ match {{ $d: Doc }} return {{ $d }}
  order {{ rrf(nearest($d.sig, $v), bm25($d.body, $t)) }} limit {TOP} }}"""

Find = Callable[[int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Documents:
    """Texts and clustered vectors, with as many questions."""

    table: pa.Table
    vectors: list[list[float]]
    texts: list[str]


def documents(count: int, seed: int = 42) -> Documents:
    """Make documents that lie in clusters, so that a filter and an index have something to do."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(200, DIMENSION)).astype(np.float32)
    points = centres[chance.integers(0, 200, count)] + 0.4 * chance.normal(size=(count, DIMENSION))
    words = np.minimum(chance.zipf(1.25, size=(count, 12)) - 1, 19_999)
    bodies = [" ".join(f"w{number:05d}" for number in row) for row in words.tolist()]
    asked = centres[chance.integers(0, 200, 20)] + 0.4 * chance.normal(size=(20, DIMENSION))
    table = pa.table(
        {
            "key": [f"d{number:08d}" for number in range(count)],
            "body": bodies,
            "shelf": pa.array(chance.integers(0, SHELVES, count).astype(np.int32)),
            "sig": pa.FixedSizeListArray.from_arrays(
                pa.array(points.astype(np.float32).ravel()), DIMENSION
            ),
        }
    )
    texts = [f"w{number:05d} w{number * 7 % 900:05d}" for number in range(100, 120)]
    return Documents(table, asked.astype(np.float32).tolist(), texts)


@dataclass(frozen=True, slots=True)
class Searching:
    """Asks all questions in turn."""

    find: Find

    def ready(self, n: int) -> None:
        pass

    def run(self, n: int) -> None:
        for _ in range(n):
            for number in range(20):
                self.find(number)


def run_searches(root: Path, pairs: int, count: int = DOCUMENTS) -> None:
    """Time every search against what does the same with less around it."""
    made = documents(count)
    with omnigraphdb.init(root / "documents", SCHEMA) as graph:
        graph.load({"Doc": made.table}, mode="append")
        path = graph.snapshot().to_dict()["tables"][0]["table_path"]
        raw = lance.dataset(str(root / "documents" / path))
        ours = _ours(graph, made)
        for name, rivals in _rivals(raw, made).items():
            cold = _timed(ours[name])
            for number in range(60):
                ours[name](number % 20)
            for rival, find in rivals.items():
                found = compare(
                    name, Searching(ours[name]), Searching(find), pairs=pairs, apart=True
                )
                recall = _recall(ours[name], find)
                print(
                    f"{name:22} {rival:8} ours {found.ours_ms / 20:8.3f} ms  theirs {found.raw_ms / 20:8.3f} ms  "
                    f"ratio {found.ratio}  agreement {recall:.2f}  (first answer {1000 * cold:.0f} ms)",
                    flush=True,
                )
        alone = sum(_median(ours[name]) for name in ("V1 vector", "V3 text"))
        both = _median(ours["V4 hybrid"])
        print(
            f"V4 hybrid {1000 * both:.3f} ms, vector and text alone {1000 * alone:.3f} ms, ratio {both / alone:.2f}"
        )


def _ours(graph: omnigraphdb.Graph, made: Documents) -> dict[str, Find]:
    def asking(text: str, *names: str) -> Find:
        def find(number: int) -> list[str]:
            values = {"v": made.vectors[number], "t": made.texts[number]}
            found = graph.query(text, {name: values[name] for name in names})
            return [row["d"] for row in found.rows]

        return find

    return {
        "V1 vector": asking(NEAREST, "v"),
        "V2 vector, filtered": asking(FILTERED, "v"),
        "V3 text": asking(TEXT, "t"),
        "V4 hybrid": asking(HYBRID, "v", "t"),
    }


def _rivals(raw: Any, made: Documents) -> dict[str, dict[str, Find]]:
    def nearest(**more: Any) -> Find:
        def find(number: int) -> list[str]:
            wanted = {"column": "sig", "q": made.vectors[number], "k": TOP}
            return list(
                raw.to_table(columns=["id", "_distance"], nearest=wanted, **more)["id"].to_pylist()
            )

        return find

    def text(number: int) -> list[str]:
        found = raw.to_table(
            columns=["id", "_score"], full_text_query=made.texts[number], limit=TOP
        )
        return list(found["id"].to_pylist())

    found: dict[str, dict[str, Find]] = {
        "V1 vector": {"lance": nearest()},
        "V2 vector, filtered": {"lance": nearest(filter="shelf = 3", prefilter=True)},
        "V3 text": {"lance": text},
    }
    for name, find in _duckdb(made).items():
        found[name]["duckdb"] = find
    return found


def _duckdb(made: Documents) -> dict[str, Find]:
    """Exact distances; neither its full-text nor its vector index comes with it."""
    try:
        import duckdb
    except ImportError:
        return {}
    connection = duckdb.connect()
    connection.register("incoming", made.table)
    connection.execute("CREATE TABLE docs AS SELECT * FROM incoming")

    def asking(where: str) -> Find:
        text = (
            f"SELECT key FROM docs {where} ORDER BY array_distance(sig, $v::FLOAT[{DIMENSION}]) "
            f"LIMIT {TOP}"
        )

        def find(number: int) -> list[str]:
            return [
                row[0] for row in connection.execute(text, {"v": made.vectors[number]}).fetchall()
            ]

        return find

    return {"V1 vector": asking(""), "V2 vector, filtered": asking("WHERE shelf = 3")}


def _recall(ours: Find, theirs: Find) -> float:
    """How many of theirs we find too."""
    return statistics.mean(len(set(ours(n)) & set(theirs(n))) / TOP for n in range(20))


def _timed(find: Find) -> float:
    start = time.perf_counter()
    find(0)
    return time.perf_counter() - start


def _median(find: Find) -> float:
    for number in range(20):
        find(number)
    return statistics.median(_timed_all(find) for _ in range(9)) / 20


def _timed_all(find: Find) -> float:
    start = time.perf_counter()
    for number in range(20):
        find(number)
    return time.perf_counter() - start
