"""Kinds of writers for a disk that is full for one write: the graph that each finds, and its write."""

import base64
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.policy.actions import PolicyAction, PolicyKind
from tests.support.foreign import foreign_rows

SCHEMA: Final = """
node Person { name: String @key  age: I32?  town: String? }
node City { name: String @key  size: I32? }
edge Lives: Person -> City
"""
INDEXED: Final = SCHEMA.replace("age: I32?", "age: I32? @index").replace(
    "town: String?", "town: String? @index"
)
GROWN: Final = SCHEMA.replace("size: I32?", "size: I32?  rank: I64?")
VECTORS: Final = "node Person { name: String @key  age: I32?  like: Vector(4)? @index }"
ACTOR: Final = "ann"
_EVERYTHING: Final = ", ".join(one for one in PolicyAction if one.resource_kind is PolicyKind.GRAPH)
POLICY: Final = f"""
version: 1
groups: {{ owners: [{ACTOR}] }}
rules:
  - id: owners
    allow: {{ actors: {{ group: owners }}, actions: [{_EVERYTHING}] }}
"""
STEPS: Final[Mapping[str, Any]] = {"small_work_bytes": 0, "split_bytes": 400}
"""Settings with which a load of a few rows is bulk work."""
TWO_TABLES: Final = 'query m() { insert Person { name: "a" } insert City { name: "b" } }'


def people(first: int, last: int, age: int = 0) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"p{n:03}", "age": n + age, "town": f"t{n % 3}"}}
        for n in range(first, last)
    ]


def make(home: Path, schema: str = SCHEMA) -> None:
    with omnigraphdb.init(home, schema) as graph:
        cities = [{"type": "City", "data": {"name": f"c{n}", "size": n}} for n in range(4)]
        lives = [{"edge": "Lives", "from": f"p{n:03}", "to": "c1", "data": {}} for n in range(9)]
        graph.load([*people(0, 20), *cities, *lives], mode="append")


def make_blobs(home: Path) -> None:
    """Make a graph with blobs of a size that is stored beside the rows."""
    with omnigraphdb.init(
        home, "node Person { name: String @key  age: I32?  body: Blob? }"
    ) as graph:
        graph.load(documents(0, 2), mode="append")
        graph.load(documents(2, 4), mode="append")


def documents(first: int, last: int) -> list[dict[str, Any]]:
    body = "base64:" + base64.b64encode(b"x" * 100_000).decode()
    return [
        {"type": "Person", "data": {"name": f"d{n}", "age": n, "body": body}}
        for n in range(first, last)
    ]


def make_branch(home: Path) -> None:
    make(home)
    with omnigraphdb.open(home) as graph:
        graph.branch_create("side")
        graph.load(people(5, 9, 50), mode="merge", branch="side")
        graph.mutate('query m() { insert Person { name: "side" } }', branch="side")
        graph.mutate('query m() { update City set { size: 7 } where name = "c2" }')


def make_fragments(home: Path) -> None:
    make(home, INDEXED)
    with omnigraphdb.open(home) as graph:
        for n in range(3):
            graph.load(people(30 + 5 * n, 35 + 5 * n), mode="append")
        graph.mutate("query m() { delete Person where age < 4 }")


def make_vectors(home: Path) -> None:
    """Make a graph with vectors that have no index yet."""
    with omnigraphdb.init(home, VECTORS) as graph:
        rows = [
            {"type": "Person", "data": {"name": f"v{n:03}", "like": [n, n % 7, n % 5, 1]}}
            for n in range(300)
        ]
        graph.load(rows, mode="append")


def make_tag(home: Path) -> None:
    make(home)
    with omnigraphdb.open(home) as graph:
        graph.tag("t")


def make_moved(home: Path) -> None:
    """Make a graph with a branch at another address, and move it."""
    former = home.with_name(f"{home.name}-former")
    make_branch(former)
    former.rename(home)


def make_drifted(home: Path) -> None:
    """Make a graph to which another program added a row."""
    make(home)
    with omnigraphdb.open(home) as graph:
        foreign_rows(graph, "node:Person", ["stranger"], key="name")


def leave_interrupted(at: Failpoint) -> Callable[[Path], None]:
    """Make a graph in which a write of two tables was interrupted."""

    def make_interrupted(home: Path) -> None:
        make(home)
        with omnigraphdb.open(home) as graph:
            with armed(at), suppress(OmniError):
                graph.mutate(TWO_TABLES)
            assert len(graph.pending_recoveries()) == 1

    return make_interrupted


def discard(home: Path) -> None:
    """Discard what was interrupted, unless an earlier try did."""
    with omnigraphdb.open(home, read_only=True) as graph:
        pending = graph.pending_recoveries()
    for operation in pending:
        omnigraphdb.discard_recovery(home, operation.operation_id)


