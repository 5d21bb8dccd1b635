"""RC-8: every cell of the table that reads a table's movement, and every decision on an operation."""

import itertools
from typing import Any

import pytest

from omnigraphdb.commit.sidecar import (
    Decided,
    Mode,
    Pin,
    RecordedDecision,
    Registration,
    Sidecar,
    WriterKind,
    mode_of,
)
from omnigraphdb.ids import CommitId, OperationId, TableKey, Version
from omnigraphdb.recovery.classify import (
    Decision,
    Facts,
    Finding,
    Observed,
    Ownership,
    TablesDecision,
    classify,
    decide,
    decide_tables,
)

P = 10
NO, PAST, P1, MULTI, INCOMPLETE, INVARIANT = (
    Finding.NO_MOVEMENT,
    Finding.ROLLED_PAST_EXPECTED,
    Finding.UNEXPECTED_AT_P1,
    Finding.UNEXPECTED_MULTISTEP,
    Finding.INCOMPLETE_PHASE_B,
    Finding.INVARIANT_VIOLATION,
)


def seen(
    head: int,
    *,
    expected: int = P,
    post: int | None = None,
    confirmed: int | None = None,
    ownership: Ownership = Ownership.UNKNOWN,
    is_visible: bool = False,
    visible: int = P,
    is_whole: bool = True,
) -> Observed:
    """One table whose visible version is 10 unless given otherwise."""
    pin = Pin(
        table_key=TableKey("node:T"),
        table_path="nodes/0000000000000000",
        table_branch=None,
        expected=Version(expected),
        post_commit=Version(expected + 1 if post is None else post),
        confirmed=None if confirmed is None else Version(confirmed),
    )
    return Observed(
        pin=pin,
        head=Version(head),
        visible=Version(visible),
        ownership=ownership,
        is_visible=is_visible,
        is_whole=is_whole,
    )


# ---- modes


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("kind", WriterKind)
def test_a_mode_follows_from_kind_and_version(kind: WriterKind, version: int) -> None:
    strict = {WriterKind.MUTATION, WriterKind.LOAD}
    loose = {WriterKind.SCHEMA_APPLY, WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE}
    expected = Mode.STRICT if kind in strict else Mode.LOOSE
    if kind not in strict | loose:
        is_loose = kind is WriterKind.BRANCH_MERGE and version == 1
        expected = Mode.LOOSE if is_loose else Mode.CONFIRMED
    assert mode_of(kind, version) is expected


# ---- one table


CELLS = [
    # condition                                             strict  loose  confirmed
    ("h < p", seen(9), INVARIANT, INVARIANT, INVARIANT),
    ("h < p, e = h", seen(9, expected=9), INVARIANT, INVARIANT, INVARIANT),
    ("h = p", seen(10), NO, NO, NO),
    ("h = p, e < p", seen(10, expected=9), NO, NO, NO),
    ("h = p, confirmed", seen(10, confirmed=11), NO, NO, NO),
    ("h = p+1, e = p, c = h", seen(11), PAST, PAST, INCOMPLETE),
    ("h = p+1, e = p, c > h", seen(11, post=12), P1, PAST, INCOMPLETE),
    ("h = p+1, e < p, c < h", seen(11, expected=9), P1, P1, INCOMPLETE),
    ("h = p+1, e < p, c = h", seen(11, expected=9, post=11), P1, P1, INCOMPLETE),
    ("h = p+1, e > p", seen(11, expected=11, post=12), P1, P1, INCOMPLETE),
    ("h = p+1, f = h, e = p", seen(11, confirmed=11), PAST, PAST, PAST),
    ("h = p+1, f > h, e = p", seen(11, confirmed=12), PAST, PAST, MULTI),
    ("h = p+1, f = h, e < p", seen(11, expected=9, confirmed=11), P1, P1, MULTI),
    ("h > p+1, e = p, c < h", seen(12), MULTI, PAST, INCOMPLETE),
    ("h > p+1, e = p, c = h", seen(12, post=12), MULTI, PAST, INCOMPLETE),
    ("h > p+1, e < p", seen(12, expected=9), MULTI, MULTI, INCOMPLETE),
    ("h > p+1, f = h, e = p", seen(13, confirmed=13), MULTI, PAST, PAST),
    ("h > p+1, f < h, e = p", seen(13, confirmed=12), MULTI, PAST, MULTI),
    ("h > p+1, f = h, e < p", seen(13, expected=9, confirmed=13), MULTI, MULTI, MULTI),
    ("h = p+1, e = p, c = h, cut", seen(11, is_whole=False), P1, P1, INCOMPLETE),
    ("h > p+1, f = h, e = p, cut", seen(13, confirmed=13, is_whole=False), MULTI, MULTI, MULTI),
    ("the table is not visible", seen(3, expected=2, visible=0), MULTI, MULTI, INCOMPLETE),
]


