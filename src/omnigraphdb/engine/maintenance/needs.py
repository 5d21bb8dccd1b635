"""The files that commits, tags and branches need; the manifest of each version is opened once, without caches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from omnigraphdb.engine.maintenance.issues import RESTORE, Issue, report_damaged, report_missing
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, BranchName, TableKey, Version
from omnigraphdb.manifest.accepted_schema import read_replaced
from omnigraphdb.manifest.lineage import commits_of
from omnigraphdb.manifest.records import graph_branch, lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState, published_versions
from omnigraphdb.manifest.tags import list_tags
from omnigraphdb.manifest.travel import past_state_of
from omnigraphdb.storage.layout import MANIFEST, RECLAIMED
from omnigraphdb.storage.values import NeededFile, TableAt, VersionContents
from omnigraphdb.values import dataclass

Line = tuple[str, str | None]
"""A table, or the manifest, on one of its branches: all versions with files in one directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The table whose versions need a file, Lance's record of it, and the branches whose newest version needs it."""

    table_key: TableKey | None
    file: NeededFile
    branches: tuple[BranchName, ...] = ()

    named_by: str = ""
    """A version file that names the file."""

    @property
    def use(self) -> str:
        """The versions that need the file, in the words of a message."""
        by = f" ('{self.named_by}' names it)" if self.named_by else ""
        if self.branches:
            return f"the newest version needs it{by}"
        return f"only earlier commits need it{by}"


Needs = Mapping[str, Need]


@dataclass(slots=True, kw_only=True)
class _VersionUse:
    """The facts that commits show of one version."""

    table_key: TableKey | None = None
    row_count: int | None = None
    branches: tuple[BranchName, ...] = ()
    """The branches that show it now."""
    is_pinned: bool = False
    """True if cleanup keeps it."""


