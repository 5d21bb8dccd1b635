"""Deep examination: compares every file of every table with the digest that was recorded when it was written."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from omnigraphdb.engine.maintenance.issues import (
    REBUILD,
    RESTORE,
    Issue,
    report_damaged,
    report_missing,
    report_unreadable_branch,
)
from omnigraphdb.engine.maintenance.needs import Need, NeedReader, Needs, find_lost_schemas
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError, StorageError
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.manifest.state import BranchState, published_versions
from omnigraphdb.manifest.table_history import TableIncarnation
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.lance.digests import digest_key, name_below_branch
from omnigraphdb.storage.layout import MANIFEST, branch_path
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

_INDICES = "_indices/"
_BLOB = ".blob"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The issues of files, the number of compared files, and the number of files without a recorded digest."""

    issues: tuple[Issue, ...]
    compared: int
    without_digest: int
    unreadable: frozenset[TableKey]
    """Tables whose rows must not be read: with some flipped bits Lance asks for more memory than the machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The facts that the manifest recorded of a file when it was written."""

    table_key: TableKey
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """An existing file, its record, and the versions that need it."""

    path: str
    bytes: int
    record: _Record | None
    need: Need | None

    @property
    def is_index(self) -> bool:
        """Whether the file belongs to an index, which can be built again."""
        return (name_below_branch(self.path) or "").startswith(_INDICES)

    def report(self, problem: str) -> Issue:
        """Make the issue of a damaged file."""
        record_or_need = self.record or self.need
        assert record_or_need is not None, "only recorded or needed files are checked"
        return report_damaged(
            self.path,
            problem,
            "only earlier commits need it" if self.need is None else self.need.use,
            () if self.need is None else self.need.branches,
            record_or_need.table_key,
            REBUILD if self.is_index else RESTORE,
            "" if self.record is None else f" for version {self.record.version}",
        )


_Records = Mapping[tuple[str, str], _Record]


def check_files(engine: Engine, branches: Iterable[BranchName]) -> FileCheck:
    """Check, each once, the files that commits, tags and branches need, and the other recorded files."""
    branches = list(branches)
    states, issues = _load_states(engine, branches)
    records, tables = _read_records(states), engine.store.tables
    reader = NeedReader(engine=engine, branches=branches, states=states)
    needs = reader.read()
    issues += (*reader.issues, *find_lost_schemas(engine, states))
    files: list[_File] = []
    for path in (MANIFEST, *sorted({at.path for state in states for at in _list_tables(state)})):
        try:
            listed = tables.listed_files(path)
        except OmniError as error:
            issues.append(_report_unlisted(path, needs, error))
            continue
        files += _relevant_files(listed, records, needs)
        issues += _find_missing(path, listed, records, needs)
    issues += [
        file.report(problem) for file in files if (problem := _find_other_size(file)) is not None
    ]
    intact = [file for file in files if _find_other_size(file) is None]
    recorded = [file for file in intact if file.record is not None]
    unrecorded = [file for file in intact if file.record is None and not file.is_index]
    issues += _compare_files(tables, recorded, unrecorded)
    newest = [file for file in files if file.need is not None and file.need.branches]
    return FileCheck(
        issues=tuple(issues),
        compared=len(recorded),
        without_digest=sum(
            file.record is None and not file.path.startswith(f"{MANIFEST}/") for file in newest
        ),
        unreadable=frozenset(
            issue.table_key for issue in issues if issue.table_key and issue.branch
        ),
    )


# ---- records and files


def _load_states(
    engine: Engine, branches: Iterable[BranchName]
) -> tuple[list[BranchState], list[Issue]]:
    """Read the readable branches, with their old rows; the examination of branches reports the unreadable ones."""
    states: list[BranchState] = []
    issues: list[Issue] = []
    for branch in branches:
        try:
            state = engine.manifest.load(branch)
            _ = state.snapshot, state.lineage
        except OmniError as error:
            issues.append(report_unreadable_branch(branch, error))
        else:
            states.append(state)
    return states, issues


