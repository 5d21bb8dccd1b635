"""The same work in threads of this process and on Spark, compared: loads with violations, merges, diffs and the feed.

As a program it does so on the session at an address, which may be a cluster or a Connect server.
"""

import random
import sys
from typing import Any

import omnigraphdb
from omnigraphdb.api.comparisons import ChangePage
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts, OmniError
from tests.support.merge_ways import (
    apply_step,
    content,
    in_steps,
    make_random_steps,
    merge_by,
    merge_graph,
)
from tests.support.replacing import two_commits

IN_STEPS = {"small_work_rows": 0, "small_work_bytes": 0}


# ---- merges, diffs, the feed


def compare_merges(steps: list[Any], granularity: str, spark: Any) -> Any:
    """Do work on two graphs, then compare, read the feed and merge: here in steps, there on Spark."""
    with merge_graph() as here, merge_graph() as there:
        for branch, step in steps:
            for graph in (here, there):
                apply_step(graph, branch, step)
        changes = here.diff("main", "side").changes
        told = there.diff("main", "side", spark=spark)
        assert told.engine == "spark"
        assert [(c.op, c.table_key, c.id, c.properties, c.endpoints) for c in told] == [
            (c.op, c.table_key, c.id, c.properties, c.endpoints) for c in changes
        ]
        page = there.changes(branch="side", limit=1_000, images=True, spark=spark)
        assert (page.engine, page.reason) == ("spark", "Spark was asked for")
        assert _show(page) == _show(here.changes(branch="side", limit=1_000, images=True))
        expected = _merge(here, granularity, None)
        assert _merge(there, granularity, spark) == expected
        return expected


def _show(page: ChangePage) -> list[Any]:
    """What each commit of a page changed, whatever graph it is of."""
    return [
        [
            (c.op, c.table_key, c.id, c.properties, c.endpoints, c.before, c.after)
            for c in one.changes
        ]
        for one in page.blocks
    ]


def _merge(graph: Graph, granularity: Any, spark: Any) -> Any:
    """Merge, and give the rows or the conflicts."""
    try:
        if spark is None:
            done = merge_by(graph, in_steps(2), granularity=granularity)
        else:
            done = graph.merge("side", granularity=granularity, spark=spark)
            assert (done.engine, done.reason) == ("spark", "Spark was asked for")
    except MergeConflicts as error:
        return [one.to_dict() for one in error.conflicts], error.total
    assert graph.doctor() == []
    return done.tables, content(graph)


# ---- loads


def compare_loads(chance: random.Random, spark: Any) -> list[Any]:
    """Load random records with and without violations, one batch after the other, in memory, in steps and on Spark."""
    with merge_graph() as first, merge_graph() as second, merge_graph() as there:
        found = []
        with omnigraphdb.open(second.uri, config=IN_STEPS) as stepped:
            for _ in range(4):
                records, mode = _make_records(chance), chance.choice(["append", "merge"])
                expected = _load(first, records, mode, False)
                assert _load(stepped, records, mode, False) == expected
                assert _load(there, records, mode, spark) == expected
                found.append(expected)
        return found


def _load(graph: Graph, records: list[Any], mode: Any, spark: Any) -> Any:
    """Load, and give the rows or the error in its words."""
    try:
        done = graph.load(records, mode=mode, spark=spark)
    except OmniError as error:
        return error.kind, str(error), getattr(error, "total", None)
    assert spark is False or done.engine == "spark"
    return dict(done.tables), content(graph)


def _make_records(chance: random.Random) -> list[Any]:
    bad = chance.random() < 0.6
    nodes: list[Any] = [
        {"type": "P", "data": {"name": name, "a": chance.choice([None, 1]), "u": unique}}
        for name, unique in (
            (chance.choice(["p0", "n\u00e9", "\u96ea", f"x{chance.randrange(40)}"]), unique)
            for unique in chance.sample(range(200), chance.randrange(1, 6))
        )
    ]
    edges: list[Any] = [
        {"edge": "E", "from": "p1", "to": chance.choice(["p2", "q00"]), "data": {"id": f"e{n}"}}
        for n in range(chance.randrange(3))
    ]
    if not bad:
        return [*{one["data"]["name"]: one for one in nodes}.values(), *edges]
    wrong = [
        {"type": "P", "data": {"name": "w", "a": "many"}},
        {"type": "P", "data": {"a": 1}},
        {"edge": "E", "from": "nobody", "to": "p0", "data": {"id": "lost"}},
        {"type": "P", "data": {"name": "y1", "u": 7}},
        {"type": "P", "data": {"name": "y2", "u": 7}},
        *({"edge": "One", "from": "p0", "to": to, "data": {"id": f"o{to}"}} for to in ("p1", "p2")),
    ]
    records = [*nodes, *edges, *chance.sample(wrong, 3)]
    chance.shuffle(records)
    return records


def main(address: str, seeds: range) -> int:
    """Compare everything on the session at an address; an assertion ends the program."""
    from omnigraphdb.spark import session

    spark = session(address)
    for seed in seeds:
        chance = random.Random(seed)
        with two_commits(seed % 2 == 1):
            compare_merges(make_random_steps(chance, 8), chance.choice(["row", "property"]), spark)
            compare_loads(chance, spark)
    spark.stop()
    return len(seeds)


if __name__ == "__main__":
    print("\n" + str(main(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))))
