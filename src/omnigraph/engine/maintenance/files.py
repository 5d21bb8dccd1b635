"""Are the files of a graph those that were written? Every file of every table, compared with what was noted of it."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from omnigraph.engine.maintenance.issues import Issue
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import StorageError
from omnigraph.ids import BranchName, TableKey
from omnigraph.manifest.digests import noted_files
from omnigraph.manifest.state import BranchState
from omnigraph.storage.counters import carry_context
from omnigraph.storage.lance.digests import digest_key, name_below_line
from omnigraph.storage.layout import branch_path
from omnigraph.storage.tables import Tables
from omnigraph.values import dataclass

_INDICES = "_indices/"
_RESTORE = (
    "put it back from a copy of the graph; without one, export what can be read or go on from an earlier "
    "commit (`at=`)"
)
_REBUILD = "build the index anew with `omnigraph index build`"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """What a look at every file found, how many it compared, and of how many nobody noted a digest."""

    issues: tuple[Issue, ...]
    compared: int
    without_digest: int
    spoilt: frozenset[TableKey]
    """Tables whose rows should not be read: some flipped bits make Lance ask for more memory than there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What was noted of a file when it was written."""

    table_key: TableKey
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """Who needs a file: the newest version of some branches."""

    table_key: TableKey
    branches: tuple[BranchName, ...]
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file that is there, what was noted of it, and who needs it now."""

    path: str
    bytes: int
    note: _Note | None
    need: _Need | None

    @property
    def is_index(self) -> bool:
        """Whether it belongs to an index, which can be built anew."""
        return (name_below_line(self.path) or "").startswith(_INDICES)


_Notes = Mapping[tuple[str, str], _Note]
_Needs = Mapping[str, _Need]


def check_files(engine: Engine, branches: Iterable[BranchName]) -> FileCheck:
    """Look at the files of every version that a branch shows, and at those that only older versions have."""
    states = [engine.manifest.load(branch) for branch in branches]
    notes, tables = _notes(states), engine.store.tables
    needs, issues = _needs(tables, states)
    files: list[_File] = []
    for path in sorted(
        {entry.at.path for one in states for entry in one.snapshot.entries.values()}
    ):
        try:
            listed = tables.listed_files(path)
        except StorageError as error:
            issues += _unlisted(states, path, str(error))
            continue
        files += _files(listed, notes, needs)
        issues += _missing(path, listed, needs)
    issues += [_resized(file) for file in files if _is_resized(file)]
    noted = [file for file in files if file.note is not None and not _is_resized(file)]
    found = _compared(tables, noted)
    issues += [one for one in found if one is not None]
    without = sum(file.note is None and file.need is not None for file in files)
    return FileCheck(
        issues=tuple(issues),
        compared=len(noted),
        without_digest=without,
        spoilt=frozenset(one.table_key for one in issues if one.table_key and one.branch),
    )


def table_digests(state: BranchState) -> Mapping[str, Mapping[str, str]]:
    """The digests that a branch notes of the files of every table, by the path of the table and their keys."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for one in noted_files(state):
        found[one.path] |= one.digests
    return found


# ---- what is known


def _notes(states: Iterable[BranchState]) -> _Notes:
    """What was noted of every file, by the directory of its line and its key."""
    return {
        (branch_path(one.path, one.branch), key): _Note(
            table_key=one.table_key, version=one.version, digest=digest
        )
        for state in states
        for one in noted_files(state)
        for key, digest in one.digests.items()
    }


def _needs(tables: Tables, states: Iterable[BranchState]) -> tuple[_Needs, list[Issue]]:
    """The files that the newest versions need; a version that cannot be read is a finding."""
    found: dict[str, _Need] = {}
    unreadable: list[Issue] = []
    for state in states:
        for entry in state.snapshot.entries.values():
            try:
                needed = tables.needed_files(entry.at)
            except StorageError as error:
                unreadable.append(_unreadable(str(error), state.branch, entry.table_key))
                continue
            for path, size in needed.items():
                before = found[path].branches if path in found else ()
                found[path] = _Need(
                    table_key=entry.table_key, branches=(*before, state.branch), bytes=size
                )
    return found, unreadable


def _files(listed: Mapping[str, int], notes: _Notes, needs: _Needs) -> Iterator[_File]:
    """The files of a table that are noted or needed; others belong to Lance itself, or to nobody."""
    for path, size in listed.items():
        name = name_below_line(path)
        if name is None:
            continue
        note = notes.get((path[: -len(name) - 1], digest_key(name)))
        need = needs.get(path) or needs.get(_segment(path, name))
        if note is not None or need is not None:
            yield _File(path=path, bytes=size, note=note, need=need)


def _segment(path: str, name: str) -> str:
    """The directory of the index segment that a file belongs to, as needs name it."""
    inner = len(name) - len(_INDICES) - len(name.removeprefix(_INDICES).partition("/")[0]) - 1
    return path[: len(path) - inner] if name.startswith(_INDICES) else path


# ---- what is wrong


def _missing(path: str, listed: Mapping[str, int], needs: _Needs) -> Iterator[Issue]:
    """Files that are not there. A missing index is told by who looks at indexes."""
    for one, need in needs.items():
        if one.startswith(f"{path}/") and not one.endswith("/") and one not in listed:
            yield Issue(
                check="missing file",
                message=f"'{one}' is gone, and the newest version needs it",
                remedy=_RESTORE,
                branch=", ".join(need.branches),
                table_key=need.table_key,
            )


def _is_resized(file: _File) -> bool:
    if file.is_index or file.need is None or file.need.bytes is None:
        return False
    return file.bytes != file.need.bytes


def _resized(file: _File) -> Issue:
    expected = file.need.bytes if file.need is not None else None
    return _damaged(file, f"it has {file.bytes} bytes instead of {expected}")


def _compared(tables: Tables, files: list[_File]) -> list[Issue | None]:
    """Read every file and compare it with what was noted."""

    def compare(file: _File) -> Issue | None:
        assert file.note is not None, "only noted files are compared"
        try:
            actual = tables.digest(file.path)
        except StorageError as error:
            return _damaged(file, str(error))
        return None if actual in (None, file.note.digest) else _damaged(file, "its bytes changed")

    with ThreadPoolExecutor(os.cpu_count() or 1, "omnigraph-digest") as pool:
        return list(pool.map(carry_context(compare), files))


def _damaged(file: _File, how: str) -> Issue:
    known = file.note or file.need
    assert known is not None, "a file that nobody noted or needs is not looked at"
    written = f" for version {file.note.version}" if file.note is not None else ""
    used = (
        "the newest version needs it" if file.need is not None else "only earlier commits need it"
    )
    return Issue(
        check="damaged file",
        message=f"'{file.path}' is not what was written{written}: {how}; {used}",
        remedy=_REBUILD if file.is_index else _RESTORE,
        branch=None if file.need is None else ", ".join(file.need.branches),
        table_key=known.table_key,
    )


def _unlisted(states: Iterable[BranchState], path: str, message: str) -> Iterator[Issue]:
    """The tables of a directory that cannot be listed, if nothing else was found wrong with them."""
    for state in states:
        for entry in state.snapshot.entries.values():
            if entry.at.path == path:
                yield _unreadable(message, state.branch, entry.table_key)


def _unreadable(message: str, branch: BranchName, table: TableKey) -> Issue:
    return Issue(
        check="unreadable table",
        message=message,
        remedy=_RESTORE,
        branch=branch,
        table_key=table,
    )
