"""A dry run and the write that it stands for accept and refuse the same inputs, for every form of writing."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.api.graph import Graph
from tests.support.dry_runs import check_writes, writes

COVERED = {"load", "merge", "mutate"}
"""The verbs of a graph that take `dry_run`; a schema change has a plan in its place."""


@settings(max_examples=8)
@given(data=st.data())
def test_a_dry_run_accepts_what_the_write_accepts(data: st.DataObject) -> None:
    check_writes(data, writes)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(max_examples=1_000)
@given(data=st.data())
def test_a_dry_run_accepts_what_the_write_accepts_at_length(data: st.DataObject) -> None:
    check_writes(data, writes)


def test_every_verb_with_a_dry_run_is_compared() -> None:
    verbs = {
        name
        for name, verb in inspect.getmembers(Graph, inspect.isfunction)
        if not name.startswith("_") and "dry_run" in inspect.signature(verb).parameters
    }
    assert verbs == COVERED
