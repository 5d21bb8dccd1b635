"""Comparing by many workers: whoever reads the tables, the same rows differ."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.diff.candidates import candidates
from omnigraph.engine.diff.spread import Spread
from omnigraph.ids import MAIN, BranchName
from omnigraph.pipeline.local import LocalRunner
from tests.properties.test_merge_oracle import apply, graph_of, operation

maintenance = st.tuples(st.just("optimize"))
history = st.lists(
    st.tuples(st.sampled_from(["main", "side"]), st.one_of(operation, operation, maintenance)),
    max_size=10,
)


@settings(max_examples=20)
@given(history, st.integers(1, 4))
def test_the_same_rows_may_differ_whoever_looks(
    steps: list[tuple[str, tuple[Any, ...]]], buckets: int
) -> None:
    with graph_of() as graph:
        engine = graph._engine
        spread = Spread(
            runner=LocalRunner(2, buckets=buckets), location=engine.location, rows_min=0
        )
        seen = []
        for branch, step in steps:
            if step == ("optimize",):
                graph.optimize()
            else:
                apply(graph, branch, step)
            seen.append(engine.view(BranchName(branch)).snapshot.entries)
        last = engine.view(MAIN).snapshot.entries
        for entries in seen:
            for key, entry in entries.items():
                for one, other in ((entry.at, last[key].at), (None, entry.at), (entry.at, None)):
                    here = candidates(engine.store.tables, one, other)
                    assert candidates(engine.store.tables, one, other, spread) == here
