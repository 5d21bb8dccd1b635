"""What Lance makes of a commit whose base is old: each cell of the table of rebases, on every store and on the simulated one."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.errors import HeadMoved, Interleaved
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import Version
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Staged, TableAt
from tests.simulation.tables import make_lone_tables
from tests.support.store_roots import StoreRoot
from tests.support.tables import (
    ID_INDEX,
    OPERATION,
    PEOPLE,
    SCHEMA,
    filled,
    head_at,
    land,
    open_root,
    people,
)

STORES = ["simulated", "local", pytest.param("s3", marks=pytest.mark.s3)]
ROWS_MAX = 3
"""Fragments with fewer rows are rewritten: those of `a` and `b`, and not that of `c`, `d` and `e`."""


@pytest.fixture(params=STORES)
def tables(request: pytest.FixtureRequest, tmp_path: Any) -> Tables:
    """Tables that Lance commits, without the one request that creates the next version."""
    if request.param == "simulated":
        return make_lone_tables()
    if request.param == "local":
        return open_root(StoreRoot(kind="official", uri=str(tmp_path / "graph"))).tables
    bucket = request.getfixturevalue("bucket")
    root = StoreRoot(kind="official", uri=f"{bucket.uri}/graph", options=bucket.storage_options)
    return open_root(root).tables


@pytest.fixture
def base(tables: Tables) -> TableAt:
    at = filled(tables, "a")
    for ids in ("b", "cde"):
        at = land(tables, tables.stage_append(at, people(ids))).at
    return at


Stage = Callable[[Tables, TableAt], Staged | None]
STALE: dict[str, Stage] = {
    "append": lambda tables, at: tables.stage_append(at, people("x")),
    "update": lambda tables, at: tables.stage_merge(at, people("a", 31)),
    "delete": lambda tables, at: tables.stage_delete(at, pa.array(["a"])),
    "insert": lambda tables, at: tables.stage_merge(at, people("y")),
    "index": lambda tables, at: tables.stage_indices(at, [ID_INDEX]),
    "rewrite": lambda tables, at: tables.stage_compaction(at, ROWS_MAX),
    "overwrite": lambda tables, at: tables.stage_overwrite(at, people("z")),
}
LANDED: dict[str, Stage] = {
    "append": lambda tables, at: tables.stage_append(at, people("w")),
    "update other": lambda tables, at: tables.stage_merge(at, people("c", 32)),
    "update same": lambda tables, at: tables.stage_merge(at, people("a", 33)),
    "index": lambda tables, at: tables.stage_indices(at, [ID_INDEX]),
    "rewrite": lambda tables, at: tables.stage_compaction(at, ROWS_MAX),
    "overwrite": lambda tables, at: tables.stage_overwrite(at, people("v")),
}
REFUSED = {
    "append": {"overwrite", "restore"},
    "update": {"update same", "rewrite", "overwrite", "restore"},
    "delete": {"update same", "rewrite", "overwrite", "restore"},
    "insert": {"overwrite", "restore"},
    "index": {"index", "rewrite", "overwrite", "restore"},
    # Compaction names its new fragments, and another commit gives these names to its own.
    "rewrite": {*LANDED, "restore"},
    "overwrite": {*LANDED, "restore"},
}


def land_rival(tables: Tables, base: TableAt, rival: str) -> None:
    """Let another commit land on the base."""
    if rival == "restore":
        restore(tables, base)
    else:
        land(tables, LANDED[rival](tables, base))


def restore(tables: Tables, base: TableAt) -> None:
    tables.restore(
        PEOPLE,
        base.branch,
        Version(base.version - 1),
        expected_head=base.version,
        operation_id=OPERATION,
        lock=None,
    )


def list_ids(tables: Tables) -> list[str]:
    return sorted(tables.open(head_at(tables)).read(["id"])["id"].to_pylist())


ADDED = {"append": "x", "insert": "y"}


@pytest.mark.parametrize("rival", [*LANDED, "restore"])
@pytest.mark.parametrize("stale", STALE)
def test_a_commit_on_an_old_base(tables: Tables, base: TableAt, stale: str, rival: str) -> None:
    staged = STALE[stale](tables, base)
    land_rival(tables, base, rival)
    before = list_ids(tables)
    if rival in REFUSED[stale]:
        with pytest.raises(HeadMoved):
            land(tables, staged)
        assert tables.head(PEOPLE, None) == base.version + 1
        assert list_ids(tables) == before
        return
    with pytest.raises(Interleaved) as caught:
        land(tables, staged)
    assert (caught.value.expected, caught.value.actual) == (base.version + 1, base.version + 2)
    gone = {"a"} if stale == "delete" else set()
    assert list_ids(tables) == sorted({*before, *ADDED.get(stale, "")} - gone)


@pytest.mark.parametrize("rival", LANDED)
def test_a_restore_never_lands_over_what_came_after_its_look(
    tables: Tables, base: TableAt, rival: str
) -> None:
    """Lance lets a Restore land over anything, so that it is created under the number after HEAD or not at all."""
    staged = LANDED[rival](tables, base)

    def land_amid() -> None:
        land(tables, staged)

    with armed(Failpoint.RESTORE_LOOKED, land_amid), pytest.raises(HeadMoved):
        restore(tables, base)
    assert tables.head(PEOPLE, None) == base.version + 1


# ---- versions


def test_head_is_the_greatest_version_gaps_or_not(tables: Tables, base: TableAt) -> None:
    assert tables.head(PEOPLE, None) == base.version
    assert tables.is_newest(base)
    landed = land(tables, tables.stage_append(base, people("x")))
    assert tables.head(PEOPLE, None) == landed.at.version
    assert not tables.is_newest(base)


def test_the_rows_of_a_fork_are_its_own_from_then_on(tables: Tables, base: TableAt) -> None:
    forked = tables.fork(base, "side")
    assert (forked.branch, forked.version) == ("side", base.version)
    ref = tables.forks(PEOPLE)["side"]
    assert (ref.parent, ref.parent_version) == (None, base.version)
    landed = land(tables, tables.stage_append(forked, people("x")))
    assert landed.at.version == base.version + 1
    assert list_ids(tables) == list("abcde")
    assert "x" in tables.open(landed.at).read(["id"])["id"].to_pylist()
    tables.drop_fork(PEOPLE, "side")
    assert "side" not in tables.forks(PEOPLE)


def test_transactions_tell_who_made_them(tables: Tables, base: TableAt) -> None:
    land(tables, tables.stage_append(base, people("x")))
    head = tables.head(PEOPLE, None)
    restore(tables, head_at(tables))
    made = tables.transactions(PEOPLE, None, base.version, Version(head + 1))
    assert [one.operation for one in made] == ["Append", "Restore"]
    assert {one.operation_id for one in made} == {OPERATION}
    assert made[-1].restored == head - 1
    assert SCHEMA.names == tables.open(base).schema.names
