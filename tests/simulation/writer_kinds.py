"""Every kind of writer: what it finds, what it writes, and which enumerations of the engine it stands for."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.engine.keyed import RequestKind
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN, OperationId, TableKey
from omnigraphdb.policy.actions import PolicyAction, PolicyKind
from tests.faults.conftest import PLACES
from tests.faults.test_late_commits import commit_late
from tests.simulation.bucket import NAME
from tests.simulation.bucket_server import ServedBucket
from tests.support.joined import write_together
from tests.support.story import ACTOR, BASE, SCHEMA, WRITES, note

URI: Final = f"s3://{NAME}/g"
QUIET: Final = {"maintenance": "off"}
KEY: Final = "request-1"
TAG: Final = "1"
_EVERYTHING: Final = ", ".join(
    action for action in PolicyAction if action.resource_kind is PolicyKind.GRAPH
)
POLICY: Final = f"""
version: 1
groups: {{ owners: [{ACTOR}] }}
rules:
  - id: owners
    allow: {{ actors: {{ group: owners }}, actions: [{_EVERYTHING}] }}
"""


@dataclass(frozen=True, slots=True)
class Client:
    """A process that uses the graph."""

    served: ServedBucket
    name: str

    @property
    def options(self) -> dict[str, str]:
        """What it needs to reach the bucket."""
        return self.served.options(self.name)

    def open(self, *, read_only: bool = False) -> Graph:
        """Open the graph; a client that may write recovers what others left."""
        return omnigraphdb.open(
            URI, storage_options=self.options, config=QUIET, read_only=read_only, actor=ACTOR
        )

    def write(self, work: Callable[[Graph], object]) -> None:
        """Open the graph, do some work, and close it."""
        with self.open() as graph:
            work(graph)


Work = Callable[[Graph], object]


def _nothing(_graph: Graph) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of writer at one place."""

    name: str
    place: str = "main"
    """The branch that it writes."""
    methods: tuple[str, ...]
    """The methods of a graph that it stands for."""
    writer: WriterKind | None = None
    """The kind that its sidecar names."""
    verb: RequestKind | None = None
    """Of a request under an idempotency key."""
    job: JobKind | None = None
    prepare: Callable[[Client], object] = field(repr=False)
    write: Callable[[Client], object] = field(repr=False)
    again: Work = field(default=_nothing, repr=False)
    """The steps by which a caller who got no answer makes sure; after them nothing is left to complain of."""
    known_issues: frozenset[str] = frozenset()
    """Checks of the doctor that complain before the work is done."""
    reclaims: bool = False
    """Whether states of the past may not be readable any more."""

    @property
    def id(self) -> str:
        """The name with the place, as files and tests spell it."""
        return self.name if self.place == "main" else f"{self.name}-{self.place}"


def make_graph(client: Client, *, force: bool = False) -> None:
    """Make an empty graph."""
    omnigraphdb.init(URI, SCHEMA, storage_options=client.options, config=QUIET, force=force).close()


def make_template(client: Client) -> None:
    """Write the graph that every kind starts from."""
    make_graph(client)
    client.write(lambda graph: graph.load(list(BASE), mode="append"))


# ---- writes of rows


def _on(place: str, *, owned: str = "append") -> Callable[[Client], object]:
    """Prepare a place: nothing for main, a branch that has to fork, or one that owns its tables."""

    def prepare(graph: Graph) -> None:
        if place != "main":
            graph.branch_create(place)
        if place == "owned":
            WRITES[owned].run(graph, place, "0", None)

    return _first(prepare)


def _first(*works: Work) -> Callable[[Client], object]:
    """Prepare by works on one handle."""

    def prepare(client: Client) -> None:
        with client.open() as graph:
            for work in works:
                work(graph)

    return prepare


def _by(work: Work) -> Callable[[Client], object]:
    """Write through a handle that is opened for it."""
    return lambda client: client.write(work)


def _story_kinds() -> Iterable[Kind]:
    for write in WRITES.values():
        # The first of each story makes the next one do something: what `0` deleted cannot be deleted by `1`.
        for place in PLACES:
            yield Kind(
                name=write.name,
                place=place,
                methods=("mutate" if write.kind is WriterKind.MUTATION else "load",),
                writer=write.kind,
                job=JobKind.LOAD if write.kind is WriterKind.LOAD else None,
                prepare=_on(place),
                write=_by(lambda g, w=write, p=place: w.run(g, p, TAG, ACTOR)),  # type: ignore[misc]
            )


