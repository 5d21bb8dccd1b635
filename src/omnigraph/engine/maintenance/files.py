"""Deep examination: compares every file of every table with the digest that was recorded when it was written."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from omnigraph.engine.maintenance.issues import Issue
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import StorageError
from omnigraph.ids import BranchName, TableKey
from omnigraph.manifest.state import BranchState, noted_files
from omnigraph.storage.counters import carry_context
from omnigraph.storage.lance.digests import digest_key, name_below_branch
from omnigraph.storage.layout import branch_path
from omnigraph.storage.tables import Tables
from omnigraph.values import dataclass

_INDICES = "_indices/"
_RESTORE = (
    "restore it from a copy of the graph; without a copy, export the readable tables or read an earlier "
    "commit (`at=`)"
)
_REBUILD = "build the index again with `omnigraph index build`"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The issues of files, how many files were compared, and how many have no recorded digest."""

    issues: tuple[Issue, ...]
    compared: int
    without_digest: int
    unreadable: frozenset[TableKey]
    """Tables whose rows must not be read: with some flipped bits Lance asks for more memory than there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What the manifest recorded of a file when it was written."""

    table_key: TableKey
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The branches whose newest version needs a file."""

    table_key: TableKey
    branches: tuple[BranchName, ...]
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """An existing file, its record, and who needs it now."""

    path: str
    bytes: int
    record: _Record | None
    need: _Need | None

    @property
    def is_index(self) -> bool:
        """Whether it belongs to an index, which can be built again."""
        return (name_below_branch(self.path) or "").startswith(_INDICES)


_Records = Mapping[tuple[str, str], _Record]
_Needs = Mapping[str, _Need]


def check_files(engine: Engine, branches: Iterable[BranchName]) -> FileCheck:
    """Check the files of every version that a branch shows, and those that only older versions have."""
    states = [engine.manifest.load(branch) for branch in branches]
    records, tables = _read_records(states), engine.store.tables
    needs, issues = _read_needs(tables, states)
    files: list[_File] = []
    for path in sorted(
        {entry.at.path for one in states for entry in one.snapshot.entries.values()}
    ):
        try:
            listed = tables.listed_files(path)
        except StorageError as error:
            issues += _report_unlisted(states, path, str(error))
            continue
        files += _relevant_files(listed, records, needs)
        issues += _find_missing(path, listed, needs)
    issues += [_report_resized(file) for file in files if _is_resized(file)]
    recorded = [file for file in files if file.record is not None and not _is_resized(file)]
    issues += [issue for issue in _compare_files(tables, recorded) if issue is not None]
    without = sum(file.record is None and file.need is not None for file in files)
    return FileCheck(
        issues=tuple(issues),
        compared=len(recorded),
        without_digest=without,
        unreadable=frozenset(one.table_key for one in issues if one.table_key and one.branch),
    )


def table_digests(state: BranchState) -> Mapping[str, Mapping[str, str]]:
    """Read the recorded digests of a branch, by the path of the table and the key of the file."""
    digests: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for one in noted_files(state):
        digests[one.path] |= one.digests
    return digests


# ---- records and needs


def _read_records(states: Iterable[BranchState]) -> _Records:
    """Read the records of all files, by the directory of the table or fork and the key of the file."""
    return {
        (branch_path(one.path, one.branch), key): _Record(
            table_key=one.table_key, version=one.version, digest=digest
        )
        for state in states
        for one in noted_files(state)
        for key, digest in one.digests.items()
    }


def _read_needs(tables: Tables, states: Iterable[BranchState]) -> tuple[_Needs, list[Issue]]:
    """Read which files the newest versions need; a version that cannot be read is an issue."""
    needs: dict[str, _Need] = {}
    unreadable: list[Issue] = []
    for state in states:
        for entry in state.snapshot.entries.values():
            try:
                needed = tables.needed_files(entry.at)
            except StorageError as error:
                unreadable.append(_report_unreadable(str(error), state.branch, entry.table_key))
                continue
            for path, size in needed.items():
                before = needs[path].branches if path in needs else ()
                needs[path] = _Need(
                    table_key=entry.table_key, branches=(*before, state.branch), bytes=size
                )
    return needs, unreadable


def _relevant_files(listed: Mapping[str, int], records: _Records, needs: _Needs) -> Iterator[_File]:
    """Select the files of a table that are recorded or needed; the others are files of Lance itself, or leftovers."""
    for path, size in listed.items():
        name = name_below_branch(path)
        if name is None:
            continue
        record = records.get((path[: -len(name) - 1], digest_key(name)))
        need = needs.get(path) or needs.get(_segment_of(path, name))
        if record is not None or need is not None:
            yield _File(path=path, bytes=size, record=record, need=need)


def _segment_of(path: str, name: str) -> str:
    """The directory of the index segment that a file belongs to, which is the key of its need."""
    inner = len(name) - len(_INDICES) - len(name.removeprefix(_INDICES).partition("/")[0]) - 1
    return path[: len(path) - inner] if name.startswith(_INDICES) else path


# ---- issues


def _find_missing(path: str, listed: Mapping[str, int], needs: _Needs) -> Iterator[Issue]:
    """Find needed files that do not exist; the check of indexes reports missing index files."""
    for one, need in needs.items():
        if one.startswith(f"{path}/") and not one.endswith("/") and one not in listed:
            yield Issue(
                check="missing file",
                message=f"'{one}' does not exist, and the newest version needs it",
                remedy=_RESTORE,
                branch=", ".join(need.branches),
                table_key=need.table_key,
            )


def _is_resized(file: _File) -> bool:
    if file.is_index or file.need is None or file.need.bytes is None:
        return False
    return file.bytes != file.need.bytes


def _report_resized(file: _File) -> Issue:
    expected = file.need.bytes if file.need is not None else None
    return _report_damaged(file, f"it has {file.bytes} bytes instead of {expected}")


def _compare_files(tables: Tables, files: list[_File]) -> list[Issue | None]:
    """Read every file and compare it with its recorded digest."""

    def compare(file: _File) -> Issue | None:
        assert file.record is not None, "only recorded files are compared"
        try:
            actual = tables.digest(file.path)
        except StorageError as error:
            return _report_damaged(file, str(error))
        if actual in (None, file.record.digest):
            return None
        return _report_damaged(file, "its bytes changed")

    with ThreadPoolExecutor(os.cpu_count() or 1, "omnigraph-digest") as pool:
        return list(pool.map(carry_context(compare), files))


def _report_damaged(file: _File, how: str) -> Issue:
    known = file.record or file.need
    assert known is not None, "only recorded or needed files are checked"
    written = f" for version {file.record.version}" if file.record is not None else ""
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


def _report_unlisted(states: Iterable[BranchState], path: str, message: str) -> Iterator[Issue]:
    """Report the tables of a directory that cannot be listed."""
    for state in states:
        for entry in state.snapshot.entries.values():
            if entry.at.path == path:
                yield _report_unreadable(message, state.branch, entry.table_key)


def _report_unreadable(message: str, branch: BranchName, table: TableKey) -> Issue:
    return Issue(
        check="unreadable table",
        message=message,
        remedy=_RESTORE,
        branch=branch,
        table_key=table,
    )
