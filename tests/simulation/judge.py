"""The judge: what must hold when all faults have ended and leases have run out, after one open and nothing by hand.

Complaints begin with the number of the rule in `docs/internals/simulation.md`. What the judge looks at it reads through a handle of
its own, as any client would; who wrote a row it reads off the store.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from omnigraphdb.errors import HistoryReclaimed, OmniError
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey
from omnigraphdb.manifest.records import GraphCommit, lance_branch
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.recovery.audit import AuditRow, RecoveryKind
from omnigraphdb.storage.layout import LOCKS, RECOVERY
from tests.simulation.handles import TABLES, Handle
from tests.simulation.lines import list_marks
from tests.simulation.objects import Store
from tests.simulation.promises import (
    Showing,
    decide_showing,
    list_deletions,
    list_lost_with_branches,
    list_wrong_branches,
    list_wrong_keys,
)
from tests.simulation.scenarios import Universe, Write
from tests.simulation.universe import Fate
from tests.simulation.verbs import list_readings

SECONDS_MAX = 60.0 + 15.0
"""Longer than the wait for a lock, and what a write takes besides, no call of a client without faults takes."""

Shown = Mapping[TableKey, Counter[str]]
"""How often each table shows each name."""


@dataclass(frozen=True)
class BranchSeen:
    """One branch as the judge reads it: what it shows now, and what each of its commits shows."""

    name: BranchName
    state: BranchState
    shown: Shown
    commits: tuple[GraphCommit, ...]
    past: Mapping[CommitId, Shown]


def judge(universe: Universe) -> None:
    """Add every complaint to the problems of a universe."""
    client = universe.client("judge")
    handle = universe.open(client)
    if handle is None:
        universe.problems.append("S6 the graph cannot be opened")
        return
    complaints = _Complaints(universe, handle)
    universe.problems += complaints.list_all()


class _Complaints:
    def __init__(self, universe: Universe, handle: Handle) -> None:
        self._universe = universe
        self._store = universe.store
        self._handle = handle
        self._groups: set[str] = set()

    def list_all(self) -> list[str]:
        """List what is wrong."""
        try:
            names = self._names()
            branches = [self._see(name) for name in names]
        except OmniError as error:
            return [f"S4 the graph cannot be read: {type(error).__name__} {error}"]
        audits = self._handle.audit.rows()
        before = [seen.past for seen in branches]
        found = [
            *(one for seen in branches for one in self._judge_branch(seen)),
            *self._judge_audits(audits, branches),
            *list_wrong_branches(self._universe, names),
            *list_lost_with_branches(self._universe),
            *list_wrong_keys(self._universe, self._handle, names),
            *self._judge_readings(branches),
            *self._judge_drift(branches),
            *self._judge_rest(),
            *self._judge_blocked(branches),
            *(one for seen in branches for one in self._judge_pins(seen)),
            *self._judge_errors(),
        ]
        self._universe.groups = len(self._groups)
        after = [self._see(seen.name).past for seen in branches]
        for seen, was, now in zip(branches, before, after, strict=True):
            if any(now.get(commit) != shown for commit, shown in was.items()):
                found.append(f"S8 past commits of {seen.name} show something else than before")
        return found

    def _names(self) -> list[BranchName]:
        return [MAIN, *map(BranchName, sorted(self._handle.manifest.rows.branch_names()))]

    # ---- what is there

    def _see(self, branch: BranchName) -> BranchSeen:
        state = self._handle.manifest.current(branch)
        commits = tuple(sorted(state.lineage.commits, key=lambda commit: commit.order))
        past = {}
        for commit in commits:
            if commit.branch == branch:
                # What a rule of cleanup lets go is told as such.
                with suppress(*([HistoryReclaimed] if self._universe.has_cleaned else [])):
                    past[commit.id] = self._read(self._find_state(commit).snapshot)
        self._groups |= {commit.group for commit in commits if commit.group is not None}
        return BranchSeen(branch, state, self._read(state.snapshot), commits, past)

    def _find_state(self, commit: GraphCommit) -> BranchState:
        """The state that a commit left, at the version that it names, as a rule."""
        manifest = self._handle.manifest
        state = manifest.past(commit.branch, commit.manifest_version)
        if state.shows(commit.id) is None:
            return state_at(manifest, commit.branch, commit.id)
        return state.before_rest_of_group(commit)

    def _read(self, snapshot: Snapshot) -> Shown:
        return {
            key: Counter(name for name, _ in list_marks(self._handle.tables.open(entry.at).commit))
            for key, entry in snapshot.entries.items()
        }

    # ---- a branch

    def _judge_branch(self, seen: BranchSeen) -> Iterator[str]:
        yield from self._judge_history(seen)
        for shown in (seen.shown, *seen.past.values()):
            yield from self._judge_names(seen.name, shown)
        for write in self._universe.writes.values():
            if write.branch == seen.name:
                yield from self._judge_write(seen, write)

    def _judge_history(self, seen: BranchSeen) -> Iterator[str]:
        """S3: one line, in order of time."""
        for before, commit in zip(seen.commits, seen.commits[1:], strict=False):
            if commit.parent != before.id:
                yield f"S3 the parent of {commit.id} on {seen.name} is {commit.parent}, not {before.id}"
            if commit.created_at < before.created_at:
                yield f"S3 {commit.id} on {seen.name} is older than its parent"

    def _judge_pins(self, seen: BranchSeen) -> Iterator[str]:
        """S4: pins are HEADs, refs exist, at the latest when somebody wrote: a write takes late commits back."""
        for key, entry in self._handle.manifest.current(seen.name).snapshot.entries.items():
            at = entry.at
            if at.branch is not None and at.branch not in self._handle.tables.forks(at.path):
                yield f"S4 the fork of {key} on {seen.name} has no ref"
            head = self._handle.tables.head(at.path, at.branch)
            if at.branch == lance_branch(seen.name) and head != at.version:
                yield f"S4 {key} on {seen.name} is pinned at {at.version}, its HEAD is {head}"

    def _judge_drift(self, branches: list[BranchSeen]) -> Iterator[str]:
        """S4: pins are HEADs before anybody writes, where recovery keeps late requests out."""
        if not self._universe.may_drift:
            for seen in branches:
                yield from self._judge_pins(seen)

    def _judge_readings(self, branches: list[BranchSeen]) -> Iterator[str]:
        """S2: what a writer read is what its commit shows."""
        if self._universe.has_readings:
            for seen in branches:
                yield from self._judge_readings_of(seen)

    def _judge_readings_of(self, seen: BranchSeen) -> Iterator[str]:
        known: set[str] = set()
        for commit in seen.commits:
            if commit.id not in seen.past:
                continue
            snapshot = self._find_state(commit).snapshot
            for entry in snapshot.entries.values():
                for one in list_readings(self._handle.tables.open(entry.at).commit):
                    actual = snapshot.entry(one.table).version
                    if one.row not in known and actual != one.version:
                        yield (
                            f"S2 {one.row} read {one.table} at {one.version}, and at its commit {commit.id} "
                            f"{seen.name} shows {actual}"
                        )
                    known.add(one.row)

    def _judge_names(self, branch: BranchName, shown: Shown) -> Iterator[str]:
        """S1, S2: each write shows once in all of its tables, or nowhere, at every commit."""
        names = {name for counts in shown.values() for name in counts}
        for name in sorted(names):
            write = self._universe.writes[name]
            counts = [shown[key][name] for key in TABLES]
            expected = [int(key in write.tables) for key in TABLES]
            if counts != expected:
                yield f"S2 {name} is torn on {branch}: {counts} of {expected}"
            if write.branch not in (branch, MAIN):
                yield f"S1 {name} of {write.branch} shows on {branch}"

    def _judge_write(self, seen: BranchSeen, write: Write) -> Iterator[str]:
        """S1, S3: what a client was told is true, and a write follows the head that it names, whoever completes it."""
        yield from self._judge_condition(seen, write)
        showing = decide_showing(self._universe, write)
        if showing is Showing.ABSENT and _shows(seen.shown, write):
            yield f"S1 {write.name} was refused, or its branch deleted, and shows: {write.said}"
        if showing is not Showing.SHOWN:
            return
        own = [commit.id for commit in seen.commits]
        if write.commit not in own:
            yield f"S1 {write.name} was acknowledged, and its commit {write.commit} is gone"
            return
        for one in self._list_promised(write):
            for commit in own[own.index(write.commit) :]:
                if commit in seen.past and not _shows(seen.past[commit], one):
                    yield f"S1 {one.name} was acknowledged, and {commit} does not show it"
            if not _shows(seen.shown, one):
                yield f"S1 {one.name} was acknowledged and is gone"

    def _judge_condition(self, seen: BranchSeen, write: Write) -> Iterator[str]:
        if write.if_commit is None:
            return
        for commit in seen.commits:
            if commit.id in seen.past and _shows(seen.past[commit.id], write):
                if commit.parent != write.if_commit:
                    yield f"S3 {write.name} was to follow {write.if_commit}, and {commit.id} follows {commit.parent}"
                return

    def _list_promised(self, write: Write) -> Iterator[Write]:
        """List the writes that show by an acknowledged write: itself, or what it adopted."""
        if not write.is_adoption:
            yield write
            return
        for other in self._universe.writes.values():
            is_before = other.ended <= write.began and other.fate is Fate.ACKNOWLEDGED
            if is_before and other.branch == MAIN and not other.is_adoption:
                yield other

    # ---- recoveries

    def _judge_audits(
        self, audits: tuple[AuditRow, ...], branches: list[BranchSeen]
    ) -> Iterator[str]:
        """S5: one row for each operation, and true."""
        for operation, count in Counter(row.operation_id for row in audits).items():
            if count > 1:
                yield f"S5 {operation} has {count} audit rows"
        visible = self._find_visible_operations(branches)
        # What was complete on a branch that was deleted since went with it.
        written = {one.branch for one in self._universe.writes.values()}
        gone = {one for one in written if list_deletions(self._universe, one)}
        for row in audits:
            if row.kind is RecoveryKind.ROLLED_BACK and row.operation_id in visible:
                yield f"S5 {row.operation_id} shows, and its audit says RolledBack"
            is_forward = row.kind is RecoveryKind.ROLLED_FORWARD
            if is_forward and row.operation_id not in visible and not gone:
                yield f"S5 {row.operation_id} does not show, and its audit says RolledForward"

    def _find_visible_operations(self, branches: list[BranchSeen]) -> set[str]:
        """The operations of which a row shows; a group's writes show as the group's and as their own."""
        writers = self._store.writers
        found: set[str] = set()
        for seen in branches:
            for entry in seen.state.snapshot.entries.values():
                marks = list_marks(self._handle.tables.open(entry.at).commit)
                found |= {writers[mark] for _, mark in marks if mark in writers}
            # A merge may move pins alone.
            merges = (commit for commit in seen.commits if commit.merged_parent is not None)
            found |= {str(commit.operation_id) for commit in merges}
            found |= {str(commit.operation_id) for commit in seen.commits if commit.group in found}
        return found

    # ---- the rest

    def _judge_rest(self) -> Iterator[str]:
        """S4: nothing is pending, and a second open writes nothing."""
        left = self._store.list(RECOVERY)
        if left:
            yield f"S4 sidecars are left: {', '.join(left)}"
        before = _list_lasting(self._store)
        self._universe.open(self._universe.client("judge"))
        if _list_lasting(self._store) != before:
            yield "S4 a second open writes"

    def _judge_blocked(self, branches: list[BranchSeen]) -> Iterator[str]:
        """S6: a write to each table of each branch succeeds."""
        for seen in branches:
            together = self._universe.insert(self._handle, seen.name, f"after {seen.name}")
            if together.fate is Fate.ACKNOWLEDGED:
                continue
            for key in TABLES:
                name = f"after {seen.name} {key}"
                write = self._universe.insert(self._handle, seen.name, name, (key,))
                if write.fate is not Fate.ACKNOWLEDGED:
                    yield f"S6 {key} on {seen.name} is blocked: {write.said}"

    def _judge_errors(self) -> Iterator[str]:
        """S7: no call of a client that met no fault outlasts its bound."""
        calls = (*self._universe.writes.values(), *self._universe.branch_changes.values())
        for write in calls:
            if write.is_undisturbed and write.seconds > SECONDS_MAX:
                yield f"S7 {write.name} took {write.seconds:.0f} s"


def _shows(shown: Shown, write: Write) -> bool:
    return any(shown[key][write.name] for key in write.tables)


def _list_lasting(store: Store) -> dict[str, str]:
    """The objects that are more than locks, with their tokens."""
    listed = store.list("", below=True)
    return {key: store.objects[key].token for key in listed if not key.startswith(f"{LOCKS}/")}