@pytest.mark.parametrize(
    ("one", "strict", "loose", "confirmed"), [c[1:] for c in CELLS], ids=[c[0] for c in CELLS]
)
def test_each_cell_of_the_table(
    one: Observed, strict: Finding, loose: Finding, confirmed: Finding
) -> None:
    found = [classify(one, mode) for mode in (Mode.STRICT, Mode.LOOSE, Mode.CONFIRMED)]
    assert found == [strict, loose, confirmed]


def test_movement_counts_only_when_no_foreign_commit_is_in_it() -> None:
    moved: dict[Mode, dict[str, Any]] = {
        Mode.STRICT: {"head": 11},
        Mode.LOOSE: {"head": 13},
        Mode.CONFIRMED: {"head": 13, "confirmed": 13},
    }
    expected = {
        Ownership.UNKNOWN: {PAST},
        Ownership.ALL: {PAST},
        Ownership.SOME: {P1, MULTI},
        Ownership.NONE: {Finding.FOREIGN},
    }
    for (mode, facts), ownership in itertools.product(moved.items(), Ownership):
        assert classify(seen(**facts, ownership=ownership), mode) in expected[ownership]


@pytest.mark.parametrize(
    ("head", "ownership", "expected"),
    [
        (11, Ownership.ALL, P1),
        (12, Ownership.ALL, PAST),
        (12, Ownership.SOME, MULTI),
        (12, Ownership.UNKNOWN, MULTI),
        (13, Ownership.ALL, MULTI),
    ],
)
def test_a_load_of_two_commits_is_whole_after_the_second_of_its_own(
    head: int, ownership: Ownership, expected: Finding
) -> None:
    assert classify(seen(head, post=12, ownership=ownership), Mode.STRICT) is expected


@pytest.mark.parametrize("mode", Mode)
def test_a_table_that_shows_the_operation_got_there(mode: Mode) -> None:
    assert classify(seen(10, expected=9, is_visible=True), mode) is Finding.ALREADY_VISIBLE


# ---- the whole operation


def test_all_or_nothing_for_every_set_of_findings() -> None:
    reached = {PAST, Finding.ALREADY_VISIBLE}
    for size in range(len(Finding) + 1):
        for found in itertools.combinations(Finding, size):
            decision = decide_tables(found)
            if INVARIANT in found:
                assert decision is TablesDecision.ABORT
            elif set(found) <= reached:
                assert decision is TablesDecision.ROLL_FORWARD
            else:
                assert decision is TablesDecision.ROLL_BACK


def sidecar(
    *tables: Observed,
    kind: WriterKind = WriterKind.MUTATION,
    version: int = 3,
    recorded: Decided | None = None,
    registered: bool = False,
) -> Sidecar:
    new = Registration(table_key=TableKey("node:New"), table_path="nodes/0000000000000001")
    return Sidecar(
        operation_id=OperationId("01HZY8M3D8Q4XT6V5R2N7K9B1C"),
        writer_kind=kind,
        branch=None,
        actor=None,
        started_at="",
        tables=tuple(one.pin for one in tables),
        registrations=(new,) if registered else (),
        commit_id=CommitId("01HZY8M3D8Q4XT6V5R2N7K9B1D") if version == 3 else None,
        recorded=None if recorded is None else RecordedDecision(decision=recorded),
        schema_version=version,
    )


def decision(
    *tables: Observed,
    version: int = 3,
    recorded: Decided | None = None,
    registered: bool = False,
    **facts: bool,
) -> Decision:
    kind = WriterKind.SCHEMA_APPLY if registered else WriterKind.MUTATION
    one = sidecar(*tables, kind=kind, version=version, recorded=recorded, registered=registered)
    return decide(Facts(sidecar=one, observed=tables, **facts))


LANDED = seen(11, ownership=Ownership.ALL)
UNMOVED = seen(10)
SHOWN = seen(11, visible=11, is_visible=True)
PASSED = seen(11, visible=11)
LOST = seen(9)
FOREIGN = seen(11, ownership=Ownership.NONE)
TOUCHED = seen(12, ownership=Ownership.SOME)

