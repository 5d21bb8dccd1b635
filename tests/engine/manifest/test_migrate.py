"""Old graphs become current ones: branch by branch, at most once, and converging under two openers."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from omnigraphdb.errors import FormatVersion, InternalError, RowContention, StorageError
from omnigraphdb.failpoints import Failpoint, Injected, armed, parked
from omnigraphdb.ids import MAIN, BranchName, Version
from omnigraphdb.limits import MIGRATION_ROUNDS_MAX
from omnigraphdb.manifest.branches import create_branch, delete_branch
from omnigraphdb.manifest.lineage import commits_of, has_commits
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.migrate import STEPS, Step, covers, load_migrated, migrate
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import (
    MANIFEST_SCHEMA,
    CommitKind,
    GraphHead,
    encode,
    lance_branch,
)
from omnigraphdb.manifest.stamp import CURRENT, MIN_SUPPORTED, STAMP, stamp_of
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.storage.rows import Image, Rows
from omnigraphdb.storage.store import Store
from tests.support.manifests import (
    CITY,
    PERSON,
    FakeForks,
    StillRuntime,
    another_handle,
    change,
    new_manifest,
    together,
    write,
)
from tests.support.old_graphs import (
    ACTORS,
    MAIN_COMMITS,
    SIDE,
    SIDE_COMMIT,
    MakeRows,
    OldGraph,
    old_graph,
)
from tests.support.wrapped_rows import WrappedRows

SHAPES = (1, 2, 3, 4)


@pytest.fixture(params=SHAPES, ids=lambda stamp: f"v{stamp}")
def old(request: pytest.FixtureRequest, make_rows: MakeRows) -> OldGraph:
    """A graph in each of the old shapes."""
    return old_graph(make_rows, request.param)


@pytest.fixture
def v3(make_rows: MakeRows) -> OldGraph:
    """A graph in the last shape that kept its history elsewhere."""
    return old_graph(make_rows, 3)


def stamp(manifest: Manifest, branch: str | None = None) -> int:
    return stamp_of(manifest.rows.load(branch).metadata)


def dump(rows: Rows, branch: str | None) -> tuple[int, list[dict[str, object]], dict[str, str]]:
    image = rows.load(branch)
    ordered = sorted(image.rows.to_pylist(), key=str)
    return image.version, ordered, dict(image.metadata)


def history(manifest: Manifest, branch: BranchName) -> list[tuple[str, str | None]]:
    return [(c.id, c.actor) for c in manifest.load(branch).lineage.commits]


OLD_MAIN = [(name, ACTORS.get(name)) for name in MAIN_COMMITS]
OLD_SIDE = [(MAIN_COMMITS[0], None), (SIDE_COMMIT, "bob")]


# ---- reading an old graph changes nothing


def test_an_old_graph_reads_as_it_is_with_full_history_and_actors(old: OldGraph) -> None:
    before = [dump(old.manifest.rows, branch) for branch in (None, SIDE)]
    assert old.manifest.current(MAIN).snapshot.pins == {PERSON: 1, CITY: 2}
    assert old.manifest.current(SIDE).snapshot.pins == {PERSON: 2, CITY: 1}
    assert history(old.manifest, MAIN) == OLD_MAIN
    assert history(old.manifest, SIDE) == OLD_SIDE
    head = old.manifest.current(SIDE).head
    assert head is not None
    assert head.id == SIDE_COMMIT
    assert [dump(old.manifest.rows, branch) for branch in (None, SIDE)] == before
    assert stamp(old.manifest) == old.stamp


def test_table_state_of_an_old_graph_is_read_without_its_history(v3: OldGraph) -> None:
    with armed(Failpoint.MIGRATE_LEGACY_OPEN):
        assert v3.manifest.current(MAIN).snapshot.pins == {PERSON: 1, CITY: 2}


def test_an_old_point_in_time_is_reached_before_and_after_the_migration(old: OldGraph) -> None:
    then = {PERSON: 1, CITY: 1}
    assert state_at(old.manifest, MAIN, MAIN_COMMITS[0]).snapshot.pins == then
    migrate(old.manifest, MAIN)
    write(old.manifest, CITY)
    past = state_at(old.manifest, MAIN, MAIN_COMMITS[0])
    assert (past.snapshot.pins, past.version) == (then, 1)
    assert past.head is not None
    assert past.head.id == MAIN_COMMITS[0]
    assert state_at(old.manifest, MAIN, MAIN_COMMITS[1]).snapshot.pins == {PERSON: 1, CITY: 2}


# ---- the steps


def test_main_becomes_current_and_keeps_its_history(old: OldGraph) -> None:
    migrate(old.manifest, MAIN)
    state = old.manifest.current(MAIN)
    assert state.stamp == CURRENT
    assert state.snapshot.pins == {PERSON: 1, CITY: 2}
    assert [(c.id, c.actor) for c in commits_of(state.image.rows)] == OLD_MAIN
    heads = [r for r in state.image.rows.to_pylist() if r["object_type"] == "graph_head"]
    assert [row["object_id"] for row in heads] == ["graph_head:main"]
    assert MAIN_COMMITS[1] in heads[0]["metadata"]
    assert [c.kind for c in state.lineage.commits] == [CommitKind.INIT, CommitKind.MUTATION]


def test_a_migrated_manifest_contends_on_its_rows(old: OldGraph) -> None:
    migrate(old.manifest, MAIN)
    stale = old.manifest.rows.load(None)
    write(old.manifest, PERSON)
    head = GraphHead(branch=MAIN, commit=None, parent=None)
    with pytest.raises(RowContention):
        old.manifest.rows.swap(stale, encode([head]))


def test_a_second_run_writes_nothing(old: OldGraph) -> None:
    migrate(old.manifest, MAIN)
    before = dump(old.manifest.rows, None)
    migrate(old.manifest, MAIN)
    migrate(another_handle(old.manifest), MAIN)
    assert dump(old.manifest.rows, None) == before


def test_a_branch_is_migrated_by_its_own_first_publish_and_main_is_left_alone(
    old: OldGraph,
) -> None:
    main = dump(old.manifest.rows, None)
    published = write(old.manifest, PERSON, branch=SIDE, actor="cy")
    assert dump(old.manifest.rows, None) == main
    assert published.commit is not None
    assert published.commit.parent == SIDE_COMMIT
    assert [(c.id, c.actor) for c in commits_of(old.manifest.rows.load(SIDE).rows)] == [
        *OLD_SIDE,
        (published.commit.id, "cy"),
    ]
    assert stamp(old.manifest, SIDE) == CURRENT
    side = dump(old.manifest.rows, SIDE)
    migrate(old.manifest, MAIN)
    assert dump(old.manifest.rows, SIDE) == side


def test_main_current_and_branch_old_each_answer_from_their_own_source(v3: OldGraph) -> None:
    migrate(v3.manifest, MAIN)
    assert (stamp(v3.manifest), stamp(v3.manifest, SIDE)) == (CURRENT, 3)
    assert history(v3.manifest, MAIN) == OLD_MAIN
    assert history(v3.manifest, SIDE) == OLD_SIDE
    assert not has_commits(v3.manifest.rows.load(SIDE).rows)


def test_scratch_branches_go_children_first_and_others_stay(make_rows: MakeRows) -> None:
    graph = old_graph(make_rows, 2, runs=["__run__a", "__run__b"])
    rows = graph.manifest.rows
    rows.create_branch("__run__a_child", "__run__a", Version(1))
    migrate(graph.manifest, MAIN)
    assert set(rows.branches()) == {SIDE}


def test_a_run_name_is_ordinary_once_main_is_past_it(make_rows: MakeRows) -> None:
    graph = old_graph(make_rows, 2)
    migrate(graph.manifest, MAIN)
    graph.manifest.rows.create_branch("__run__mine", None, graph.manifest.rows.head(None))
    migrate(graph.manifest, SIDE)
    migrate(graph.manifest, MAIN)
    assert set(graph.manifest.rows.branches()) == {SIDE, "__run__mine"}


def test_another_primary_key_is_refused(make_rows: MakeRows) -> None:
    rows = make_rows("__manifest", "object_id")
    marked = MANIFEST_SCHEMA.field("object_type").with_metadata(
        MANIFEST_SCHEMA.field("object_id").metadata
    )
    schema = MANIFEST_SCHEMA.set(0, MANIFEST_SCHEMA.field(0).remove_metadata()).set(1, marked)
    rows.create(schema.empty_table(), metadata={}, config={})
    with pytest.raises(InternalError, match="object_type"):
        migrate(Manifest(rows=rows, runtime=StillRuntime()), MAIN)
    assert stamp_of(rows.load(None).metadata) == 1


# ---- interrupted and contended


def test_a_crash_after_the_backfill_leaves_only_the_stamps_to_do(v3: OldGraph) -> None:
    with armed(Failpoint.MIGRATE_MERGED), pytest.raises(Injected):
        migrate(v3.manifest, MAIN)
    assert (stamp(v3.manifest), has_commits(v3.manifest.rows.load(None).rows)) == (3, True)
    with armed(Failpoint.MIGRATE_LEGACY_OPEN):
        # The history is there already and is not read again.
        migrate(v3.manifest, MAIN)
    assert stamp(v3.manifest) == CURRENT
    assert [(c.id, c.actor) for c in commits_of(v3.manifest.rows.load(None).rows)] == OLD_MAIN


def test_a_crash_before_the_fold_leaves_the_fold_and_the_stamp_to_do(make_rows: MakeRows) -> None:
    v4 = old_graph(make_rows, 4)
    with armed(Failpoint.MIGRATE_FOLD), pytest.raises(Injected):
        migrate(v4.manifest, MAIN)
    assert stamp(v4.manifest) == 4
    migrate(v4.manifest, MAIN)
    image = v4.manifest.rows.load(None)
    assert (stamp_of(image.metadata), v4.manifest.rows.fragment_count(image)) == (CURRENT, 1)
    assert history(v4.manifest, MAIN) == OLD_MAIN


def test_a_failed_look_at_the_old_history_aborts_and_leaves_the_stamp(v3: OldGraph) -> None:
    before = dump(v3.manifest.rows, None)
    with armed(Failpoint.MIGRATE_LEGACY_OPEN), pytest.raises(Injected):
        migrate(v3.manifest, MAIN)
    assert dump(v3.manifest.rows, None) == before
    migrate(v3.manifest, MAIN)
    assert history(v3.manifest, MAIN) == OLD_MAIN


class Broken(WrappedRows):
    """Rows that exist and cannot be read."""

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        raise StorageError("permission denied", storage_kind="configuration")


@pytest.mark.parametrize("which", ["commits", "actors"])
def test_an_unreadable_history_is_not_taken_for_an_empty_one(v3: OldGraph, which: str) -> None:
    assert v3.manifest.legacy is not None
    broken = replace(v3.manifest.legacy, **{which: Broken(getattr(v3, which))})  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        migrate(replace(v3.manifest, legacy=broken), MAIN)
    assert stamp(v3.manifest) == 3
    assert not has_commits(v3.manifest.rows.load(None).rows)


def test_without_legacy_tables_the_stamp_alone_moves(make_rows: MakeRows) -> None:
    graph = old_graph(make_rows, 3)
    bare = Manifest(rows=graph.manifest.rows, runtime=graph.manifest.runtime)
    migrate(bare, MAIN)
    assert stamp(bare) == CURRENT
    published = write(bare, PERSON)
    assert published.commit is not None
    assert published.commit.parent is None


@pytest.mark.parametrize("at", [Failpoint.MIGRATE_LEGACY_OPEN, Failpoint.MIGRATE_MERGED])
def test_a_runner_overtaken_midway_succeeds_and_adds_nothing(v3: OldGraph, at: Failpoint) -> None:
    first, second = v3.manifest, another_handle(v3.manifest)
    with parked(at) as park:
        results = together(
            partial(migrate, first, MAIN), partial(_after, park.reached.wait, second, park.release)
        )
    assert results == [None, None]
    assert stamp(first) == CURRENT
    assert [(c.id, c.actor) for c in commits_of(first.rows.load(None).rows)] == OLD_MAIN


def _after(
    reached: Callable[[float], bool], manifest: Manifest, release: Callable[[], None]
) -> None:
    assert reached(10)
    migrate(manifest, MAIN)
    release()


def test_runners_at_the_same_moment_all_succeed(old: OldGraph) -> None:
    handles = [another_handle(old.manifest) for _ in range(4)]
    assert together(*(partial(migrate, handle, MAIN) for handle in handles)) == [None] * 4
    assert [(c.id, c.actor) for c in commits_of(old.manifest.rows.load(None).rows)] == OLD_MAIN
    assert stamp(old.manifest) == CURRENT


def test_a_stamp_that_never_lands_is_contention_not_a_storage_error(v3: OldGraph) -> None:
    with armed(Failpoint.MIGRATE_STAMP), pytest.raises(RowContention):
        migrate(v3.manifest, MAIN)
    assert stamp(v3.manifest) == 3


def test_the_publisher_retries_a_contended_migration(v3: OldGraph) -> None:
    with armed(Failpoint.MIGRATE_STAMP, f"{MIGRATION_ROUNDS_MAX}*error"):
        write(v3.manifest, PERSON)
    assert stamp(v3.manifest) == CURRENT
    assert v3.manifest.load(MAIN).snapshot.pins[PERSON] == 2


# ---- branches of old graphs


def test_a_branch_made_from_an_old_branch_has_its_history(v3: OldGraph, store: Store) -> None:
    create_branch(v3.manifest, store.tables, "child", source=SIDE)
    child = BranchName("child")
    assert history(v3.manifest, child) == OLD_SIDE
    published = write(v3.manifest, PERSON, branch=child)
    assert published.commit is not None
    assert published.commit.parent == SIDE_COMMIT


def test_a_branch_made_at_an_old_commit_has_the_history_up_to_it(
    v3: OldGraph, store: Store
) -> None:
    migrate(v3.manifest, MAIN)
    create_branch(v3.manifest, store.tables, "then", at=MAIN_COMMITS[0])
    then = BranchName("then")
    assert v3.manifest.current(then).snapshot.pins == {PERSON: 1, CITY: 1}
    assert history(v3.manifest, then) == OLD_MAIN[:1]
    assert stamp(v3.manifest, then) == CURRENT
    published = write(v3.manifest, PERSON, branch=then)
    assert published.commit is not None
    assert published.commit.parent == MAIN_COMMITS[0]


def test_deleting_an_old_branch_drops_its_old_lineage_ref_as_far_as_it_can(
    v3: OldGraph, store: Store
) -> None:
    migrate(v3.manifest, MAIN)
    with armed(Failpoint.BRANCH_DROP_LINEAGE):
        delete_branch(v3.manifest, FakeForks(), SIDE)
    assert SIDE not in v3.manifest.rows.branches()
    assert SIDE in v3.commits.branches()
    create_branch(v3.manifest, store.tables, SIDE)
    assert history(v3.manifest, SIDE) == OLD_MAIN
    delete_branch(v3.manifest, FakeForks(), SIDE)
    assert SIDE not in v3.commits.branches()


# ---- the stamp


@pytest.mark.parametrize("raw", [str(CURRENT + 1), "0", "", "four", "-1", "4.0", "٤"])
@pytest.mark.parametrize("branch", [MAIN, SIDE])
def test_a_stamp_outside_what_we_know_is_refused_by_every_reader(
    rows: Rows, store: Store, raw: str, branch: BranchName
) -> None:
    manifest = new_manifest(rows)
    create_branch(manifest, store.tables, SIDE)
    asked = change(manifest, PERSON, branch=branch)
    rows.set_metadata(rows.load(lance_branch(branch)), STAMP, raw)
    readers: list[Callable[[], object]] = [
        lambda: another_handle(manifest).current(branch),
        lambda: manifest.current(branch),
        lambda: manifest.load(branch),
        lambda: migrate(manifest, branch),
        lambda: load_migrated(manifest, branch),
        lambda: publish(another_handle(manifest), asked),
    ]
    for read in readers:
        with pytest.raises(FormatVersion) as refused:
            read()
        assert str(raw) in str(refused.value)


def test_the_advice_tells_which_release_to_take() -> None:
    with pytest.raises(FormatVersion, match="upgrade omnigraphdb"):
        stamp_of({STAMP: str(CURRENT + 1)})
    with pytest.raises(FormatVersion, match="older release"):
        stamp_of({STAMP: "0"})


def test_every_supported_stamp_has_its_step() -> None:
    assert covers(STEPS, MIN_SUPPORTED, CURRENT)


def test_the_tripwire_fails_both_ways() -> None:
    without_first: dict[int, Step] = {n: step for n, step in STEPS.items() if n != MIN_SUPPORTED}
    assert not covers(STEPS, MIN_SUPPORTED + 1, CURRENT), "floor raised, step left in"
    assert not covers(without_first, MIN_SUPPORTED, CURRENT), "step deleted, floor left"
    assert covers(without_first, MIN_SUPPORTED + 1, CURRENT)
