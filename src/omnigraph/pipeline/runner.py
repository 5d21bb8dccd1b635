"""The two kinds of steps bulk work is made of, and who runs them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.values import dataclass

KEY = "meeting key"
"""The column of a `Shuffle` by which rows meet; named as no property can be."""

Split = Any
"""A small picklable description of a part of the work: tasks carry splits, never rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """Work on every split by itself.

    `run` is a picklable function of a split and yields tables of schema `out`. It may run twice for one split: it
    derives what it says from the split alone, and files it writes count only when its answer names them.
    """

    name: str
    splits: Sequence[Split]
    run: Callable[[Split], Iterator[pa.Table]]
    out: pa.Schema
    weigh: Callable[[Split], int] | None = None
    """About how long a split takes, one against another."""

    def schedule(self) -> Sequence[int]:
        """The numbers of the splits, the heaviest first: hands that begin with those end together."""
        numbers, weigh = range(len(self.splits)), self.weigh
        if weigh is None:
            return numbers
        return sorted(numbers, key=lambda number: weigh(self.splits[number]), reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Bring the rows of all splits together by key, then decide.

    `keys` yields narrow tables with a text or binary column `KEY`, each under the name of a side; `decide` sees every row
    of a set of keys, all sides together, and yields tables of schema `out`. A side without rows is an empty table. The
    order in which rows of one key arrive is not defined: decide by a position column, never by arrival.
    """

    name: str
    splits: Sequence[Split]
    keys: Callable[[Split], Iterator[tuple[str, pa.Table]]]
    sides: Mapping[str, pa.Schema]
    decide: Callable[[Mapping[str, pa.Table]], Iterator[pa.Table]]
    out: pa.Schema


Step = Each | Shuffle


class Runner(Protocol):
    """Runs steps somewhere; the answer does not depend on where."""

    @property
    def engine(self) -> str:
        """What the report says: `local` or `spark`."""
        ...

    @property
    def workers(self) -> int:
        """About how many splits it works on at once."""
        ...

    def run(self, step: Step) -> pa.Table:
        """All answers of a step, in no particular order: small ones, for they come to the caller's process."""
        ...
