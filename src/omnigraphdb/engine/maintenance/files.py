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
class _File:
    """An existing file, its record, and what needs it."""

    path: str
    bytes: int
    record: _Record | None
    need: Need | None

    @property
    def is_index(self) -> bool:
        """Whether it belongs to an index, which can be built again."""
        return (name_below_branch(self.path) or "").startswith(_INDICES)

    def report(self, how: str) -> Issue:
        """Make the issue of a file that is damaged."""
        known = self.record or self.need
        assert known is not None, "only recorded or needed files are checked"
        return report_damaged(
            self.path,
            how,
            "only earlier commits need it" if self.need is None else self.need.use,
            () if self.need is None else self.need.branches,
            known.table_key,
            REBUILD if self.is_index else RESTORE,
            "" if self.record is None else f" for version {self.record.version}",
        )


_Records = Mapping[tuple[str, str], _Record]


def check_files(engine: Engine, branches: Iterable[BranchName]) -> FileCheck:
    """Check every file that a commit, a tag or a branch needs, each once, and the recorded ones beside them."""
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
    issues += [file.report(how) for file in files if (how := _find_other_size(file)) is not None]
    whole = [file for file in files if _find_other_size(file) is None]
    recorded = [file for file in whole if file.record is not None]
    unrecorded = [file for file in whole if file.record is None and not file.is_index]
    issues += _compare_files(tables, recorded, unrecorded)
    newest = [file for file in files if file.need is not None and file.need.branches]
    return FileCheck(
        issues=tuple(issues),
        compared=len(recorded),
        without_digest=sum(
            file.record is None and not file.path.startswith(f"{MANIFEST}/") for file in newest
        ),
        unreadable=frozenset(one.table_key for one in issues if one.table_key and one.branch),
    )


# ---- records and files


def _load_states(
    engine: Engine, branches: Iterable[BranchName]
) -> tuple[list[BranchState], list[Issue]]:
    """Read the branches that can be read, with their old rows; whoever examines the branches reports the others."""
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
        (branch_path(one.path, one.branch), key): _Record(
            table_key=one.table_key, version=one.version, digest=digest
        )
        for state in states
        for one in published_versions(state, with_digests=True)
        for key, digest in one.digests.items()
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
    """The directory of the index segment that a file belongs to, which is the key of its need."""
    inner = len(name) - len(_INDICES) - len(name.removeprefix(_INDICES).partition("/")[0]) - 1
    return path[: len(path) - inner] if name.startswith(_INDICES) else path


# ---- issues


def _find_missing(
    path: str, listed: Mapping[str, int], records: _Records, needs: Needs
) -> Iterator[Issue]:
    """Find needed files that do not exist; the check of indexes reports missing index files."""
    blobs = _group_blobs(records)
    for one, need in needs.items():
        if not one.startswith(f"{path}/") or one.endswith("/"):
            continue
        name = name_below_branch(one) or ""
        beside = blobs.get((one[: -len(name) - 1], digest_key(name)), ())
        stem, _ = os.path.splitext(one)
        for file in (one, *(f"{stem}/{blob}{_BLOB}" for blob in beside)):
            if file not in listed:
                yield report_missing(file, need.use, need.branches, need.table_key)


def _group_blobs(records: _Records) -> Mapping[tuple[str, str], Sequence[str]]:
    """List the recorded blobs that lie beside rows, by the directory of the branch and the key of the file of rows."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for directory, key in records:
        owner, _, blob = key.rpartition("/")
        if owner and not key.startswith(_INDICES):
            found[directory, owner].append(blob)
    return found


def _find_other_size(file: _File) -> str | None:
    expected = None if file.need is None or file.is_index else file.need.file.bytes
    if expected is None or file.bytes == expected:
        return None
    return f"it has {file.bytes} bytes instead of {expected}"


def _compare_files(
    tables: Tables, recorded: Sequence[_File], unrecorded: Sequence[_File]
) -> list[Issue]:
    """Read every file once: compare it with its recorded digest, or see that it can be read at all."""

    def compare(file: _File) -> Issue | None:
        assert file.record is not None, "only recorded files are compared"
        try:
            actual = tables.digest(file.path)
        except StorageError as error:
            return file.report(str(error))
        return None if actual in (None, file.record.digest) else file.report("its bytes changed")

    def read(file: _File) -> Issue | None:
        assert file.need is not None, "what is not recorded is needed"
        how = tables.find_unreadable(file.path, file.need.file)
        return None if how is None else file.report(how)

    with ThreadPoolExecutor(os.cpu_count() or 1, "omnigraph-digest") as pool:
        found = (
            *pool.map(carry_context(compare), recorded),
            *pool.map(carry_context(read), unrecorded),
        )
    return [one for one in found if one is not None]


def _report_unlisted(path: str, needs: Needs, error: OmniError) -> Issue:
    """Report a table whose directory cannot be listed."""
    used = [need for one, need in needs.items() if one.startswith(f"{path}/")]
    branches = sorted({branch for need in used for branch in need.branches})
    return Issue(
        check="unreadable table",
        message=str(error),
        remedy=RESTORE,
        branch=", ".join(branches) or None,
        table_key=next((need.table_key for need in used), None),
    )
