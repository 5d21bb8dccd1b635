"""Branches: what may be created and deleted, what neither ever does, and whose a fork is."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from omnigraphdb.errors import (
    BranchExists,
    BranchInUse,
    ConflictError,
    ForkExists,
    NotFound,
    OmniError,
    SchemaApplyConflict,
    StorageError,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraphdb.limits import BRANCH_CREATE_WAITS_MAX
from omnigraphdb.manifest.branches import Branch, create_branch, delete_branch, list_branches
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.forks import ForkStatus, classify_fork, fork_status
from omnigraphdb.manifest.manifest import Heads, Manifest
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK, branch_name
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.layout import MANIFEST, REFS, branch_path
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.values import BranchRef
from tests.support.manifests import (
    CITY,
    PATHS,
    PERSON,
    FakeForks,
    StillRuntime,
    another_handle,
    change,
    new_manifest,
    together,
    write,
)
from tests.support.wrapped_rows import WrappedRows

SPRING, APRIL = BranchName("spring"), BranchName("april")


def names(manifest: Manifest) -> list[str]:
    return [branch.name for branch in list_branches(manifest)]


def pins(manifest: Manifest, branch: BranchName) -> dict[TableKey, Version]:
    return manifest.current(branch).snapshot.pins


# ---- create


def test_a_branch_starts_as_its_parent_and_goes_its_own_way(
    manifest: Manifest, tables: FakeForks
) -> None:
    write(manifest, PERSON)
    create_branch(manifest, tables, "spring")
    assert pins(manifest, SPRING) == pins(manifest, MAIN) == {PERSON: 2, CITY: 1}
    write(manifest, PERSON, branch=SPRING)
    write(manifest, CITY)
    assert pins(manifest, SPRING) == {PERSON: 3, CITY: 1}
    assert pins(manifest, MAIN) == {PERSON: 2, CITY: 2}
    own = manifest.current(SPRING).snapshot
    assert own.entries[PERSON].at.branch == SPRING
    assert own.entries[CITY].at.branch is None
    assert [entry.table_key for entry in own.owned()] == [PERSON]


def test_branch_control_makes_no_commit_and_moves_no_table(
    manifest: Manifest, tables: FakeForks
) -> None:
    write(manifest, PERSON)
    before = manifest.rows.load(None)
    create_branch(manifest, tables, "spring")
    assert manifest.load(SPRING).lineage.commits == manifest.load(MAIN).lineage.commits
    delete_branch(manifest, tables, "spring")
    after = manifest.rows.load(None)
    assert after.version == before.version
    assert after.rows.equals(before.rows)


def test_a_commit_of_a_branch_is_invisible_on_main_and_carries_its_author(
    manifest: Manifest, tables: FakeForks
) -> None:
    fork = write(manifest, PERSON, actor="ann").commit
    create_branch(manifest, tables, "spring")
    theirs = write(manifest, PERSON, branch=SPRING, actor="gia").commit
    mine = write(manifest, CITY, actor="hal").commit
    assert fork is not None
    assert theirs is not None
    assert mine is not None
    spring, main = (manifest.load(branch).lineage for branch in (SPRING, MAIN))
    assert [c.actor for c in spring.listed(since=fork.id)] == ["gia"]
    assert [c.actor for c in main.listed(since=fork.id)] == ["hal"]
    assert theirs.parent == mine.parent == fork.id
    assert (theirs.branch, mine.branch) == (SPRING, MAIN)


def test_the_first_commit_of_a_branch_has_the_inherited_head_as_parent(
    manifest: Manifest, tables: FakeForks
) -> None:
    create_branch(manifest, tables, "spring")
    published = write(manifest, PERSON, branch=SPRING)
    genesis = manifest.current(MAIN).head
    assert published.commit is not None
    assert genesis is not None
    assert published.commit.parent == genesis.id


def test_a_branch_of_a_branch_sees_that_ones_rows(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    created = create_branch(manifest, tables, "april", source=SPRING)
    write(manifest, PERSON, branch=APRIL)
    assert created.parent == SPRING
    assert [pins(manifest, b)[PERSON] for b in (MAIN, SPRING, APRIL)] == [1, 2, 3]


def test_a_branch_can_start_at_a_commit(manifest: Manifest, tables: FakeForks) -> None:
    first = write(manifest, PERSON).commit
    write(manifest, PERSON)
    write(manifest, CITY)
    assert first is not None
    create_branch(manifest, tables, "spring", at=first.id)
    assert pins(manifest, SPRING) == {PERSON: 2, CITY: 1}
    assert manifest.current(SPRING).head == first
    again = write(manifest, PERSON, branch=SPRING).commit
    assert again is not None
    assert again.parent == first.id


def test_main_is_listed_first_then_the_others_by_name(
    manifest: Manifest, tables: FakeForks
) -> None:
    for name in ("winter", "autumn", "__run__x"):
        create_branch(manifest, tables, name)
    manifest.rows.create_branch(SCHEMA_APPLY_LOCK, None, Version(1))
    assert names(manifest) == ["main", "__run__x", "autumn", "winter"]


REFUSED_NAMES = {
    "main": "main always exists",
    "": "empty",
    "   ": "empty",
    "bad name": "' '",
    "a..b": "'..'",
    "-x": "begins with '-'",
    "/x": "slashes",
    "x/": "slashes",
    "a//b": "slashes",
    "a/./b": "'.'",
    "x.lock": "'.lock'",
    "a.lock/b": "'.lock'",
    "tab\tname": "allowed are letters",
    "äther": "'ä'",
    "a\\b": "allowed are letters",
    "a:b": "':'",
    "a#1": "'#'",
    "x" * 256: "255 bytes",
    "x" * 201: "200 bytes",
    "/".join("ab" * 34): "200 bytes",
    SCHEMA_APPLY_LOCK: "__schema_apply_lock__",
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_name_that_breaks_a_rule_is_refused_with_the_rule(
    manifest: Manifest, tables: FakeForks, name: str
) -> None:
    with pytest.raises(UserInputError) as refused:
        create_branch(manifest, tables, name)
    assert "branch create" in str(refused.value)
    assert REFUSED_NAMES[name] in str(refused.value)
    assert names(manifest) == ["main"]


@pytest.mark.parametrize("name", ["__run__x", "team/ann", "v1.2-rc_3", "x" * 200, "  trimmed  "])
def test_an_ordinary_name_is_accepted(manifest: Manifest, tables: FakeForks, name: str) -> None:
    assert create_branch(manifest, tables, name).name == name.strip()


@pytest.mark.parametrize(
    ("live", "asked"), [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")]
)
def test_names_that_are_taken_or_nest_are_refused(
    manifest: Manifest, tables: FakeForks, live: str, asked: str
) -> None:
    create_branch(manifest, tables, live)
    with pytest.raises(BranchExists) as refused:
        create_branch(manifest, tables, asked)
    assert f"'{asked}'" in str(refused.value)
    assert names(manifest) == ["main", live]


def test_names_that_only_look_nested_are_accepted(manifest: Manifest, tables: FakeForks) -> None:
    for name in ("a", "ab", "team/ann", "team/anna"):
        create_branch(manifest, tables, name)
    assert names(manifest) == ["main", "a", "ab", "team/ann", "team/anna"]


def test_the_source_must_exist(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    with pytest.raises(NotFound, match="sprin") as refused:
        create_branch(manifest, tables, "april", source=BranchName("sprin"))
    assert refused.value.details["missing"]["did_you_mean"] == ["spring"]
    assert names(manifest) == ["main", "spring"]


@pytest.mark.parametrize("operation", ["create", "delete"])
def test_a_running_schema_change_excludes_branch_control(
    manifest: Manifest, tables: FakeForks, operation: str
) -> None:
    create_branch(manifest, tables, "spring")
    manifest.rows.create_branch(SCHEMA_APPLY_LOCK, None, Version(1))
    create, delete = (
        partial(create_branch, manifest, tables, "april"),
        partial(delete_branch, manifest, tables, "spring"),
    )
    with pytest.raises(SchemaApplyConflict, match=f"branch {operation}"):
        (create if operation == "create" else delete)()


def test_a_failed_create_leaves_the_name_free(manifest: Manifest, tables: FakeForks) -> None:
    with armed(Failpoint.BRANCH_CREATED), pytest.raises(Injected):
        create_branch(manifest, tables, "spring")
    assert names(manifest) == ["main"]
    create_branch(manifest, tables, "spring")
    assert names(manifest) == ["main", "spring"]


def test_two_creators_of_one_name_have_one_winner(manifest: Manifest, tables: FakeForks) -> None:
    # Real waits: without them a creator would take a rival's files for leftovers.
    handles = [replace(another_handle(manifest), runtime=SYSTEM) for _ in range(4)]
    results = together(*(partial(create_branch, h, tables, "spring") for h in handles))
    assert sum(isinstance(result, BranchExists) for result in results) == 3
    assert names(manifest) == ["main", "spring"]


def test_concurrent_creates_do_not_mix_parents(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    for round_ in range(20):
        a, b = f"from-main-{round_}", f"from-spring-{round_}"
        made = together(
            partial(create_branch, manifest, tables, a),
            partial(create_branch, manifest, tables, b, source=SPRING),
        )
        assert [type(branch) for branch in made] == [Branch, Branch]
        assert pins(manifest, BranchName(a))[PERSON] == 1
        assert pins(manifest, BranchName(b))[PERSON] == 2


# ---- leftovers of a former branch


def test_files_without_a_ref_do_not_block_the_name(store: Store) -> None:
    manifest = new_manifest(store.manifest)
    tables = store.tables
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    create_branch(manifest, tables, "springtime")
    store.objects.delete(f"{MANIFEST}/{REFS}/spring.json")
    assert store.objects.exists(branch_path(MANIFEST, "spring"))
    create_branch(manifest, tables, "spring")
    assert pins(manifest, SPRING) == {PERSON: 1, CITY: 1}
    write(manifest, CITY, branch=SPRING)
    assert pins(manifest, SPRING) == {PERSON: 1, CITY: 2}
    assert names(manifest) == ["main", "spring", "springtime"]
    assert pins(manifest, BranchName("springtime")) == {PERSON: 1, CITY: 1}
    assert isinstance(manifest.runtime, StillRuntime)
    assert len(manifest.runtime.waits) == 1 + BRANCH_CREATE_WAITS_MAX


class Rival(WrappedRows):
    """Rows on which a rival has written the files of a branch and is about to write its ref."""

    looks = 0

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        self.looks += 1
        if self.looks == 2:
            self.inner.create_branch(name, source, version)
        raise ForkExists(MANIFEST, name, has_ref=False)


def test_files_whose_ref_comes_a_moment_later_are_a_rivals(
    manifest: Manifest, tables: FakeForks
) -> None:
    with pytest.raises(BranchExists):
        create_branch(on(Rival(manifest.rows), manifest), tables, "spring")
    assert tables.trees_dropped == []
    assert names(manifest) == ["main", "spring"]


class Away(WrappedRows):
    """Rows whose branch listing or creation fails, for no reason that a delete could mend."""

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        raise StorageError("the store is away", storage_kind="transient")


class Unlisted(WrappedRows):
    """Rows whose branches cannot be listed."""

    def branches(self) -> Mapping[str, BranchRef]:
        raise StorageError("the store is away", storage_kind="transient")


def on(rows: WrappedRows, manifest: Manifest) -> Manifest:
    return replace(manifest, rows=rows)  # type: ignore[arg-type]


def test_a_create_that_fails_for_another_reason_deletes_nothing(
    manifest: Manifest, tables: FakeForks
) -> None:
    with pytest.raises(StorageError, match="away"):
        create_branch(on(Away(manifest.rows), manifest), tables, "spring")
    assert tables.trees_dropped == []
    assert names(manifest) == ["main"]


# ---- delete


def test_a_deleted_branch_is_gone_and_its_forks_with_it(
    manifest: Manifest, tables: FakeForks
) -> None:
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    tables.add(PATHS[PERSON], SPRING)
    tables.add(PATHS[PERSON], "other")
    delete_branch(manifest, tables, "spring")
    assert names(manifest) == ["main"]
    assert set(tables.forks(PATHS[PERSON])) == {"other"}
    with pytest.raises(NotFound, match="spring"):
        manifest.current(SPRING)


def test_a_recreated_branch_shows_nothing_of_its_former_life(
    manifest: Manifest, tables: FakeForks
) -> None:
    reader = another_handle(manifest)
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    old = reader.current(SPRING)
    delete_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "spring")
    write(manifest, CITY, branch=SPRING)
    new = reader.current(SPRING)
    assert old.version == new.version
    assert new.snapshot.pins == {PERSON: 1, CITY: 2}
    assert (
        old.snapshot.entries[PERSON].branch_incarnation
        != new.snapshot.entries[CITY].branch_incarnation
    )
    assert old.snapshot.entries[PERSON].at.branch == new.snapshot.entries[CITY].at.branch


def test_a_publish_prepared_on_the_former_life_is_refused(
    manifest: Manifest, tables: FakeForks
) -> None:
    stale = another_handle(manifest)
    create_branch(manifest, tables, "spring")
    write(stale, PERSON, branch=SPRING)
    late = change(stale, PERSON, branch=SPRING)
    delete_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "spring")
    write(manifest, CITY, branch=SPRING)
    with pytest.raises(ConflictError):
        publish(stale, late)
    assert pins(manifest, SPRING) == {PERSON: 1, CITY: 2}


def test_caches_are_told_when_a_name_gets_a_new_life_or_is_deleted(
    manifest: Manifest, tables: FakeForks
) -> None:
    told: list[str] = []
    reader = Manifest(rows=manifest.rows, runtime=manifest.runtime, heads=Heads(told.append))
    create_branch(manifest, tables, "spring")
    reader.current(SPRING)
    delete_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "spring")
    assert told == []
    reader.current(SPRING)
    assert told == ["spring"]
    delete_branch(reader, tables, "spring")
    assert told == ["spring", "spring"]


def test_main_cannot_be_deleted(manifest: Manifest, tables: FakeForks) -> None:
    with pytest.raises(UserInputError, match="main"):
        delete_branch(manifest, tables, "main")


def test_an_unknown_branch_is_not_found(manifest: Manifest, tables: FakeForks) -> None:
    with pytest.raises(NotFound, match="ghost"):
        delete_branch(manifest, tables, "ghost")


def refused(
    manifest: Manifest, tables: FakeForks, name: str, bound_to: BranchName = MAIN
) -> OmniError:
    with pytest.raises(BranchInUse) as error:
        delete_branch(manifest, tables, name, bound_to=bound_to)
    assert name in names(manifest)
    return error.value


def test_a_branch_with_descendants_stays(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "april", source=SPRING)
    error = refused(manifest, tables, "spring")
    assert "april" in str(error)
    assert error.details["branch"] == {"name": "spring", "dependants": ["april"]}
    delete_branch(manifest, tables, "april")
    delete_branch(manifest, tables, "spring")
    assert names(manifest) == ["main"]


def test_a_branch_whose_tables_another_one_shows_stays(
    manifest: Manifest, tables: FakeForks
) -> None:
    create_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "other")
    entry = write(manifest, PERSON, branch=SPRING).state.snapshot.entries[PERSON]
    publish(
        manifest,
        Change(
            branch=BranchName("other"),
            updates=(Update(table_key=PERSON, at=entry.at, row_count=1),),
            draft=Draft(commit=CommitId("01PTR"), kind=CommitKind.BRANCH_MERGE),
        ),
    )
    assert "other" in str(refused(manifest, tables, "spring"))


def test_a_branch_whose_forks_another_one_stands_on_stays(
    manifest: Manifest, tables: FakeForks
) -> None:
    create_branch(manifest, tables, "spring")
    create_branch(manifest, tables, "other")
    write(manifest, PERSON, branch=SPRING)
    tables.add(PATHS[PERSON], "spring")
    tables.add(PATHS[PERSON], "other", parent="spring")
    assert "other" in str(refused(manifest, tables, "spring"))
    delete_branch(manifest, tables, "other")
    delete_branch(manifest, tables, "spring")


def test_the_branch_a_handle_stands_on_stays(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    assert "stands on" in str(refused(manifest, tables, "spring", bound_to=SPRING))


def test_a_delete_succeeds_though_the_forks_stay(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    write(manifest, PERSON, branch=SPRING)
    tables.add(PATHS[PERSON], SPRING)
    tables.broken = True
    delete_branch(manifest, tables, "spring")
    assert names(manifest) == ["main"]
    tables.broken = False
    create_branch(manifest, tables, "spring")
    with armed(Failpoint.BRANCH_DROP_FORKS):
        write(manifest, PERSON, branch=SPRING)
        delete_branch(manifest, tables, "spring")
    assert names(manifest) == ["main"]
    assert set(tables.forks(PATHS[PERSON])) == {"spring"}
    create_branch(manifest, tables, "spring")
    assert pins(manifest, SPRING) == {PERSON: 1, CITY: 1}


# ---- whose is a fork


@pytest.mark.parametrize(
    ("placed", "live", "status"),
    [
        (True, None, ForkStatus.LEGITIMATE),
        (False, None, ForkStatus.ORPHAN),
        (None, False, ForkStatus.ORPHAN),
        (None, True, ForkStatus.INDETERMINATE),
        (None, None, ForkStatus.INDETERMINATE),
    ],
)
def test_only_what_is_known_to_be_nobodys_is_an_orphan(
    placed: bool | None, live: bool | None, status: ForkStatus
) -> None:
    assert classify_fork(placed, live) is status


def test_a_fork_is_judged_from_a_fresh_read(manifest: Manifest, tables: FakeForks) -> None:
    create_branch(manifest, tables, "spring")
    manifest.current(SPRING)
    assert fork_status(manifest, PATHS[PERSON], SPRING) is ForkStatus.ORPHAN
    write(another_handle(manifest), PERSON, branch=SPRING)
    assert fork_status(manifest, PATHS[PERSON], SPRING) is ForkStatus.LEGITIMATE
    assert fork_status(manifest, PATHS[CITY], SPRING) is ForkStatus.ORPHAN
    with armed(Failpoint.FORK_CLASSIFY_READ):
        assert fork_status(manifest, PATHS[PERSON], SPRING) is ForkStatus.INDETERMINATE
    delete_branch(manifest, tables, "spring")
    assert fork_status(manifest, PATHS[PERSON], SPRING) is ForkStatus.ORPHAN


def test_when_the_listing_fails_too_nothing_may_be_destroyed(manifest: Manifest) -> None:
    blind = on(Unlisted(manifest.rows), manifest)
    assert fork_status(blind, PATHS[PERSON], BranchName("ghost")) is ForkStatus.INDETERMINATE


def test_a_used_name_is_trimmed_and_the_internal_one_refused() -> None:
    assert branch_name("  spring ", "query") == "spring"
    with pytest.raises(UserInputError, match=r"merge.*__schema_apply_lock__"):
        branch_name(SCHEMA_APPLY_LOCK, "merge")
