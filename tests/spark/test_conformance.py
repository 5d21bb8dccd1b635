"""The conformance cases of reading and loading hold when Spark does the work."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import QueryError
from tests.conformance import run

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("spark")]

READS = ("bindings_filters", "traversal", "negation", "aggregation_order")
LOADS = ("load", "constraints")
REFUSED: frozenset[str] = frozenset()
"""Cases with a query that Spark refuses, so that this process answers it: none of these files has one."""


def _cases(files: tuple[str, ...]) -> list[Any]:
    return [case for case in run.cases() if Path(case.file).stem in files]


@pytest.mark.parametrize("case", _cases(READS), ids=lambda case: case.id)
def test_reading(
    case: run.Case, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Graph.query
    refused = []

    def query(self: Graph, *args: Any, **options: Any) -> Any:
        try:
            return here(self, *args, spark=spark, **options)
        except QueryError as error:
            if "does not run on Spark" not in str(error):
                raise
            refused.append(str(error))
            return here(self, *args, **options)

    monkeypatch.setattr(Graph, "query", query)
    run.run_case(case, tmp_path)
    assert bool(refused) == (case.id in REFUSED), refused


@pytest.mark.parametrize("case", _cases(LOADS), ids=lambda case: case.id)
def test_loading(
    case: run.Case, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Graph.load

    def load(self: Graph, source: Any, **options: Any) -> Any:
        done = here(self, source, spark=spark, **options)
        assert done.engine == "spark"
        return done

    monkeypatch.setattr(Graph, "load", load)
    run.run_case(case, tmp_path)
