"""Queries nobody chose give the rows that DuckDB gives when Spark answers them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraphdb.errors import QueryError
from tests.support import paired_chains
from tests.support.paired_chains import ChainWriter, Whole, assert_same_rows
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


# ---- stages, unions, expressions and blocks as values


def is_short(whole: Whole) -> bool:
    """Whether Spark plans it in about a second."""
    stages = [stage for chain in whole.chains for stage in chain.stages]
    clauses = [one for stage in stages for one in flat(stage.clauses)]
    walks = [one for one in clauses if isinstance(one, Hop) and one.bounds]
    return 1 < len(stages) < 4 and len(clauses) < 6 and not walks


def ask_spark_in_stages(seed: int, queries: int, spark: Any, place: Path) -> Seen:
    seen = Seen()
    for world in worlds(seed, place):
        writer = ChainWriter(world.chance)
        wholes = (whole for whole in writer.wholes() if is_short(whole))
        for moment in world.moments:
            for whole in islice(wholes, 20):
                try:
                    answer = world.graph.query(paired_chains.gq(whole), spark=spark, **moment.at)
                except QueryError as error:
                    if "does not run on Spark; nothing was read" not in str(error):
                        raise
                    continue
                assert_same_rows(whole, answer.to_arrow(), moment.base, seen)
                if seen.asked >= queries:
                    break
        world.close()
        if seen.asked >= queries:
            break
    return seen


FORMS = (
    "match { $p: P  count { $p knows $q } > 0 or exists { $p likes $_ } }"
    " return { $p as p, count { $p knows $q } as n, sum($e.w) { $p $e:knows $_ } as s } order { p }",
    "match { $p $e:knows $q } with { $p, $e.w as w } order { w desc, id($p) } limit 1 per $p"
    " return { $p as p, w, (w + 1) * 2 - 3 as a, w / 2 as b, w % 2 as c } order { p }",
    "match { $p: P } return { $p.s as s } union match { $q: Q } return { $q.s as s } order { s }",
    "match { $p knows $q } with { $p, count($q) as n } having { n > 0 } match { $p likes $t }"
    " return { $p as p, n, count(distinct $t) as t, n / 2.0 as h } order { p }",
)


def test_every_form_gives_on_spark_what_it_gives_here(spark: Any, tmp_path: Path) -> None:
    world = next(world for world in worlds(3, tmp_path) if world.rows["Knows"] and world.rows["Q"])
    for form in FORMS:
        text = f"query q() {{ {form} }}"
        assert world.graph.query(text, spark=spark).rows == world.graph.query(text).rows, form
    for form in (
        "match { $p: P  $p -- $q } return { $q }",
        "match { $x: P } return { trim($x.s) }",
    ):
        with pytest.raises(QueryError, match="does not run on Spark; nothing was read"):
            world.graph.query(f"query q() {{ {form} }}", spark=spark)
    world.close()


def test_stages_on_spark_give_the_rows_that_duckdb_gives(spark: Any, tmp_path: Path) -> None:
    assert ask_spark_in_stages(3, 3, spark, tmp_path).asked >= 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400, 405))
def test_hundreds_of_stages_on_spark_give_the_rows_that_duckdb_gives(
    seed: int, spark: Any, tmp_path: Path
) -> None:
    assert ask_spark_in_stages(seed, 60, spark, tmp_path).asked >= 60
