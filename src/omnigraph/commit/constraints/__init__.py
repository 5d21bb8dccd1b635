"""The rules of a schema about stored rows, evaluated over the tables as a write leaves them."""

from collections.abc import Callable

from omnigraph.catalog.model import Catalog
from omnigraph.commit.constraints.cardinality import cardinality
from omnigraph.commit.constraints.committed import CommittedRows, RowsAfterWrite
from omnigraph.commit.constraints.endpoints import check_stranded_edges, endpoints
from omnigraph.commit.constraints.keys import strict_inserts, unique
from omnigraph.commit.constraints.report import Violations
from omnigraph.commit.constraints.values import values
from omnigraph.commit.delta import Deltas

__all__ = ["CommittedRows", "RowsAfterWrite", "Violations", "violations"]

Rule = Callable[[Deltas, RowsAfterWrite], Violations]
RULES: tuple[Rule, ...] = (
    values,
    strict_inserts,
    unique,
    endpoints,
    check_stranded_edges,
    cardinality,
)


def violations(deltas: Deltas, committed: CommittedRows, catalog: Catalog) -> Violations:
    """Every broken rule of the write, in the order values, uniqueness, endpoints, cardinality."""
    final = RowsAfterWrite(deltas=deltas, committed=committed, catalog=catalog)
    found = Violations()
    for rule in RULES:
        found = found + rule(deltas, final)
    return found
