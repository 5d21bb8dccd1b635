"""Random publishes through stale handles, beside a plain dictionary: one chain, one truth."""

import tempfile
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omnigraphdb.errors import ManifestConflict, PreconditionFailed
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraphdb.manifest.branches import create_branch, delete_branch
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind, lance_branch
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.storage.rows import Rows
from omnigraphdb.storage.store import open_store
from omnigraphdb.storage.values import TableAt
from tests.simulation.rows import make_lone_rows
from tests.support.manifests import (
    CITY,
    KNOWS,
    PATHS,
    PERSON,
    FakeForks,
    StillRuntime,
    another_handle,
    new_manifest,
)

TABLES = (PERSON, CITY, KNOWS)
HANDLES = st.integers(0, 2)
SETS = st.sets(st.sampled_from(TABLES), min_size=1).map(sorted)


@dataclass
class Line:
    """What a branch should be: pins, owners, and the commits that made it so."""

    pins: dict[TableKey, int]
    owners: dict[TableKey, str | None]
    commits: list[CommitId]
    truths: dict[CommitId, dict[TableKey, int]] = field(default_factory=dict)

    def copy(self) -> "Line":
        return Line(dict(self.pins), dict(self.owners), list(self.commits), dict(self.truths))


class Publishing(RuleBasedStateMachine):
    """Three handles that know of each other only what they happen to look at."""

    def rows(self) -> list[Rows]:
        """The same rows, as each handle has them."""
        return [make_lone_rows()] * 3

    @initialize()
    def create(self) -> None:
        opened = self.rows()
        first = new_manifest(opened[0], TABLES, StillRuntime())
        self.handles = [replace(another_handle(first), rows=rows) for rows in opened]
        genesis = first.current(MAIN).head
        assert genesis is not None
        pins = dict.fromkeys(TABLES, 1)
        self.model = {
            MAIN: Line(dict(pins), dict.fromkeys(TABLES), [genesis.id], {genesis.id: dict(pins)})
        }
        self.forks = FakeForks()

    def change(self, handle: Manifest, branch: BranchName, tables: list[TableKey]) -> Change:
        line = self.model[branch]
        updates = tuple(
            Update(
                table_key=table,
                at=TableAt(
                    path=PATHS[table],
                    branch=lance_branch(branch),
                    version=Version(line.pins[table] + 1),
                ),
                row_count=0,
            )
            for table in tables
        )
        return Change(
            branch=branch,
            updates=updates,
            expected={table: Version(line.pins[table]) for table in tables},
            draft=Draft(commit=CommitId(handle.runtime.new_id()), kind=CommitKind.MUTATION),
        )

    def accept(self, change: Change) -> None:
        line = self.model[change.branch]
        for update in change.updates:
            line.pins[update.table_key] = update.at.version
            line.owners[update.table_key] = update.at.branch
        if change.draft is not None:
            line.commits.append(change.draft.commit)
            line.truths[change.draft.commit] = dict(line.pins)

    @rule(who=HANDLES, data=st.data(), tables=SETS)
    def write(self, who: int, data: st.DataObject, tables: list[TableKey]) -> None:
        branch = data.draw(st.sampled_from(sorted(self.model)))
        change = self.change(self.handles[who], branch, tables)
        publish(self.handles[who], change)
        self.accept(change)

    @rule(who=HANDLES, tables=SETS)
    def maintain(self, who: int, tables: list[TableKey]) -> None:
        asked = self.change(self.handles[who], MAIN, tables)
        change = Change(branch=MAIN, updates=asked.updates, expected=asked.expected)
        publish(self.handles[who], change)
        self.accept(change)

    @rule(who=HANDLES, rival=HANDLES, mine=SETS, theirs=SETS)
    def race(self, who: int, rival: int, mine: list[TableKey], theirs: list[TableKey]) -> None:
        """Two writes prepared on one state: the second lands iff it shares no table with the first."""
        late = self.change(self.handles[who], MAIN, mine)
        first = self.change(self.handles[rival], MAIN, theirs)
        publish(self.handles[rival], first)
        self.accept(first)
        shared = set(mine) & set(theirs)
        if shared:
            with pytest.raises(ManifestConflict) as refused:
                publish(self.handles[who], late)
            assert refused.value.table_key in shared
        else:
            publish(self.handles[who], late)
            self.accept(late)

    @rule(who=HANDLES, back=st.integers(1, 4), tables=SETS)
    def only_if_head(self, who: int, back: int, tables: list[TableKey]) -> None:
        line = self.model[MAIN]
        asked = self.change(self.handles[who], MAIN, tables)
        head = line.commits[max(-back, -len(line.commits))]
        change = Change(branch=MAIN, updates=asked.updates, draft=asked.draft, if_head=head)
        if head == line.commits[-1]:
            publish(self.handles[who], change)
            self.accept(change)
        else:
            with pytest.raises(PreconditionFailed) as refused:
                publish(self.handles[who], change)
            assert refused.value.actual == line.commits[-1]

    @rule(who=HANDLES, name=st.sampled_from(["a", "b", "c"]), data=st.data())
    def branch(self, who: int, name: str, data: st.DataObject) -> None:
        branch = BranchName(name)
        if branch in self.model:
            return
        source = data.draw(st.sampled_from(sorted(self.model)))
        create_branch(self.handles[who], self.forks, name, source=source)
        self.model[branch] = self.model[source].copy()

    @precondition(lambda self: len(self.model) > 1)
    @rule(who=HANDLES, data=st.data())
    def drop(self, who: int, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(set(self.model) - {MAIN})))
        refs = self.handles[0].rows.branches()
        if any(ref.parent == branch for ref in refs.values()):
            return
        delete_branch(self.handles[who], self.forks, branch)
        del self.model[branch]

    @rule(who=HANDLES, data=st.data())
    def travel(self, who: int, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.model)))
        line = self.model[branch]
        commit = data.draw(st.sampled_from(line.commits[:-1] or line.commits))
        state = state_at(self.handles[who], branch, commit)
        assert state.head is not None
        assert state.head.id == commit
        if commit != line.commits[-1]:
            assert state.snapshot.pins == line.truths[commit]

    @rule(who=HANDLES)
    def look(self, who: int) -> None:
        for branch, line in self.model.items():
            assert self.handles[who].current(branch).snapshot.pins == line.pins

    @rule()
    def fold(self) -> None:
        self.handles[0].rows.fold(None)

    @invariant()
    def the_store_equals_the_model(self) -> None:
        for branch, line in self.model.items():
            state = self.handles[0].load(branch)
            assert state.snapshot.pins == line.pins
            owners = {key: entry.at.branch for key, entry in state.snapshot.entries.items()}
            assert owners == line.owners
            lineage = state.lineage
            assert [commit.id for commit in lineage.commits] == line.commits
            parents = [None, *line.commits[:-1]]
            assert [commit.parent for commit in lineage.commits] == parents


class LancePublishing(Publishing):
    """The same on disk: each handle opens the root for itself."""

    def rows(self) -> list[Rows]:
        self.directory = tempfile.TemporaryDirectory()
        return [open_store(self.directory.name).manifest for _ in range(3)]

    def teardown(self) -> None:
        self.directory.cleanup()


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

TestLancePublishing = LancePublishing.TestCase
TestLancePublishing.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
