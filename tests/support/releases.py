"""Graphs as releases left them: the story that is written once per release, and what must be read from it later.

`python -m tests.support.releases NAME` writes the story with the code at hand and packs it for the tests.
"""

import base64
import json
import shutil
import sys
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, Injected, armed

HERE: Final = Path(__file__).parent.parent / "fixtures" / "releases"
WRITTEN_AT: Final = Path("/tmp/omnigraph-releases")
"""Where releases are written. Branches keep this address, so the unpacked graph is always a moved one."""

GRAPH: Final = "graph"

BEFORE: Final = """
node Thing {
  key: String @key  text: String? @index  kind: enum(raw, made)?  flag: Bool?
  i32: I32? @index  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  moment: DateTime? @index  sig: Vector(4)? @index  file: Blob?
  texts: [String]?  flags: [Bool]?  i32s: [I32]?  i64s: [I64]?  u32s: [U32]?  u64s: [U64]?
  f32s: [F32]?  f64s: [F64]?  days: [Date]?  moments: [DateTime]?  gone: I32?
}
node Place { code: String @key  title: String }
edge Near: Thing -> Thing { since: Date?  seen: DateTime? }
edge LiesIn: Thing -> Place @card(0..1)
"""
AFTER: Final = BEFORE.replace("  gone: I32?", "  added: I64?").replace(
    "title: String }", 'label: String @rename_from("title") }'
)

FULL: Final[Mapping[str, Any]] = {
    "text": "Grüße, 世界\n\t\"quoted\", 'too' \u0001 🚢",
    "kind": "made",
    "flag": True,
    "i32": -(2**31),
    "i64": -(2**63),
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f32": 3.4028234663852886e38,
    "f64": 5e-324,
    "day": "0001-01-01",
    "moment": "1907-05-04T03:02:01.987Z",
    "sig": [0.25, -1.5, 3.0, 1e-40],
    "file": "base64:" + base64.b64encode(bytes(range(256)) * 4).decode(),
    "texts": ["", "a,b", "ü"],
    "flags": [True, False],
    "i32s": [2**31 - 1, 0],
    "i64s": [2**63 - 1, -1],
    "u32s": [0, 7],
    "u64s": [2**64 - 1, 0],
    "f32s": [0.1, -0.0],
    "f64s": [1.7976931348623157e308, 0.1],
    "days": ["9999-12-31", "1969-12-31"],
    "moments": ["9999-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"],
}


def thing(key: str, **data: Any) -> dict[str, Any]:
    """A node in the load format."""
    return {"type": "Thing", "data": {"key": key, **data}}


def near(source: str, target: str, **data: Any) -> dict[str, Any]:
    """An edge in the load format."""
    return {"edge": "Near", "from": source, "to": target, "data": data}


def write_story(root: Path) -> None:
    """Write a small graph in which everything happened that a release can leave behind."""
    with omnigraphdb.init(root, BEFORE) as graph:
        _write_main(graph)
        graph.schema_apply(AFTER, actor="ann")
        _write_branches(graph)
    _leave_recoveries(root)
    with omnigraphdb.open(root) as graph:
        graph.optimize()
        graph.load([thing("last", text="after all", added=1)], mode="append", actor="ann")


def _write_main(graph: Graph) -> None:
    places = [{"type": "Place", "data": {"code": c, "title": f"at {c}"}} for c in "pq"]
    first = [thing("full", **FULL), thing("empty"), thing("a", text="red rope", i32=1, gone=5)]
    lies = [{"edge": "LiesIn", "from": "a", "to": "p", "data": {}}]
    links = [near("a", "full", since="1969-07-20", seen="2026-03-14T15:09:26.535Z")]
    graph.load([*places, *first, *links, *lies], mode="append", actor="ann")
    graph.load([thing("b", text="knot", moment="2026-01-01T00:00:00Z")], mode="merge")
    graph.mutate('query m() { update Thing set { i32: 2 } where key = "b" }', actor="bob")
    graph.load([thing("doomed"), near("doomed", "a")], mode="append")
    graph.mutate('query m() { delete Thing where key = "doomed" }', actor="bob")
    graph.ensure_indices()


