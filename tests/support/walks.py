"""Walks through the package: which functions a real run enters, in order; run as a module to write their page anew."""

import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import omnigraphdb
from omnigraphdb.failpoints import Failpoint, armed

ROOT = Path(__file__).parents[2]
PACKAGE = f"{Path(omnigraphdb.__file__).parent}/"
PAGE = ROOT / "docs" / "internals" / "walks.md"
REGION = re.compile(r"(<!-- made from a run: (\w+) -->\n).*?(<!-- end -->)", re.S)
DEPTH_MAX = 6
"""How many shown functions may stand around one that is shown."""
LEAVES = ("catalog/", "compile/arguments", "errors", "failpoints", "ids", "language/", "later", "limits", "logs",
          "manifest/names", "manifest/records", "runtime", "storage/counters", "storage/layout", "storage/lru", "values")  # fmt: skip
"""Modules that every walk enters at every step; their names would hide the way."""
STORED = re.compile(r"(\w+\.)?(acquire|commit_|create|delete|fork|put|restore|stage_|swap|write)")
"""Calls of storage that are shown: those that write or take a lock."""


@dataclass(frozen=True)
class Call:
    """A function that was entered for the first time in a walk; `depth` counts the shown functions around it."""

    path: str
    function: str
    meaning: str = field(compare=False)
    depth: int = field(compare=False, default=0)


@dataclass
class Trace:
    """What a run entered, in order, as file and function; and the calls that are shown."""

    entered: list[tuple[str, str]] = field(default_factory=list)
    calls: dict[Call, bool] = field(default_factory=dict)
    """The calls from one file into another, and whether a call entered anything else of the package."""

    @property
    def shown(self) -> list[Call]:
        """The calls that lead on, and those of storage that write."""
        return [
            call
            for call, leads_on in self.calls.items()
            if (STORED.match(call.function) if call.path.startswith("storage/") else leads_on)
        ]

    def functions(self, *, storage: bool = True) -> set[tuple[str, str]]:
        """The functions that were entered, with those of storage or without."""
        return {one for one in self.entered if storage or not one[0].startswith("storage/")}


@dataclass(slots=True)
class _Frame:
    path: str
    shown: int
    hidden: bool
    call: Call | None = None


class _Tracer:
    """A profile function that keeps one stack of our own frames for every thread."""

    def __init__(self, depth_max: int) -> None:
        self.trace = Trace()
        self._depth_max = depth_max
        self._stacks: dict[int, list[_Frame]] = {}
        self._first = threading.get_ident()
        self._known: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        path = self._known.get(code)
        if path is None:
            file = code.co_filename
            path = self._known[code] = (
                file.removeprefix(PACKAGE) if file.startswith(PACKAGE) else ""
            )
        if not path or code.co_name == "<module>":
            return
        stack = self._stacks.setdefault(threading.get_ident(), [])
        if event == "call":
            stack.append(self._enter(path, code, frame, stack))
        elif stack:
            stack.pop()

    def _enter(self, path: str, code: CodeType, frame: FrameType, stack: list[_Frame]) -> _Frame:
        # A worker thread goes on where the first thread waits for it.
        around = (stack or self._stacks.get(self._first) or [_Frame("", 0, False)])[-1]
        name = code.co_qualname.replace(".<locals>", "")
        hidden = around.hidden or around.path.startswith("storage/") or path.startswith(LEAVES)
        if "<" not in name:
            self.trace.entered.append((path, name))
            meaning = _first_sentence(frame)
            if around.call is not None and path != around.path and not path.startswith(LEAVES):
                self.trace.calls[around.call] = True
            if meaning and not hidden and path != around.path and around.shown < self._depth_max:
                call = Call(path, name, meaning, around.shown)
                self.trace.calls.setdefault(call, False)
                return _Frame(path, around.shown + 1, hidden, call)
        return _Frame(path, around.shown, hidden, around.call)


def _first_sentence(frame: FrameType) -> str:
    constants = frame.f_code.co_consts
    text = constants[0] if constants and isinstance(constants[0], str) else ""
    private = re.search(r"(^|\.)_", frame.f_code.co_qualname)
    return "" if private else " ".join(text.split("\n\n")[0].split())


@contextmanager
def traced(depth_max: int = DEPTH_MAX) -> Iterator[Trace]:
    """Note every function of the package that is entered inside the block, in any thread."""
    tracer = _Tracer(depth_max)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        yield tracer.trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


