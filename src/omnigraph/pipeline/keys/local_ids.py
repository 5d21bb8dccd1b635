"""Ids that meet where they are given: a table whose ids one task can hold is settled by that task, and none travels."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.ids import TableKey
from omnigraph.limits import CACHED_IDS_ROWS, COMMITTED_SPLIT_ROWS
from omnigraph.pipeline.input.splits import CommittedSplit, Split, cut_table
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


def choose_local_id_tables(key_plan: KeyPlan) -> list[TableKey]:
    """The tables whose ids one task can hold, those that come and those that are there."""
    return [
        table
        for table in key_plan.meeting
        if key_plan.rows[table] <= CACHED_IDS_ROWS
        and (key_plan.is_looked_up(table) or key_plan.held.get(table, 0) <= CACHED_IDS_ROWS)
    ]


def local_ids_step(
    key_plan: KeyPlan, splits: Sequence[Split], tables: Collection[TableKey]
) -> Each:
    """Settle the ids of tables: who loses, who replaces whom, and what must not be there."""
    groups: list[LocalIdSplit] = []
    for table in tables:
        own = tuple(split for split in splits if split.table_key == table)
        # Ids that are in one split only can be settled there; others wait for one another.
        runs = [(split,) for split in own] if table in key_plan.distinct else [own]
        groups += (LocalIdSplit(table_key=table, splits=run) for run in runs)
    return Each(name="meet", splits=groups, run=LocalIds(key_plan), out=ANSWERS)


@dataclass(frozen=True, slots=True)
class LocalIds:
    """Settles the ids of some splits of one table."""

    key_plan: KeyPlan

    def __call__(self, split: LocalIdSplit) -> Iterator[pa.Table]:
        table = split.table_key
        alone = replace(
            self.key_plan, rows={table: self.key_plan.rows[table]}, identifies=True, judges=False
        )
        job = alone.job
        store = job.store()
        sides = {KeySide("put", table, ID).name: _rows(alone, split.splits, "put", table)}
        if alone.gathered:
            at = alone.pins[table]
            held = job.kept(f"held {table}", at, lambda: _read_committed(alone, table, store))
            sides[KeySide("held", table, ID).name] = held
        yield encode(resolve_ids(Bucket(alone, sides, store)))


def _read_committed(key_plan: KeyPlan, table: TableKey, store: Store) -> pa.Table:
    at = key_plan.pins[table]
    cut = cut_table(table, at, store.tables.open(at).fragments(), COMMITTED_SPLIT_ROWS)
    return _rows(key_plan, tuple(cut), "held", table)


def _rows(
    key_plan: KeyPlan, splits: Sequence[Split | CommittedSplit], origin: str, table: TableKey
) -> pa.Table:
    side, keys = KeySide(origin, table, ID), Keys(key_plan)
    parts = [rows for split in splits for name, rows in keys(split) if name == side.name]
    return pa.concat_tables([key_plan.schema(side).empty_table(), *parts])