def _assign_kinds() -> Iterable[Kind]:
    for place in PLACES:
        yield Kind(
            name="assign",
            place=place,
            methods=("assign",),
            writer=WriterKind.MUTATION,
            prepare=_on(place),
            write=_by(
                lambda g, p=place: g.assign("Person.n", ["a", "b"], [7, 8], branch=p)  # type: ignore[misc]
            ),
        )


def _write_group(graph: Graph, place: str) -> None:
    """Two inserts into three tables, and an update between them, in one publish."""

    def update() -> object:
        return graph.mutate('query m() { update Person set { n: 5 } where k = "b" }', branch=place)

    members: list[Callable[[], object]] = [
        partial(WRITES["insert"].run, graph, place, "1", ACTOR),
        update,
        partial(WRITES["insert"].run, graph, place, "2", "bo"),
    ]
    results = write_together(graph, members, place)
    assert not any(isinstance(result, BaseException) for result in results), results


def _group_kinds() -> Iterable[Kind]:
    for place in ("main", "owned"):
        yield Kind(
            name="group",
            place=place,
            methods=("mutate",),
            writer=WriterKind.GROUP,
            prepare=_on(place),
            write=_by(partial(_write_group, place=place)),
        )


# ---- branches


def _branch(*changes: Work) -> Work:
    """Make the branch `side` that inserts, and change something beside it."""

    def work(graph: Graph) -> None:
        graph.branch_create("side")
        WRITES["insert"].run(graph, "side", "3", None)
        for change in changes:
            change(graph)

    return work


def _change_main(graph: Graph) -> None:
    """Write to the tables that the branch wrote too."""
    WRITES["merge"].run(graph, "main", "4", None)


def _branch_behind_main(graph: Graph) -> None:
    """Make a branch that owns no table, and write to main."""
    graph.branch_create("side")
    WRITES["insert"].run(graph, "main", "3", None)


def _merge_kinds() -> Iterable[Kind]:
    ways: dict[str, tuple[Work, str, str]] = {
        "merge_adopts": (_branch(), "side", "main"),
        "merge_merges": (_branch(_change_main), "side", "main"),
        "merge_points": (_branch_behind_main, "main", "side"),
        "merge_into_a_branch": (_branch(_change_main), "main", "side"),
        "merge_forks": (lambda g: (_branch()(g), g.branch_create("other")), "side", "other"),
    }
    for name, (prepare, source, target) in ways.items():
        yield Kind(
            name=name,
            methods=("merge",),
            writer=WriterKind.BRANCH_MERGE,
            job=JobKind.MERGE,
            prepare=_first(prepare),
            write=_by(lambda g, s=source, t=target: g.merge(s, into=t, actor=ACTOR)),  # type: ignore[misc]
        )


def _branch_kinds() -> Iterable[Kind]:
    def create_past(graph: Graph) -> None:
        graph.branch_create("made", at=graph.commits()[1])

    yield Kind(
        name="branch_create",
        methods=("branch_create",),
        prepare=_first(),
        write=_by(lambda g: g.branch_create("made")),
    )
    yield Kind(
        name="branch_create_past",
        methods=("branch_create",),
        prepare=_first(lambda g: WRITES["insert"].run(g, "main", "3", None)),
        write=_by(create_past),
    )
    yield Kind(
        name="branch_delete",
        methods=("branch_delete",),
        prepare=_first(_branch()),
        write=_by(lambda g: g.branch_delete("side")),
    )


# ---- the schema


def _apply(schema: str) -> Work:
    # Where it was applied, applying it again changes nothing.
    return lambda graph: graph.schema_apply(schema, actor=ACTOR)


