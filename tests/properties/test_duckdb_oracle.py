"""Queries nobody chose give the rows that DuckDB gives for the same question over the same rows."""

import shutil
from itertools import islice
from pathlib import Path

import pytest

from tests.support import paired_chains
from tests.support.paired_chains import ChainWriter, assert_same_rows
from tests.support.paired_random import Writer
from tests.support.paired_reads import gq
from tests.support.paired_worlds import Seen, assert_same, worlds

QUERIES_PER_MOMENT = 40
SOAK_QUERIES_PER_MOMENT = 100
"""Making a graph and its mirror takes as long as some dozens of queries."""


def ask_both(seed: int, queries: int, place: Path, at_once: int = QUERIES_PER_MOMENT) -> Seen:
    """Ask a number of queries in one world after another."""
    seen = Seen()
    for world in worlds(seed, place):
        writer = Writer(world.chance)
        for moment in world.moments:
            for read in islice(writer.reads(), at_once):
                found = world.graph.query(gq(read), read.arguments, **moment.at).to_arrow()
                assert_same(read, found, moment.base, seen)
        world.close()
        shutil.rmtree(world.place)
        if seen.asked >= queries:
            break
    # Answers without rows compare little.
    assert seen.found * 4 > seen.asked
    assert seen.lost * 50 < seen.asked
    return seen


@pytest.mark.parametrize("seed", range(2))
def test_a_query_gives_the_rows_that_duckdb_gives(seed: int, tmp_path: Path) -> None:
    ask_both(seed, 240, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_thousand_queries_give_the_rows_that_duckdb_gives(seed: int, tmp_path: Path) -> None:
    assert ask_both(seed, 1_000, tmp_path, SOAK_QUERIES_PER_MOMENT).asked >= 1_000


# ---- stages, unions, expressions and blocks as values


def ask_both_in_stages(
    seed: int, queries: int, place: Path, at_once: int = QUERIES_PER_MOMENT
) -> Seen:
    """Ask a number of queries of several stages in one world after another."""
    seen = Seen()
    for world in worlds(seed, place):
        writer = ChainWriter(world.chance)
        for moment in world.moments:
            for whole in islice(writer.wholes(), at_once):
                found = world.graph.query(paired_chains.gq(whole), **moment.at).to_arrow()
                assert_same_rows(whole, found, moment.base, seen)
        world.close()
        shutil.rmtree(world.place)
        if seen.asked >= queries:
            break
    assert seen.found * 6 > seen.asked
    assert seen.lost * 50 < seen.asked
    return seen


@pytest.mark.parametrize("seed", range(2))
def test_stages_and_unions_give_the_rows_that_duckdb_gives(seed: int, tmp_path: Path) -> None:
    ask_both_in_stages(seed, 80, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 400))
def test_a_hundred_thousand_stages_and_unions_give_the_rows_that_duckdb_gives(
    seed: int, tmp_path: Path
) -> None:
    assert ask_both_in_stages(seed, 1_000, tmp_path, SOAK_QUERIES_PER_MOMENT).asked >= 1_000
