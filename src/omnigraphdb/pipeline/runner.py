"""The two kinds of steps of bulk work, and the protocol of the runners that run them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from omnigraphdb.limits import BUCKET_ROWS, BUCKET_ROWS_MIN
from omnigraphdb.values import dataclass

KEY = "join key"
"""The column by which a `Shuffle` joins rows; no property can have this name."""

Split = Any
"""A small picklable description of a part of the work: tasks carry splits, never rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """Work on every split by itself.

    `run` is a picklable function of a split and yields tables of schema `out`. It may run twice for one split: its
    messages depend on the split alone, and files that it writes count only when a message names them.
    """

    name: str
    splits: Sequence[Split]
    run: Callable[[Split], Iterator[pa.Table]]
    out: pa.Schema
    weigh: Callable[[Split], int] | None = None
    """The time that a split takes, in relation to the others."""

    def schedule(self) -> Sequence[int]:
        """Return the indexes of the splits, the heaviest first, so that all workers end at about the same time."""
        numbers, weigh = range(len(self.splits)), self.weigh
        if weigh is None:
            return numbers
        return sorted(numbers, key=lambda number: weigh(self.splits[number]), reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Join the rows of all splits by key, then decide.

    `keys` yields narrow tables with a text or binary column `KEY`, each under the name of a side; `decide` gets every row
    of a set of keys, all sides together, and yields tables of schema `out`. A side without rows is an empty table. The
    order of rows with the same key is not defined: decide by a position column, never by arrival.
    """

    name: str
    splits: Sequence[Split]
    keys: Callable[[Split], Iterator[tuple[str, pa.Table]]]
    sides: Mapping[str, pa.Schema]
    decide: Callable[[Mapping[str, pa.Table]], Iterator[pa.Table]]
    out: pa.Schema
    rows: int | None = None
    """About how many rows all sides hold together, where that is known."""


Step = Each | Shuffle


def count_buckets(rows: int, workers: int) -> int:
    """Choose the buckets of a shuffle: one per worker while each gets enough rows, more when a task would hold too many."""
    spread = min(workers, -(-rows // BUCKET_ROWS_MIN))
    return max(1, spread, -(-rows // BUCKET_ROWS))


class Runner(Protocol):
    """Runs steps somewhere; the result does not depend on where."""

    @property
    def engine(self) -> str:
        """The name in the load report: `local` or `spark`."""
        ...

    @property
    def workers(self) -> int:
        """About how many splits run at once."""
        ...

    def run(self, step: Step) -> pa.Table:
        """Run a step; its rows come to this process, so they are few and small."""
        ...
