"""The one evaluator of a schema's rules, over the final image of a write."""

from collections.abc import Callable

from omnigraph.catalog.model import Catalog
from omnigraph.commit.constraints.cardinality import cardinality
from omnigraph.commit.constraints.committed import Committed, Final
from omnigraph.commit.constraints.endpoints import check_stranded_edges, endpoints
from omnigraph.commit.constraints.keys import strict_inserts, unique
from omnigraph.commit.constraints.report import Violations
from omnigraph.commit.constraints.values import values
from omnigraph.commit.delta import Deltas

__all__ = ["Committed", "Final", "Violations", "violations"]

Rule = Callable[[Deltas, Final], Violations]
RULES: tuple[Rule, ...] = (
    values,
    strict_inserts,
    unique,
    endpoints,
    check_stranded_edges,
    cardinality,
)


def violations(deltas: Deltas, committed: Committed, catalog: Catalog) -> Violations:
    """Every broken rule of the write, in the order values, uniqueness, endpoints, cardinality."""
    final = Final(deltas=deltas, committed=committed, catalog=catalog)
    found = Violations()
    for rule in RULES:
        found = found + rule(deltas, final)
    return found
