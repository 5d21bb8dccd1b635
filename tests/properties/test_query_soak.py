"""A soak over the whole language of reads: the naive evaluator, the engine, a server and Spark give the same rows."""

import os
import random
import re
from collections.abc import Iterator

import pytest

from omnigraphdb.compile.check import check_read
from omnigraphdb.errors import QueryError
from omnigraphdb.language.source import Source
from tests.support.drawn import draw_by
from tests.support.plan_fixtures import harbour
from tests.support.query_coverage import Alternative, list_alternatives, list_taken
from tests.support.query_soak import Served, Soak, served, texts

PARTS = int(os.environ.get("QUERY_SOAK_PARTS", "42"))
"""How many parts a soak has; each is one test, which its number repeats. The checker refuses about 3 of 100 queries."""
PART_QUERIES = 2_500
TEXTS = 1_500


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("soak")) as found:
        yield found


def test_queries_give_the_rows_they_mean_here_and_on_a_server(server: Served) -> None:
    tally = Soak(0, server).ask(250)
    # Two answers to each query; those without rows compare little.
    assert tally.answered * 2 > tally.asked
    assert sum(tally.refused.values()) * 10 < tally.asked


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_a_hundred_thousand_queries_give_the_rows_they_mean_here_and_on_a_server(
    server: Served, part: int
) -> None:
    tally = Soak(part, server).ask(PART_QUERIES)
    assert tally.asked == PART_QUERIES
    # The parts of a whole soak compare a hundred thousand queries.
    assert sum(tally.refused.values()) * 25 < tally.asked


# ---- what is asked

WRITING = "only mutations have it; `test_statement_model` and `test_dry_runs` ask those"
RELEVANCE = "`test_search_oracle` has a model of its words, its edits and its relevance"
RECORDS = "a list of records is for `unnest`, which only mutations have"
FILES = "a call picks one query of a file"
NOT_GENERATED: dict[str, str] = {
    **dict.fromkeys(
        (
            *(
                "insert",
                "upsert",
                "update",
                "delete",
                "update_matched",
                "delete_matched",
                "statements",
            ),
            *(
                "matched_write",
                "unnested_write",
                "assignments",
                "assignment",
                "returning",
                "absent",
            ),
            *("INSERT", "UPSERT", "UPDATE", "DELETE", "SET", "RETURNING", "UNNEST", "IF", "ABSENT"),
            *("row_property", "body"),
        ),
        WRITING,
    ),
    **dict.fromkeys(("bm25", "rrf", "fuzzy", "BM25", "RRF", "FUZZY"), RELEVANCE),
    **dict.fromkeys(("records_type", "fields", "field"), RECORDS),
}
"""Rules and terminals that no generated text has, and why."""


@pytest.fixture(scope="module")
def checked() -> list[str]:
    """Generated texts that the checker accepts."""
    draw, found = draw_by(random.Random(1)), []
    for _ in range(TEXTS):
        text = draw(texts)
        try:
            check_read(Source(text), harbour())
        except QueryError:
            continue
        found.append(text)
    return found


def test_every_alternative_of_the_grammar_that_reads_have_is_generated(checked: list[str]) -> None:
    missing = list_alternatives() - list_taken(checked)
    assert sorted(one for one in missing if NOT_GENERATED.keys().isdisjoint(_name(one))) == []


def _name(alternative: Alternative) -> set[str]:
    return {part.strip("_") for part in alternative}


def test_every_rule_that_is_not_generated_is_one_of_the_grammar(checked: list[str]) -> None:
    missing = list_alternatives() - list_taken(checked)
    assert NOT_GENERATED.keys() <= {name for one in missing for name in _name(one)}


TEXT_FUNCTIONS = (
    *("concat", "lower", "upper", "trim", "length", "substring", "replace"),
    *("coalesce", "max", "min", "count", "collect"),
)
SHAPES = {
    "D02 a stored list": r"(not \()?\$\w+\.\w+ in \$\w+\.(tags|marks)|\$\w+\.(tags|marks) contains \$\w+\.",
    "D02 NULL in an empty list": r"in \[\]|\[\] contains",
    "D04 whole entities": r"entity\(\$",
    "D04 edges of a path": r"edges\(\$",
    "D05 an entity as a group key": r"entity\(\$\w+\) as k\d",
    "D05 an entity in distinct": r"return distinct \{[^}]*entity\(\$",
    "D05 an entity in a union": r"entity\(\$\w+\) as n.*union",
    "D05 edges in a union": r"edges\(\$\w+\) as n.*union",
    "D05 entities counted": r"count\(distinct entity\(\$",
    "D05 a limit for each entity": r"with [^{]*\{[^}]*entity\(\$\w+\) as (n\dw).* per \1",
    "D06 having by the name of a condition": r"having \{ (not )?[ck]\d+",
    "D07 having by the name of a block": r"(exists|not) \{[^}]*\} as ([ck]\d+).*having \{ (not )?\2",
    **{
        f"D08 {word} of an id": rf"{word}\((?:[^()]|\([^()]*\))*(id|from|to)\(\$"
        for word in TEXT_FUNCTIONS
    },
    "D08 an id in case": r"case when id\(\$\w+\) = \"A\" then id\(\$",
    "D08 ids compared": r"id\(\$\w+\) < id\(\$",
    "D09 a truth on the left": r"(true|false) (=|!=) ",
    "D10 a substring of any length": r"substring\([^,]+, -?\d+, 9223372036854775807\)",
    "D11 a parameter in a parameter": r"\$none in \$texts",
    "literals on both sides": r"1 < 2|true = true|\"a\" in \[",
}
"""What was wrong once, or nearly."""


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_wrong_once_is_generated(shape: str, checked: list[str]) -> None:
    assert any(re.search(SHAPES[shape], text, re.DOTALL) for text in checked)
