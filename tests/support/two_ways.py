"""One input loaded two ways: all of it in memory, and in steps over tiny splits; what each did, in the same form."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.write.load import load
from omnigraphdb.engine.write.runner_choice import RunnerChoice
from omnigraphdb.errors import OmniError
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Runner
from tests.support.settled import assert_settled

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String?
  kind: enum(a, b)?
  sig: Vector(2)?
  @unique(mail)
  @range(age, 0..9)
  @check(name, "^[a-zé日]")
}
node Note { text: String  n: I32? }
node Pair { a: String  b: I32  @key(a, b) }
edge Knows: Person -> Person @card(0..2) { w: I32? }
edge Wrote: Person -> Note @card(1..2)
edge About: Note -> Person { @unique(src, dst) }
"""
BASE: tuple[dict[str, Any], ...] = (
    *({"type": "Person", "data": {"name": name}} for name in "pqr"),
    {"type": "Person", "data": {"name": "s", "mail": "x"}},
    *({"type": "Note", "data": {"id": id_, "text": "old"}} for id_ in "12"),
    {"edge": "Knows", "from": "p", "to": "q", "data": {"id": "1"}},
    {"edge": "Knows", "from": "p", "to": "r", "data": {"id": "2"}},
    {"edge": "Wrote", "from": "p", "to": "1", "data": {"id": "1"}},
    {"edge": "Wrote", "from": "q", "to": "2", "data": {"id": "2"}},
    {"edge": "About", "from": "1", "to": "p", "data": {"id": "1"}},
)
_FRESH = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load did or refused, without what differs from run to run."""

    error: str | None
    report: Any
    rows: Any


def base_graph(home: Path) -> Path:
    """A small graph with something of every type, to be copied."""
    with omnigraphdb.init(home / "base", SCHEMA) as graph:
        graph.load(BASE, mode="append")
    return home / "base"


def loaded(
    base: Path,
    source: Any,
    mode: str,
    *,
    runner: Runner | None = None,
    split_bytes: int = 64,
    create: tuple[str, ...] = (),
) -> Outcome:
    """Load into a copy of a graph: by a runner in steps, or in memory without one."""
    place = base.with_name("copy")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base, place)
    with omnigraphdb.open(place, config={"split_bytes": split_bytes}) as graph:
        found = _outcome(graph, source, mode, runner, create)
        assert_settled(graph)
        # The heartbeat of a load that failed elsewhere stays until it expires: tasks may still be writing.
        remote = runner is not None and runner.engine != "local"
        assert not list(place.glob("__staging/*/*" if remote else "__staging/*"))
    return found


def threads(workers: int, buckets: int, keys_bytes_max: int) -> LocalRunner:
    """A runner that decides bucket by bucket, as one for large inputs does."""
    return LocalRunner(workers, buckets=buckets, keys_bytes_max=keys_bytes_max)


def _outcome(
    graph: Graph, source: Any, mode: str, runner: Runner | None, create: tuple[str, ...]
) -> Outcome:
    before = rows_of(graph)
    try:
        done = load(
            graph._engine,
            source,
            mode=mode,
            choose_runner=lambda _: RunnerChoice(runner, "a test"),
            create=create,
        )
    except OmniError as error:
        assert rows_of(graph) == before
        facts = (error.code, getattr(error, "total", None), _plain(error.details))
        return Outcome(type(error).__name__, _plain((facts, str(error))), None)
    return Outcome(None, (dict(done.tables), dict(done.created)), _plain(rows_of(graph)))


def rows_of(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    """Every row, by table and id."""
    return {
        str(key): sorted(graph.table(str(key)).to_pylist(), key=lambda row: str(row["id"]))
        for key in graph.catalog.tables
    }


def _plain(found: Any) -> str:
    """Facts as text, with one word for every fresh id."""
    return _FRESH.sub("fresh", repr(found))
