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
        input_number = number - self.in_split + self.in_input
        if self.input.counts_lines:
            return Origin(file=self.input.file, line=input_number)
        return Origin(file=self.input.file, record=input_number)


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
    lines = {split_lines.split: split_lines.lines for split_lines in counted}
    counts: Counter[int] = Counter()
    spans: dict[int, list[InputSpan]] = {}
    for split in splits:
        split_spans, before = spans.setdefault(split.number, []), 0
        for input_split, count in zip(split.inputs, lines[split.number], strict=True):
            split_spans.append(InputSpan(input_split, before, counts[input_split.source]))
            before += count
            counts[input_split.source] += count
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
    total = sum(finding.total for finding in relevant)
    if not total:
        return None
    ordered = sorted(
        (
            ((finding.phase, finding.order), finding.phase, located)
            for finding in relevant
            for located in finding.problems
        ),
        key=lambda entry: (entry[0], order_problem(entry[1])(entry[2])),
    )
    problems = [make_problem(entry[2], inputs, catalog) for entry in ordered[:PROBLEMS_SHOWN_MAX]]
    return make_load_error(problems, total, _list_all(relevant, inputs, catalog, read), rejects)


def _list_all(
    findings: Sequence[Finding],
    inputs: InputMap,
    catalog: Catalog,
    read: Callable[[str], pa.Table],
) -> Iterator[pa.Table]:
    """Yield every problem as tables, finding by finding."""
    for finding in sorted(findings, key=lambda finding: (finding.phase, finding.order)):
        if finding.rejects is None:
            yield tabulate(make_problem(located, inputs, catalog) for located in finding.problems)
            continue
        for rows in _slice(read(finding.rejects)):
            yield tabulate(
                make_problem(located, inputs, catalog) for located in unpack_problems(rows)
            )


def _slice(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a scratch file, as many at a time as become problems in memory."""
    for start in range(0, rows.num_rows, PROBLEMS_HELD_MAX):
        yield rows.slice(start, PROBLEMS_HELD_MAX)


def _drop_doubtful_duplicates(findings: Sequence[Finding]) -> list[Finding]:
    """Drop duplicates of tables whose ids are wrong: the ids may differ once they are right."""
    id_findings = [finding for finding in findings if finding.phase is Phase.IDS]
    wrong = {finding.order[0] for finding in id_findings if finding.order[1] != DUPLICATES}
    return [
        finding
        for finding in findings
        if finding.phase is not Phase.IDS
        or finding.order[1] != DUPLICATES
        or finding.order[0] not in wrong
    ]


def make_problem(located: LocatedProblem, inputs: InputMap, catalog: Catalog) -> Problem:
    """Return the problem with the file and line of its row."""
    if located.position is None:
        return located.problem
    origin = inputs.locate(located.position)
    if located.duplicate_of is None:
        return replace(located.problem, file=origin.file, line=origin.line, record=origin.record)
    type_ = catalog.tables[TableKey(str(located.problem.table_key))]
    first = inputs.locate(located.duplicate_of)
    return make_duplicate_problem(type_, str(located.problem.row_id), first, origin)
