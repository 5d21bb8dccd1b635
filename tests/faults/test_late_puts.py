"""A PUT that reaches the store after its writer died and was recovered: nothing blocked, nothing torn, nothing left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.child import KILLED, run_child, spawn
from tests.support.joined import write_together
from tests.support.leases import LONG_AFTER, run_with_short_leases
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, content, note

pytestmark = pytest.mark.s3

WIDER = SCHEMA + "node Pet { k: String @key }\nedge Owns: Person -> Pet\n"
Options = Mapping[str, str]
SOAK = pytest.mark.soak


def insert(uri: str, branch: str, options: Options) -> None:
    """Write three tables of a branch."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        WRITES["insert"].run(graph, branch, "1", "ada")


def insert_group(uri: str, branch: str, options: Options) -> None:
    """Insert three people in one group."""
    text = "query m($k: String) { insert Person { k: $k } }"
    with omnigraphdb.open(uri, storage_options=options, config={"maintenance": "off"}) as graph:
        write_together(graph, [partial(graph.mutate, text, {"k": f"g{n}"}) for n in range(3)])


def merge(uri: str, branch: str, options: Options) -> None:
    """Bring what a branch inserted to main."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        graph.merge(branch)


def optimize(uri: str, branch: str, options: Options) -> None:
    """Compact what small writes left."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        graph.optimize()


def widen(uri: str, branch: str, options: Options) -> None:
    """Add two types."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        graph.schema_apply(WIDER)


def create_branch(uri: str, branch: str, options: Options) -> None:
    """Make a branch."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        graph.branch_create("made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """One kind of object: who PUTs it, where, which one of them is late, and whether the store may still take it."""

    name: str
    work: Callable[[str, str, Options], None]
    key: str
    branch: str = "main"
    skip: int = 0
    refused: bool | None = True
    """None: it depends on what else had arrived."""


TABLE = r"(nodes|edges)/[^/]+/_versions/"
TREE = r"(nodes|edges)/[^/]+/tree/[^/]+/_versions/"
GROUPED = [f"nodes/[^/]+/_versions/{2**64 - 1 - version:020d}" for version in (3, 4, 5)]
"""The versions of people that a group of three creates at the same time."""
LATE = [
    Late(name="the first table", work=insert, key=TABLE),
    Late(name="the second table", work=insert, key=TABLE, skip=1),
    Late(name="the last table", work=insert, key=TABLE, skip=2),
    Late(name="the graph", work=insert, key=r"__manifest/_versions/"),
    Late(name="a lease", work=insert, key=r"__locks/", refused=False),
    Late(name="a sidecar", work=insert, key=r"__recovery/", refused=False),
    Late(name="a fork", work=insert, key=TREE, branch="fresh"),
    Late(name="the ref of a fork", work=insert, key=r"s/[^/]+/_refs/", branch="fresh"),
    Late(
        name="the ref of a second fork", work=insert, key=r"s/[^/]+/_refs/", branch="fresh", skip=1
    ),
    Late(name="a sidecar with its forks", work=insert, key=r"__recovery/", branch="fresh", skip=1),
    Late(name="a table on a fork", work=insert, key=TREE, branch="fresh", skip=3),
    Late(name="the second table on a fork", work=insert, key=TREE, branch="fresh", skip=4),
    Late(
        name="the graph of a branch",
        work=insert,
        key=r"__manifest/tree/.*/_versions/",
        branch="fresh",
    ),
    Late(name="a table of a merge", work=merge, key=TABLE, branch="full"),
    Late(name="the second table of a merge", work=merge, key=TABLE, branch="full", skip=1),
    Late(name="the confirmation of a merge", work=merge, key=r"__recovery/", branch="full", skip=1),
    Late(name="a compaction", work=optimize, key=TABLE),
    Late(name="a new table", work=widen, key=TABLE, refused=False),
    Late(name="a second new table", work=widen, key=TABLE, skip=1, refused=False),
    Late(name="the schema lock", work=widen, key=r"__manifest/_refs/", refused=False),
    Late(name="the staged schema", work=widen, key=r"_schema\.pg\.staging", refused=False),
    Late(name="the staged IR", work=widen, key=r"_schema\.ir\.json\.staging", refused=False),
    Late(name="the staged state", work=widen, key=r"__schema_state\.json\.staging", refused=False),
    Late(name="a schema being placed", work=widen, key=r"_schema\.pg$"),
    Late(name="the first version of a group", work=insert_group, key=GROUPED[0], refused=None),
    Late(name="the second version of a group", work=insert_group, key=GROUPED[1], refused=None),
    Late(name="the last version of a group", work=insert_group, key=GROUPED[2]),
    Late(name="a new branch", work=create_branch, key=r"__manifest/_refs/", refused=False),
    Late(
        name="the files of a new branch", work=create_branch, key=r"__manifest/tree/", refused=False
    ),
]
SHORT = {"the second version of a group", "the second table", "the ref of a fork", "the staged IR"}
"""Those of every run: a table whose sibling moved, a fork, a schema file. The others are soak."""


def _cases() -> list[object]:
    return [pytest.param(one, id=one.name, marks=() if one.name in SHORT else SOAK) for one in LATE]


@dataclass(frozen=True, slots=True)
class Place:
    """A graph in a bucket."""

    bucket: Bucket

    @property
    def uri(self) -> str:
        return f"{self.bucket.uri}/g"

    @property
    def options(self) -> Options:
        return self.bucket.storage_options

    def spawn(self, late: "Late") -> BaseProcess:
        """Start the writer in a process of its own; a lease of it that arrives late is short."""
        arguments = late.work, self.uri, late.branch, dict(self.options)
        return spawn(run_with_short_leases, *arguments)

    def open_later(self) -> Graph:
        """Open when the leases of a dead process have run out."""
        self.bucket.pass_time(LONG_AFTER)
        return omnigraphdb.open(self.uri, storage_options=self.options)