def repair(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        graph.repair(confirm=True, force=True)


def recover(home: Path) -> None:
    """Open the graph, which completes or takes back what was interrupted."""
    omnigraphdb.open(home).close()


def insert_together(graph: Graph) -> None:
    """Insert from threads, which commit as a group; raises the first error."""
    errors: list[BaseException] = []

    def insert(number: int) -> None:
        try:
            graph.mutate(f'query m() {{ insert Person {{ name: "t{number}" }} }}')
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of writer: the graph that it finds, and its write."""

    methods: tuple[str, ...]
    """The methods of a graph that it stands for."""
    write: Callable[[Graph], object] | None = None
    repeat: Callable[[Path], object] | None = None
    """A write without a handle, which is repeated when the disk has room again."""
    make: Callable[[Path], None] = make
    config: Mapping[str, Any] = field(default_factory=dict)
    partial: bool = False
    """Whether a part of the write may land: its members are writes of their own."""
    writes_tables: bool = True
    """Whether it writes rows or indexes of any table, the manifest included."""

    @property
    def is_copied(self) -> bool:
        """Whether its graph may be copied: one with branches or interrupted work holds its address."""
        return self.repeat is None and self.make not in (make_branch, make_tag)


def mutation(text: str) -> Kind:
    return Kind(methods=("mutate",), write=lambda graph: graph.mutate(f"query m() {{ {text} }}"))


def load(mode: Any, rows: list[dict[str, Any]], *, bulk: bool = False, **options: Any) -> Kind:
    return Kind(
        methods=("load",),
        write=lambda graph: graph.load(rows, mode=mode, **options),
        config=STEPS if bulk else {},
        make=make_branch if options.get("branch") == "side" else make,
        # The branch may be made without its rows.
        partial="from_branch" in options,
    )


def schema(text: str, **options: Any) -> Kind:
    return Kind(methods=("schema_apply",), write=lambda graph: graph.schema_apply(text, **options))


def method(name: str, *arguments: Any, **options: Any) -> Callable[[Graph], object]:
    """Call a method of the graph."""
    return lambda graph: getattr(graph, name)(*arguments, **options)


def call(
    name: str, *arguments: Any, make: Callable[[Path], None] = make, partial: bool = False
) -> Kind:
    return Kind(methods=(name,), write=method(name, *arguments), make=make, partial=partial)


KINDS: Final[Mapping[str, Kind]] = {
    "insert": mutation('insert Person { name: "a" } insert City { name: "b" }'),
    "update": mutation("update Person set { age: 77 } where age < 4"),
    "delete": mutation("delete Person where age < 4"),
    "assign": call("assign", "Person.age", ["p001", "p002"], [70, 80]),
    "load_append": load("append", people(40, 60)),
    "load_merge": load("merge", people(10, 30, 100)),
    "load_overwrite": load("overwrite", people(0, 9, 9)),
    "load_from": load("append", people(40, 60), branch="new", from_branch="main"),
    "bulk_append": load("append", people(40, 60), bulk=True),
    "bulk_merge": load("merge", people(10, 30, 100), bulk=True),
    "group": Kind(methods=("mutate",), write=insert_together, partial=True),
    "branch_create": call("branch_create", "new", partial=True),
    "branch_delete": call("branch_delete", "side", make=make_branch),
    "branch_write": load("append", people(60, 65), branch="side"),
    "merge": call("merge", "side", make=make_branch),
    "merge_steps": Kind(
        methods=("merge",), write=method("merge", "side"), make=make_branch, config=STEPS
    ),
    "schema_columns": schema(SCHEMA.replace("town: String?", ""), allow_data_loss=True),
    "schema_rewrite": schema(GROWN),
    "schema_indexes": schema(INDEXED),
    "indexes": call("ensure_indices", make=make_fragments),
    "vectors": call("ensure_indices", make=make_vectors),
    "optimize": call("optimize", make=make_fragments),
    "blobs": Kind(
        methods=("load",),
        write=method("load", documents(3, 6), mode="merge"),
        make=make_blobs,
    ),
    "optimize_blobs": call("optimize", make=make_blobs),
    "cleanup": Kind(
        methods=("cleanup",),
        write=method("cleanup", keep=1, confirm=True),
        make=make_fragments,
        writes_tables=False,
    ),
    "repair": Kind(methods=("repair",), repeat=repair, make=make_drifted),
    "tag": call("tag", "t", partial=True),
    "tag_delete": call("tag_delete", "t", make=make_tag),
    "policy": Kind(methods=("set_policy",), write=method("set_policy", POLICY, actor=ACTOR)),
    "relocate": Kind(
        methods=("relocate",), repeat=omnigraphdb.relocate, make=make_moved, writes_tables=False
    ),
    "discard": Kind(
        methods=("discard_recovery",), repeat=discard, make=leave_interrupted(Failpoint.ARMED)
    ),
    "recovery_back": Kind(
        methods=("refresh",), repeat=recover, make=leave_interrupted(Failpoint.TABLE_COMMITTED)
    ),
    "recovery_forward": Kind(
        methods=("refresh",), repeat=recover, make=leave_interrupted(Failpoint.TABLES_COMMITTED)
    ),
}
NOT_COUNTED: Final[Mapping[str, str]] = {
    "df.write of Spark": "its workers are processes of their own, and the library counts the writes of one",
}
"""Writers that are no kind here, and why; every method of a graph that writes has one."""
