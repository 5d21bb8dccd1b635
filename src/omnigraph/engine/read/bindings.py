"""A table of bindings: one column of dense numbers per variable, perhaps with a weight per row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from omnigraph.engine.read.entities import Numbers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows of bindings. With weights, a row stands for that many equal rows."""

    columns: Mapping[str, Numbers]
    rows: int
    weights: Numbers | None = None

    def take(self, places: Numbers) -> "Bindings":
        """Rows by place, in the order asked."""
        return Bindings(
            {name: numbers[places] for name, numbers in self.columns.items()},
            len(places),
            None if self.weights is None else self.weights[places],
        )

    def keep(self, mask: Mask) -> "Bindings":
        """Rows that are marked, in their order."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_column(self, name: str, numbers: Numbers) -> "Bindings":
        """The same rows with one more variable."""
        return replace(self, columns={**self.columns, name: numbers})

    def only(self, names: Iterable[str]) -> "Bindings":
        """The same rows with fewer variables."""
        kept = set(names)
        return replace(self, columns={n: c for n, c in self.columns.items() if n in kept})

    def weighted(self, factors: Numbers) -> "Bindings":
        """Multiply the weight of every row."""
        weights = factors if self.weights is None else self.weights * factors
        return replace(self, weights=weights)

    def unweighted(self) -> "Bindings":
        """Rows once per unit of weight."""
        if self.weights is None:
            return self
        places = np.repeat(np.arange(self.rows, dtype=np.int64), self.weights)
        return replace(self, weights=None).take(places)


def codes(bindings: Bindings, names: Iterable[str]) -> Numbers:
    """One number per row that is equal exactly where the named columns are equal."""
    found = np.zeros(bindings.rows, dtype=np.int64)
    for name in names:
        _, inverse = np.unique(bindings.columns[name], return_inverse=True)
        width = int(inverse.max()) + 1 if len(inverse) else 1
        _, found = np.unique(found * width + inverse, return_inverse=True)
    return found.astype(np.int64)


def shared_codes(left: Bindings, right: Bindings, names: Iterable[str]) -> tuple[Numbers, Numbers]:
    """Codes of two tables that are comparable with one another."""
    names = tuple(names)
    both = Bindings(
        {name: np.concatenate([left.columns[name], right.columns[name]]) for name in names},
        left.rows + right.rows,
    )
    found = codes(both, names)
    return found[: left.rows], found[left.rows :]