DECISIONS = [
    ("all landed", decision(LANDED, LANDED), Decision.ROLL_FORWARD),
    ("some landed", decision(LANDED, UNMOVED), Decision.ROLL_BACK),
    ("none landed", decision(UNMOVED, UNMOVED), Decision.DISCARD),
    ("a version is lost", decision(LANDED, LOST), Decision.ABORT),
    ("a version is lost, decided", decision(LOST, recorded=Decided.ROLL_BACK), Decision.ABORT),
    ("decided", decision(LANDED, recorded=Decided.ROLL_BACK), Decision.ROLL_BACK),
    (
        "decided, published",
        decision(SHOWN, recorded=Decided.ROLL_BACK, is_published=True),
        Decision.ROLL_BACK,
    ),
    ("decided, undone", decision(PASSED, recorded=Decided.ROLL_BACK), Decision.ROLL_BACK),
    *(
        (
            f"discarded by an operator, {n}",
            decision(one, recorded=Decided.DISCARD),
            Decision.GIVEN_UP,
        )
        for n, one in enumerate((LANDED, UNMOVED, LOST, PASSED))
    ),
    (
        "discarded by an operator, its branch is gone",
        decision(LANDED, is_alive=False, recorded=Decided.DISCARD),
        Decision.GIVEN_UP,
    ),
    ("its branch is gone", decision(LANDED, is_alive=False), Decision.ORPHAN),
    (
        "its branch is gone, decided",
        decision(LANDED, is_alive=False, recorded=Decided.ROLL_BACK),
        Decision.ORPHAN,
    ),
    ("published", decision(SHOWN, is_published=True), Decision.STALE),
    ("published, written over since", decision(PASSED, is_published=True), Decision.STALE),
    ("shown by another", decision(SHOWN, SHOWN), Decision.STALE),
    ("half shown by another", decision(SHOWN, LANDED), Decision.ROLL_FORWARD),
    ("half shown, half undone", decision(SHOWN, UNMOVED), Decision.ROLL_BACK),
    ("relied on what moved", decision(LANDED, is_read_set_unmoved=False), Decision.ROLL_BACK),
    (
        "not begun, relied on what moved",
        decision(UNMOVED, is_read_set_unmoved=False),
        Decision.DISCARD,
    ),
    ("not begun, passed by others", decision(PASSED, UNMOVED), Decision.DISCARD),
    ("only others moved its tables", decision(FOREIGN, UNMOVED), Decision.DISCARD),
    ("landed, others on top", decision(TOUCHED, LANDED), Decision.ROLL_BACK),
    # earlier versions: arithmetic only
    ("v2 landed", decision(seen(11), version=2), Decision.ROLL_FORWARD),
    ("v2 not begun", decision(UNMOVED, version=2), Decision.DISCARD),
    ("v2 all past", decision(PASSED, PASSED, version=2), Decision.STALE),
    ("v2 some past", decision(PASSED, UNMOVED, version=2), Decision.STALE),
    ("v1 landed", decision(seen(11), version=1), Decision.ROLL_FORWARD),
    ("v1 too far", decision(seen(12), version=1), Decision.ROLL_BACK),
    # schema changes
    ("schema: all there", decision(registered=True, is_reached=True), Decision.STALE),
    ("schema: staged", decision(registered=True, is_reached=False), Decision.ROLL_FORWARD),
    (
        "schema: tables made, no files",
        decision(registered=True, is_reached=False, may_complete=False, has_leftovers=True),
        Decision.ROLL_BACK,
    ),
    (
        "schema: nothing made",
        decision(registered=True, is_reached=False, may_complete=False),
        Decision.DISCARD,
    ),
    (
        "schema: tables moved, no files",
        decision(LANDED, registered=True, is_reached=False, may_complete=False),
        Decision.ROLL_BACK,
    ),
]


@pytest.mark.parametrize(
    ("found", "expected"), [v[1:] for v in DECISIONS], ids=[v[0] for v in DECISIONS]
)
def test_each_verdict(found: Decision, expected: Decision) -> None:
    assert found is expected


def test_a_merge_of_version_1_cannot_tell_that_it_is_half_done() -> None:
    """The file of an earlier release has no room for a confirmation."""
    moved = seen(12)
    half = Facts(sidecar=sidecar(moved, kind=WriterKind.BRANCH_MERGE, version=1), observed=(moved,))
    assert decide(half) is Decision.ROLL_FORWARD
    newer = Facts(
        sidecar=sidecar(moved, kind=WriterKind.BRANCH_MERGE, version=2), observed=(moved,)
    )
    assert decide(newer) is Decision.ROLL_BACK
