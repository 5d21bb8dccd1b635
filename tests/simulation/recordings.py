"""A writer that runs once on a bucket, with a copy of the bucket after each of its durable writes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.engine import jobs
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest import accepted_schema, view
from omnigraphdb.recovery import sweep
from omnigraphdb.storage.locks import table
from tests.simulation.bucket import Bucket, DurableWrite, Stored
from tests.simulation.bucket_server import ServedBucket, serve
from tests.simulation.pictures import Past, Picture, read_past, take_picture
from tests.simulation.roles import name_role, order_races
from tests.simulation.writer_kinds import Client, Kind, make_template

_LATER_SECONDS: Final = 600.0
_PERIODS: Final = (
    (jobs, "JOB_BEGIN_SECONDS", _LATER_SECONDS),
    (table, "LEASE_RENEW_SECONDS", _LATER_SECONDS),
    (accepted_schema, "CONTRACT_WAIT_SECONDS", 0.0),
    (view, "CONTRACT_WAIT_SECONDS", 0.0),
    (sweep, "CONTRACT_WAIT_SECONDS", 0.0),
)
"""Periods that have another length here: everybody else is dead, and a slow machine must make no other writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A writer that ran once: where it started, its durable writes, and what was seen before and after."""

    kind: Kind
    client: Client
    start: Stored
    writes: Sequence[DurableWrite]
    before: Picture
    after: Picture
    past: Past
    audited: frozenset[str]
    tables: Mapping[str, str]

    @property
    def roles(self) -> tuple[str, ...]:
        """The writes by their roles."""
        return order_races([self.role(write) for write in self.writes])

    def role(self, write: DurableWrite) -> str:
        """Name a write by what it is for."""
        return f"{write.verb} {name_role(write.key, self.tables)}"


@dataclass(frozen=True)
class Theatre:
    """A served bucket, and the graph that all kinds start from."""

    served: ServedBucket

    @property
    def bucket(self) -> Bucket:
        """The bucket itself."""
        return self.served.bucket

    @cached_property
    def template(self) -> Stored:
        """The graph that every kind starts from."""
        self.bucket.restore({})
        make_template(Client(self.served, "maker"))
        return dict(self.bucket.objects)

    def record(self, kind: Kind) -> Recording:
        """Let a writer run once."""
        bucket, client = self.bucket, Client(self.served, "writer")
        bucket.restore(self.template)
        kind.prepare(client)
        start = dict(bucket.objects)
        with client.open(read_only=True) as graph:
            before, past, tables = take_picture(graph), read_past(graph), _name_tables(graph)
            audited = frozenset(row.operation_id for row in graph.recoveries())
        with bucket.recording() as writes:
            kind.write(client)
        with client.open(read_only=True) as graph:
            after, tables = take_picture(graph), {**tables, **_name_tables(graph)}
        return Recording(
            kind=kind,
            client=client,
            start=start,
            writes=writes,
            before=before,
            after=after,
            past=past,
            audited=audited,
            tables=tables,
        )


@contextmanager
def open_theatre() -> Iterator[Theatre]:
    """Serve a bucket for as long as the block runs."""
    with serve(Bucket()) as served, _unhurried():
        yield Theatre(served)


@contextmanager
def _unhurried() -> Iterator[None]:
    """Show no work and renew no lease while it runs, and wait for nobody."""
    # Another release may not have all of them there.
    present = [period for period in _PERIODS if period[1] in vars(period[0])]
    usual = [(module, name, vars(module)[name]) for module, name, _ in present]
    for module, name, seconds in present:
        vars(module)[name] = seconds
    try:
        yield
    finally:
        for module, name, seconds in usual:
            vars(module)[name] = seconds


def _name_tables(graph: Graph) -> dict[str, str]:
    """Name the tables of a graph by their paths."""
    names: dict[str, str] = {}
    for branch in graph.branches():
        entries = graph._engine.manifest.current(BranchName(branch.name)).snapshot.entries
        names |= {entry.at.path: str(key) for key, entry in entries.items()}
    return names