@dataclass(slots=True, kw_only=True)
class NeedReader:
    """Reads the needs of the readable branches of a graph, and finds versions that cannot be read."""

    engine: Engine
    branches: Sequence[BranchName]
    states: Sequence[BranchState]
    needs: dict[str, Need] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)

    def read(self) -> Needs:
        """Open every existing version of the tables that a branch shows or showed."""
        uses = self._list_used()
        lines = {(at.path, at.branch) for at in uses}
        # A branch that cannot be read has versions of the manifest that say why.
        lines |= {(MANIFEST, lance_branch(branch)) for branch in self.branches}
        for line in sorted(lines, key=str):
            self._read_line(line, {at.version: use for at, use in uses.items() if _on(line, at)})
        return self.needs

    # ---- versions that commits show

    def _list_used(self) -> dict[TableAt, _VersionUse]:
        """List the versions that commits show, or showed before cleanup removed them."""
        uses: dict[TableAt, _VersionUse] = {}
        for state in self.states:
            for published in published_versions(state):
                at = TableAt(
                    path=published.path, branch=published.branch, version=published.version
                )
                uses[at] = _VersionUse(table_key=published.table_key, row_count=published.row_count)
        for state in self.states:
            newest = TableAt(path=MANIFEST, branch=state.image.branch, version=state.version)
            self._pin(uses, newest, None, state.branch)
            for entry in state.snapshot.entries.values():
                self._pin(uses, entry.at, entry, state.branch)
        for entry in self._list_tagged():
            self._pin(uses, entry.at, entry)
        return uses

    def _pin(
        self,
        uses: dict[TableAt, _VersionUse],
        at: TableAt,
        entry: Entry | None,
        branch: BranchName | None = None,
    ) -> None:
        unnamed = replace(at, name="")
        use = uses.setdefault(
            unnamed, _VersionUse(table_key=None if entry is None else entry.table_key)
        )
        use.is_pinned = True
        if branch is not None:
            use.branches = (*use.branches, branch)

    def _list_tagged(self) -> Iterator[Entry]:
        """List the tables that tags show; a tag that cannot be read is an issue."""
        by_branch = {state.branch: state for state in self.states}
        for tag in list_tags(by_branch[MAIN]) if MAIN in by_branch else ():
            state = by_branch.get(tag.branch)
            if state is None or tag.commit is None:
                continue
            try:
                commit = state.lineage.require(tag.commit)
                yield from past_state_of(self.engine.manifest, commit).snapshot.entries.values()
            except OmniError as error:
                self.issues.append(
                    Issue(
                        check="unreadable tag",
                        message=f"commit {tag.commit} of the tag '{tag.name}' cannot be read: {error}",
                        remedy=RESTORE,
                    )
                )

    # ---- one line

    def _read_line(self, line: Line, uses: Mapping[Version, _VersionUse]) -> None:
        path, branch = line
        tables = self.engine.store.tables
        try:
            listed = tables.version_files(path, branch)
            for version, file in listed.items():
                self._read_version(
                    TableAt(path=path, branch=branch, version=version),
                    file,
                    uses.get(version) or _VersionUse(table_key=_key_of(uses)),
                )
            self._find_missing(line, uses, listed)
        except OmniError as error:
            self.issues.append(_report_unlisted(uses, error))

    def _read_version(self, at: TableAt, file: str, use: _VersionUse) -> None:
        tables = self.engine.store.tables
        need = Need(table_key=use.table_key, file=NeededFile(bytes=None), branches=use.branches)
        try:
            contents = tables.read_contents(at)
        except OmniError as error:
            # Cleanup may have removed it since the listing.
            if at.version in tables.version_files(at.path, at.branch):
                self.issues.append(
                    report_damaged(file, str(error), need.use, need.branches, need.table_key)
                )
            return
        if use.row_count not in (None, contents.row_count):
            problem = f"it counts {contents.row_count} rows, and {use.row_count} were published"
            self.issues.append(
                report_damaged(file, problem, need.use, need.branches, need.table_key)
            )
        if at.path == MANIFEST:
            self._read_state(at, file, need, contents)
        for name, needed in contents.files.items():
            existing = self.needs.get(name)
            if existing is None:
                self.needs[name] = replace(need, file=needed, named_by=file)
            elif use.branches:
                branches = tuple(dict.fromkeys((*existing.branches, *use.branches)))
                self.needs[name] = replace(existing, table_key=use.table_key, branches=branches)

    def _read_state(self, at: TableAt, file: str, need: Need, contents: VersionContents) -> None:
        """Decode the state of a version of the manifest, as reads at its commit do."""
        try:
            state = self.engine.manifest.load(graph_branch(at.branch), at.version)
            problem = _find_contradiction(state)
        except OmniError as error:
            problem = str(error)
        if problem is not None:
            files = ", ".join(f"'{name}'" for name in contents.files)
            description = f"{problem}; its rows are in {files}"
            self.issues.append(report_damaged(file, description, need.use, need.branches, None))

    def _find_missing(
        self, line: Line, uses: Mapping[Version, _VersionUse], listed: Mapping[Version, str]
    ) -> None:
        """Find the versions that do not exist although cleanup did not remove them."""
        path, branch = line
        expected = {version for version, use in uses.items() if use.is_pinned}
        if not self._was_reclaimed() and listed:
            expected |= uses.keys()
            if path == MANIFEST:
                newest = max(*listed, self.engine.store.tables.hinted_version(path, branch))
                expected |= set(map(Version, range(self._first_version(branch), newest + 1)))
        for version in sorted(expected - listed.keys()):
            use = uses.get(version) or _VersionUse()
            need = Need(table_key=use.table_key, file=NeededFile(bytes=None), branches=use.branches)
            file = self.engine.store.tables.version_file(path, branch, version)
            self.issues.append(report_missing(file, need.use, need.branches, need.table_key))

    def _was_reclaimed(self) -> bool:
        """Whether versions were ever removed on purpose."""
        return self.engine.store.objects.exists(RECLAIMED)

    def _first_version(self, branch: str | None) -> int:
        """Find the first version of the manifest that a branch has files of."""
        if branch is None:
            return 1
        return int(self.engine.manifest.rows.branches()[branch].parent_version)


def _find_contradiction(state: BranchState) -> str | None:
    """Find a contradiction between the rows of a version of the manifest; None when they agree."""
    head, pins = state.head, state.snapshot.pins
    _ = commits_of(state.image.recent) if state.has_lineage else ()
    if head is None:
        return None if not state.has_lineage else "it shows no commit"
    is_own_version = head.manifest_version == state.version and head.branch == state.branch
    for table, version in head.pins.items() if is_own_version else ():
        if pins.get(table, version) != version:
            return (
                f"it shows version {pins[table]} of {table}, and its commit made version {version}"
            )
    return None


def _on(line: Line, at: TableAt) -> bool:
    return (at.path, at.branch) == line


def _key_of(uses: Mapping[Version, _VersionUse]) -> TableKey | None:
    return next((use.table_key for use in uses.values()), None)


def _report_unlisted(uses: Mapping[Version, _VersionUse], error: OmniError) -> Issue:
    branches = {branch for use in uses.values() for branch in use.branches}
    return Issue(
        check="unreadable table",
        message=str(error),
        remedy=RESTORE,
        branch=", ".join(sorted(branches)) or None,
        table_key=_key_of(uses),
    )


# ---- schemas


def find_lost_schemas(engine: Engine, states: Iterable[BranchState]) -> Iterator[Issue]:
    """Find the stored schemas of earlier commits that cannot be read; all of them are on main."""
    main = next((state for state in states if state.branch == MAIN), None)
    for commit in () if main is None else main.lineage.commits:
        try:
            read_replaced(engine.store.objects, commit)
        except OmniError as error:
            message = f"commits before {commit.id} cannot be read: {error}"
            yield Issue(check="past schema", message=message, remedy=RESTORE)
