"""The walks of the internals page are those of real runs: the same functions, in the same files, in the same order."""

from typing import Any

import pytest

from tests.support.walks import PAGE, WALKS, Trace, documented, run_walk


def assert_documented(name: str, trace: Trace) -> None:
    """Every row of the page was entered, after the row before it; `make walks` writes the page anew."""
    rows = documented(PAGE.read_text())[name]
    assert len(rows) > 10
    assert [row for row in rows if row not in trace.functions()] == []
    entered = iter(trace.entered)
    assert [row for row in rows if row not in entered] == []


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_what_the_page_says(name: str) -> None:
    assert_documented(name, run_walk(name))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_load_on_spark_is_what_the_page_says(spark: Any) -> None:
    assert_documented("spark", run_walk("spark", spark))
