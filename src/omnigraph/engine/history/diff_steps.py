"""A diff in steps: workers compare the tables bucket by bucket and write the changes to scratch files, which are read as one stream."""

import heapq
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from omnigraph.engine.diff.digest import make_seed
from omnigraph.engine.diff.rows import Step
from omnigraph.engine.diff.sides import (
    AFTER,
    BEFORE,
    AlignedPair,
    ReadSides,
    VersionPair,
    cut_sides,
    pair_versions,
)
from omnigraph.engine.history.changes import Change
from omnigraph.engine.history.compare import TablePair, Wanted, compare_pair, make_changes
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.heartbeat import keep_heartbeat
from omnigraph.engine.write.runner_choice import Choose, RunnerChoice
from omnigraph.ids import OperationId
from omnigraph.limits import COMPARE_ROWS_MAX, SIDE_BATCH_ROWS
from omnigraph.pipeline.input.cut import Size
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.messages import MESSAGES, decode, encode, select
from omnigraph.pipeline.runner import Runner, Shuffle
from omnigraph.runtime import SYSTEM
from omnigraph.storage.scratch import Scratch
from omnigraph.values import dataclass


@contextmanager
def open_diff(
    engine: Engine, pairs: Sequence[TablePair], wanted: Wanted, choose: Choose
) -> Iterator[tuple[Iterator[Change], RunnerChoice]]:
    """List the changes between the versions of tables, by whoever is chosen by size; scratch files go at the end."""
    choice = choose(_measure(engine, pairs))
    if engine.read_only and choice.runner is not None:
        choice = RunnerChoice(None, "a graph that is opened to be read keeps no scratch files")
    if choice.runner is None:
        tables = engine.store.tables
        yield (change for pair in pairs for change in compare_pair(tables, pair, wanted)), choice
        return
    operation = OperationId(engine.runtime.new_id())
    with keep_heartbeat(engine, operation, lingers=choice.engine != "local") as area:
        yield _list_in_steps(engine, choice.runner, area, pairs, wanted), choice


def _measure(engine: Engine, pairs: Sequence[TablePair]) -> Size:
    """Measure the fragments in which the versions differ."""
    tables = engine.store.tables
    splits = [split for pair in pairs for split in cut_sides(tables, _pair_sides(engine, pair, 0))]
    return Size(
        bytes=sum(split.bytes for split in splits), rows=sum(split.rows for split in splits)
    )


def _pair_sides(engine: Engine, pair: TablePair, seed: int) -> VersionPair:
    before = None if pair.before is None else pair.before.at
    after = None if pair.after is None else pair.after.at
    return pair_versions(engine.store.tables, "table", before, after, seed=seed)


def _list_in_steps(
    engine: Engine, runner: Runner, area: str, pairs: Sequence[TablePair], wanted: Wanted
) -> Iterator[Change]:
    for pair in pairs:
        versions = _pair_sides(engine, pair, make_seed(area))
        splits = cut_sides(engine.store.tables, versions)
        if not splits:
            continue
        bucket = BucketDiff(
            location=engine.location, area=area, pair=pair, versions=versions, wanted=wanted
        )
        step = Shuffle(
            name="compare",
            splits=splits,
            keys=ReadSides(engine.location),
            sides={versions.name_side(side): versions.schema for side in (BEFORE, AFTER)},
            decide=bucket,
            out=MESSAGES,
        )
        parts = select(decode(runner.run(step)), ChangesWritten)
        streams = [_stream_changes(engine.store.scratch, part) for part in parts]
        for _, change in heapq.merge(*streams, key=lambda found: found[0]):
            yield change


# ---- by tasks


@dataclass(frozen=True, slots=True)
class ChangesWritten:
    """Scratch files with the changes of one bucket, by id, and how many each has."""

    files: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDiff:
    """Lists the changes of the ids of one bucket."""

    location: StoreLocation
    area: str
    pair: TablePair
    versions: VersionPair
    wanted: Wanted

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        store = self.location.store()
        aligned = AlignedPair(self.versions, sides)
        names = aligned.name_columns(store.tables)
        step = aligned.find_changed(store.tables)
        files = []
        for start in range(0, step.moves.num_rows, SIDE_BATCH_ROWS):
            end = start + SIDE_BATCH_ROWS
            part = Step(step.moves.slice(start, SIDE_BATCH_ROWS), step.properties[start:end])
            found = list(make_changes(store.tables, self.pair, part, names, self.wanted))
            if found:
                path = f"{self.area}/changes-{SYSTEM.new_id()}.lance"
                store.scratch.write(path, _pack_changes(found))
                files.append((path, len(found)))
        yield encode([ChangesWritten(tuple(files))])


def _pack_changes(changes: Sequence[Change]) -> pa.Table:
    packed = [pickle.dumps(change) for change in changes]
    return pa.table({"id": [change.id for change in changes], "change": packed})


def _stream_changes(scratch: Scratch, part: ChangesWritten) -> Iterator[tuple[str, Change]]:
    """Read the changes of one bucket, some at a time."""
    for path, count in part.files:
        for start in range(0, count, COMPARE_ROWS_MAX):
            rows = scratch.read(path, start=start, rows=min(COMPARE_ROWS_MAX, count - start))
            ids, packed = rows["id"].to_pylist(), rows["change"].to_pylist()
            yield from zip(ids, map(pickle.loads, packed), strict=True)
