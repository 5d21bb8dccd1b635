"""Every row of `storage.lance.faults`, provoked for real: message texts are no API, so an upgrade may move them."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraphdb.errors import (
    BranchInUse,
    EngineError,
    HeadMoved,
    InternalError,
    OmniError,
    RowContention,
    StorageError,
    TableExists,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.ids import Version
from omnigraphdb.storage.lance.commit import _require_next_version
from omnigraphdb.storage.lance.faults import (
    FAULTS,
    FaultKind,
    TableLocation,
    classify_fault,
    clean_message,
    translate_faults,
)
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.objects.faults import StoreAction
from tests.support import disks
from tests.support.lance_bare import (
    Op,
    append,
    commit,
    compaction,
    create,
    index,
    keyed_table,
    rows,
    swap,
    table_of,
    upsert,
)

PLACE = TableLocation(root=Root("/graph", "file"), path="nodes/x", branch="side", version=7)
Provoke = Callable[[Path], object]


def _overtaken(base: LanceDataset) -> None:
    staged = Transaction(base.version, Op.Overwrite(base.lance_schema, []))
    append(base, rows("x"))
    LanceDataset.commit(base, staged, max_retries=0)


def _hopeless(base: LanceDataset) -> None:
    staged = write_fragments(rows("x"), base, return_transaction=True)
    commit(base, Op.Overwrite(base.lance_schema, []))
    LanceDataset.commit(base, staged, max_retries=0)


def _lost_swap(path: Path) -> None:
    dataset = keyed_table(path)
    rival = LanceDataset(dataset.uri)
    swap(rival, rows("new"))
    swap(dataset, rows("new"))


def _two_stamps(path: Path) -> None:
    dataset = keyed_table(path)
    rival = LanceDataset(dataset.uri)
    rival.update_schema_metadata({"stamp": "1"})
    dataset.update_schema_metadata({"stamp": "2"})


def _fenced(base: LanceDataset) -> None:
    staged = write_fragments(rows("x"), base, return_transaction=True)
    append(base, rows("y"))
    LanceDataset.commit(
        base, staged, max_retries=0, commit_lock=_require_next_version(Version(base.version))
    )


def _lost_create(path: Path) -> None:
    table_of(path, rows("a"))
    create(path)


def _written_over(path: Path) -> None:
    table_of(path, rows("a"))
    lance.write_dataset(rows("a"), str(path), mode="create")


def _parent_dropped(base: LanceDataset) -> None:
    parent = base.create_branch("parent", (None, base.version))
    parent.create_branch("child", ("parent", base.version))
    base.branches.delete("parent")


def _forked_twice(base: LanceDataset) -> None:
    for _ in range(2):
        base.create_branch("side", (None, base.version))


def _file_lost(
    base: LanceDataset, read: Callable[[LanceDataset], object] = LanceDataset.to_table
) -> None:
    for file in Path(base.uri, "data").iterdir():
        file.unlink()
    read(LanceDataset(base.uri))


def _exhausted(path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("pad", pa.string())])
    names = [f"k{number:07d}" for number in range(100_000)]
    wide = pa.table([names, ["x" * 500] * len(names)], schema=schema)
    upsert(index(append(create(path, schema), wide.slice(0, 1000))), wide)


def _blob_without_content(path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), lance.blob_field("doc")])
    both = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    cells = pa.array([{"data": None, "uri": None}], both)
    write_fragments(pa.table({"id": ["a"], "doc": cells}), create(path, schema))


def _in_the_hook(base: LanceDataset) -> None:
    @contextlib.contextmanager
    def meddling(version: int) -> Iterator[None]:
        LanceDataset(base.uri)
        yield

    staged = write_fragments(rows("x"), base, return_transaction=True)
    LanceDataset.commit(base, staged, max_retries=0, commit_lock=meddling)


def _nulls(base: LanceDataset, *, schema: bool) -> None:
    ids = pa.array([None], pa.string())
    table = (
        pa.table([ids, pa.array([1], pa.int64())], schema=base.schema)
        if schema
        else pa.table({"id": ids})
    )
    write_fragments(table, base)


def _folded(path: Path) -> None:
    base = table_of(path, rows("a"), rows("b"))
    folding = compaction(base)
    LanceDataset.commit(base, upsert(base, rows("a")), max_retries=0)
    commit(base, folding)


def on_table(work: Callable[[LanceDataset], object]) -> Provoke:
    return lambda path: work(table_of(path, rows("a", "b")))


def _ref_gone(base: LanceDataset) -> None:
    base.create_branch("side", (None, base.version))
    folder = Path(base.uri, "_refs", "branches")
    # Looked for under the name its branch would have, which is another.
    (folder / "side.json").rename(folder / "sid?.json")
    base.branches.list()


def _spoilt(where: str, content: Callable[[bytes], bytes], part: str = "*") -> Provoke:
    """Damage the newest files in one folder of a table, and read it."""

    def provoke(path: Path) -> None:
        dataset = table_of(path, rows("a", "b"))
        dataset.delete("id = 'a'")
        dataset.create_branch("side", (None, 1))
        for file in sorted(path.joinpath(where).glob(part)):
            file.write_bytes(content(file.read_bytes()))
        lance.dataset(str(path)).branches.list()
        lance.dataset(str(path)).to_table()

    return provoke


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _nothing(content: bytes) -> bytes:
    return b""


def _noise(content: bytes) -> bytes:
    return b"?" * len(content)


SPOILT = {
    f"{name} {where}": _spoilt(where, content)
    for name, content in (("half of", _half), ("nothing of", _nothing), ("noise for", _noise))
    for where in ("_versions", "data", "_deletions", "_refs/branches")
}
FLIPPED = {
    "names an unknown encoding": (-6, 0x01, "Invalid user input: Invalid direct"),
    "points past the end": (-13, 0x01, "failed to fill whole buffer"),
    "makes a thread panic": (-33, 0x80, "producer terminated"),
    "breaks a message": (-47, 0x01, "failed to decode Protobuf"),
}
"""Where in a data file, which bit, and what Lance says. Some other bits make Lance ask for more memory than there is."""


def _flipped(place: int, bit: int, said: str) -> Provoke:
    def provoke(path: Path) -> None:
        table = table_of(path, rows("a", "b", "c"))
        (file,) = Path(table.uri, "data").iterdir()
        content = bytearray(file.read_bytes())
        content[place] ^= bit
        file.write_bytes(content)
        with pytest.raises(BaseException, match=said) as caught:
            LanceDataset(table.uri).to_table()
        raise caught.value

    return provoke


def _deletions_lost(table: LanceDataset) -> object:
    table.delete("id = 'a'")
    shutil.rmtree(Path(table.uri, "_deletions"))
    return LanceDataset(table.uri).get_fragments()[0].delete_rows([1])


PROVOKED: dict[str, tuple[Provoke, FaultKind, type[OmniError]]] = {
    "a stale overwrite": (on_table(_overtaken), FaultKind.CONTENTION, HeadMoved),
    "an append over an overwrite": (on_table(_hopeless), FaultKind.CONTENTION, HeadMoved),
    "a fold over an upsert": (_folded, FaultKind.CONTENTION, HeadMoved),
    "a lost swap": (_lost_swap, FaultKind.CONTENTION, HeadMoved),
    "a lost stamp": (_two_stamps, FaultKind.CONTENTION, HeadMoved),
    "a fence": (on_table(_fenced), FaultKind.FENCED, HeadMoved),
    "a second create": (_lost_create, FaultKind.EXISTS, TableExists),
    "a second inline create": (_written_over, FaultKind.EXISTS, TableExists),
    "a missing branch ref": (
        on_table(lambda t: t.branches.delete("nowhere")),
        FaultKind.REF_MISSING,
        TableNotFound,
    ),
    "a parent that is dropped": (on_table(_parent_dropped), FaultKind.REF_IN_USE, BranchInUse),
    "a bad branch name": (
        on_table(lambda t: t.create_branch("a b", (None, 2))),
        FaultKind.REF_NAME,
        UserInputError,
    ),
    **{name: (provoke, FaultKind.DAMAGED, StorageError) for name, provoke in SPOILT.items()},
    **{
        f"a flipped bit that {name}": (_flipped(*flip), FaultKind.DAMAGED, StorageError)
        for name, flip in FLIPPED.items()
    },
    "a lost deletion file, deleted from": (
        on_table(_deletions_lost),
        FaultKind.FILE_MISSING,
        StorageError,
    ),
    "a ref that is listed and not found": (
        on_table(_ref_gone),
        FaultKind.REF_VANISHED,
        StorageError,
    ),
    "a taken branch name": (on_table(_forked_twice), FaultKind.REF_TAKEN, StorageError),
    "a missing table": (lambda path: LanceDataset(str(path)), FaultKind.MISSING, TableNotFound),
    "a missing version": (
        on_table(lambda t: LanceDataset(t.uri, version=99)),
        FaultKind.MISSING,
        TableNotFound,
    ),
    "a missing version by checkout": (
        on_table(lambda t: t.checkout_version(99)),
        FaultKind.MISSING,
        TableNotFound,
    ),
    "a missing branch by checkout": (
        on_table(lambda t: t.checkout_version(("nowhere", None))),
        FaultKind.MISSING,
        TableNotFound,
    ),
    "a lost data file": (on_table(_file_lost), FaultKind.FILE_MISSING, StorageError),
    "a lost data file, taken from": (
        on_table(lambda t: _file_lost(t, lambda lost: lost.take([0]))),
        FaultKind.FILE_MISSING,
        StorageError,
    ),
    "an unknown column": (
        on_table(lambda t: write_fragments(pa.table({"id": ["a"], "z": [1]}), t)),
        FaultKind.BAD_DATA,
        InternalError,
    ),
    "a null key": (on_table(lambda t: _nulls(t, schema=False)), FaultKind.BAD_DATA, InternalError),
    "a null in a typed key": (
        on_table(lambda t: _nulls(t, schema=True)),
        FaultKind.BAD_DATA,
        InternalError,
    ),
    "a blob without content": (_blob_without_content, FaultKind.BAD_DATA, InternalError),
    "an unknown name in a filter": (
        on_table(lambda t: t.to_table(filter="nope = 1")),
        FaultKind.BAD_REQUEST,
        EngineError,
    ),
    "an unknown name in a typed filter": (
        on_table(lambda t: t.to_table(filter=pc.field("nope") == 1)),
        FaultKind.BAD_REQUEST,
        EngineError,
    ),
    "a join out of memory": (_exhausted, FaultKind.EXHAUSTED, EngineError),
    "a panic": (on_table(_in_the_hook), FaultKind.PANIC, InternalError),
}


@pytest.mark.parametrize("name", PROVOKED)
def test_what_lance_raises_is_known(tmp_path: Path, name: str) -> None:
    provoke, trouble, ours = PROVOKED[name]
    with pytest.raises(BaseException) as caught:
        provoke(tmp_path / "t")
    assert classify_fault(caught.value) is trouble
    with pytest.raises(OmniError) as translated, translate_faults(StoreAction.WRITE, PLACE):
        raise caught.value
    assert type(translated.value) is ours
    assert translated.value.__cause__ is caught.value
    for text in (str(translated.value), clean_message(caught.value)):
        assert ".rs:" not in text
        assert "file a bug report" not in text


def test_every_row_of_the_table_was_provoked() -> None:
    seen = {trouble for _, trouble, _ in PROVOKED.values()} | {FaultKind.STORE}
    assert seen == set(FaultKind)
    assert {row.kind for row in FAULTS} | {FaultKind.PANIC} == set(FaultKind)


def test_contention_takes_the_shape_its_caller_gives_it(tmp_path: Path) -> None:
    lost = RowContention("__manifest", None, 7)
    with (
        pytest.raises(RowContention),
        translate_faults(StoreAction.WRITE, PLACE, contention=lambda: lost),
    ):
        _lost_swap(tmp_path / "t")


def test_our_own_errors_and_interrupts_pass_unchanged() -> None:
    for error in (TableExists("t"), KeyboardInterrupt(), SystemExit(1), KeyError("x")):
        with pytest.raises(type(error)) as caught, translate_faults(StoreAction.WRITE, PLACE):
            raise error
        assert caught.value is error


# ---- the store below


def test_a_path_through_a_file_is_the_stores_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(StorageError, match="a file stands where a directory is needed"),
        translate_faults(StoreAction.OPEN, PLACE),
    ):
        LanceDataset(str(tmp_path / "file" / "t"))


def test_a_damaged_manifest_is_the_stores_fault(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a"))
    for file in Path(dataset.uri, "_versions").glob("*.manifest"):
        file.write_bytes(b"garbage")
    with pytest.raises(StorageError) as caught, translate_faults(StoreAction.OPEN, PLACE):
        LanceDataset(dataset.uri)
    assert caught.value.storage_kind == "unknown"


SCRIPT = """
    import os, sys
    from lance import LanceDataset
    from omnigraphdb.errors import StorageError
    from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
    from omnigraphdb.storage.layout import Root
    from omnigraphdb.storage.objects.faults import StoreAction
    from tests.support.lance_bare import append, rows, table_of
    path = sys.argv[1]
    location = TableLocation(root=Root(path, "file"), path="t")
    {before}
    try:
        with translate_faults(StoreAction.WRITE, location):
            {work}
    except StorageError as error:
        print(error.storage_kind, "|", error, "|", error.hint)