def _schema_kinds() -> Iterable[Kind]:
    schemas = {
        "schema_add": SCHEMA + "node Pet { k: String @key }\nedge Owns: Person -> Pet\n",
        "schema_drop": SCHEMA.replace("node Note { k: String @key }", ""),
        "schema_rename": SCHEMA.replace("node Note", 'node Memo @rename_from("Note")'),
        "schema_describe": SCHEMA.replace("node Note", 'node Note @description("a note")'),
        "schema_rewrite": SCHEMA.replace(
            "node City { k: String @key  n: I32? }",
            "node City { k: String @key  n: I32?  m: I64? }",
        ).replace("edge Knows: Person -> Person", "edge Knows: Person -> Person { since: Date? }"),
    }
    for name, schema in schemas.items():
        assert schema != SCHEMA, name
        yield Kind(
            name=name,
            methods=("schema_apply",),
            writer=WriterKind.SCHEMA_APPLY,
            job=JobKind.SCHEMA_APPLY,
            # What was there is indexed: a change builds what is missing, as a run of its own.
            prepare=_first(lambda g: note(g, "main", "first"), lambda g: g.ensure_indices()),
            write=_by(_apply(schema)),
            again=_apply(schema),
        )


# ---- maintenance


def _scatter(graph: Graph) -> None:
    """Leave small fragments, holes, and rows that no index knows."""
    for tag in ("7", "8"):
        WRITES["append"].run(graph, "main", tag, None)
    WRITES["delete"].run(graph, "main", "2", None)


def _commit_foreign(graph: Graph) -> None:
    """Let another program add a person: there is no sidecar, and nothing is published."""
    engine, key = graph._engine, TableKey("node:Person")
    at, tables = engine.manifest.load(MAIN).snapshot.entry(key).at, engine.store.tables
    rows = tables.open(at).read().slice(0, 1)
    for name in ("id", "k"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(["stranger"]))
    staged, own = tables.stage_append(at, rows), lock_key(key, at.branch)
    with engine.committer.locks.acquire([own]) as held_locks:
        tables.commit_staged(
            staged, operation_id=OperationId("somebody else"), lock=held_locks.lock(own)
        )


def _maintenance_kinds() -> Iterable[Kind]:
    yield Kind(
        name="index",
        methods=("ensure_indices",),
        writer=WriterKind.ENSURE_INDICES,
        job=JobKind.INDEX,
        prepare=_first(),
        write=_by(lambda g: g.ensure_indices()),
    )
    yield Kind(
        name="index",
        place="owned",
        methods=("ensure_indices",),
        writer=WriterKind.ENSURE_INDICES,
        job=JobKind.INDEX,
        prepare=_on("owned"),
        write=_by(lambda g: g.ensure_indices(branch="owned")),
    )
    yield Kind(
        name="optimize",
        methods=("optimize",),
        writer=WriterKind.OPTIMIZE,
        job=JobKind.OPTIMIZE,
        prepare=_first(lambda g: g.ensure_indices(), _scatter),
        write=_by(lambda g: g.optimize()),
    )
    yield Kind(
        name="cleanup",
        methods=("cleanup",),
        job=JobKind.CLEANUP,
        prepare=_first(_scatter, _branch(), lambda g: g.branch_delete("side")),
        write=_by(lambda g: g.cleanup(keep=1, confirm=True)),
        reclaims=True,
    )
    yield Kind(
        name="repair",
        methods=("repair",),
        prepare=_first(_commit_foreign),
        write=_by(lambda g: g.repair(confirm=True, force=True)),
        again=lambda g: g.repair(confirm=True, force=True),
        known_issues=frozenset({"drift"}),
    )


# ---- operations that died before


def _interrupt(graph: Graph, at: Failpoint = Failpoint.ARMED) -> None:
    """Leave the sidecar of an insert behind."""
    with armed(at), suppress(omnigraphdb.OmniError):
        WRITES["insert"].run(graph, "main", "9", "bo")
    assert len(graph.pending_recoveries()) == 1


def _take_back(client: Client) -> None:
    """Let recovery take an insert back, and then let its commit come."""
    with client.open() as graph:
        _interrupt(graph, Failpoint.TABLE_COMMITTED)
    client.served.bucket.pass_time(60)
    with client.open() as graph:
        (row,) = graph.recoveries()
        commit_late(graph, "main", OperationId(row.operation_id))


def _discard(client: Client) -> None:
    """Discard what was left without opening the graph, which would recover it."""
    with client.open(read_only=True) as graph:
        (left,) = graph.pending_recoveries()
    omnigraphdb.discard_recovery(URI, left.operation_id, storage_options=client.options)


