"""The contract of `Rows`, on every kind of store and for the fake that stands in for it."""

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraphdb.errors import (
    BranchInUse,
    ForkExists,
    HistoryReclaimed,
    InternalError,
    RowContention,
    TableExists,
    TableNotFound,
)
from omnigraphdb.ids import Version
from omnigraphdb.limits import HISTORY_ROWS_MIN
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.lance.rows import PRIMARY_KEY, LanceRows
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.rows import Image, Rows, SplitRows
from omnigraphdb.storage.values import MAIN_INCARNATION
from tests.simulation.rows import make_lone_rows
from tests.support.store_roots import StoreRoot, in_processes, race_threads
from tests.support.tables import (
    MANIFEST_SCHEMA,
    cells,
    head_of,
    keyed,
    link,
    open_root,
    publish_each,
)

STORES = ["local", "official", "memory", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture(params=[*STORES, "fake"])
def store_root(request: pytest.FixtureRequest, tmp_path: Any) -> StoreRoot:
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        return StoreRoot(kind="s3", uri=f"{bucket.uri}/graph", options=bucket.storage_options)
    if request.param == "memory":
        return StoreRoot(kind="memory", uri=f"memory://{tmp_path.name}/graph")
    return StoreRoot(kind=request.param, uri=str(tmp_path / "graph"))


@pytest.fixture
def rows(store_root: StoreRoot) -> Rows:
    return make_lone_rows() if store_root.kind == "fake" else open_root(store_root).manifest


@pytest.fixture
def first(rows: Rows) -> Image:
    return rows.create(marked(link("genesis", None)), metadata={"stamp": "4"}, config={})


@pytest.fixture
def lance_only(store_root: StoreRoot) -> None:
    if store_root.kind == "fake":
        pytest.skip("the fake keeps no cache")


def marked(table: pa.Table) -> pa.Table:
    key = table.schema.field(0).with_metadata({PRIMARY_KEY: "true"})
    return table.cast(table.schema.set(0, key))


def same(one: Image, other: Image) -> bool:
    """Whether two images show one state; row order means nothing."""
    facts = [(i.branch, i.version, i.incarnation, dict(i.metadata)) for i in (one, other)]
    tables = [i.rows.sort_by("object_id").combine_chunks() for i in (one, other)]
    return facts[0] == facts[1] and tables[0].equals(tables[1], check_metadata=True)


# ---- creating and loading


def test_a_created_table_shows_its_rows_at_version_one(rows: Rows, first: Image) -> None:
    assert rows.exists()
    assert (first.version, first.branch, first.incarnation) == (1, None, MAIN_INCARNATION)
    assert dict(first.metadata) == {"stamp": "4"}
    assert cells(first.rows) == {"genesis": None, "head": "genesis"}
    assert rows.head(None) == 1
    assert same(rows.load(None), first)
    assert rows.fragment_count(first) == 1


def test_a_table_is_created_once(rows: Rows, first: Image) -> None:
    with pytest.raises(TableExists):
        rows.create(keyed({"other": None}), metadata={}, config={})
    assert cells(rows.load(None).rows) == cells(first.rows)


def test_what_is_not_there_is_not_found(rows: Rows) -> None:
    assert not rows.exists()
    with pytest.raises(TableNotFound):
        rows.load(None)
    rows.create(marked(keyed({"a": None})), metadata={}, config={})
    with pytest.raises(TableNotFound):
        rows.load(None, Version(9))
    with pytest.raises(TableNotFound):
        rows.load("nowhere")
    with pytest.raises(TableNotFound):
        rows.incarnation("nowhere")


@pytest.mark.usefixtures("lance_only")
def test_config_entries_are_a_second_version_and_the_first_is_stamped(
    rows: Rows, store_root: StoreRoot
) -> None:
    created = rows.create(marked(keyed({"a": "1"})), metadata={"stamp": "4"}, config={"k": "true"})
    assert created.version == 2
    genesis = rows.load(None, Version(1))
    assert (dict(genesis.metadata), cells(genesis.rows)) == ({"stamp": "4"}, {"a": "1"})


# ---- swapping


def test_a_swap_replaces_equal_keys_and_adds_the_others(rows: Rows, first: Image) -> None:
    version = rows.swap(first, link("c1", "genesis"))
    assert version == 2
    assert cells(rows.load(None).rows) == {"genesis": None, "c1": "genesis", "head": "c1"}
    assert cells(rows.load(None, Version(1)).rows) == cells(first.rows)


def test_the_same_key_from_the_same_version_has_one_winner(rows: Rows, first: Image) -> None:
    rows.swap(first, keyed({"new": "mine"}))
    with pytest.raises(RowContention) as caught:
        rows.swap(first, keyed({"new": "theirs"}))
    assert caught.value.version == first.version
    assert cells(rows.load(None).rows)["new"] == "mine"
    assert rows.head(None) == 2


def test_the_head_by_names_alone_is_the_head_or_unknown(
    rows: Rows, first: Image, store_root: StoreRoot
) -> None:
    assert rows.head(None) == 1
    assert rows.find_head(None) in (None, 1)
    rows.swap(first, link("c1", "genesis"))
    assert rows.head(None) == 2
    assert rows.find_head(None) in (None, 2)
    if store_root.kind == "local":
        assert rows.find_head(None) == 2


def test_the_same_existing_row_has_one_winner(rows: Rows, first: Image) -> None:
    rows.swap(first, keyed({"head": "mine", "x": None}))
    with pytest.raises(RowContention):
        rows.swap(first, keyed({"head": "theirs", "y": None}))
    found = cells(rows.load(None).rows)
    assert (found["head"], "y" in found) == ("mine", False)


def test_writers_of_other_rows_both_land(rows: Rows, first: Image) -> None:
    rows.swap(first, keyed({"one": "1"}))
    assert rows.swap(first, keyed({"two": "2"})) == 3
    found = cells(rows.load(None).rows)
    assert (found["one"], found["two"]) == ("1", "2")


def test_writers_of_two_existing_rows_both_land(rows: Rows, first: Image) -> None:
    rows.swap(first, keyed({"genesis": "g"}))
    rows.swap(first, keyed({"head": "h"}))
    assert cells(rows.load(None).rows) == {"genesis": "g", "head": "h"}


@pytest.mark.usefixtures("lance_only")
def test_rows_of_another_shape_are_refused(rows: Rows, first: Image) -> None:
    for wrong in (
        keyed({"a": None}).drop_columns(["metadata"]),
        keyed({"a": None}).append_column("more", pa.array([1])),
        keyed({"a": None}).set_column(2, "table_version", pa.array([1], pa.int32())),
    ):
        with pytest.raises(InternalError):
            rows.swap(first, wrong)
    assert rows.head(None) == 1


def test_racing_threads_form_one_chain(rows: Rows, first: Image) -> None:
    def publish(barrier: Any, me: int) -> int:
        lost = 0
        for number in range(5):
            barrier.wait()
            while True:
                image = rows.load(None)
                try:
                    rows.swap(image, link(f"{me}-{number}", head_of(image.rows)))
                    break
                except RowContention:
                    lost += 1
        return lost

    race_threads(publish, [(me,) for me in range(4)])
    assert_chain(rows.load(None), 20)


def assert_chain(image: Image, commits: int) -> None:
    """One line from the head to the genesis that passes every commit once."""
    found = cells(image.rows)
    at, length = found.pop("head"), 0
    while at != "genesis":
        assert at is not None
        at = found.pop(at)
        length += 1
    assert (length, set(found)) == (commits, {"genesis"})


@pytest.mark.parametrize(
    "store_root", ["local", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)
def test_racing_processes_form_one_chain(store_root: StoreRoot, rows: Rows, first: Image) -> None:
    guards = (None, "head", "head", "head")
    in_processes(publish_each, [(store_root, me, 8, guard) for me, guard in enumerate(guards)])
    image = rows.load(None)
    assert_chain(image, 32)
    assert image.version == 33


# ---- guarded swaps

GUARDS = [("head", "head"), ("head", None), (None, "head")]


@pytest.mark.parametrize(("mine", "theirs"), GUARDS)
@pytest.mark.parametrize("swaps", [0, 1, 3])
def test_rivals_of_one_guard_have_one_winner(
    rows: Rows,
    store_root: StoreRoot,
    first: Image,
    mine: str | None,
    theirs: str | None,
    swaps: int,
) -> None:
    image = swapped_often(rows, first, swaps)
    rows.swap(image, link("mine", head_of(image.rows)), mine)
    with pytest.raises(RowContention):
        rows.swap(image, link("theirs", head_of(image.rows)), theirs)
    found = cells(rows.load(None).rows)
    assert (found["head"], "theirs" in found) == ("mine", False)
    if isinstance(rows, LanceRows):
        assert same(rows.load(None), open_root(store_root).manifest.load(None))


@pytest.mark.parametrize(("mine", "theirs"), GUARDS)
def test_a_guard_row_alone_in_its_fragment_still_contends(
    rows: Rows, first: Image, mine: str | None, theirs: str | None
) -> None:
    image = rows.load(None, rows.swap(first, keyed({"head": "alone"})))
    rows.swap(image, keyed({"head": "mine", "a": None}), mine)
    with pytest.raises(RowContention):
        rows.swap(image, keyed({"head": "theirs", "b": None}), theirs)
    assert cells(rows.load(None).rows) == {"genesis": None, "head": "mine", "a": None}


def test_a_guarded_swap_from_before_a_fold_contends(rows: Rows, first: Image) -> None:
    image = swapped_often(rows, first, 3)
    assert rows.fold(None)
    with pytest.raises(RowContention):
        rows.swap(image, link("late", head_of(image.rows)), "head")
    image = rows.load(None)
    rows.swap(image, link("next", head_of(image.rows)), "head")
    assert head_of(rows.load(None).rows) == "next"


def test_a_guard_that_does_not_exist_yet_is_inserted_once(rows: Rows, first: Image) -> None:
    rows.swap(first, keyed({"fresh": "mine", "a": None}), "fresh")
    with pytest.raises(RowContention):
        rows.swap(first, keyed({"fresh": "theirs", "b": None}), "fresh")
    assert cells(rows.load(None).rows)["fresh"] == "mine"


def test_a_guarded_swap_may_replace_other_rows_too(rows: Rows, first: Image) -> None:
    version = rows.swap(first, keyed({"head": "h", "genesis": "g", "new": "n"}), "head")
    assert cells(rows.load(None, version).rows) == {"head": "h", "genesis": "g", "new": "n"}


@pytest.mark.usefixtures("lance_only")
def test_a_guarded_swap_reads_nothing_and_derives_what_a_read_gives(
    rows: Rows, store_root: StoreRoot, first: Image
) -> None:
    image = first
    for number in range(12):
        with counting() as costs:
            parent = head_of(image.rows)
            image = rows.load(None, rows.swap(image, link(f"c{number}", parent), "head"))
        assert costs[Cost.MANIFEST_SWAPS] == 1
        assert costs[Cost.MANIFEST_SCANS] == costs[Cost.MANIFEST_PROBES] == 0
    assert same(image, open_root(store_root).manifest.load(None))
    assert_chain(image, 12)


# ---- what is derived equals what is read


@pytest.mark.usefixtures("lance_only")
def test_the_next_image_is_derived_and_equals_a_fresh_read(
    rows: Rows, store_root: StoreRoot, first: Image
) -> None:
    image = first
    for number in range(40):
        with counting() as costs:
            version = rows.swap(image, keyed({"head": f"{number}", f"c{number % 7}": f"{number}"}))
            image = rows.load(None, version)
        assert costs[Cost.MANIFEST_SCANS] == 0
        assert costs[Cost.MANIFEST_OPENS] == 0
        if number % 8 == 0:
            assert same(image, open_root(store_root).manifest.load(None, version))
    assert same(image, open_root(store_root).manifest.load(None))


@pytest.mark.usefixtures("lance_only")
def test_a_swap_that_another_writer_preceded_is_read_again(
    rows: Rows, store_root: StoreRoot, first: Image
) -> None:
    other = open_root(store_root).manifest
    other.swap(other.load(None), keyed({"theirs": "1"}))
    version = rows.swap(first, keyed({"mine": "1"}))
    assert version == 3
    with counting() as costs:
        image = rows.load(None, version)
    assert costs[Cost.MANIFEST_SCANS] == 1
    assert set(cells(image.rows)) == {"genesis", "head", "theirs", "mine"}


@pytest.mark.usefixtures("lance_only")
def test_a_held_version_is_not_read_again(rows: Rows, first: Image) -> None:
    with counting() as costs:
        again = rows.load(None)
    assert same(again, first)
    assert costs.as_dict() == {Cost.MANIFEST_PROBES: 1}
    with counting() as costs:
        rows.load(None, first.version)
    assert costs.as_dict() == {}


@pytest.mark.usefixtures("lance_only")
def test_what_a_swap_left_in_memory_is_what_a_read_finds(
    rows: Rows, store_root: StoreRoot, first: Image
) -> None:
    version = rows.swap(first, keyed({"mine": "1"}))
    with counting() as costs:
        held = rows.cached(None, version, MAIN_INCARNATION)
        assert rows.cached(None, Version(version + 1), MAIN_INCARNATION) is None
        assert rows.cached("side", version, ((1, "life"),)) is None
    assert costs.as_dict() == {}
    assert held is not None
    assert cells(held.rows) == cells(open_root(store_root).manifest.load(None).rows)


# ---- metadata


def test_metadata_is_set_and_contends(rows: Rows, first: Image) -> None:
    stamped = rows.set_metadata(first, "stamp", "5")
    assert (dict(stamped.metadata), stamped.version) == ({"stamp": "5"}, 2)
    assert same(stamped, rows.load(None))
    with pytest.raises(RowContention):
        rows.set_metadata(first, "stamp", "6")
    assert dict(rows.set_metadata(stamped, "other", "1").metadata) == {"stamp": "5", "other": "1"}


def test_metadata_and_rows_do_not_contend(rows: Rows, first: Image) -> None:
    rows.set_metadata(first, "stamp", "5")
    version = rows.swap(first, keyed({"a": "1"}))
    image = rows.load(None, version)
    assert (dict(image.metadata), cells(image.rows)["a"]) == ({"stamp": "5"}, "1")


def test_the_key_is_marked_once_and_swaps_contend_from_then_on(rows: Rows) -> None:
    plain = rows.create(keyed({"a": "1"}), metadata={"stamp": "1"}, config={})
    assert not plain.rows.schema.field(0).metadata
    image = rows.annotate_key(plain)
    assert (image.rows.schema.field(0).metadata or {})[PRIMARY_KEY.encode()] == b"true"
    assert cells(image.rows) == {"a": "1"}
    with pytest.raises(RowContention):
        rows.annotate_key(plain)
    rows.swap(image, keyed({"b": "mine"}))
    with pytest.raises(RowContention):
        rows.swap(image, keyed({"b": "theirs"}))


# ---- folding


def swapped_often(rows: Rows, image: Image, times: int) -> Image:
    for number in range(times):
        image = rows.load(None, rows.swap(image, link(f"c{number}", head_of(image.rows))))
    return image


def test_a_fold_keeps_rows_and_leaves_one_fragment(
    rows: Rows, first: Image, store_root: StoreRoot
) -> None:
    assert not rows.fold(None)
    image = swapped_often(rows, first, 6)
    assert rows.fragment_count(image) > 1
    assert rows.fold(None)
    folded = rows.load(None)
    assert folded.version == image.version + 1
    assert rows.fragment_count(folded) == 1
    assert cells(folded.rows) == cells(image.rows)
    if isinstance(rows, LanceRows):
        assert same(folded, open_root(store_root).manifest.load(None))
    assert not rows.fold(None)


# ---- history


def split_commits(rows: pa.Table) -> SplitRows:
    """Commits are old, all but the last two."""
    names = sorted(key for key in rows["object_id"].to_pylist() if key.startswith("c"))[:-2]
    is_old = pc.is_in(rows["object_id"], value_set=pa.array(names, pa.string()))
    return SplitRows(
        recent=rows.filter(pc.invert(is_old)),
        old=rows.filter(is_old),
        last_key=names[-1] if names else "",
    )


def with_history(rows: Rows, spans: range) -> Image:
    """Swap and fold in turn; each fold makes old rows of `HISTORY_ROWS_MIN` commits."""
    for span in spans:
        names = [f"c{span:02d}-{number:03d}" for number in range(HISTORY_ROWS_MIN + 2)]
        fresh = keyed({**dict.fromkeys(names), "head": names[-1]})
        rows.swap(rows.load(None), fresh, "head")
        assert rows.fold(None, split=split_commits)
    return rows.load(None)


@pytest.fixture
def with_files(store_root: StoreRoot) -> None:
    if store_root.kind in ("fake", "memory"):
        pytest.skip("the rows have no files of their own")


@pytest.mark.usefixtures("with_files", "first")
def test_a_load_leaves_the_history_until_it_is_asked_for(rows: Rows, store_root: StoreRoot) -> None:
    folded = with_history(rows, range(1))
    other = open_root(store_root).manifest
    with counting() as costs:
        image = other.load(None)
        assert costs[Cost.MANIFEST_HISTORY_SCANS] == 0
        assert "c00-000" not in cells(image.recent)
        assert [image.may_hide(key) for key in ("c00-000", "c00-063", "c00-064")] == [
            True,
            True,
            False,
        ]
        assert cells(image.rows) == cells(folded.rows)
        assert not image.may_hide("c00-000")
    assert costs[Cost.MANIFEST_HISTORY_SCANS] == 1
    assert same(folded, image)


@pytest.mark.usefixtures("with_files", "first")
def test_a_table_with_a_history_is_a_table_of_lance(rows: Rows, store_root: StoreRoot) -> None:
    """Earlier releases, and every other program, read all fragments."""
    image = with_history(rows, range(2))
    dataset = lance.dataset(f"{store_root.uri}/__manifest", storage_options=store_root.options)
    assert cells(dataset.to_table()) == cells(image.rows)


@pytest.mark.usefixtures("with_files", "first")
def test_a_guarded_swap_leaves_a_history_that_is_not_read(
    rows: Rows, store_root: StoreRoot
) -> None:
    before = cells(with_history(rows, range(1)).rows)
    other = open_root(store_root).manifest
    with counting() as costs:
        version = other.swap(other.load(None), keyed({"c9": None, "head": "c9"}), "head")
        after = other.load(None, version)
    assert costs[Cost.MANIFEST_HISTORY_SCANS] == 0
    assert cells(after.rows) == before | {"c9": None, "head": "c9"}
    assert same(after, open_root(store_root).manifest.load(None))


@pytest.mark.usefixtures("with_files", "first")
def test_an_old_row_can_be_replaced(rows: Rows, store_root: StoreRoot) -> None:
    before = cells(with_history(rows, range(1)).rows)
    other = open_root(store_root).manifest
    image = other.load(None)
    image.load_history()
    changed = keyed({"c00-000": "again", "head": "c9"})
    after = other.load(None, other.swap(image, changed, "head"))
    assert cells(after.rows) == before | {"c00-000": "again", "head": "c9"}
    assert same(after, open_root(store_root).manifest.load(None))


@pytest.mark.usefixtures("with_files", "first")
def test_folds_keep_every_row_whether_the_history_is_read_or_not(
    rows: Rows, store_root: StoreRoot
) -> None:
    for read, spans in ((False, range(6)), (True, range(6, 12))):
        handle = open_root(store_root).manifest
        if read:
            handle.load(None).load_history()
        image = with_history(handle, spans)
        assert image.history is None or image.history.is_read or not read
        fresh = open_root(store_root).manifest.load(None)
        assert same(image, fresh)
        # Parts of the history are rewritten together, so that they stay few.
        assert fresh.history is not None
        assert fresh.history.fragments <= 3


@pytest.mark.usefixtures("with_files", "first")
def test_a_whole_fold_leaves_one_part_of_the_history(rows: Rows, store_root: StoreRoot) -> None:
    spans = (with_history(rows, range(span, span + 1)) for span in range(12))
    parted = next(image for image in spans if image.history and image.history.fragments > 1)
    assert rows.fold(None, whole=True, split=split_commits)
    whole = open_root(store_root).manifest.load(None)
    assert whole.history is not None
    assert whole.history.fragments == 1
    assert cells(whole.rows) == cells(parted.rows)


@pytest.mark.usefixtures("with_files", "first")
def test_few_old_rows_stay_with_the_recent_ones(rows: Rows, first: Image) -> None:
    swapped_often(rows, first, 6)
    assert rows.fold(None, split=split_commits)
    assert rows.load(None).history is None


# ---- folds and rivals


def test_a_swap_from_before_a_fold_contends(rows: Rows, first: Image) -> None:
    image = swapped_often(rows, first, 3)
    assert rows.fold(None)
    with pytest.raises(RowContention):
        rows.swap(image, link("late", head_of(image.rows)))
    assert head_of(rows.load(None).rows) == "c2"


@pytest.mark.usefixtures("lance_only")
def test_a_fold_gives_way_to_a_swap(
    rows: Rows, store_root: StoreRoot, first: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = swapped_often(rows, first, 3)
    rival = open_root(store_root).manifest

    def interrupted(*given: Any, **named: Any) -> Any:
        planned = plan(*given, **named)
        rival.swap(rival.load(None), link("rival", head_of(image.rows)))
        return planned

    from omnigraphdb.storage.lance import rows as lance_rows

    plan = vars(lance_rows)["plan_fold"]
    monkeypatch.setattr(lance_rows, "plan_fold", interrupted)
    assert not rows.fold(None)
    assert head_of(rows.load(None).rows) == "rival"


@pytest.mark.usefixtures("lance_only")
def test_a_fold_costs_one_commit_and_no_scan_afterwards(rows: Rows, first: Image) -> None:
    swapped_often(rows, first, 3)
    with counting() as costs:
        rows.fold(None)
        rows.load(None)
    assert costs[Cost.MANIFEST_FOLDS] == 1
    assert costs[Cost.MANIFEST_SCANS] == 0


# ---- branches


def test_a_branch_starts_from_its_source_and_goes_its_own_way(rows: Rows, first: Image) -> None:
    ref = rows.create_branch("team/x", None, first.version)
    assert (ref.name, ref.parent, ref.parent_version) == ("team/x", None, first.version)
    assert rows.branches() == {"team/x": ref}
    image = rows.load("team/x")
    assert (image.branch, image.incarnation) == ("team/x", ref.incarnation)
    assert cells(image.rows) == cells(first.rows)
    rows.swap(image, keyed({"side": "1"}))
    rows.swap(first, keyed({"main": "1"}))
    assert "main" not in cells(rows.load("team/x").rows)
    assert "side" not in cells(rows.load(None).rows)


def test_the_same_key_contends_on_a_branch_too(rows: Rows, first: Image) -> None:
    rows.create_branch("side", None, first.version)
    image = rows.load("side")
    rows.swap(image, keyed({"new": "mine"}))
    with pytest.raises(RowContention):
        rows.swap(image, keyed({"new": "theirs"}))


def test_a_branch_name_is_taken_once(rows: Rows, first: Image) -> None:
    rows.create_branch("side", None, first.version)
    with pytest.raises(ForkExists) as caught:
        rows.create_branch("side", None, first.version)
    assert caught.value.has_ref


def test_a_branch_with_children_stays(rows: Rows, first: Image) -> None:
    rows.create_branch("parent", None, first.version)
    child = rows.create_branch("child", "parent", first.version)
    assert child.parent == "parent"
    with pytest.raises(BranchInUse):
        rows.delete_branch("parent")
    rows.delete_branch("child")
    rows.delete_branch("parent")
    rows.delete_branch("parent")
    assert rows.branches() == {}


def test_a_recreated_branch_is_another_life(rows: Rows, first: Image) -> None:
    rows.create_branch("side", None, first.version)
    old = rows.load("side")
    version = rows.swap(old, keyed({"old": "1"}))
    assert "old" in cells(rows.load("side", version).rows)
    rows.delete_branch("side")
    with pytest.raises(TableNotFound):
        rows.load("side")
    rows.create_branch("side", None, first.version)
    fresh = rows.load("side")
    assert fresh.incarnation != old.incarnation
    assert rows.swap(fresh, keyed({"new": "1"})) == version
    assert set(cells(rows.load("side", version).rows)) == {"genesis", "head", "new"}


class Vanishing:
    """The objects of a store; a branch loses its ref and its data once its ref was read."""

    def __init__(self, objects: Objects, branch: Path, ref: Path) -> None:
        self._objects = objects
        self._branch = branch
        self._ref = ref

    def read(self, path: str) -> str | None:
        text = self._objects.read(path)
        self._ref.unlink(missing_ok=True)
        shutil.rmtree(self._branch / "data", ignore_errors=True)
        return text


def test_a_branch_that_is_deleted_while_it_is_read_is_not_there(tmp_path: Path) -> None:
    local = StoreRoot(kind="local", uri=str(tmp_path / "graph"))
    rows, other = open_root(local).manifest, open_root(local).manifest
    assert isinstance(other, LanceRows)
    first = rows.create(marked(link("genesis", None)), metadata={"stamp": "4"}, config={})
    rows.create_branch("side", None, first.version)
    version = rows.swap(rows.load("side"), keyed({"own": "1"}))
    home = tmp_path / "graph" / other._path
    (ref,) = (home / "_refs" / "branches").iterdir()
    other._objects = Vanishing(other._objects, home / "tree" / "side", ref)  # type: ignore[assignment]
    with pytest.raises(TableNotFound):
        other.load("side", version)


@pytest.mark.usefixtures("lance_only")
def test_another_handle_notices_the_new_life_by_itself(
    rows: Rows, store_root: StoreRoot, first: Image
) -> None:
    other = open_root(store_root).manifest
    rows.create_branch("side", None, first.version)
    version = rows.swap(rows.load("side"), keyed({"old": "1"}))
    assert "old" in cells(other.load("side").rows)
    rows.delete_branch("side")
    rows.create_branch("side", None, first.version)
    assert rows.swap(rows.load("side"), keyed({"new": "1"})) == version
    assert set(cells(other.load("side", version).rows)) == {"genesis", "head", "new"}


@pytest.mark.usefixtures("lance_only")
@pytest.mark.parametrize("name", ["a/b-c.d_e", "ä", "日本/x", "_x"])
def test_the_life_of_any_name_can_be_read(rows: Rows, first: Image, name: str) -> None:
    ref = rows.create_branch(name, None, first.version)
    assert rows.incarnation(name) == ref.incarnation != MAIN_INCARNATION


# ---- old versions


def swap_each(rows: Rows, commits: list[str]) -> None:
    """Publish commits, each on top of the last."""
    for commit in commits:
        image = rows.load(None)
        rows.swap(image, link(commit, head_of(image.rows)), "head")


def test_versions_that_are_reclaimed_are_gone_and_the_others_stay(rows: Rows, first: Image) -> None:
    swap_each(rows, ["a", "b", "c", "d"])
    rows.create_branch("side", None, Version(2))
    before = cells(rows.load(None, Version(3)).rows)
    assert [one.version for one in rows.versions(None)] == [1, 2, 3, 4, 5]
    asked = [Version(1), Version(2), Version(4)]
    assert rows.reclaim(None, asked, dry_run=True).versions == 2
    assert len(rows.versions(None)) == 5
    # The store keeps what a branch stands on, whatever is asked.
    assert rows.reclaim(None, asked, dry_run=False).versions == 2
    assert [one.version for one in rows.versions(None)] == [2, 3, 5]
    assert [rows.has_version(None, Version(n)) for n in (1, 2, 3, 4, 5)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert rows.head(None) == 5
    assert cells(rows.load(None, Version(3)).rows) == before
    with pytest.raises(HistoryReclaimed):
        rows.load(None, Version(4))
    assert rows.load("side").version == 2
    assert rows.swap(rows.load(None), link("e", "d"), "head") == 6


def test_a_branch_of_a_version_that_is_gone_is_refused(rows: Rows, first: Image) -> None:
    swap_each(rows, ["a", "b"])
    rows.reclaim(None, [Version(2)], dry_run=False)
    with pytest.raises(HistoryReclaimed):
        rows.create_branch("side", None, Version(2))
    assert rows.branch_names() == frozenset()


def test_a_branch_of_the_same_name_has_another_mark(rows: Rows, first: Image) -> None:
    rows.create_branch("side", None, first.version)
    rows.create_branch("other", None, first.version)
    before = rows.branch_marks()
    assert before.keys() == {"side", "other"}
    rows.delete_branch("side")
    rows.create_branch("side", None, first.version)
    after = rows.branch_marks()
    assert after["other"] == before["other"]
    assert after["side"] != before["side"]


def test_the_newest_rows_are_found_by_key(rows: Rows, first: Image) -> None:
    swap_each(rows, ["a", "b", "c"])
    newest = cells(rows.find_newest(None, ["head", "a"]))
    assert (newest["head"], newest["c"]) == ("c", "b")
    assert cells(rows.find_newest(None, ["a"]))["a"] == "genesis"
    assert cells(rows.find_newest(None, ["nobody"])) == {}
    rows.create_branch("side", None, rows.head(None))
    assert cells(rows.find_newest("side", ["head"]))["head"] == "c"
    assert [rows.count_where(None, "metadata", one) for one in ("a", "c", "it's")] == [1, 1, 0]


def test_branching_writes_no_rows_and_moves_no_version(rows: Rows, first: Image) -> None:
    rows.create_branch("side", None, first.version)
    rows.delete_branch("side")
    assert rows.head(None) == first.version
    assert MANIFEST_SCHEMA.names == first.rows.column_names
