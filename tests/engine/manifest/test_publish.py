"""One door: what a publish makes visible, what it refuses, and how it fares against rivals."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from omnigraphdb.errors import (
    InternalError,
    ManifestConflict,
    NotFound,
    OmniError,
    PreconditionFailed,
    PublishContention,
    ReadSetConflict,
    RowContention,
    StorageError,
)
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, parked
from omnigraphdb.ids import MAIN, BranchName, CommitId, OperationId, TableKey, Version
from omnigraphdb.limits import (
    MANIFEST_FRAGMENTS_MAX,
    PUBLISH_BACKOFF_SECONDS,
    PUBLISH_BACKOFF_SECONDS_MAX,
    PUBLISH_RETRIES_MAX,
    PUBLISH_ROUNDS_MAX,
)
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind, GraphHead, encode
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.rows import Image, Rows
from omnigraphdb.storage.values import TableAt
from tests.support.manifests import (
    CITY,
    KNOWS,
    PATHS,
    PERSON,
    StillRuntime,
    another_handle,
    change,
    together,
    update,
    write,
)
from tests.support.wrapped_rows import WrappedRows


def dump(manifest: Manifest, branch: str | None = None) -> tuple[int, list[dict[str, object]]]:
    image = manifest.rows.load(branch)
    return image.version, sorted(image.rows.to_pylist(), key=lambda row: str(row["object_id"]))


def chain(manifest: Manifest, branch: BranchName = MAIN) -> list[str]:
    """Walk the history from the head; every commit visible must be on the way."""
    lineage = manifest.load(branch).lineage
    walked: list[str] = []
    at = lineage.head
    while at is not None:
        walked.append(at.id)
        at = lineage.by_id.get(at.parent) if at.parent else None
    assert len(walked) == len(set(walked)) == len(lineage.commits)
    return walked


# ---- what becomes visible


def test_one_publish_is_one_version_and_one_commit_whatever_the_tables(manifest: Manifest) -> None:
    before = manifest.current(MAIN)
    published = write(manifest, PERSON, CITY, actor="ann")
    after = manifest.load(MAIN)
    assert after.version == before.version + 1 == published.version
    assert after.snapshot.pins == {PERSON: 2, CITY: 2}
    assert len(after.lineage.commits) == len(before.lineage.commits) + 1
    commit = after.head
    assert commit == published.commit
    assert commit is not None
    assert before.head is not None
    assert (commit.parent, commit.actor, commit.branch) == (before.head.id, "ann", MAIN)
    assert commit.tables == (CITY, PERSON)
    assert commit.manifest_version == after.version


def test_a_snapshot_never_changes(manifest: Manifest) -> None:
    before = manifest.current(MAIN).snapshot
    entries = dict(before.entries)
    write(manifest, PERSON)
    assert before.entries == entries
    assert before.pins == {PERSON: 1, CITY: 1}


def test_what_a_publish_hands_back_equals_what_is_read(manifest: Manifest) -> None:
    for tables in ((PERSON,), (CITY, PERSON), (CITY,)):
        published = write(manifest, *tables)
        read = manifest.load(MAIN)
        assert published.state.snapshot == read.snapshot
        assert published.state.lineage == read.lineage
        assert published.state.head == read.head
        assert published.state.table_history == read.table_history


def test_the_draft_arrives_with_every_field(manifest: Manifest) -> None:
    genesis = manifest.current(MAIN).head
    assert genesis is not None
    draft = Draft(
        commit=CommitId("01DRAFT"),
        kind=CommitKind.BRANCH_MERGE,
        actor="ann",
        merged_parent=CommitId("01SOURCE"),
        tables=(KNOWS,),
        operation_id=OperationId("01OP"),
        batch_id="b1",
    )
    publish(manifest, Change(branch=MAIN, draft=draft))
    commit = manifest.load(MAIN).head
    assert commit is not None
    assert (commit.id, commit.kind, commit.actor) == ("01DRAFT", CommitKind.BRANCH_MERGE, "ann")
    assert (commit.parent, commit.merged_parent) == (genesis.id, "01SOURCE")
    assert (commit.tables, commit.operation_id, commit.batch_id) == ((KNOWS,), "01OP", "b1")


def test_maintenance_moves_pins_and_is_not_history(manifest: Manifest) -> None:
    before = manifest.current(MAIN)
    published = publish(manifest, Change(branch=MAIN, updates=(update(manifest, PERSON, rows=0),)))
    after = manifest.load(MAIN)
    assert published.commit is None
    assert after.snapshot.pins == {PERSON: 2, CITY: 1}
    assert after.lineage.commits == before.lineage.commits
    assert after.version == before.version + 1


def test_maintenance_contends_with_a_commit(manifest: Manifest) -> None:
    stale = manifest.rows.load(None)
    publish(manifest, Change(branch=MAIN, updates=(update(manifest, PERSON),)))
    head = GraphHead(branch=MAIN, commit=CommitId("x"), parent=None)
    with pytest.raises(RowContention):
        manifest.rows.swap(stale, encode([head]))


def test_registering_and_dropping_a_table(manifest: Manifest) -> None:
    at = TableAt(path=PATHS[KNOWS], branch=None, version=Version(1))
    publish(
        manifest,
        Change(
            branch=MAIN,
            registrations={KNOWS: PATHS[KNOWS]},
            updates=(Update(table_key=KNOWS, at=at, row_count=0),),
            tombstones={CITY: Version(2)},
            expected={KNOWS: Version(0), CITY: Version(1)},
            draft=Draft(commit=CommitId("01A"), kind=CommitKind.SCHEMA_APPLY),
        ),
    )
    state = manifest.load(MAIN)
    assert state.snapshot.pins == {KNOWS: 1, PERSON: 1}
    assert state.head is not None
    assert state.head.tables == (KNOWS, CITY)


def drop(manifest: Manifest, table: TableKey) -> None:
    pin = manifest.load(MAIN).snapshot.pins[table]
    publish(
        manifest,
        Change(
            branch=MAIN,
            tombstones={table: Version(pin + 1)},
            expected={table: pin},
            draft=Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.SCHEMA_APPLY),
        ),
    )


def add(manifest: Manifest, table: TableKey, path: str, version: int = 1) -> None:
    at = TableAt(path=path, branch=None, version=Version(version))
    publish(
        manifest,
        Change(
            branch=MAIN,
            registrations={table: path},
            updates=(Update(table_key=table, at=at, row_count=0),),
            expected={table: Version(0)},
            draft=Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.SCHEMA_APPLY),
        ),
    )


def test_a_type_dropped_and_added_again_lives_twice_and_both_lives_can_be_read(
    manifest: Manifest,
) -> None:
    write(manifest, CITY)
    write(manifest, CITY)
    first = manifest.load(MAIN).head
    drop(manifest, CITY)
    assert CITY not in manifest.load(MAIN).snapshot.entries
    add(manifest, CITY, "nodes/city-2")
    write(manifest, CITY)
    now = manifest.load(MAIN).snapshot.entries[CITY]
    assert (now.at.path, now.version, now.incarnation) == ("nodes/city-2", 2, 2)
    assert first is not None
    then = state_at(manifest, MAIN, first.id).snapshot.entries[CITY]
    assert (then.at.path, then.version, then.incarnation) == ("nodes/city", 3, 1)


def test_a_rename_registers_the_new_key_at_the_old_place_and_ends_the_old_one(
    manifest: Manifest,
) -> None:
    town = TableKey("node:Town")
    at = manifest.load(MAIN).snapshot.entries[CITY].at
    publish(
        manifest,
        Change(
            branch=MAIN,
            registrations={town: at.path},
            updates=(Update(table_key=town, at=at, row_count=0),),
            tombstones={CITY: Version(2)},
            expected={town: Version(0), CITY: Version(1)},
            draft=Draft(commit=CommitId("01A"), kind=CommitKind.SCHEMA_APPLY),
        ),
    )
    entries = manifest.load(MAIN).snapshot.entries
    assert set(entries) == {PERSON, town}
    assert entries[town].at == at
    # The old name is free again, and its new table does not touch the renamed one.
    add(manifest, CITY, "nodes/city-2")
    entries = manifest.load(MAIN).snapshot.entries
    assert (entries[CITY].incarnation, entries[town].incarnation) == (2, 1)


def test_a_fork_at_an_unchanged_version_takes_the_row_over(manifest: Manifest) -> None:
    review = BranchName("review")
    manifest.rows.create_branch(review, None, manifest.rows.head(None))
    own = TableAt(path=PATHS[PERSON], branch=review, version=Version(1))
    publish(
        manifest,
        Change(
            branch=review,
            updates=(Update(table_key=PERSON, at=own, row_count=0),),
            expected={PERSON: Version(1)},
            draft=Draft(commit=CommitId("01A"), kind=CommitKind.BRANCH_MERGE),
        ),
    )
    image = manifest.rows.load(review)
    versions = [r for r in image.rows.to_pylist() if r["object_type"] == "table_version"]
    assert len(versions) == 2
    assert manifest.load(review).snapshot.entries[PERSON].at == own
    assert manifest.load(MAIN).snapshot.entries[PERSON].at.branch is None


# ---- what is refused, and leaves nothing


def refusals(manifest: Manifest) -> dict[str, tuple[Change, type[OmniError]]]:
    good = change(manifest, PERSON)
    (moved,) = good.updates
    draft = good.draft
    assert draft is not None
    at = moved.at
    fork = TableAt(path=at.path, branch="review", version=Version(1))
    return {
        "a stale pin": (replace(good, expected={PERSON: Version(7)}), ManifestConflict),
        "a stale pin of a table that is only read": (
            replace(good, expected={PERSON: Version(1), CITY: Version(9)}),
            ManifestConflict,
        ),
        "a table expected that nobody knows": (
            replace(good, expected={KNOWS: Version(1)}),
            ManifestConflict,
        ),
        "a table expected absent that is there": (
            replace(good, expected={PERSON: Version(0)}),
            ManifestConflict,
        ),
        "another head": (replace(good, if_head=CommitId("01OTHER")), PreconditionFailed),
        "a version that is published already": (
            replace(
                good, expected={}, updates=(replace(moved, at=replace(at, version=Version(1))),)
            ),
            ManifestConflict,
        ),
        "a take-over with another row count": (
            replace(good, updates=(replace(moved, at=fork, row_count=5),)),
            ManifestConflict,
        ),
        "a table nobody registered": (
            replace(good, expected={}, updates=(replace(moved, table_key=KNOWS),)),
            NotFound,
        ),
        "a known table at another place": (
            Change(branch=MAIN, registrations={PERSON: "nodes/elsewhere"}, draft=draft),
            ReadSetConflict,
        ),
        "one table twice": (replace(good, updates=(moved, moved)), InternalError),
        "a version of another table": (
            replace(good, updates=(replace(moved, at=replace(at, path=PATHS[CITY])),)),
            InternalError,
        ),
        "two keys at one place": (
            Change(
                branch=MAIN,
                registrations={KNOWS: PATHS[PERSON]},
                updates=(Update(table_key=KNOWS, at=at, row_count=0),),
                draft=draft,
            ),
            InternalError,
        ),
        "a tombstone that hides nothing": (
            Change(branch=MAIN, tombstones={PERSON: Version(1)}, draft=draft),
            InternalError,
        ),
        "a tombstone of nothing": (
            Change(branch=MAIN, tombstones={KNOWS: Version(1)}, draft=draft),
            NotFound,
        ),
    }


REFUSALS = (
    "a stale pin",
    "a stale pin of a table that is only read",
    "a table expected that nobody knows",
    "a table expected absent that is there",
    "another head",
    "a version that is published already",
    "a take-over with another row count",
    "a table nobody registered",
    "a known table at another place",
    "one table twice",
    "a version of another table",
    "two keys at one place",
    "a tombstone that hides nothing",
    "a tombstone of nothing",
)


@pytest.mark.parametrize("story", REFUSALS)
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_a_refused_publish_leaves_the_manifest_as_it_was(
    manifest: Manifest, story: str, warm: bool
) -> None:
    asked, error = refusals(manifest)[story]
    assert set(REFUSALS) == set(refusals(manifest))
    if warm:
        manifest.current(MAIN)
    else:
        manifest.heads.clear()
    before = dump(manifest)
    with pytest.raises(error):
        publish(manifest, asked)
    assert dump(manifest) == before


def test_a_conflict_names_table_expected_and_actual(manifest: Manifest) -> None:
    write(manifest, PERSON)
    stale = replace(change(manifest, PERSON), expected={PERSON: Version(1)})
    with pytest.raises(ManifestConflict) as refused:
        publish(manifest, stale)
    assert (refused.value.table_key, refused.value.expected, refused.value.actual) == (PERSON, 1, 2)


def test_a_dropped_table_conflicts_with_its_tombstone(manifest: Manifest) -> None:
    late = change(manifest, CITY)
    drop(manifest, CITY)
    with pytest.raises(ManifestConflict) as refused:
        publish(manifest, late)
    assert refused.value.actual == 2
    with pytest.raises(ManifestConflict):
        publish(manifest, replace(late, expected={}))
    with pytest.raises(ManifestConflict):
        publish(
            manifest,
            Change(branch=MAIN, tombstones={CITY: Version(3)}, expected={CITY: Version(1)}),
        )


def test_a_check_only_publish_looks_and_writes_nothing(manifest: Manifest) -> None:
    rival = another_handle(manifest)
    manifest.current(MAIN)
    write(rival, PERSON)
    before = dump(manifest)
    assert publish(manifest, Change(branch=MAIN)).commit is None
    publish(manifest, Change(branch=MAIN, expected={PERSON: Version(2)}))
    with pytest.raises(ManifestConflict):
        publish(manifest, Change(branch=MAIN, expected={PERSON: Version(1)}))
    assert dump(manifest) == before


def test_if_head_lets_through_the_very_head(manifest: Manifest) -> None:
    head = manifest.current(MAIN).head
    assert head is not None
    publish(manifest, replace(change(manifest, PERSON), if_head=head.id))
    with pytest.raises(PreconditionFailed) as refused:
        publish(manifest, replace(change(manifest, PERSON), if_head=head.id))
    now = manifest.current(MAIN).head
    assert now is not None
    assert (refused.value.expected, refused.value.actual) == (head.id, now.id)


def test_maintenance_does_not_break_if_head(manifest: Manifest) -> None:
    head = manifest.current(MAIN).head
    assert head is not None
    publish(manifest, Change(branch=MAIN, updates=(update(manifest, PERSON),)))
    publish(manifest, replace(change(manifest, CITY), if_head=head.id))


# ---- rivals


def test_a_retry_takes_the_advanced_head_as_parent_and_keeps_its_commit_id(
    manifest: Manifest,
) -> None:
    mine, rival = change(manifest, PERSON), another_handle(manifest)
    assert mine.draft is not None
    with parked(Failpoint.PUBLISH_PREPARED) as park:
        done: list[object] = []
        thread = threading.Thread(target=lambda: done.append(publish(manifest, mine)))
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        theirs = write(rival, CITY).commit
        park.release()
        thread.join()
    assert theirs is not None
    commit = manifest.load(MAIN).head
    assert commit is not None
    assert (commit.id, commit.parent) == (mine.draft.commit, theirs.id)
    assert len(done) == 1


def test_a_stale_handle_is_not_refused_for_what_it_did_not_know(manifest: Manifest) -> None:
    rival = another_handle(manifest)
    manifest.current(MAIN)
    write(rival, PERSON)
    prepared_on_the_new_state = change(rival, PERSON)
    publish(manifest, prepared_on_the_new_state)
    assert manifest.load(MAIN).snapshot.pins[PERSON] == 3
    assert len(chain(manifest)) == 3


def test_writers_of_one_table_through_stale_handles_are_told_apart(manifest: Manifest) -> None:
    changes = [change(manifest, PERSON, actor=f"w{n}") for n in range(4)]
    handles = [another_handle(manifest) for _ in changes]
    for handle in handles:
        handle.current(MAIN)
    results = together(
        *(partial(publish, handle, asked) for handle, asked in zip(handles, changes, strict=True))
    )
    lost = [result for result in results if isinstance(result, ManifestConflict)]
    assert len(lost) == 3
    assert manifest.load(MAIN).snapshot.pins[PERSON] == 2
    assert len(chain(manifest)) == 2


def test_writers_of_disjoint_tables_form_one_chain(manifest: Manifest) -> None:
    def retrying(handle: Manifest, table: TableKey) -> None:
        for _ in range(50):
            try:
                write(handle, table)
                return
            except (PublishContention, ManifestConflict):
                continue
        raise AssertionError("never got through")

    jobs = [partial(retrying, another_handle(manifest), table) for table in (PERSON, CITY) * 4]
    assert [r for r in together(*jobs) if r is not None] == []
    assert len(chain(manifest)) == 9
    assert manifest.load(MAIN).snapshot.pins == {PERSON: 5, CITY: 5}


def test_a_round_is_one_try_and_five_retries_with_growing_waits(manifest: Manifest) -> None:
    before = dump(manifest)
    asked = change(manifest, PERSON)
    with (
        armed(Failpoint.PUBLISH_LOAD, "error"),
        pytest.raises(PublishContention) as lost,
    ):
        publish(manifest, asked, rounds_max=1)
    assert lost.value.attempts == 1 + PUBLISH_RETRIES_MAX
    assert isinstance(manifest.runtime, StillRuntime)
    assert manifest.runtime.waits == [PUBLISH_BACKOFF_SECONDS * 2**n for n in range(5)]
    assert dump(manifest) == before


def test_without_a_publish_lock_the_budget_is_nine_rounds_with_growing_waits(
    manifest: Manifest,
) -> None:
    asked = change(manifest, PERSON)
    with armed(Failpoint.PUBLISH_LOAD, "error"), pytest.raises(PublishContention) as lost:
        publish(manifest, asked)
    assert lost.value.attempts == PUBLISH_ROUNDS_MAX * (1 + PUBLISH_RETRIES_MAX)
    assert isinstance(manifest.runtime, StillRuntime)
    between = manifest.runtime.waits[PUBLISH_RETRIES_MAX :: 1 + PUBLISH_RETRIES_MAX]
    assert between == [PUBLISH_BACKOFF_SECONDS_MAX * n / 8 for n in range(1, PUBLISH_ROUNDS_MAX)]


@pytest.mark.parametrize("times", [1, PUBLISH_RETRIES_MAX])
def test_contention_while_loading_counts_as_a_lost_round(manifest: Manifest, times: int) -> None:
    with armed(Failpoint.PUBLISH_LOAD, f"{times}*error"):
        write(manifest, PERSON)
    assert manifest.load(MAIN).snapshot.pins[PERSON] == 2


def test_a_failure_before_the_swap_leaves_nothing(manifest: Manifest) -> None:
    before = dump(manifest)
    with armed(Failpoint.PUBLISH_PREPARED), pytest.raises(Injected):
        write(manifest, PERSON)
    assert dump(manifest) == before
    write(manifest, PERSON)


def test_a_failure_after_the_swap_leaves_the_whole_change(manifest: Manifest) -> None:
    asked = change(manifest, PERSON, CITY)
    with armed(Failpoint.PUBLISHED), pytest.raises(Injected):
        publish(manifest, asked)
    assert manifest.current(MAIN).snapshot.pins == {PERSON: 2, CITY: 2}
    assert asked.draft is not None
    assert chain(manifest)[0] == asked.draft.commit


# ---- lost answers


class Unreliable(WrappedRows):
    """Rows whose swaps fail on request, before or after they take effect."""

    def __init__(self, inner: Rows) -> None:
        super().__init__(inner)
        self.lose: list[tuple[bool, Callable[[], OmniError]]] = []
        self.blind = False

    def head(self, branch: str | None) -> Version:
        if self.blind:
            raise StorageError("the store does not answer", storage_kind="transient")
        return self.inner.head(branch)

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        if not self.lose:
            return self.inner.swap(image, rows, guard)
        lands, error = self.lose.pop(0)
        if lands:
            self.inner.swap(image, rows, guard)
        raise error()


def unreliable(manifest: Manifest) -> tuple[Manifest, Unreliable]:
    rows = Unreliable(manifest.rows)
    return replace(manifest, rows=rows), rows  # type: ignore[arg-type]


def lost_answer() -> OmniError:
    return StorageError("the connection was reset", storage_kind="transient")


def lost_race() -> OmniError:
    return RowContention("__manifest", None, 0)


@pytest.mark.parametrize("error", [lost_answer, lost_race, lambda: InternalError("panic")])
def test_a_swap_that_landed_is_a_success_though_its_answer_was_lost(
    manifest: Manifest, error: Callable[[], OmniError]
) -> None:
    handle, rows = unreliable(manifest)
    rows.lose = [(True, error)]
    asked = change(handle, PERSON)
    published = publish(handle, asked)
    assert asked.draft is not None
    assert published.commit is not None
    assert published.commit.id == asked.draft.commit
    assert published.version == manifest.rows.head(None)
    assert len(chain(manifest)) == 2


def test_a_swap_that_landed_in_the_last_round_is_still_recognised(manifest: Manifest) -> None:
    handle, rows = unreliable(manifest)
    rows.lose = [(False, lost_race)] * PUBLISH_RETRIES_MAX + [(True, lost_race)]
    assert publish(handle, change(handle, PERSON)).commit is not None
    assert len(chain(manifest)) == 2


def test_a_landed_change_is_recognised_under_a_rivals_newer_commit(manifest: Manifest) -> None:
    handle, rows = unreliable(manifest)

    def lost_and_overtaken() -> OmniError:
        write(another_handle(manifest), CITY)
        return lost_answer()

    rows.lose = [(True, lost_and_overtaken)]
    asked = change(handle, PERSON)
    published = publish(handle, asked)
    assert published.commit is not None
    assert published.commit.manifest_version == 2
    assert len(chain(manifest)) == 3


def test_maintenance_that_landed_is_recognised_by_its_pins(manifest: Manifest) -> None:
    handle, rows = unreliable(manifest)
    rows.lose = [(True, lost_race)]
    publish(
        handle,
        Change(branch=MAIN, updates=(update(handle, PERSON),), expected={PERSON: Version(1)}),
    )
    assert manifest.load(MAIN).snapshot.pins[PERSON] == 2
    assert manifest.rows.head(None) == 2


def test_a_swap_that_failed_is_reported_as_it_failed_and_not_repeated(manifest: Manifest) -> None:
    handle, rows = unreliable(manifest)
    rows.lose = [(False, lost_answer)]
    before = dump(manifest)
    with pytest.raises(StorageError, match="reset"):
        publish(handle, change(handle, PERSON))
    assert dump(manifest) == before


def test_when_nothing_can_be_looked_up_the_first_error_is_the_one_seen(manifest: Manifest) -> None:
    handle, rows = unreliable(manifest)
    asked = change(handle, PERSON)
    handle.current(MAIN)

    def and_then_blind() -> OmniError:
        rows.blind = True
        return lost_answer()

    rows.lose = [(True, and_then_blind)]
    with pytest.raises(StorageError, match="reset"):
        publish(handle, asked)


def test_publishing_a_visible_commit_again_changes_nothing(manifest: Manifest) -> None:
    asked = change(manifest, PERSON)
    first = publish(manifest, asked)
    before = dump(manifest)
    again = publish(another_handle(manifest), asked)
    assert again.commit == first.commit
    assert dump(manifest) == before


def test_a_commit_id_of_another_operation_is_refused(manifest: Manifest) -> None:
    asked = change(manifest, PERSON)
    publish(manifest, asked)
    before = dump(manifest)
    assert asked.draft is not None
    other = replace(asked, draft=replace(asked.draft, operation_id=OperationId("01OTHER")))
    with pytest.raises(InternalError, match="another operation"):
        publish(manifest, other)
    assert dump(manifest) == before


# ---- folding and cost


def test_a_long_manifest_folds_itself_and_the_next_publish_works(manifest: Manifest) -> None:
    made = 0
    with counting() as costs:
        # A fragment of the real table holds the rows of several commits.
        while not costs[Cost.MANIFEST_FOLDS] and made < 10 * MANIFEST_FRAGMENTS_MAX:
            write(manifest, PERSON)
            made += 1
    assert costs[Cost.MANIFEST_FOLDS] == 1
    assert made > MANIFEST_FRAGMENTS_MAX - 2
    write(manifest, PERSON)
    assert len(chain(manifest)) == made + 2
    assert manifest.load(MAIN).fragments <= 4


def test_a_fold_that_fails_never_fails_the_publish(manifest: Manifest) -> None:
    class NoFold(Unreliable):
        def fold(self, branch: str | None, **_: object) -> bool:
            raise StorageError("the disk is full", storage_kind="permanent")

    handle = replace(manifest, rows=NoFold(manifest.rows))  # type: ignore[arg-type]
    for _ in range(MANIFEST_FRAGMENTS_MAX + 2):
        write(handle, PERSON)
    assert len(chain(manifest)) == MANIFEST_FRAGMENTS_MAX + 3


def test_a_warm_publish_reads_nothing(manifest: Manifest) -> None:
    write(manifest, PERSON)
    prepared = change(manifest, PERSON)
    with counting() as costs:
        publish(manifest, prepared)
    assert costs.as_dict() == {"manifest_swaps": 1}


def test_the_cost_of_a_publish_is_flat_in_the_length_of_history(manifest: Manifest) -> None:
    def thirty() -> Mapping[str, int]:
        with counting() as costs:
            for n in range(MANIFEST_FRAGMENTS_MAX):
                updates = (
                    Update(
                        table_key=PERSON,
                        at=TableAt(
                            path=PATHS[PERSON],
                            branch=None,
                            version=Version(manifest.current(MAIN).snapshot.pins[PERSON] + 1),
                        ),
                        row_count=n,
                    ),
                )
                draft = Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.LOAD)
                publish(manifest, Change(branch=MAIN, updates=updates, draft=draft))
        return costs.as_dict()

    thirty()
    early = thirty()
    for _ in range(6):
        thirty()
    late = thirty()
    flat = ("manifest_swaps", "manifest_probes")
    assert [late.get(name) for name in flat] == [early.get(name) for name in flat]
    for costs in (early, late):
        assert costs.get("manifest_scans", 0) <= 2
        assert costs.get("manifest_folds", 0) <= 1
    assert manifest.load(MAIN).fragments <= MANIFEST_FRAGMENTS_MAX + 1


def test_a_commit_that_was_overtaken_by_a_metadata_change_is_found_where_it_is(
    manifest: Manifest,
) -> None:
    asked = change(manifest, PERSON)
    manifest.current(MAIN)
    manifest.rows.set_metadata(manifest.rows.load(None), "note", "slipped in between")
    published = publish(manifest, asked)
    commit = published.commit
    assert commit is not None
    write(manifest, CITY)
    assert (commit.manifest_version, published.version) == (2, 3)
    assert state_at(manifest, MAIN, commit.id).version == 3
    assert state_at(manifest, MAIN, commit.id).snapshot.pins == {PERSON: 2, CITY: 1}
