"""Queries nobody chose give the rows that DuckDB gives when Spark answers them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from tests.support.paired_random import Writer
from tests.support.paired_reads import Block, Clause, Hop, Read, gq
from tests.support.paired_worlds import Seen, assert_same, worlds

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def flat(clauses: Iterable[Clause]) -> Iterator[Clause]:
    """All clauses, those of blocks included."""
    for one in clauses:
        yield one
        if isinstance(one, Block):
            yield from flat(one.clauses)


def is_quick(read: Read) -> bool:
    """Whether Spark answers in about a second: every hop of a bounded walk is a job of its own."""
    clauses = list(flat(read.clauses))
    return 2 < len(clauses) < 6 and not any(isinstance(one, Hop) and one.bounds for one in clauses)


def ask_spark(seed: int, queries: int, spark: Any, place: Path, *, quick: bool = False) -> None:
    seen = Seen()
    for world in worlds(seed, place):
        writer = Writer(world.chance)
        reads = (read for read in writer.reads() if is_quick(read) or not quick)
        for moment in world.moments:
            for read in islice(reads, min(queries - seen.asked, 8)):
                answer = world.graph.query(gq(read), read.arguments, spark=spark, **moment.at)
                assert_same(read, answer.to_arrow(), moment.base, seen)
        world.close()
        if seen.asked >= queries:
            return


def test_a_query_on_spark_gives_the_rows_that_duckdb_gives(spark: Any, tmp_path: Path) -> None:
    ask_spark(7, 3, spark, tmp_path, quick=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 205))
def test_two_hundred_queries_on_spark_give_the_rows_that_duckdb_gives(
    seed: int, spark: Any, tmp_path: Path
) -> None:
    ask_spark(seed, 40, spark, tmp_path)