def _read_records(states: Iterable[BranchState]) -> _Records:
    """Read the records of all files, by the directory of the table or fork and the key of the file."""
    return {
        (branch_path(published.path, published.branch), key): _Record(
            table_key=published.table_key, version=published.version, digest=digest
        )
        for state in states
        for published in published_versions(state, with_digests=True)
        for key, digest in published.digests.items()
    }


def _list_tables(state: BranchState) -> Iterator[TableIncarnation]:
    """List the tables that a branch shows, or showed: earlier commits need them."""
    for incarnations in state.table_history.by_key.values():
        yield from incarnations


def _relevant_files(listed: Mapping[str, int], records: _Records, needs: Needs) -> Iterator[_File]:
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
    """Return the directory of the index segment that a file belongs to, which is the key of its need."""
    inner = len(name) - len(_INDICES) - len(name.removeprefix(_INDICES).partition("/")[0]) - 1
    return path[: len(path) - inner] if name.startswith(_INDICES) else path


# ---- issues


def _find_missing(
    path: str, listed: Mapping[str, int], records: _Records, needs: Needs
) -> Iterator[Issue]:
    """Find needed files that do not exist; the check of indexes reports missing index files."""
    blobs = _group_blobs(records)
    for needed_path, need in needs.items():
        if not needed_path.startswith(f"{path}/") or needed_path.endswith("/"):
            continue
        name = name_below_branch(needed_path) or ""
        blob_names = blobs.get((needed_path[: -len(name) - 1], digest_key(name)), ())
        stem, _ = os.path.splitext(needed_path)
        for file in (needed_path, *(f"{stem}/{blob}{_BLOB}" for blob in blob_names)):
            if file not in listed:
                yield report_missing(file, need.use, need.branches, need.table_key)


def _group_blobs(records: _Records) -> Mapping[tuple[str, str], Sequence[str]]:
    """Group the recorded blobs of rows by the directory of the branch and the key of the file of rows."""
    blobs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for directory, key in records:
        owner, _, blob = key.rpartition("/")
        if owner and not key.startswith(_INDICES):
            blobs[directory, owner].append(blob)
    return blobs


def _find_other_size(file: _File) -> str | None:
    expected = None if file.need is None or file.is_index else file.need.file.bytes
    if expected is None or file.bytes == expected:
        return None
    return f"it has {file.bytes} bytes instead of {expected}"


def _compare_files(
    tables: Tables, recorded: Sequence[_File], unrecorded: Sequence[_File]
) -> list[Issue]:
    """Read every file once: compare it with its recorded digest, or check that it can be read."""

    def compare(file: _File) -> Issue | None:
        assert file.record is not None, "only recorded files are compared"
        try:
            actual = tables.digest(file.path)
        except StorageError as error:
            return file.report(str(error))
        return None if actual in (None, file.record.digest) else file.report("its bytes changed")

    def read(file: _File) -> Issue | None:
        assert file.need is not None, "a file without a record is needed"
        problem = tables.find_unreadable(file.path, file.need.file)
        return None if problem is None else file.report(problem)

    with ThreadPoolExecutor(os.cpu_count() or 1, "omnigraph-digest") as pool:
        issues = (
            *pool.map(carry_context(compare), recorded),
            *pool.map(carry_context(read), unrecorded),
        )
    return [issue for issue in issues if issue is not None]


def _report_unlisted(path: str, needs: Needs, error: OmniError) -> Issue:
    """Report a table whose directory cannot be listed."""
    table_needs = [
        need for needed_path, need in needs.items() if needed_path.startswith(f"{path}/")
    ]
    branches = sorted({branch for need in table_needs for branch in need.branches})
    return Issue(
        check="unreadable table",
        message=str(error),
        remedy=RESTORE,
        branch=", ".join(branches) or None,
        table_key=next((need.table_key for need in table_needs), None),
    )
