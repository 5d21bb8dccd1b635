"""Blocks, stages and tops of groups: each form against the same question by hand, or against DuckDB."""

import time
from collections.abc import Callable
from typing import Any

import omnigraphdb

ROUNDS = 7

BY_HAND = {
    "count of a block": (
        "match { $p: Person  count { $p knows $q } > 20 } return { $p.key as k }",
        "match { $p: Person  $p knows $q } with { $p, count($q) as n } having { n > 20 } return { $p.key as k }",
    ),
    "count of a tested block": (
        "match { $p: Person  count { $p knows $q  $q.age > 60 } > 5 } return { $p.key as k }",
        "match { $p: Person  $p knows $q  $q.age > 60 } with { $p, count($q) as n } having { n > 5 } return { $p.key as k }",
    ),
}
"""A block as a condition, and the aggregate written by hand."""

TOPS = {
    "oldest three of a city": (
        "match { $p: Person } with { $p, $p.city as c, $p.age as a } order { a desc, id($p) } limit 3 per c"
        " return { $p.key as k, a }",
        "SELECT id, age FROM (SELECT *, row_number() OVER (PARTITION BY city ORDER BY age DESC, id) AS place FROM Person)"
        " WHERE place <= 3",
    ),
    "newest three of a person": (
        "match { $p: Person  $p $k:knows $q } with { $p, $q, $k.since as s } order { s desc } limit 3 per $p"
        " return { $p.key as k, s }",
        "SELECT src, since FROM (SELECT *, row_number() OVER (PARTITION BY src ORDER BY since DESC, id) AS place FROM Knows)"
        " WHERE place <= 3",
    ),
}
"""The first rows of each group, and the window function of SQL."""


def run_forms(graph: omnigraphdb.Graph, duck: Any | None) -> None:
    """Print the ratio of the processor time of each form to that of its rival, which gives the same rows."""
    for name, (form, hand) in BY_HAND.items():
        _compare(name, "by hand", _ask(graph, form), _ask(graph, hand))
    if duck is None:
        return
    for name, (form, sql) in TOPS.items():
        _compare(name, "DuckDB", _ask(graph, form), _ask_duck(duck, sql))


def _ask(graph: omnigraphdb.Graph, body: str) -> Callable[[], Any]:
    return lambda: graph.query(f"query q() {{ {body} }}").to_arrow()


def _ask_duck(duck: Any, sql: str) -> Callable[[], Any]:
    return lambda: duck.sql(sql).to_arrow_table()


def _compare(name: str, rival: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    rows = [
        sorted(map(str, zip(*table().to_pydict().values(), strict=True)))
        for table in (ours, theirs)
    ]
    if rows[0] != rows[1]:
        raise SystemExit(f"{name}: {rival} gives other rows than we do")
    spent = [min(_spend(one) for _ in range(ROUNDS)) for one in (ours, theirs)]
    print(
        f"{name}: {1000 * spent[0]:.1f} ms, {rival} {1000 * spent[1]:.1f} ms, ratio {spent[0] / spent[1]:.2f}",
        flush=True,
    )


def _spend(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
