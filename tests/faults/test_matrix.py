"""The fault matrix is whole: every row has its test, every writer has its rows."""

import re
from pathlib import Path

from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar import WriterKind
from tests.faults.matrix import (
    FROM_ZERO,
    MATRIX,
    NOT_APPLICABLE,
    OTHERS,
    READERS,
    ROWS,
    WRITERS,
)

HERE = Path(__file__).parent
METHODS = {
    WriterKind.MUTATION: "mutate",
    WriterKind.GROUP: "mutate",
    WriterKind.LOAD: "load",
    WriterKind.SCHEMA_APPLY: "schema_apply",
    WriterKind.BRANCH_MERGE: "merge",
    WriterKind.ENSURE_INDICES: "ensure_indices",
    WriterKind.OPTIMIZE: "optimize",
}


def expected_rows() -> set[str]:
    counted = {f"{family}{n}" for family, count in ROWS.items() for n in range(1, count + 1)}
    zero = {f"{family}{n}" for family, last in FROM_ZERO.items() for n in range(last + 1)}
    return counted | zero | set(OTHERS)


def test_every_row_has_a_test_or_a_reason() -> None:
    assert set(MATRIX) | set(NOT_APPLICABLE) == expected_rows()
    assert not set(MATRIX) & set(NOT_APPLICABLE)


def test_every_test_that_a_row_names_is_there() -> None:
    for row, place in MATRIX.items():
        file, _, name = place.partition("::")
        text = (HERE / file).read_text()
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{row}: {place} is not there"


def test_every_method_of_a_graph_is_a_reader_or_a_writer_with_rows() -> None:
    public = {name for name in dir(Graph) if not name.startswith("_")}
    assert public - READERS - WRITERS.keys() == set()
    families = {re.sub(r"\d+$", "", row) for row in MATRIX}
    for method, needed in WRITERS.items():
        assert set(needed) <= families, f"{method} is written without its rows"


def test_every_kind_of_writer_is_a_method_with_rows() -> None:
    assert METHODS.keys() == set(WriterKind)
    assert {method for method in METHODS.values() if method not in WRITERS} == set()