# ---- the runs

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? @index }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("ada", "bo", "cy")]
EDGES = [{"edge": "Knows", "from": a, "to": b} for a, b in (("ada", "bo"), ("bo", "cy"))]
INSERT = "query add($n: String) { insert Person { name: $n, age: 1 } }"
SET_AGE = "query set($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
TWO_HOPS = """
query far($n: String) {
  match { $p: Person { name: $n }  $p knows $f  $f knows $g }
  return { $g.name as name, count($f) as ways }
}
"""


def _graph(folder: str, **config: Any) -> Any:
    graph = omnigraphdb.init(f"{folder}/people.omni", SCHEMA, config=config or None)
    graph.load([*PEOPLE, *EDGES], mode="append", spark=False)
    return graph


def walk_insert(folder: str) -> Trace:
    """One row by a mutation, through a handle that has written before."""
    with _graph(folder) as graph:
        graph.mutate(INSERT, {"n": "di"})
        with traced() as trace:
            graph.mutate(INSERT, {"n": "ed"})
    return trace


def walk_load(folder: str) -> Trace:
    """A load in steps, by threads of this process."""
    with _graph(folder, small_work_rows=0, small_work_bytes=0) as graph, traced() as trace:
        graph.load([{"type": "Person", "data": {"name": "di"}}], mode="merge", spark=False)
    return trace


def walk_spark(folder: str, session: Any) -> Trace:
    """The driver's part of the same load on Spark."""
    with _graph(folder) as graph, traced() as trace:
        graph.load([{"type": "Person", "data": {"name": "di"}}], mode="merge", spark=session)
    return trace


def walk_query(folder: str) -> Trace:
    """A two-hop query, compiled and run for the first time."""
    with _graph(folder) as graph, traced(depth_max=8) as trace:
        graph.query(TWO_HOPS, {"n": "ada"})
    return trace


def walk_merge(folder: str) -> Trace:
    """A three-way merge: both sides changed different rows of one table."""
    with _graph(folder) as graph:
        graph.branch_create("work")
        graph.mutate(SET_AGE, {"n": "ada", "a": 41}, branch="work")
        graph.mutate(SET_AGE, {"n": "bo", "a": 42})
        with traced() as trace:
            graph.merge("work", into="main")
    return trace


def walk_recovery(folder: str) -> Trace:
    """Opening a graph whose writer stopped after its tables moved and before its publish."""
    with (
        _graph(folder) as graph,
        armed(Failpoint.TABLES_COMMITTED),
        suppress(omnigraphdb.OmniError),
    ):
        graph.mutate(INSERT, {"n": "di"})
    with traced() as trace, omnigraphdb.open(f"{folder}/people.omni"):
        pass
    return trace


WALKS: dict[str, Callable[[str], Trace]] = {
    "insert": walk_insert,
    "load": walk_load,
    "query": walk_query,
    "merge": walk_merge,
    "recovery": walk_recovery,
}


def run_walk(name: str, session: Any = None) -> Trace:
    """Run one walk on a graph of its own; the one of Spark needs a session."""
    with tempfile.TemporaryDirectory() as folder:
        return walk_spark(folder, session) if name == "spark" else WALKS[name](folder)


# ---- the page


def draw_table(trace: Trace) -> str:
    """Draw a walk as a Markdown table; a dot before a function stands for each function around it."""
    rows = ["| Function | File | What it does |", "| --- | --- | --- |"]
    for call in trace.shown:
        name = "· " * call.depth + f"`{call.function}`"
        rows.append(f"| {name} | `{call.path}` | {call.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def documented(text: str) -> dict[str, list[tuple[str, str]]]:
    """The file and function of every row of the page, by walk."""
    row = re.compile(r"^\| (?:· )*`([^`]+)` \| `([^`]+)` \|", re.M)
    return {
        region[2]: [(path, function) for function, path in row.findall(region[0])]
        for region in REGION.finditer(text)
    }


def main() -> None:
    """Write the page anew: every walk, the one of Spark included."""
    from omnigraphdb.spark import session

    running = session("local[2,4]", quick=True, memory="2g")
    text = PAGE.read_text()
    tables = {name: draw_table(run_walk(name, running)) for name in documented(text)}
    PAGE.write_text(REGION.sub(lambda found: found[1] + tables[found[2]] + found[3], text))
    running.stop()


if __name__ == "__main__":
    main()
