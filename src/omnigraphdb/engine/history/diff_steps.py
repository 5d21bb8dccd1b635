"""A diff in steps: workers compare the tables bucket by bucket and write the changes to scratch files, which are read as one stream."""

import heapq
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from omnigraphdb.engine.diff.digest import make_seed
from omnigraphdb.engine.diff.rows import Step
from omnigraphdb.engine.diff.sides import (
    AFTER,
    BEFORE,
    AlignedPair,
    ReadSides,
    VersionPair,
    cut_sides,
    pair_versions,
)
from omnigraphdb.engine.history.changes import Change
from omnigraphdb.engine.history.compare import ChangeFilter, TablePair, compare_pair, make_changes
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.heartbeat import keep_heartbeat
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import OperationId
from omnigraphdb.limits import CHANGES_READ_LEAST, COMPARE_ROWS_MAX, SIDE_BATCH_ROWS
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.messages import MESSAGES, decode, encode, select
from omnigraphdb.pipeline.runner import Runner, Shuffle
from omnigraphdb.storage.scratch import Scratch
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass


@contextmanager
def open_diff(
    engine: Engine, pairs: Sequence[TablePair], filters: ChangeFilter, choose_runner: ChooseRunner
) -> Iterator[tuple[Iterator[Change], RunnerChoice]]:
    """List the changes between versions of tables, by the runner for their size; scratch files are removed at the end."""
    choice = choose_comparer(engine, measure_pairs(engine, pairs), choose_runner)
    if choice.runner is None:
        tables = engine.store.tables
        yield (change for pair in pairs for change in compare_pair(tables, pair, filters)), choice
        return
    with compare_in_steps(engine, choice.runner, pairs, filters) as compared:
        yield compared.list_changes(range(len(pairs))), choice


def choose_comparer(engine: Engine, size: Size, choose_runner: ChooseRunner) -> RunnerChoice:
    """Choose who compares; a graph that may not be written to is compared in this process."""
    if engine.read_only:
        return RunnerChoice(None, "a graph that is opened to be read keeps no scratch files")
    return choose_runner(size)


def measure_pairs(engine: Engine, pairs: Sequence[TablePair]) -> Size:
    """Measure the fragments in which the versions differ."""
    tables = engine.store.tables
    splits = [
        split for pair in pairs for split in cut_sides(tables, pair_sides(tables, pair, "", 0))
    ]
    return Size(
        bytes=sum(split.bytes for split in splits), rows=sum(split.rows for split in splits)
    )


def pair_sides(tables: Tables, pair: TablePair, name: str, seed: int) -> VersionPair:
    """Make the versions of a table the sides of a shuffle, under a name of their own."""
    before = None if pair.before is None else pair.before.at
    after = None if pair.after is None else pair.after.at
    return pair_versions(tables, name, before, after, seed=seed)


@contextmanager
def compare_in_steps(
    engine: Engine, runner: Runner, pairs: Sequence[TablePair], filters: ChangeFilter
) -> Iterator["ComparedPairs"]:
    """Let workers compare all pairs in one step; the changes can be read until the block ends."""
    operation = OperationId(engine.runtime.new_id())
    with keep_heartbeat(engine, operation, lingers=runner.engine != "local") as area:
        compared = ComparedPairs(
            engine.store.scratch, _compare(engine, runner, area, pairs, filters)
        )
        try:
            yield compared
        finally:
            compared.close()


def _compare(
    engine: Engine, runner: Runner, area: str, pairs: Sequence[TablePair], filters: ChangeFilter
) -> list["ChangesWritten"]:
    tables, seed = engine.store.tables, make_seed(area)
    sides = [pair_sides(tables, pair, str(number), seed) for number, pair in enumerate(pairs)]
    cut = [cut_sides(tables, versions) for versions in sides]
    pair_numbers = [number for number, splits in enumerate(cut) if splits]
    if not pair_numbers:
        return []
    bucket = BucketDiff(
        location=engine.location,
        area=area,
        pairs=tuple((number, pairs[number], sides[number]) for number in pair_numbers),
        wanted=filters,
    )
    splits = [split for number in pair_numbers for split in cut[number]]
    step = Shuffle(
        name="compare",
        splits=splits,
        keys=ReadSides(engine.location),
        sides={
            sides[number].name_side(side): sides[number].schema
            for number in pair_numbers
            for side in (BEFORE, AFTER)
        },
        decide=bucket,
        out=MESSAGES,
        rows=sum(split.rows for split in splits),
    )
    return select(decode(runner.run(step)), ChangesWritten)


