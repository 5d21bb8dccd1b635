"""Every row of the table that judges staged schema files."""

import itertools

import pytest

from omnigraphdb.ids import TableKey
from omnigraphdb.recovery.schema_files import SchemaSummary, Staging, StagingAction, decide_staging
from omnigraphdb.storage.layout import SCHEMA_FILES, SCHEMA_IR, SCHEMA_PG, SCHEMA_STATE

A, B = frozenset({TableKey("node:A")}), frozenset({TableKey("node:A"), TableKey("node:B")})
OLD, NEW, SAME_TABLES = SchemaSummary("old", A), SchemaSummary("new", B), SchemaSummary("newer", A)
ALL = frozenset(SCHEMA_FILES)
RENAMED = frozenset({SCHEMA_IR, SCHEMA_STATE})
WRITING = frozenset({SCHEMA_PG})


def staged(
    files: frozenset[str],
    new: SchemaSummary | None,
    *,
    visible: frozenset[TableKey] = A,
    live: SchemaSummary | None = OLD,
    covered: bool = False,
    source_placed: bool = False,
) -> StagingAction:
    return decide_staging(
        Staging(
            files=files,
            staged=new,
            live=live,
            visible=visible,
            is_covered=covered,
            is_source_placed=source_placed,
        )
    )


ROWS = [
    ("none", staged(frozenset(), None), StagingAction.NOTHING),
    ("none, covered", staged(frozenset(), None, covered=True), StagingAction.NOTHING),
    ("complete, covered", staged(ALL, NEW, covered=True), StagingAction.PROMOTE),
    (
        "being put in place, covered",
        staged(RENAMED, NEW, visible=B, live=None, covered=True),
        StagingAction.PROMOTE,
    ),
    ("incomplete, covered", staged(WRITING, None, covered=True), StagingAction.HOLD_BACK),
    ("incoherent, covered", staged(ALL, None, covered=True), StagingAction.HOLD_BACK),
    ("being put in place", staged(RENAMED, NEW, visible=B, live=None), StagingAction.PROMOTE),
    (
        "source copied, same tables",
        staged(ALL, SAME_TABLES, live=None, source_placed=True),
        StagingAction.PROMOTE,
    ),
    (
        "source copied, incoherent",
        staged(ALL, None, live=None, source_placed=True),
        StagingAction.REFUSE,
    ),
    ("being put in place, odd", staged(RENAMED, None, live=None), StagingAction.REFUSE),
    ("being written", staged(WRITING, None), StagingAction.REMOVE),
    ("being written, odd", staged(WRITING, None, visible=B), StagingAction.REFUSE),
    ("equal to what stands", staged(ALL, OLD), StagingAction.REMOVE),
    ("not published", staged(ALL, NEW, visible=A), StagingAction.REMOVE),
    ("published", staged(ALL, NEW, visible=B), StagingAction.PROMOTE),
    ("same tables", staged(ALL, SAME_TABLES, visible=A), StagingAction.REFUSE),
    ("neither", staged(ALL, NEW, visible=frozenset()), StagingAction.REFUSE),
    ("incoherent", staged(ALL, None), StagingAction.REFUSE),
    ("nothing stands", staged(ALL, NEW, visible=B, live=None), StagingAction.REFUSE),
]


@pytest.mark.parametrize(("action", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_each_row_of_the_table(action: StagingAction, expected: StagingAction) -> None:
    assert action is expected


def test_files_of_a_pending_change_are_never_removed_nor_refused_before_it_is_settled() -> None:
    parts = [frozenset(f) for n in range(1, 4) for f in itertools.combinations(SCHEMA_FILES, n)]
    for files, new, visible in itertools.product(parts, (NEW, None), (A, B)):
        action = staged(files, new, visible=visible, covered=True)
        assert action in (StagingAction.PROMOTE, StagingAction.HOLD_BACK)
