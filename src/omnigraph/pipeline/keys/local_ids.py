"""Ids that meet where they are given: a table whose ids one task can hold is settled by that task, and none travels."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.ids import TableKey
from omnigraph.limits import HELD_IDS_ROWS, HELD_SPLIT_ROWS
from omnigraph.pipeline.input.splits import HeldSplit, Split, cut_table
from omnigraph.pipeline.keys.bucket import Bucket
from omnigraph.pipeline.keys.decide import resolve_ids
from omnigraph.pipeline.keys.extract import Keys
from omnigraph.pipeline.keys.plan import ID, KeyPlan, KeySide
from omnigraph.pipeline.messages import ANSWERS, encode
from omnigraph.pipeline.runner import Each
from omnigraph.storage.store import Store
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalIdSplit:
    """Splits of one table that hold every row of the ids in them."""

    table_key: TableKey
    splits: tuple[Split, ...]


def choose_local_id_tables(judgement: KeyPlan) -> list[TableKey]:
    """The tables whose ids one task can hold, those that come and those that are there."""
    return [
        table
        for table in judgement.meeting
        if judgement.rows[table] <= HELD_IDS_ROWS
        and (judgement.is_looked_up(table) or judgement.held.get(table, 0) <= HELD_IDS_ROWS)
    ]


def local_ids_step(
    judgement: KeyPlan, splits: Sequence[Split], tables: Collection[TableKey]
) -> Each:
    """Settle the ids of tables: who loses, who replaces whom, and what must not be there."""
    groups: list[LocalIdSplit] = []
    for table in tables:
        own = tuple(split for split in splits if split.table_key == table)
        # Ids that are in one split only can be settled there; others wait for one another.
        runs = [(split,) for split in own] if table in judgement.distinct else [own]
        groups += (LocalIdSplit(table_key=table, splits=run) for run in runs)
    return Each(name="meet", splits=groups, run=LocalIds(judgement), out=ANSWERS)


@dataclass(frozen=True, slots=True)
class LocalIds:
    """Settles the ids of some splits of one table."""

    judgement: KeyPlan

    def __call__(self, split: LocalIdSplit) -> Iterator[pa.Table]:
        table = split.table_key
        alone = replace(
            self.judgement, rows={table: self.judgement.rows[table]}, identifies=True, judges=False
        )
        job = alone.job
        store = job.store()
        sides = {KeySide("put", table, ID).name: _rows(alone, split.splits, "put", table)}
        if alone.gathered:
            at = alone.pins[table]
            held = job.kept(f"held {table}", at, lambda: _read_committed(alone, table, store))
            sides[KeySide("held", table, ID).name] = held
        yield encode(resolve_ids(Bucket(alone, sides, store)))


def _read_committed(judgement: KeyPlan, table: TableKey, store: Store) -> pa.Table:
    at = judgement.pins[table]
    cut = cut_table(table, at, store.tables.open(at).fragments(), HELD_SPLIT_ROWS)
    return _rows(judgement, tuple(cut), "held", table)


def _rows(
    judgement: KeyPlan, splits: Sequence[Split | HeldSplit], origin: str, table: TableKey
) -> pa.Table:
    side, keys = KeySide(origin, table, ID), Keys(judgement)
    parts = [rows for split in splits for name, rows in keys(split) if name == side.name]
    return pa.concat_tables([judgement.schema(side).empty_table(), *parts])