def _write_branches(graph: Graph) -> None:
    for branch in ("left", "right"):
        graph.branch_create(branch)
        graph.load([thing(branch, i64=1), near(branch, "a")], mode="append", branch=branch)
    # Each side takes in what the other was before it took in this one: two merge bases.
    graph.branch_create("left-before", from_branch="left")
    graph.merge("right", into="left", actor="ann")
    graph.merge("left-before", into="right", actor="bob")
    for branch in ("left", "right"):
        graph.load([thing(f"{branch}-later")], mode="append", branch=branch)
    graph.merge("left", into="right", actor="ann")

    graph.branch_create("brief")
    graph.load([thing("brief", text="of a branch that is gone")], mode="append", branch="brief")
    graph.load([thing("meanwhile")], mode="append")
    graph.merge("brief", actor="bob")
    graph.branch_delete("brief")

    graph.branch_create("open", from_branch="right")
    graph.mutate('query m() { delete Thing where key = "b" }', branch="open")
    graph.mutate('query m() { update Thing set { text: "hemp" } where key = "a" }', branch="open")
    graph.branch_create("lazy")


def _leave_recoveries(root: Path) -> None:
    """Interrupt one write that is completed at the next open, and one that is undone."""
    for at, key in ((Failpoint.TABLES_COMMITTED, "forward"), (Failpoint.TABLE_COMMITTED, "back")):
        graph = omnigraphdb.open(root)
        with armed(at), suppress(Injected):
            graph.load([thing(key), near(key, "a")], mode="merge", actor="ann")
        graph.close()


# ---- what is read


def describe(graph: Graph) -> dict[str, Any]:
    """Everything a graph shows, in plain JSON: rows of every table of every commit of every branch."""
    rows: dict[str, int] = {}
    branches = {
        branch.name: {
            "parent": branch.parent,
            "commits": {
                commit.id: _show_commit(graph, branch.name, commit.id, rows)
                for commit in graph.commits(branch=branch.name)
            },
        }
        for branch in graph.branches()
    }
    recoveries = [[row.recovery_kind, row.operation_id, row.commit] for row in graph.recoveries()]
    return {
        "rows": [json.loads(row) for row in rows],
        "branches": branches,
        "recoveries": recoveries,
    }


def _show_commit(graph: Graph, branch: str, id: str, rows: dict[str, int]) -> dict[str, Any]:
    commit, snapshot = graph.commit(id), graph.snapshot(branch=branch, at=id)
    shown = {key: show_rows(snapshot.table(key)) for key in sorted(snapshot.tables())}
    return {
        "kind": str(commit.kind),
        "actor": commit.actor,
        "parents": [commit.parent, commit.merged_parent],
        "tables": {
            key: [rows.setdefault(json.dumps(row), len(rows)) for row in found]
            for key, found in shown.items()
        },
    }


def show_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows by id in JSON values that do not depend on how a release hands out its types: instants as milliseconds."""
    plain = table.cast(pa.schema([f.with_type(_plain_type(f.type)) for f in table.schema]))
    ordered = plain.select(sorted(plain.column_names)).to_pylist()
    shown = [{name: _plain_value(value) for name, value in row.items()} for row in ordered]
    return sorted(shown, key=lambda row: str(row["id"]))


def _plain_type(stored: pa.DataType) -> pa.DataType:
    if pa.types.is_list(stored):
        return pa.list_(_plain_type(stored.value_type))
    if pa.types.is_date64(stored) or pa.types.is_timestamp(stored):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(stored) else stored


def _plain_value(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


# ---- packed


@dataclass(frozen=True, slots=True)
class Release:
    """A packed graph and what it must show."""

    name: str

    @property
    def packed(self) -> Path:
        """The archive of its files."""
        return HERE / f"{self.name}.tar.gz"

    @property
    def expected(self) -> Any:
        """What `describe` gave when it was written."""
        return json.loads((HERE / f"{self.name}.json").read_text(encoding="utf-8"))

    def unpack(self, into: Path) -> Path:
        """Give a copy of the graph below a directory."""
        with tarfile.open(self.packed) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(into, filter="data")
            else:
                # Python 3.11 before 3.11.4; the archive is our own.
                archive.extractall(into)
        return into / GRAPH


def list_releases() -> list[Release]:
    """Every release that was kept, by name."""
    return [Release(path.name.removesuffix(".tar.gz")) for path in sorted(HERE.glob("*.tar.gz"))]


def write_release(name: str) -> None:
    """Write the story with the code at hand and pack it."""
    home = WRITTEN_AT / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    write_story(home / GRAPH)
    with omnigraphdb.open(home / GRAPH, read_only=True) as graph:
        assert graph.doctor() == []
        expected = json.dumps(describe(graph), ensure_ascii=False, indent=1)
    release = Release(name)
    (HERE / f"{name}.json").write_text(expected + "\n", encoding="utf-8")
    with tarfile.open(release.packed, "w:gz") as archive:
        archive.add(home / GRAPH, GRAPH, filter=_without_owner)
    shutil.rmtree(home)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    write_release(sys.argv[1])
