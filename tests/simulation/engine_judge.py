"""The judge of the engine: all that is shown is the plain graph of the calls, commit by commit, once all faults have ended.

Each write puts its name into the message of its commit, so every commit tells which call it is of. Complaints begin with
the number of the rule that they are about.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeVar

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit
from omnigraphdb.errors import ConstraintError, HistoryReclaimed, OmniError, ReferentialError
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName
from omnigraphdb.recovery.audit import RecoveryKind
from tests.simulation.engine_operations import (
    Drop,
    Fork,
    Join,
    Mutation,
    Open,
    Operation,
    Plain,
    Read,
    Refused,
    Row,
    Upkeep,
    read_plain,
)
from tests.simulation.engine_universe import START, Call, EngineUniverse
from tests.simulation.judge import SECONDS_MAX
from tests.simulation.orders import NEVER, Placed, Unplaced, check_order, list_places
from tests.simulation.universe import Fate
from tests.simulation.world import Client
from tests.support.commit_model import ModelHistory
from tests.support.settled import assert_audited

Kind = TypeVar("Kind", bound=Operation)

ALLOWED_ISSUES: Final = frozenset({"orphan fork"})
"""Files of branches that nobody shows; the next writer of the name, or cleanup, removes them."""


def judge(universe: EngineUniverse, client: Client) -> None:
    """Add every complaint to the problems of a universe."""
    graph = universe.open(client)
    if graph is None:
        universe.problems.append("S6 the graph cannot be opened")
        return
    try:
        universe.problems += _Judge(universe, client, graph).list_complaints()
    except OmniError as error:
        universe.problems.append(f"S4 the graph cannot be read: {type(error).__name__} {error}")


@dataclass(frozen=True)
class Line:
    """A branch as the judge reads it: its commits, oldest first."""

    branch: str
    commits: tuple[Commit, ...]

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each commit."""
        return {commit.id: place for place, commit in enumerate(self.commits)}


