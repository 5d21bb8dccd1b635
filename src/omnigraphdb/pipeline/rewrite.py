"""Rewriting the rows of a table: workers write fragments with the columns of a version, and the driver gets receipts."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import pyarrow as pa

from omnigraphdb.limits import COMPARE_SPLIT_ROWS
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.input.splits import cut_runs
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.messages import MESSAGES, decode, encode, require_all, select
from omnigraphdb.pipeline.runner import Each, Runner
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt, Written
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSplit:
    """Consecutive fragments of one version, which one task writes anew."""

    number: int
    location: StoreLocation
    at: TableAt
    fragments: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Rewrote:
    """The fragments that the task of a split wrote."""

    number: int
    written: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerRewriter:
    """Rewrites the rows of a table by the tasks of a runner."""

    runner: Runner
    location: StoreLocation

    def rewrite(self, at: TableAt) -> Sequence[Written]:
        """Write all rows of a version as fragments that no version shows yet, in their order."""
        splits = self._cut(at)
        step = Each(
            name="rewrite",
            splits=splits,
            run=_rewrite_split,
            out=MESSAGES,
            weigh=attrgetter("rows"),
        )
        answers = select(decode(self.runner.run(step)), Rewrote)
        require_all([answer.number for answer in answers], range(len(splits)), step.name)
        return [answer.written for answer in sorted(answers, key=lambda answer: answer.number)]

    def _cut(self, at: TableAt) -> list[RewriteSplit]:
        fragments = self.location.store().tables.open(at).fragments()
        runs = cut_runs([fragment.rows for fragment in fragments], COMPARE_SPLIT_ROWS)
        return [
            RewriteSplit(
                number=number,
                location=self.location,
                at=at,
                fragments=tuple(fragments[n].id for n in run),
                rows=sum(fragments[n].rows for n in run),
            )
            for number, run in enumerate(runs)
        ]


def measure_tables(tables: Tables, versions: Sequence[TableAt]) -> Size:
    """Measure the bytes and rows that rewriting some tables reads."""
    fragments = [fragment for at in versions for fragment in tables.open(at).fragments()]
    return Size(
        bytes=sum(fragment.bytes for fragment in fragments),
        rows=sum(fragment.rows for fragment in fragments),
    )


def _rewrite_split(split: RewriteSplit) -> Iterator[pa.Table]:
    tables = split.location.store().tables
    rows = tables.open(split.at).scan(fragments=split.fragments, blobs=BlobForm.INPUT)
    yield encode([Rewrote(split.number, tables.write(split.at, rows))])