def recover(uri: str, options: Options) -> None:
    """Recover in a process that may die of it."""
    omnigraphdb.open(uri, storage_options=options).close()


@pytest.fixture
def place(bucket: Bucket) -> Place:
    return Place(bucket)


def prepare(place: Place, late: Late) -> None:
    with omnigraphdb.init(
        place.uri, SCHEMA, storage_options=place.options, config={"maintenance": "off"}
    ) as graph:
        graph.load(BASE, mode="append")
        if late.branch != "main":
            graph.branch_create(late.branch)
        if late.work is merge:
            WRITES["insert"].run(graph, late.branch, "1", None)
            note(graph, "main", "main moves too")
        if late.work is optimize:
            WRITES["append"].run(graph, "main", "8", None)
            WRITES["append"].run(graph, "main", "9", None)


@pytest.mark.parametrize("late", _cases())
def test_a_put_that_comes_after_the_recovery_of_its_writer_changes_nothing(
    bucket: Bucket, place: Place, late: Late
) -> None:
    prepare(place, late)
    branch = "main" if late.work is merge else late.branch
    on_its_way = bucket.delay_put(late.key, skip=late.skip)
    writer = place.spawn(late)
    on_its_way.wait()
    writer.kill()
    writer.join(60)
    with place.open_later() as graph:
        settled = content(graph, branch)
        assert_settled(graph)
        assert (on_its_way.arrive() >= 400) in (
            {True, False} if late.refused is None else {late.refused}
        )
        assert content(graph, branch) == settled
        WRITES["insert"].run(graph, branch, "2", None)
    with place.open_later() as graph:
        assert_settled(graph)
        shown = content(graph, branch)
        assert {one for one in shown if '2"' not in one} == set(settled)
        WRITES["insert"].run(graph, branch, "3", None)
        if late.work is merge:
            graph.merge(late.branch)
        if late.work is widen:
            graph.schema_apply(WIDER)
        assert_settled(graph)


def test_a_version_of_a_group_that_arrives_without_those_before_it_is_refused(
    bucket: Bucket, place: Place
) -> None:
    """All versions of a group are put at the same time: the last one may be the only one that ever arrives."""
    late = Late(name="", work=insert_group, key="")
    prepare(place, late)
    lost = [{"method": "PUT", "key": key, "status": 503, "after": False} for key in GROUPED[:2]]
    bucket.server.control("behave", breaks=[{**one, "times": 1_000} for one in lost])
    on_its_way = bucket.delay_put(GROUPED[2])
    writer = place.spawn(late)
    on_its_way.wait()
    writer.kill()
    writer.join(60)
    bucket.server.control("behave")
    with place.open_later() as graph:
        settled = content(graph)
        assert on_its_way.arrive() >= 400
        assert content(graph) == settled
        WRITES["insert"].run(graph, "main", "2", None)
        assert_settled(graph)


def test_a_publish_that_arrives_while_recovery_completes_the_write_is_the_commit_of_the_write(
    bucket: Bucket, place: Place
) -> None:
    late = Late(name="", work=insert, key="")
    prepare(place, late)
    on_its_way = bucket.delay_put(r"__manifest/_versions/")
    writer = place.spawn(late)
    on_its_way.wait()
    writer.kill()
    writer.join(60)
    with armed(Failpoint.ROLL_FORWARD, once(on_its_way.arrive)):
        graph = place.open_later()
    made, before = graph.commits()[:2]
    assert (made.kind, before.kind) == ("mutation", "load")
    assert [row.commit for row in graph.recoveries()] == [made.id]
    assert_settled(graph)


# ---- recovery that is itself interrupted while it takes the versions of a late PUT

STEPS = [
    Failpoint.ROLLBACK_DECIDED,
    Failpoint.ROLLBACK_TABLE_RESTORED,
    Failpoint.ROLLBACK_RESTORED,
    Failpoint.ROLLBACK_PUBLISHED,
    Failpoint.AUDIT,
]


def _interrupted() -> list[object]:
    short = (Failpoint.ROLLBACK_TABLE_RESTORED, "the ref of a second fork")
    found = [(at, late) for late in LATE if late.work is insert and late.refused for at in STEPS]
    return [
        pytest.param(
            at, late, id=f"{late.name}-{at}", marks=() if (at, late.name) == short else SOAK
        )
        for at, late in found
        if late.name != "the graph" and "graph of a branch" not in late.name
    ]


@pytest.mark.parametrize(("at", "late"), _interrupted())
def test_a_recovery_that_dies_leaves_nothing_for_a_late_put(
    bucket: Bucket, place: Place, at: Failpoint, late: Late
) -> None:
    prepare(place, late)
    on_its_way = bucket.delay_put(late.key, skip=late.skip)
    writer = place.spawn(late)
    on_its_way.wait()
    writer.kill()
    writer.join(60)
    with armed(at), pytest.raises(omnigraphdb.OmniError):
        place.open_later()
    bucket.pass_time(LONG_AFTER)
    arguments = place.uri, dict(place.options)
    assert run_child(recover, *arguments, failpoints=f"{at}=exit") == KILLED
    with place.open_later() as graph:
        assert_settled(graph)
        settled = content(graph, late.branch)
        assert on_its_way.arrive() >= 400
    with place.open_later() as graph:
        assert_settled(graph)
        assert content(graph, late.branch) == settled
        WRITES["insert"].run(graph, late.branch, "2", None)
        assert_settled(graph)
