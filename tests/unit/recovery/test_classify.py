"""RC-8: every cell of the table that reads a table's movement, and every verdict on an operation."""

import itertools
from typing import Any

import pytest

from omnigraph.commit.sidecar import (
    Decided,
    Mode,
    Pin,
    Recorded,
    Registration,
    Sidecar,
    WriterKind,
    mode_of,
)
from omnigraph.ids import CommitId, OperationId, TableKey, Version
from omnigraph.recovery.classify import (
    Decision,
    Facts,
    Finding,
    Observed,
    Ownership,
    Verdict,
    classify,
    decide,
    judge,
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
) -> Observed:
    """One table whose visible version is 10 unless told otherwise."""
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
    )


# ---- modes


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("kind", WriterKind)
def test_a_mode_follows_from_kind_and_version(kind: WriterKind, version: int) -> None:
    strict = {WriterKind.MUTATION, WriterKind.LOAD}
    loose = {WriterKind.SCHEMA_APPLY, WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE}
    expected = Mode.STRICT if kind in strict else Mode.LOOSE
    if kind not in strict | loose:
        expected = Mode.LOOSE if version == 1 else Mode.CONFIRMED
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


@pytest.mark.parametrize("mode", Mode)
def test_a_table_that_shows_the_operation_got_there(mode: Mode) -> None:
    assert classify(seen(10, expected=9, is_visible=True), mode) is Finding.ALREADY_VISIBLE


# ---- the whole operation


def test_all_or_nothing_for_every_set_of_findings() -> None:
    reached = {PAST, Finding.ALREADY_VISIBLE}
    for size in range(len(Finding) + 1):
        for found in itertools.combinations(Finding, size):
            decision = decide(found)
            if INVARIANT in found:
                assert decision is Decision.ABORT
            elif set(found) <= reached:
                assert decision is Decision.ROLL_FORWARD
            else:
                assert decision is Decision.ROLL_BACK


def sidecar(
    *tables: Observed,
    kind: WriterKind = WriterKind.MUTATION,
    version: int = 3,
    recorded: bool = False,
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
        recorded=Recorded(decision=Decided.ROLL_BACK) if recorded else None,
        schema_version=version,
    )


def verdict(*tables: Observed, version: int = 3, **facts: bool) -> Verdict:
    told = {name: facts.pop(name) for name in ("recorded", "registered") if name in facts}
    kind = WriterKind.SCHEMA_APPLY if "registered" in told else WriterKind.MUTATION
    one = sidecar(*tables, kind=kind, version=version, **told)
    return judge(Facts(sidecar=one, seen=tables, **facts))


LANDED = seen(11, ownership=Ownership.ALL)
UNMOVED = seen(10)
SHOWN = seen(11, visible=11, is_visible=True)
PASSED = seen(11, visible=11)
LOST = seen(9)
FOREIGN = seen(11, ownership=Ownership.NONE)
TOUCHED = seen(12, ownership=Ownership.SOME)

VERDICTS = [
    ("all landed", verdict(LANDED, LANDED), Verdict.ROLL_FORWARD),
    ("some landed", verdict(LANDED, UNMOVED), Verdict.ROLL_BACK),
    ("none landed", verdict(UNMOVED, UNMOVED), Verdict.DISCARD),
    ("a version is lost", verdict(LANDED, LOST), Verdict.ABORT),
    ("a version is lost, decided", verdict(LOST, recorded=True), Verdict.ABORT),
    ("decided", verdict(LANDED, recorded=True), Verdict.ROLL_BACK),
    ("decided, published", verdict(SHOWN, recorded=True, is_published=True), Verdict.ROLL_BACK),
    ("decided, undone", verdict(PASSED, recorded=True), Verdict.ROLL_BACK),
    ("its branch is gone", verdict(LANDED, is_alive=False), Verdict.ORPHAN),
    (
        "its branch is gone, decided",
        verdict(LANDED, is_alive=False, recorded=True),
        Verdict.ORPHAN,
    ),
    ("published", verdict(SHOWN, is_published=True), Verdict.STALE),
    ("published, written over since", verdict(PASSED, is_published=True), Verdict.STALE),
    ("shown by another", verdict(SHOWN, SHOWN), Verdict.STALE),
    ("half shown by another", verdict(SHOWN, LANDED), Verdict.ROLL_FORWARD),
    ("half shown, half undone", verdict(SHOWN, UNMOVED), Verdict.ROLL_BACK),
    ("relied on what moved", verdict(LANDED, relies=False), Verdict.ROLL_BACK),
    ("not begun, relied on what moved", verdict(UNMOVED, relies=False), Verdict.DISCARD),
    ("not begun, passed by others", verdict(PASSED, UNMOVED), Verdict.DISCARD),
    ("only others moved its tables", verdict(FOREIGN, UNMOVED), Verdict.DISCARD),
    ("landed, others on top", verdict(TOUCHED, LANDED), Verdict.ROLL_BACK),
    # earlier versions: arithmetic only
    ("v2 landed", verdict(seen(11), version=2), Verdict.ROLL_FORWARD),
    ("v2 not begun", verdict(UNMOVED, version=2), Verdict.DISCARD),
    ("v2 all past", verdict(PASSED, PASSED, version=2), Verdict.STALE),
    ("v2 some past", verdict(PASSED, UNMOVED, version=2), Verdict.STALE),
    ("v1 landed", verdict(seen(11), version=1), Verdict.ROLL_FORWARD),
    ("v1 too far", verdict(seen(12), version=1), Verdict.ROLL_BACK),
    # schema changes
    ("schema: all there", verdict(registered=True, is_reached=True), Verdict.STALE),
    ("schema: staged", verdict(registered=True, is_reached=False), Verdict.ROLL_FORWARD),
    (
        "schema: tables made, no files",
        verdict(registered=True, is_reached=False, may_complete=False, has_leftovers=True),
        Verdict.ROLL_BACK,
    ),
    (
        "schema: nothing made",
        verdict(registered=True, is_reached=False, may_complete=False),
        Verdict.DISCARD,
    ),
    (
        "schema: tables moved, no files",
        verdict(LANDED, registered=True, is_reached=False, may_complete=False),
        Verdict.ROLL_BACK,
    ),
]


@pytest.mark.parametrize(
    ("found", "expected"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS]
)
def test_each_verdict(found: Verdict, expected: Verdict) -> None:
    assert found is expected


def test_a_merge_of_version_1_cannot_tell_that_it_is_half_done() -> None:
    """The file of an earlier release has no room for a confirmation."""
    moved = seen(12)
    half = Facts(sidecar=sidecar(moved, kind=WriterKind.BRANCH_MERGE, version=1), seen=(moved,))
    assert judge(half) is Verdict.ROLL_FORWARD
    newer = Facts(sidecar=sidecar(moved, kind=WriterKind.BRANCH_MERGE, version=2), seen=(moved,))
    assert judge(newer) is Verdict.ROLL_BACK
