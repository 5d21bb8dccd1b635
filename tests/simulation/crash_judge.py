"""The judge of crash states: opens what a dead writer left, looks at all of it, and goes on writing.

S1 to S8 are the rules that must hold when faults have ended; each is named where it is checked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import OperationState, RecoveryAudit
from omnigraphdb.errors import HistoryReclaimed, RecoveryRequired
from omnigraphdb.ids import BranchName
from omnigraphdb.recovery.audit import RecoveryKind
from tests.simulation.bucket import Bucket, DurableWrite, Stored
from tests.simulation.pictures import Picture, follow_up, take_picture, write_everything
from tests.simulation.recordings import Recording
from tests.simulation.roles import Shape, shape_of
from tests.simulation.writer_kinds import Client
from tests.support.leases import LONG_AFTER
from tests.support.settled import assert_audited
from tests.support.story import content

ALLOWED_ISSUES: Final = frozenset({"orphan fork"})
"""Files of branches that nobody shows; the next writer of the name, or cleanup, removes them."""

UNDECIDED: Final = str(OperationState.UNDECIDED)


@dataclass(frozen=True, slots=True)
class Death:
    """Where somebody died: the writer, or a recovery of what it left."""

    number: int
    role: str

    def __str__(self) -> str:
        return f"write {self.number}, {self.role}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashState:
    """A copy of the bucket, and the deaths that led to it."""

    objects: Stored
    deaths: tuple[Death, ...]

    def __str__(self) -> str:
        return "died after " + "; its recovery after ".join(map(str, self.deaths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the write shows after recovery, and what recovery wrote."""

    is_visible: bool
    recovery: Sequence[DurableWrite]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Opens, judges and writes what a dead writer left; `thorough`: writes with everything there is."""

    recording: Recording
    followed: Mapping[bool, Picture]
    """All that is shown after the follow-up writes, where the write is absent and where it is visible."""
    thorough: bool = False
    recovered: set[tuple[bool, Shape]] = field(default_factory=set)
    """The shapes after recovery that were written to already."""

    @property
    def bucket(self) -> Bucket:
        """The bucket in which it all happens."""
        return self.recording.client.served.bucket

    def judge(self, state: CrashState) -> Verdict:
        """Open a crash state as a client does who comes some leases later."""
        client = Client(self.recording.client.served, "later")
        self.bucket.restore(state.objects)
        self.bucket.pass_time(LONG_AFTER)
        is_first = len(state.deaths) == 1
        is_seen = is_first and self._read_beside(client)
        with self.bucket.recording() as recovery:
            graph = client.open()
        with graph:
            picture = take_picture(graph)
            is_visible = self._is_visible(picture)
            assert is_visible or not is_seen, "what a reader saw is gone"
            self._require_settled(graph, is_visible)
            if is_first:
                self._require_past(graph)
        end = (is_visible, shape_of(self.bucket.objects))
        if end not in self.recovered:
            self.recovered.add(end)
            self._go_on(client, is_visible)
        return Verdict(is_visible=is_visible, recovery=recovery)

    def _read_beside(self, client: Client) -> bool:
        """Read beside the dead writer, changing nothing; whether the write shows, False when recovery comes first."""
        with self.bucket.recording() as writes:
            try:
                with client.open(read_only=True) as graph:
                    picture = take_picture(graph)
            except RecoveryRequired:
                return False
        assert writes == [], f"a reader writes {writes[0].key}"
        return self._is_visible(picture)

    def _is_visible(self, picture: Picture) -> bool:
        """Whether the write shows; it shows wholly or not at all (S1, S2)."""
        before, after = self.recording.before, self.recording.after
        is_after = _agrees(picture, after)
        assert is_after or _agrees(picture, before), _compare(picture, before, after)
        return is_after

    def _require_settled(self, graph: Graph, is_visible: bool) -> None:
        """History is one line, nothing is pending, the doctor is content, the audit is true (S3, S4, S5)."""
        _require_sound(graph, ALLOWED_ISSUES | self.recording.kind.known_issues)
        if self.recording.before == self.recording.after:
            return
        for row in graph.recoveries():
            if row.operation_id not in self.recording.audited:
                _require_true(row, is_visible)

    def _require_past(self, graph: Graph) -> None:
        """Every commit from before shows what it showed (S8)."""
        branches = {branch.name for branch in graph.branches()}
        for (branch, commit), expected in self.recording.past.items():
            if branch not in branches:
                continue
            try:
                rows = content(graph, branch, commit)
            except HistoryReclaimed:
                assert self.recording.kind.reclaims, f"{commit} of {branch} was reclaimed"
                continue
            assert rows == expected, f"{commit} of {branch} shows something else"

    def _go_on(self, client: Client, is_visible: bool) -> None:
        """A second open writes nothing (S4), and nobody is blocked: every kind of write succeeds (S6)."""
        with self.bucket.recording() as writes:
            graph = client.open()
        with graph:
            assert writes == [], f"a second open writes {writes[0].key}"
            self.recording.kind.again(graph)
            picture = follow_up(graph)
            assert picture == self.followed[is_visible], _compare(
                picture, self.followed[is_visible]
            )
            if self.thorough:
                write_everything(graph)
            _require_sound(graph, ALLOWED_ISSUES)


def _agrees(picture: Picture, expected: Picture) -> bool:
    """Whether a graph shows what is expected; a request may still be undecided, and whoever repeats it decides."""
    request = UNDECIDED if picture.request == UNDECIDED else expected.request
    return picture == replace(expected, request=request)


def _require_sound(graph: Graph, allowed: frozenset[str]) -> None:
    issues = [str(issue) for issue in graph.doctor() if issue.check not in allowed]
    assert issues == [], f"the doctor finds {issues}"
    pending = [sidecar.operation_id for sidecar in graph.pending_recoveries()]
    assert pending == [], f"{pending} are pending"
    for branch in graph.branches():
        commits = graph.commits(branch=branch.name)
        for newer, older in pairwise(commits):
            assert newer.parent == older.id, f"{newer.id} does not follow {older.id}"
            assert newer.created_at >= older.created_at, f"{newer.id} is older than its parent"
        _require_once(graph, branch.name)
    assert_audited(graph)


def _require_once(graph: Graph, branch: str) -> None:
    """Every operation has one commit, whoever made it."""
    lineage = graph._engine.manifest.current(BranchName(branch)).lineage
    operations = Counter(c.operation_id for c in lineage.commits if c.operation_id is not None)
    twice = [operation for operation, count in operations.items() if count > 1]
    assert twice == [], f"{twice} have several commits"


def _require_true(row: RecoveryAudit, is_visible: bool) -> None:
    match row.recovery_kind:
        case RecoveryKind.ROLLED_FORWARD:
            assert is_visible, f"{row.operation_id} is recorded as completed and shows nowhere"
        case RecoveryKind.ROLLED_BACK | RecoveryKind.DISCARDED:
            assert not is_visible, f"{row.operation_id} is recorded as taken back and shows"
        case RecoveryKind.ORPHANED_BRANCH_DISCARDED:
            pass


def _compare(picture: Picture, *expected: Picture) -> str:
    """Say in which fields a picture differs from those that it may be."""
    lines = ["the graph shows neither of these:"]
    for number, other in enumerate(expected):
        for name in Picture.__slots__:
            value, right = getattr(picture, name), getattr(other, name)
            if value != right:
                lines.append(f"  {number}: {name} is {value!r}, not {right!r}")
    return "\n".join(lines)


def make_judge(recording: Recording, *, thorough: bool = False) -> Judge:
    """Write the follow-up once where the write is absent, and once where it is visible, with no death between."""
    bucket, client = recording.client.served.bucket, Client(recording.client.served, "quiet")
    followed: dict[bool, Picture] = {}
    for is_visible, objects in ((False, recording.start), (True, recording.writes[-1].after)):
        bucket.restore(objects)
        bucket.pass_time(LONG_AFTER)
        with client.open() as graph:
            recording.kind.again(graph)
            followed[is_visible] = follow_up(graph)
    return Judge(recording=recording, followed=followed, thorough=thorough)
