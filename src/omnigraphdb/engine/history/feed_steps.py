"""The change feed in steps: workers compare the changes of some commits; the changes of each commit are read on demand."""

from collections.abc import Iterator

from omnigraphdb.engine.history.compare import ChangeFilter
from omnigraphdb.engine.history.diff_steps import choose_comparer, compare_in_steps, measure_pairs
from omnigraphdb.engine.history.feed import ComparedCommit, FeedStep
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.runner_choice import ChooseRunner
from omnigraphdb.errors import ChangeFeedGap
from omnigraphdb.limits import COMPARE_SPLIT_ROWS, FEED_GROUP_COMMITS
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.values import dataclass


def compare_commits(
    choose_runner: ChooseRunner, engine: Engine, steps: Iterator[FeedStep], filters: ChangeFilter
) -> Iterator[ComparedCommit]:
    """Compare commits in groups, each group by the runner for its size."""
    for group in _group(engine, steps):
        yield from _compare_group(choose_runner, engine, group, filters)
        if group.gap is not None:
            raise group.gap


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Consecutive commits that one step compares; `gap` is the reason why no commit follows them."""

    steps: tuple[FeedStep, ...]
    size: Size
    gap: ChangeFeedGap | None = None


def _group(engine: Engine, steps: Iterator[FeedStep]) -> Iterator[_Group]:
    """Put small commits together; a commit that changed much is a group of its own."""
    group: list[FeedStep] = []
    size = Size(bytes=0, rows=0)
    try:
        for step in steps:
            more = _measure(engine, step)
            full = size.rows + more.rows > COMPARE_SPLIT_ROWS or len(group) == FEED_GROUP_COMMITS
            if group and full:
                yield _Group(steps=tuple(group), size=size)
                group, size = [], Size(bytes=0, rows=0)
            group.append(step)
            size = Size(bytes=size.bytes + more.bytes, rows=size.rows + more.rows)
    except ChangeFeedGap as gap:
        # The commits before the gap are read first, as they are when nobody reads ahead.
        yield _Group(steps=tuple(group), size=size, gap=gap)
        return
    if group:
        yield _Group(steps=tuple(group), size=size)


def _measure(engine: Engine, step: FeedStep) -> Size:
    with step.report_gap():
        return measure_pairs(engine, step.pairs)


def _compare_group(
    choose_runner: ChooseRunner, engine: Engine, group: _Group, filters: ChangeFilter
) -> Iterator[ComparedCommit]:
    choice = choose_comparer(engine, group.size, choose_runner)
    if choice.runner is None:
        for step in group.steps:
            changes = step.list_changes(engine.store.tables, filters)
            yield ComparedCommit(changes=changes, engine="local", reason=choice.reason)
        return
    pairs = [pair for step in group.steps for pair in step.pairs]
    with (
        group.steps[0].report_gap(),
        compare_in_steps(engine, choice.runner, pairs, filters) as compared,
    ):
        start = 0
        for step in group.steps:
            end = start + len(step.pairs)
            yield ComparedCommit(
                changes=compared.list_changes(range(start, end)),
                engine=choice.engine,
                reason=choice.reason,
            )
            start = end
