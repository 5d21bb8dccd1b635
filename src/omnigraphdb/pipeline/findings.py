"""Findings of many tasks as one error: the same that one pass over the whole input would raise."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.commit.origins import Origin
from omnigraphdb.errors import OmniError, Problem
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import PROBLEMS_HELD_MAX, PROBLEMS_SHOWN_MAX
from omnigraphdb.pipeline.input.intake import make_duplicate_problem
from omnigraphdb.pipeline.input.splits import Split, number_in, split_of
from omnigraphdb.pipeline.messages import (
    Finding,
    LocatedProblem,
    Phase,
    SplitLines,
    order_problem,
    unpack_problems,
)
from omnigraphdb.pipeline.rejects import Rejects, make_load_error, tabulate
from omnigraphdb.values import dataclass

DUPLICATES = 2
"""The last number in the `order` of findings about duplicate ids."""


@dataclass(frozen=True, slots=True)
class InputSpan:
    """The lines of one input in a split: how many lines come before them in the split, and in the input."""

    input: Split
    in_split: int
    in_input: int

    def locate(self, number: int) -> Origin:
        """Name a line or a record of the split."""
        own = number - self.in_split + self.in_input
        if self.input.counts_lines:
            return Origin(file=self.input.file, line=own)
        return Origin(file=self.input.file, record=own)


@dataclass(frozen=True, slots=True)
class InputMap:
    """Turns positions into files and lines: tasks count inside their splits, the map adds the splits before."""

    spans: Mapping[int, Sequence[InputSpan]]

    def locate(self, position: int) -> Origin:
        """Name the line or the record at a position."""
        number, spans = number_in(position), self.spans[split_of(position)]
        index = bisect_left(spans, number, key=attrgetter("in_split")) - 1
        return spans[index].locate(number)


def map_inputs(splits: Sequence[Split], counted: Iterable[SplitLines]) -> InputMap:
    """Add up the lines of the splits; every input has its own count."""
    lines = {one.split: one.lines for one in counted}
    counts: Counter[int] = Counter()
    spans: dict[int, list[InputSpan]] = {}
    for split in splits:
        own, before = spans.setdefault(split.number, []), 0
        for one, count in zip(split.inputs, lines[split.number], strict=True):
            own.append(InputSpan(one, before, counts[one.source]))
            before += count
            counts[one.source] += count
    return InputMap(spans)


def make_error(
    findings: Iterable[Finding],
    inputs: InputMap,
    catalog: Catalog,
    rejects: Rejects | None,
    read: Callable[[str], pa.Table],
) -> OmniError | None:
    """Make the error of all problems; None when there are none. `read` reads the scratch file of a long finding."""
    relevant = _drop_doubtful_duplicates(list(findings))
    total = sum(one.total for one in relevant)
    if not total:
        return None
    ordered = sorted(
        (
            ((one.phase, one.order), one.phase, located)
            for one in relevant
            for located in one.problems
        ),
        key=lambda found: (found[0], order_problem(found[1])(found[2])),
    )
    shown = [make_problem(found[2], inputs, catalog) for found in ordered[:PROBLEMS_SHOWN_MAX]]
    return make_load_error(shown, total, _list_all(relevant, inputs, catalog, read), rejects)


def _list_all(
    findings: Sequence[Finding],
    inputs: InputMap,
    catalog: Catalog,
    read: Callable[[str], pa.Table],
) -> Iterator[pa.Table]:
    """Every problem as tables, finding by finding."""
    for one in sorted(findings, key=lambda found: (found.phase, found.order)):
        if one.rejects is None:
            yield tabulate(make_problem(located, inputs, catalog) for located in one.problems)
            continue
        for rows in _slice(read(one.rejects)):
            yield tabulate(
                make_problem(located, inputs, catalog) for located in unpack_problems(rows)
            )


def _slice(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows of a scratch file, as many at a time as become problems in memory."""
    for start in range(0, rows.num_rows, PROBLEMS_HELD_MAX):
        yield rows.slice(start, PROBLEMS_HELD_MAX)


def _drop_doubtful_duplicates(findings: Sequence[Finding]) -> list[Finding]:
    """Drop duplicates of tables whose ids are wrong: the ids may differ once they are right."""
    ids = [one for one in findings if one.phase is Phase.IDS]
    wrong = {one.order[0] for one in ids if one.order[1] != DUPLICATES}
    return [
        one
        for one in findings
        if one.phase is not Phase.IDS or one.order[1] != DUPLICATES or one.order[0] not in wrong
    ]


def make_problem(located: LocatedProblem, inputs: InputMap, catalog: Catalog) -> Problem:
    """The problem with the file and line of its row."""
    if located.position is None:
        return located.problem
    origin = inputs.locate(located.position)
    if located.duplicate_of is None:
        return replace(located.problem, file=origin.file, line=origin.line, record=origin.record)
    type_ = catalog.tables[TableKey(str(located.problem.table_key))]
    first = inputs.locate(located.duplicate_of)
    return make_duplicate_problem(type_, str(located.problem.row_id), first, origin)