def _recovered_kinds() -> Iterable[Kind]:
    yield Kind(
        name="undo_of_a_late_commit",
        methods=("mutate",),
        writer=WriterKind.MUTATION,
        prepare=_take_back,
        write=_by(lambda g: WRITES["insert"].run(g, "main", TAG, ACTOR)),
        known_issues=frozenset({"drift"}),
    )
    yield Kind(
        name="discard",
        methods=("discard_recovery",),
        prepare=_first(_interrupt),
        write=_discard,
    )
    yield Kind(
        name="recovery_back",
        methods=("refresh",),
        prepare=_first(partial(_interrupt, at=Failpoint.TABLE_COMMITTED)),
        write=_by(_nothing),
    )
    yield Kind(
        name="recovery_forward",
        methods=("refresh",),
        prepare=_first(partial(_interrupt, at=Failpoint.TABLES_COMMITTED)),
        write=_by(_nothing),
    )


# ---- requests under keys, and small facts


def _keyed_kinds() -> Iterable[Kind]:
    works: dict[RequestKind, Work] = {
        RequestKind.MUTATE: lambda g: g.mutate(
            'query m() { insert Person { k: "pk" }  insert City { k: "ck" } }', idempotency_key=KEY
        ),
        RequestKind.LOAD: lambda g: g.load(
            [{"type": "Person", "data": {"k": "pk"}}, {"type": "City", "data": {"k": "ck"}}],
            mode="append",
            idempotency_key=KEY,
        ),
        RequestKind.MERGE: lambda g: g.merge("side", idempotency_key=KEY),
        RequestKind.SCHEMA_APPLY: lambda g: g.schema_apply(
            SCHEMA + "node Pet { k: String @key }\n", idempotency_key=KEY
        ),
        RequestKind.BRANCH_CREATE: lambda g: g.branch_create("made", idempotency_key=KEY),
        RequestKind.BRANCH_DELETE: lambda g: g.branch_delete("side", idempotency_key=KEY),
    }
    writers = {
        RequestKind.MUTATE: WriterKind.MUTATION,
        RequestKind.LOAD: WriterKind.LOAD,
        RequestKind.MERGE: WriterKind.BRANCH_MERGE,
        RequestKind.SCHEMA_APPLY: WriterKind.SCHEMA_APPLY,
    }
    for verb, work in works.items():
        has_branch = verb in (RequestKind.MERGE, RequestKind.BRANCH_DELETE)
        yield Kind(
            name=f"keyed_{verb}",
            methods=(str(verb),),
            writer=writers.get(verb),
            verb=verb,
            prepare=_first(_branch()) if has_branch else _first(lambda g: g.ensure_indices()),
            write=_by(work),
            # Repeated under its key, a request is carried out once.
            again=work,
        )
    yield Kind(
        name="key_alone",
        methods=("mutate",),
        verb=RequestKind.MUTATE,
        prepare=_first(),
        write=_by(_write_nothing),
        again=_write_nothing,
    )


def _write_nothing(graph: Graph) -> object:
    text = 'query m() { update Person set { n: 1 } where k = "nobody" }'
    return graph.mutate(text, idempotency_key=KEY)


def _fact_kinds() -> Iterable[Kind]:
    yield Kind(
        name="tag",
        methods=("tag",),
        prepare=_first(),
        write=_by(lambda g: g.tag("v1")),
    )
    yield Kind(
        name="tag_delete",
        methods=("tag_delete",),
        prepare=_first(lambda g: g.tag("v1")),
        write=_by(lambda g: g.tag_delete("v1")),
    )
    yield Kind(
        name="policy",
        methods=("set_policy",),
        prepare=_first(),
        write=_by(lambda g: g.set_policy(POLICY, actor=ACTOR)),
    )


KINDS: Final = {
    kind.id: kind
    for kinds in (
        _story_kinds(),
        _assign_kinds(),
        _group_kinds(),
        _merge_kinds(),
        _branch_kinds(),
        _schema_kinds(),
        _maintenance_kinds(),
        _recovered_kinds(),
        _keyed_kinds(),
        _fact_kinds(),
    )
    for kind in kinds
}
"""Every kind by its id."""
