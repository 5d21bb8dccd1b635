"""Writers of every kind on a disk that is full for one write, in a process whose writes a small library counts."""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, RecoveryRequired
from omnigraphdb.ids import MAIN
from tests.support.child import run_child
from tests.support.full_kinds import ACTOR, KINDS, Kind

SOURCE: Final = Path(__file__).with_name("full_write.c")
NEXT: Final = 'query m() { insert Person { name: "next", age: 1 } }'

_WRITES_MAX: Final = 10_000

Rows = dict[str, list[tuple[Any, ...]]]


# ---- the rows


def read_rows(graph: Graph) -> Rows:
    """Read all rows of all branches."""
    found: Rows = {}
    for branch in sorted(one.name for one in graph.branches()):
        for name in (key.partition(":")[2] for key in graph.catalog.tables):
            table = graph.table(name, branch=branch)
            # Ids of edges are made anew with each graph.
            columns = [one for one in table.column_names if name != "Lives" or one != "id"]
            rows = zip(*(table[one].to_pylist() for one in sorted(columns)), strict=True)
            found[f"{branch} {name}"] = sorted(rows, key=repr)
            if "body" in table.column_names:
                ids = table["id"].to_pylist()
                found["bodies"] = [
                    (id, len(_read_blob(graph, id))) for id in sorted(ids) if id[0] == "d"
                ]
    return found


def _read_blob(graph: Graph, id: str) -> bytes:
    return graph.blob("Person", id, "body").read()


# ---- the process whose writes are counted


class Library:
    """The library that fails one write of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.full_write_failed.restype = ctypes.c_char_p
        self._library.full_write_arm.argtypes = [ctypes.c_char_p, ctypes.c_long]

    def arm(self, directory: Path, number: int) -> None:
        """Fail the write of this number below a directory; 0 fails none."""
        self._library.full_write_arm(f"{directory}/".encode(), number)

    def disarm(self) -> str:
        """Fail no write any more; gives the file whose write failed."""
        failed = self._library.full_write_failed().decode()
        self._library.full_write_arm(b"/", 0)
        return str(failed)


@dataclass(frozen=True)
class Case:
    """A write during which the disk was full once: the file that was cut, and the rows that were left."""

    home: Path
    failed: str
    rows: Rows


def run_kind(name: str, directory: Path, first: int, step: int) -> None:
    """Fail the writes of a kind of writer in turn, and write down what each left for `check_cases`."""
    kind, library = KINDS[name], Library()
    template = directory / "template"
    kind.make(template)
    after = _run_case(kind, _make_home(kind, template, 0), library, 0, None).rows
    cases = []
    for number in range(first, _WRITES_MAX, step):
        case = _run_case(kind, _make_home(kind, template, number), library, number, after)
        if not case.failed:
            break
        cases.append(case)
    (directory / "cases").write_bytes(pickle.dumps(cases))


def run_as_program() -> None:
    """Run the kind of writer that the command line names."""
    name, directory, first, step = sys.argv[1:]
    run_kind(name, Path(directory), int(first), int(step))


def _make_home(kind: Kind, template: Path, number: int) -> Path:
    """Give each case a graph of its own."""
    home = template.with_name(f"case{number}")
    if kind.is_copied:
        shutil.copytree(template, home)
    else:
        kind.make(home)
    return home


def _run_case(kind: Kind, home: Path, library: Library, number: int, after: Rows | None) -> Case:
    if kind.write is None:
        return _run_repeated(kind, home, library, number, after)
    error = None
    with omnigraphdb.open(home, config=kind.config, actor=ACTOR) as graph:
        before = read_rows(graph)
        library.arm(home, number)
        try:
            kind.write(graph)
        except OmniError as raised:
            error = raised
        failed = library.disarm()
        told = f"{failed}: {error!r}"
        assert error is None or "the disk is full" in str(error), told
        if not isinstance(error, RecoveryRequired):
            # Refused and absent, or acknowledged and whole.
            is_refused = error is not None and not kind.partial
            expected = before if is_refused else after or read_rows(graph)
            _require_between(kind, read_rows(graph), before, expected, told)
        if isinstance(error, RecoveryRequired):
            # Some tables moved: it says that it must be completed or taken back, which opening does.
            graph.refresh(roll_back=True)
        graph.mutate(NEXT)
        rows = read_rows(graph)
        _require_between(kind, _without_next(rows), before, after or rows, told)
    return Case(home, failed, rows)


def _run_repeated(
    kind: Kind, home: Path, library: Library, number: int, after: Rows | None
) -> Case:
    """Run a write that has no handle, and once more when the disk has room."""
    assert kind.repeat is not None
    error = None
    library.arm(home, number)
    try:
        kind.repeat(home)
    except OmniError as raised:
        error = raised
    failed = library.disarm()
    assert error is None or "the disk is full" in str(error), f"{failed}: {error!r}"
    kind.repeat(home)
    with omnigraphdb.open(home, actor=ACTOR) as graph:
        graph.mutate(NEXT)
        rows = read_rows(graph)
    assert after is None or rows == after, f"{failed}: {error!r}"
    return Case(home, failed, rows)


def _require_between(kind: Kind, rows: Rows, before: Rows, after: Rows, told: str) -> None:
    if not kind.partial:
        assert rows in (before, _without_next(after)), told
        return
    for table, found in rows.items():
        assert set(before.get(table, found)) <= set(found), told
        assert set(found) <= set(_without_next(after)[table]), told


def _without_next(rows: Rows) -> Rows:
    return {table: [row for row in found if "next" not in row] for table, found in rows.items()}


def check_cases(directory: str) -> None:
    """Read everything that the cases left, as a process that knows nothing of them, and write once more."""
    for case in read_cases(Path(directory)):
        with omnigraphdb.open(case.home, actor=ACTOR) as graph:
            assert read_rows(graph) == case.rows, case.failed
            assert [str(issue) for issue in graph.doctor(deep=True)] == [], case.failed
            assert graph.pending_recoveries() == [], case.failed
            graph.mutate(NEXT.replace("next", "later"))
            assert graph.table("Person").num_rows == len(case.rows[f"{MAIN} Person"]) + 1


def read_cases(directory: Path) -> list[Case]:
    """Read the cases of a run."""
    cases: list[Case] = pickle.loads((directory / "cases").read_bytes())
    return cases


# ---- the test's side


def build_library(directory: Path) -> Path:
    """Compile the library; skips where there is no compiler for C."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a disk that is full for one write needs a compiler for C, and Linux")
    library = directory / "full_write.so"
    options = ["-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run([compiler, *options], check=True)
    return library


def run_counted(library: Path, name: str, directory: Path, first: int, step: int) -> list[Case]:
    """Run a kind of writer in a process whose writes are counted, and check what its cases left in another one."""
    directory.mkdir()
    program = f"from {__name__} import run_as_program; run_as_program()"
    command = [sys.executable, "-c", program, name, str(directory), str(first), str(step)]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    assert run_child(check_cases, str(directory)) == 0
    return read_cases(directory)
