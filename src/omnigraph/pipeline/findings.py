"""From problems of many tasks to one error: the same that one pass over the whole input would raise."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from omnigraph.catalog.model import Catalog
from omnigraph.commit.origins import Origin
from omnigraph.errors import OmniError, Problem, data_error
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.input.intake import make_duplicate_problem
from omnigraph.pipeline.input.splits import Split, number_in, split_of
from omnigraph.pipeline.messages import CheckPassed, Found, Phase, Placed
from omnigraph.values import dataclass

DUPLICATES = 2
"""What the order of problems with ids ends with when two rows share one."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions of a split that are lines of one input: what comes before them in the split, and in the input."""

    input: Split
    in_split: int
    in_input: int

    def origin(self, number: int) -> Origin:
        """Name a line or a record of the split."""
        own = number - self.in_split + self.in_input
        if self.input.counts_lines:
            return Origin(file=self.input.file, line=own)
        return Origin(file=self.input.file, record=own)


@dataclass(frozen=True, slots=True)
class Places:
    """Where positions are: tasks count inside their splits, and here the splits before are added."""

    stretches: Mapping[int, Sequence[Stretch]]

    def origin(self, position: int) -> Origin:
        """Name the line or the record at a position."""
        number, stretches = number_in(position), self.stretches[split_of(position)]
        place = bisect_left(stretches, number, key=attrgetter("in_split")) - 1
        return stretches[place].origin(number)


def places_of(splits: Sequence[Split], passed: Iterable[CheckPassed]) -> Places:
    """Add up lines: every input counts its own."""
    lines = {one.split: one.lines for one in passed}
    counts: Counter[int] = Counter()
    stretches: dict[int, list[Stretch]] = {}
    for split in splits:
        own, passed_over = stretches.setdefault(split.number, []), 0
        for one, count in zip(split.inputs, lines[split.number], strict=True):
            own.append(Stretch(one, passed_over, counts[one.source]))
            passed_over += count
            counts[one.source] += count
    return Places(stretches)


def error_of(
    found: Iterable[Found], phase: Phase, places: Places, catalog: Catalog
) -> OmniError | None:
    """The error that the problems of one phase deserve; None when there are none."""
    relevant = [one for one in found if one.phase is phase]
    if phase is Phase.IDS:
        relevant = _drop_doubtful_duplicates(relevant)
    total = sum(one.total for one in relevant)
    if not total:
        return None
    ordered = sorted(
        ((one.order, placed) for one in relevant for placed in one.problems),
        key=lambda pair: (pair[0], _rank_of(phase, pair[1])),
    )
    shown = [_make_problem(placed, places, catalog) for _, placed in ordered[:PROBLEMS_SHOWN_MAX]]
    return data_error(shown, total=total)


def _drop_doubtful_duplicates(found: Sequence[Found]) -> list[Found]:
    """Where ids are wrong, two equal ones say nothing more."""
    wrong = {one.order[0] for one in found if one.order[1] != DUPLICATES}
    return [one for one in found if one.order[1] != DUPLICATES or one.order[0] not in wrong]


def _rank_of(phase: Phase, placed: Placed) -> tuple[str, int]:
    """Rules are reported by id, everything else in the order it was given."""
    position = placed.twin if placed.twin is not None else placed.position
    row_id = placed.problem.row_id if phase is Phase.RULES else None
    return (row_id or "", -1 if position is None else position)


def _make_problem(placed: Placed, places: Places, catalog: Catalog) -> Problem:
    if placed.position is None:
        return placed.problem
    origin = places.origin(placed.position)
    if placed.twin is None:
        return replace(placed.problem, file=origin.file, line=origin.line, record=origin.record)
    type_ = catalog.tables[TableKey(str(placed.problem.table_key))]
    return make_duplicate_problem(
        type_, str(placed.problem.row_id), places.origin(placed.twin), origin
    )