"""


def run_in_process(path: Path, before: str, work: str) -> str:
    """What a fresh process says when this fails there."""
    script = textwrap.dedent(SCRIPT).format(before=before, work=work)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_directory_without_permission_is_told(tmp_path: Path) -> None:
    table_of(tmp_path / "t", rows("a"))
    for directory in (tmp_path, *tmp_path.parents):
        with contextlib.suppress(OSError):
            directory.chmod(directory.stat().st_mode | 0o055)
    drop = "os.setuid(65534)" if os.getuid() == 0 else "os.chmod(path + '/data', 0o500)"
    said = run_in_process(tmp_path / "t", drop, "append(LanceDataset(path), rows('b'))")
    assert said.startswith("configuration | could not write")
    assert "permission denied" in said
    assert "check the owner and the mode" in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path / "disk", "400k") as disk:
        yield disk


def test_a_full_disk_is_told(small_disk: Path) -> None:
    table_of(small_disk / "t", rows("a"))
    work = "append(LanceDataset(path), rows(*map(str, range(200_000))))"
    said = run_in_process(small_disk / "t", "pass", work)
    assert said.startswith("permanent | could not write")
    assert "the disk is full" in said
    assert "free some space" in said


def test_a_read_only_disk_is_told(small_disk: Path) -> None:
    table_of(small_disk / "t", rows("a"))
    remount = ctypes.CDLL(None).mount(b"tmpfs", str(small_disk).encode(), b"tmpfs", 32 | 1, b"")
    assert remount == 0
    said = run_in_process(small_disk / "t", "pass", "append(LanceDataset(path), rows('b'))")
    assert said.startswith("configuration | could not write")
    assert "read-only" in said