@dataclass
class _Judge:
    universe: EngineUniverse
    client: Client
    graph: Graph
    lines: list[Line] = field(default_factory=list)
    commits: dict[str, Commit] = field(default_factory=dict)
    """Every commit that is shown, or was merged into one that is."""
    states: dict[str, Plain] = field(default_factory=dict)
    """What each commit shows; where that is not read any more, the plain graph of its call."""

    def list_complaints(self) -> list[str]:
        """List what is wrong."""
        complaints = list(self._repeat_keys())
        self._see()
        read = dict(self.states)
        complaints += [
            *self._judge_lines(),
            *self._judge_states(),
            *self._judge_fates(),
            *self._judge_order(),
            *self._judge_reads(),
            *self._judge_audits(),
            *self._judge_rest(),
            *self._judge_blocked(),
        ]
        return complaints + list(self._judge_past(read))

    # ---- what is there

    def _see(self) -> None:
        for branch in self.graph.branches():
            listed = self.graph.commits(branch=branch.name)
            self.lines.append(Line(branch.name, tuple(reversed(listed))))
            self.universe.orders[branch.name] = self.lines[-1].commits
            for commit in self.graph.commits(branch=branch.name, all=True):
                self.commits[commit.id] = commit
        for line in self.lines:
            starts = [commit for commit in line.commits if commit.message == START]
            for commit in line.commits:
                if commit.id not in self.states and commit not in starts[:-1]:
                    self._read(line.branch, commit)

    def _read(self, branch: str, commit: Commit) -> None:
        try:
            with self.graph.snapshot(branch=branch, at=commit.id) as snapshot:
                self.states[commit.id] = read_plain(snapshot)
        except HistoryReclaimed:
            if not self._has(Upkeep):
                raise

    def _has(self, kind: type) -> bool:
        return any(isinstance(call.operation, kind) for call in self.universe.calls)

    def _calls_of(self, kind: type[Kind]) -> Iterator[tuple[Call, Kind]]:
        for call in self.universe.calls:
            if isinstance(call.operation, kind):
                yield call, call.operation

    def _list_writes(self) -> Iterator[Call]:
        return (one for one in self.universe.calls if isinstance(one.operation, Mutation | Join))

    @cached_property
    def _writers(self) -> Mapping[str, Call]:
        """One call of each name."""
        return {call.name: call for call in self._list_writes()}

    # ---- S2, S3: each commit is its parent and its call

    def _judge_lines(self) -> Iterator[str]:
        for line in self.lines:
            for before, commit in pairwise(line.commits):
                if commit.parent != before.id:
                    yield f"S3 the parent of {commit.id} on {line.branch} is {commit.parent}, not {before.id}"
                if commit.created_at < before.created_at:
                    yield f"S3 {commit.id} on {line.branch} is older than its parent"

    def _judge_states(self) -> Iterator[str]:
        """Replay every commit, those of branches that are gone too, in an order in which parents come first."""
        history, numbers = ModelHistory(), dict[str, int]()
        replayed: dict[str, Plain] = {}
        for commit in sorted(
            self.commits.values(), key=lambda commit: (commit.created_at, commit.id)
        ):
            state = self.states.get(commit.id)
            parents = [one for one in (commit.parent, commit.merged_parent) if one in replayed]
            if commit.parent in replayed and commit.message != START:
                expected = self._replay(commit, replayed[commit.parent], history, numbers)
                if isinstance(expected, str):
                    yield expected
                elif state is not None and state != expected:
                    yield f"S2 {commit.id} on {commit.branch} ({commit.message}) {_compare(state, expected)}"
                else:
                    state = expected
            if state is not None:
                replayed[commit.id] = state
                numbers[commit.id] = history.add(
                    tuple(numbers[one] for one in parents), _flatten(state)
                )
        self.states = replayed

    def _replay(
        self, commit: Commit, parent: Plain, history: ModelHistory, numbers: Mapping[str, int]
    ) -> Plain | str:
        call = self._writers.get(commit.message or "")
        if commit.merged_parent is not None:
            if commit.merged_parent not in numbers or commit.parent is None:
                return f"S3 {commit.id} on {commit.branch} merges {commit.merged_parent}, which is not listed"
            done = history.replay(numbers[commit.merged_parent], numbers[commit.parent])
            if done.conflicts:
                return f"S2 {commit.id} on {commit.branch} merged what conflicts: {done.conflicts}"
            return _unflatten(done.rows)
        if call is None or not isinstance(call.operation, Mutation):
            return parent
        try:
            return call.operation.on(parent)
        except Refused as error:
            return f"S2 {commit.id} on {commit.branch} is of {call}, but {error}"

    # ---- S1: what clients were told

    def _repeat_keys(self) -> Iterator[str]:
        """Repeat every request that has a key: it is carried out once, and all are given the first receipt."""
        keyed = {one.name: asked for one, asked in self._calls_of(Mutation) if asked.key}
        for name, asked in keyed.items():
            again = self.universe.call(self.graph, self.client, name, asked)
            if again.fate is not Fate.ACKNOWLEDGED:
                yield f"S6 {again} is refused: {again.error}"
        for name in keyed:
            calls = [one for one in self.universe.calls if one.name == name]
            answers = [one.answer for one in calls if one.fate is Fate.ACKNOWLEDGED]
            if len({(answer.commit, str(answer.rows)) for answer in answers}) > 1:
                yield f"S1 {name} was answered in different ways: {answers}"
            if sum(not answer.replayed for answer in answers) > 1:
                yield f"S1 {name} was carried out more than once: {answers}"

    def _judge_fates(self) -> Iterator[str]:
        own = defaultdict[str, list[Commit]](list)
        for commit in self.commits.values():
            own[commit.message or ""].append(commit)
        calls = defaultdict[str, list[Call]](list)
        for call in self._list_writes():
            calls[call.name].append(call)
        for name, alike in calls.items():
            commits = own[name]
            if len(commits) > 1:
                yield f"S1 {name} shows in {len(commits)} commits"
            if commits and all(call.fate is Fate.REFUSED for call in alike):
                yield f"S1 {alike[0]} was refused and shows: {alike[0].error}"
            for call in alike:
                yield from self._judge_fate(call, [commit.id for commit in commits])

    def _judge_fate(self, call: Call, commits: Sequence[str]) -> Iterator[str]:
        answer = call.answer
        if call.fate is Fate.ACKNOWLEDGED and answer.commit is not None:
            if answer.commit not in commits and not self._may_be_gone(call):
                yield f"S1 {call} was acknowledged, and its commit {answer.commit} is gone"
            commit = self.commits.get(answer.commit)
            if commit and answer.seen is not None and commit.parent != answer.seen.commit:
                yield f"S3 {call} was written after {commit.parent}, not {answer.seen.commit}"
        if call.is_undisturbed and call.seconds > SECONDS_MAX:
            yield f"S7 {call} took {call.seconds:.0f} s"

    def _may_be_gone(self, call: Call) -> bool:
        """Whether the branch of a call may have been deleted since."""
        return any(
            drop.branch == call.operation.branch
            and one.fate is not Fate.REFUSED
            and (one.ended is None or one.ended > call.began)
            for one, drop in self._calls_of(Drop)
        )

    # ---- isolation

    def _judge_order(self) -> Iterator[str]:
        """Each call took effect, or read, at a commit between its beginning and its end."""
        for line in self.lines:
            if any(drop.branch == line.branch for _, drop in self._calls_of(Drop)):
                # Calls on branches of one name cannot be told apart.
                continue
            placed = list(self._list_placed(line))
            yield from (f"S2 on {line.branch}: {problem}" for problem in check_order(placed))
            yield from self._judge_unplaced(line, placed)

    def _list_placed(self, line: Line) -> Iterator[Placed]:
        places = line.places
        named = {commit.message: commit.id for commit in line.commits if commit.message != START}
        for call in self.universe.calls:
            operation, reply = call.operation, call.answer
            if operation.branch != line.branch or reply.replayed:
                continue
            if not isinstance(operation, Mutation | Join | Read):
                continue
            is_read = isinstance(operation, Read)
            is_told = call.ended is not None and call.fate is Fate.ACKNOWLEDGED
            ended = call.ended if is_told and call.ended is not None else NEVER
            commit = (reply.commit if is_read else named.get(call.name)) or ""
            seen = "" if reply.seen is None else reply.seen.commit or ""
            if seen in places:
                # The read of a read-then-write ran in the same call.
                name = f"the read of {call.name}"
                yield Placed(name, call.began, NEVER, places[seen], is_write=False)
            if commit in places:
                yield Placed(call.name, call.began, ended, places[commit], is_write=not is_read)

    def _judge_reads(self) -> Iterator[str]:
        for call, read in self._calls_of(Read):
            state = self.states.get(call.answer.commit or "")
            if state is not None and call.fate is Fate.ACKNOWLEDGED:
                expected = read.of(state)
                if call.answer.rows != expected:
                    yield f"S2 {call} at {call.answer.commit} read {call.answer.rows}, not {expected}"

    def _judge_unplaced(self, line: Line, placed: Sequence[Placed]) -> Iterator[str]:
        """What changed nothing, or was refused by a rule, was so at some commit of its time."""
        for call, write in self._calls_of(Mutation):
            if write.branch != line.branch or call.ended is None or write.key:
                continue
            is_idle = call.fate is Fate.ACKNOWLEDGED and call.answer.commit is None
            if not is_idle and not isinstance(call.error, ConstraintError | ReferentialError):
                continue
            places = list_places(Unplaced(call.began, call.ended), placed)
            states = [self.states.get(line.commits[place].id) for place in places]
            if not any(state is None or _is_answered_at(call, write, state) for state in states):
                yield f"S7 {call} was answered {call.error or 'that nothing changed'}, at no commit of its time"

    # ---- recoveries

    def _judge_audits(self) -> Iterator[str]:
        """S5: one row for each operation, and true."""
        try:
            assert_audited(self.graph)
        except AssertionError as error:
            yield f"S5 {error}"
        visible = self._list_operations()
        for row in self.graph.recoveries():
            makers = visible[row.operation_id]
            if row.recovery_kind is RecoveryKind.ROLLED_BACK and makers - {RECOVERY_ACTOR}:
                yield f"S5 {row.operation_id} shows, and its audit says RolledBack"
            # What was completed on a branch that was deleted since went with it.
            is_gone = not makers and not self._has(Drop)
            if row.recovery_kind is RecoveryKind.ROLLED_FORWARD and is_gone:
                yield f"S5 {row.operation_id} does not show, and its audit says RolledForward"

    def _list_operations(self) -> Mapping[str, set[str | None]]:
        """List the actors of the commits of each operation; those of a group are the group's as well."""
        manifest = self.graph._engine.manifest
        operations = defaultdict[str, set[str | None]](set)
        for line in self.lines:
            for commit in manifest.current(BranchName(line.branch)).lineage.commits:
                for name in (commit.operation_id, commit.group):
                    operations[str(name)].add(commit.actor)
        return operations

    # ---- S4, S6, S8

    def _judge_rest(self) -> Iterator[str]:
        """Nothing is pending, the doctor is content, and a second open writes nothing."""
        issues = [str(issue) for issue in self.graph.doctor() if issue.check not in ALLOWED_ISSUES]
        if issues:
            yield f"S4 the doctor finds {issues}"
        pending = [sidecar.operation_id for sidecar in self.graph.pending_recoveries()]
        if pending:
            yield f"S4 {pending} are pending"
        before = self.universe.list_lasting()
        again = self.universe.open(self.client)
        if again is None:
            yield "S6 the graph cannot be opened again"
        after = self.universe.list_lasting()
        if after != before:
            yield f"S4 a second open writes {sorted(set(after.items()) ^ set(before.items()))}"

    def _judge_blocked(self) -> Iterator[str]:
        """A write to each table of each branch succeeds, and one to a branch that is made for it."""
        branches = [line.branch for line in self.lines]
        if self._has(Fork):
            fork = self.universe.call(self.graph, self.client, "after", Fork("after"))
            branches += ["after"] if fork.fate is Fate.ACKNOWLEDGED else []
            if fork.error is not None:
                yield f"S6 a branch cannot be made: {fork.error}"
        for branch in branches:
            name = f"after {branch}"
            call = self.universe.call(self.graph, self.client, name, Open(branch, name=name))
            if call.fate is not Fate.ACKNOWLEDGED:
                yield f"S6 {branch} is blocked: {call.error}"

    def _judge_past(self, read: Mapping[str, Plain]) -> Iterator[str]:
        """Past commits show what they showed, through a handle that read none of them before."""
        graph = self.universe.open(self.client)
        for line in self.lines if graph is not None else ():
            for commit in line.commits:
                if commit.id in read and commit.branch == line.branch:
                    assert graph is not None
                    with graph.snapshot(branch=line.branch, at=commit.id) as snapshot:
                        if read_plain(snapshot) != read[commit.id]:
                            yield f"S8 {commit.id} of {line.branch} shows something else than before"


def _is_answered_at(call: Call, write: Mutation, plain: Plain) -> bool:
    """Whether a plain graph answers a call as the real one did: nothing to change, or a rule that would be broken."""
    try:
        changed = write.on(plain)
    except Refused:
        return call.error is not None
    return call.error is None and changed == plain


def _flatten(plain: Plain) -> dict[str, Any]:
    return {f"{name} {key}": row for name, rows in plain.items() for key, row in rows.items()}


def _unflatten(rows: Mapping[str, Any]) -> Plain:
    plain: dict[str, dict[str, Row]] = {"Account": {}, "Vault": {}, "Holds": {}}
    for name, row in rows.items():
        type_name, _, key = name.partition(" ")
        plain[type_name][key] = row
    return plain


def _compare(state: Plain, expected: Plain) -> str:
    """Say where a state differs from the one that it must be."""
    left, right = _flatten(state), _flatten(expected)
    names = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    return "; ".join(f"shows {name} as {left.get(name)}, not {right.get(name)}" for name in names)
