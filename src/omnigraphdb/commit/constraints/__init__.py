"""The rules of a schema about stored rows, evaluated over the tables as a write leaves them."""

from collections.abc import Callable

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.commit.constraints.cardinality import cardinality
from omnigraphdb.commit.constraints.committed import CommittedRows, RowsAfterWrite
from omnigraphdb.commit.constraints.endpoints import check_stranded_edges, endpoints
from omnigraphdb.commit.constraints.keys import strict_inserts, unique
from omnigraphdb.commit.constraints.report import Violations
from omnigraphdb.commit.constraints.values import values
from omnigraphdb.commit.delta import Deltas

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
    """List every broken rule of the write, in the order values, uniqueness, endpoints, cardinality."""
    final = RowsAfterWrite(deltas=deltas, committed=committed, catalog=catalog)
    total = Violations()
    for rule in RULES:
        total = total + rule(deltas, final)
    return total
