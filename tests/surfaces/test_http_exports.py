"""Exports over HTTP: bounded memory however large they are, patient with a slow reader, free again when it leaves."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.runtime import SYSTEM
from tests.support.served import ServerProcess, serving

SCHEMA = "node Doc { name: String @key  body: String }"
MEMORY_MAX = 300 * 1024 * 1024
BODY_CHARS, ROWS_A_LOAD = 10_000, 10_000
POINTS = "node Point { name: String @key  n: I64  note: String }"
POINT_CHARS, POINTS_A_LOAD = 400, 1_000_000
EXPORTS_MAX = 8


def make_documents(place: Path, size: int) -> None:
    """A graph whose export has so many bytes; ids come in another order than they are stored in."""
    body = os.urandom(BODY_CHARS // 2).hex()
    with omnigraphdb.init(place, SCHEMA) as graph:
        for start in range(0, size // BODY_CHARS, ROWS_A_LOAD):
            names = [f"{number:08}"[::-1] for number in range(start, start + ROWS_A_LOAD)]
            rows = pa.table({"name": names, "body": [f"{name} {body}" for name in names]})
            graph.load(rows, type="Doc", mode="append")


def memory(server: ServerProcess, name: str = "VmRSS") -> int:
    """Bytes of memory that the server has, or had at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def wait_until(fits: Callable[[], bool]) -> None:
    for _ in range(600):
        if fits():
            return
        SYSTEM.wait(0.05)
    raise AssertionError("it did not come to pass")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("exports")
    make_documents(folder / "g", 200 * 1000 * 1000)
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client(limits=httpx.Limits(max_keepalive_connections=0)) as client:
        yield client


def read_export(http: httpx.Client) -> tuple[int, int]:
    """Read an export to its end: its bytes and lines."""
    size = lines = 0
    with http.stream("POST", "/export") as found:
        assert found.status_code == 200
        for chunk in found.iter_raw():
            size += len(chunk)
            lines += chunk.count(b"\n")
    return size, lines


def test_a_large_export_streams_in_bounded_memory(
    server: ServerProcess, http: httpx.Client
) -> None:
    size, lines = read_export(http)
    assert size > 200 * 1000 * 1000
    assert lines == 20_000
    assert memory(server, "VmHWM") < MEMORY_MAX


def make_points(place: Path, size: int) -> None:
    """A graph of narrow rows, which are sorted instead of fetched one by one, whose export has so many bytes."""
    note = os.urandom(POINT_CHARS // 2).hex()
    with omnigraphdb.init(place, POINTS) as graph:
        for start in range(0, size // POINT_CHARS, POINTS_A_LOAD):
            numbers = range(start, min(start + POINTS_A_LOAD, size // POINT_CHARS))
            names = [f"point number {number:012}"[::-1] for number in numbers]
            notes = [f"{name} {note}" for name in names]
            rows = pa.table({"name": names, "n": pa.array(numbers), "note": notes})
            graph.load(rows, type="Point", mode="append", spark=False)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [make_documents, make_points])
def test_exports_of_two_gigabytes_stream_in_bounded_memory(
    tmp_path: Path, make: Callable[[Path, int], None]
) -> None:
    size = 2 * 1000 * 1000 * 1000
    make(tmp_path / "g", size)
    with serving(str(tmp_path / "g"), "--unauthenticated", log=tmp_path / "log") as server:
        with server.client(timeout=600) as http:
            for _ in range(2):
                assert read_export(http)[0] > size
        assert memory(server, "VmHWM") < MEMORY_MAX


def test_memory_of_an_export_does_not_grow_with_what_is_exported(tmp_path: Path) -> None:
    """An export of four times the rows takes as much memory, and so does the next one of the same server."""
    peaks = []
    for size in (20_000_000, 80_000_000):
        make_points(tmp_path / f"g{size}", size)
        words = (str(tmp_path / f"g{size}"), "--unauthenticated")
        with serving(*words, log=tmp_path / "log") as server, server.client() as http:
            for _ in range(2):
                assert read_export(http)[0] > size
                peaks.append(memory(server, "VmHWM"))
    assert max(peaks) < 1.25 * peaks[0]


def test_a_reader_who_stalls_holds_the_scan_and_no_memory(
    server: ServerProcess, http: httpx.Client
) -> None:
    with http.stream("POST", "/export") as found:
        chunks = found.iter_raw()
        next(chunks)
        # A job shows itself after two seconds: by then a server that reads ahead would have read it all.
        wait_until(lambda: len(http.get("/jobs").json()["jobs"]) == 1)
        [job] = http.get("/jobs").json()["jobs"]
        assert (job["kind"], job["state"]) == ("export", "running")
        assert job["progress"] is None or job["progress"]["done"] < 2_000
        assert memory(server) < MEMORY_MAX
        rest = sum(len(chunk) for chunk in chunks)
        assert rest > 190 * 1000 * 1000
    wait_until(lambda: http.get("/jobs").json() == {"jobs": []})


@contextmanager
def stalled(http: httpx.Client) -> Iterator[None]:
    """As many exports as there may be, each with a reader who took one chunk."""
    with ExitStack() as stack:
        opened = [stack.enter_context(http.stream("POST", "/export")) for _ in range(EXPORTS_MAX)]
        assert [one.status_code for one in opened] == [200] * EXPORTS_MAX
        chunks = [one.iter_raw() for one in opened]
        for one in chunks:
            next(one)
        yield


def test_a_reader_who_leaves_frees_the_slot(server: ServerProcess, http: httpx.Client) -> None:
    with stalled(http):
        refused = http.post("/export")
        assert refused.status_code == 413
        assert refused.json()["resource_limit"]["resource"] == "concurrent_exports"
        assert http.get("/snapshot").status_code == 200
    wait_until(lambda: http.post("/export", json={"type_names": []}).status_code == 200)
    wait_until(lambda: http.get("/jobs").json() == {"jobs": []})
    assert memory(server) < 2 * MEMORY_MAX
