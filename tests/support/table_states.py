"""States in which the tables of a graph may be when they are read: each is made, and seen to be what it says."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.support.read_world import World

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


class TableState(StrEnum):
    """What is special about the tables that are read."""

    BARE = "no index"
    INDEXED = "every index"
    PARTLY = "indexes that cover a part"
    BRANCH = "a branch, while main went on"
    PAST = "an earlier version"
    COMPACTED = "after compaction"
    REINDEXED = "after compaction, with indexes"


def lay_out_rows(draw: st.DrawFn, world: World, rows: Rows, state: TableState) -> None:
    """Write the rows of a graph so that its tables are in a state: several fragments, rows that had other values, rows that went again."""
    if state is TableState.BRANCH:
        some = {name: found[:1] for name, found in rows.items()}
        _write_rows(draw, world, some, {})
        world.fork("task")
        _write_rows(draw, world, {name: found[1:] for name, found in rows.items()}, {})
        _write_to_main(world, rows)
        return
    _write_rows(draw, world, rows, {"index": state is TableState.PARTLY})
    match state:
        case TableState.INDEXED:
            world.index_all()
        case TableState.PARTLY:
            assume(any(_is_partly(world, name) for name in rows))
        case TableState.PAST:
            now = dict(world.at)
            _erase_rows(world, rows)
            world.at = now
        case TableState.COMPACTED:
            world.compact()
        case TableState.REINDEXED:
            world.index_all()
            world.compact()
            world.index_all()
        case TableState.BARE:
            pass


def _write_rows(draw: st.DrawFn, world: World, rows: Rows, options: Mapping[str, bool]) -> None:
    for name, found in rows.items():
        cut = draw(st.integers(0, len(found)))
        gone = [dict(row) | {"id": f"gone-{row['id']}"} for row in found[:cut]]
        changed = draw(st.lists(st.sampled_from(found), max_size=2)) if found else []
        ids = {row["id"] for row in changed}
        # What a row was before it was written again: another row under its id.
        first = [dict(found[0]) | {"id": row["id"]} if row["id"] in ids else row for row in found]
        world.append(name, [*gone, *first[:cut]])
        if options.get("index"):
            world.index(name)
        world.append(name, first[cut:])
        if gone:
            world.delete(name, [row["id"] for row in gone])
        if ids:
            world.merge(name, [row for row in found if row["id"] in ids])


def _write_to_main(world: World, rows: Rows) -> None:
    """Write to main what the branch must not show."""
    here, line = dict(world.at), world.branch_incarnation
    world.at = {key: world.before[_find_fork(world)][key] for key in here}
    for name, found in rows.items():
        world.append(name, [dict(row) | {"id": f"main-{row['id']}"} for row in found])
    world.index_all()
    world.at, world.branch_incarnation = here, line


def _find_fork(world: World) -> int:
    """The last moment at which every table was on main."""
    on_main = [all(at.branch is None for at in ats.values()) for ats in world.before]
    return len(on_main) - 1 - on_main[::-1].index(True)


def _erase_rows(world: World, rows: Rows) -> None:
    """Take everything away and write other rows, as later commits would."""
    for name, found in rows.items():
        world.append(name, [dict(row) | {"id": f"late-{row['id']}"} for row in found])
        world.delete(name, [row["id"] for row in found])
    world.index_all()
    world.compact()


def _is_partly(world: World, name: str) -> bool:
    """Whether some rows of a table are under its index on ids and some are not."""
    table = world.store.tables.open(world.at[world.catalog.table(name).table_key])
    covered = {
        fragment for one in table.indices() if one.column == "id" for fragment in one.fragments
    }
    there = {fragment.id for fragment in table.fragments()}
    return bool(covered & there) and bool(there - covered)