class ComparedPairs:
    """The changes of some pairs in scratch files, which are there until it is closed."""

    def __init__(self, scratch: Scratch, parts: Sequence["ChangesWritten"]) -> None:
        self._scratch, self._parts = scratch, parts
        self._is_closed = False

    def close(self) -> None:
        """Let no more changes be read: their files go."""
        self._is_closed = True

    def list_changes(self, numbers: Iterable[int]) -> Iterator[Change]:
        """List the changes of some pairs, one pair after the other, each by id."""
        for number in numbers:
            buckets: dict[str, list[ChangesWritten]] = {}
            for part in self._parts:
                if part.pair == number:
                    buckets.setdefault(part.bucket, []).append(part)
            # All buckets together hold a bounded number of changes, however many buckets there are.
            step = max(CHANGES_READ_LEAST, COMPARE_ROWS_MAX // max(1, len(buckets)))
            streams = [self._stream(parts, step) for parts in buckets.values()]
            for _, change in heapq.merge(*streams, key=lambda entry: entry[0]):
                yield change

    def _stream(self, parts: Sequence["ChangesWritten"], step: int) -> Iterator[tuple[str, Change]]:
        """Read the changes of one pair in one bucket, some at a time."""
        ranges = ((part, start) for part in parts for start in range(part.start, part.end, step))
        for part, start in ranges:
            if self._is_closed:
                raise UserInputError(
                    "the changes of a commit are read before the next commit is asked for; nothing was changed",
                    hint="read the changes of each block as it comes, or leave out spark=",
                )
            rows = min(step, part.end - start)
            table = self._scratch.read(part.path, start=start, rows=rows)
            ids, packed = table["id"].to_pylist(), table["change"].to_pylist()
            yield from zip(ids, map(pickle.loads, packed), strict=True)


# ---- by tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesWritten:
    """Rows of a scratch file: changes of one pair in one bucket, by id."""

    pair: int
    bucket: str
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDiff:
    """Lists the changes of the ids of one bucket and writes them to scratch files, all pairs together."""

    location: StoreLocation
    area: str
    pairs: tuple[tuple[int, TablePair, VersionPair], ...]
    wanted: ChangeFilter

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        store = self.location.store()
        bucket = store.scratch.new_id()
        written: list[ChangesWritten] = []
        waiting: list[tuple[int, list[Change]]] = []
        for number, pair, versions in self.pairs:
            if not any(sides[versions.name_side(side)].num_rows for side in (BEFORE, AFTER)):
                continue
            for changes in list_bucket_changes(store.tables, pair, versions, sides, self.wanted):
                waiting.append((number, changes))
                if sum(len(batch) for _, batch in waiting) >= SIDE_BATCH_ROWS:
                    written += self._write(store.scratch, bucket, waiting)
                    waiting = []
        if waiting:
            written += self._write(store.scratch, bucket, waiting)
        yield encode(written)

    def _write(
        self, scratch: Scratch, bucket: str, parts: Sequence[tuple[int, list[Change]]]
    ) -> Iterator[ChangesWritten]:
        path, start = f"{self.area}/changes-{scratch.new_id()}.lance", 0
        scratch.write(path, _pack_changes([change for _, changes in parts for change in changes]))
        for number, changes in parts:
            end = start + len(changes)
            yield ChangesWritten(pair=number, bucket=bucket, path=path, start=start, end=end)
            start = end


def list_bucket_changes(
    tables: Tables,
    pair: TablePair,
    versions: VersionPair,
    sides: Mapping[str, pa.Table],
    filters: ChangeFilter,
) -> Iterator[list[Change]]:
    """List the changes of one pair in one bucket, by id, so many at a time as a task holds rows."""
    aligned = AlignedPair(versions, sides)
    names = aligned.name_columns(tables)
    step = aligned.find_changed(tables)
    for start in range(0, step.moves.num_rows, SIDE_BATCH_ROWS):
        end = start + SIDE_BATCH_ROWS
        part = Step(step.moves.slice(start, SIDE_BATCH_ROWS), step.properties[start:end])
        changes = list(make_changes(tables, pair, part, names, filters))
        if changes:
            yield changes


def _pack_changes(changes: Sequence[Change]) -> pa.Table:
    packed = [pickle.dumps(change) for change in changes]
    return pa.table({"id": [change.id for change in changes], "change": packed})
