"""Writes with a key are done once, however often they are sent, and whatever dies in between."""

import random
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import OmniError, ServerUnreachable
from omnigraph.runtime import SYSTEM
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving, start_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("keys")
    make_graph(folder / "g")
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


def test_the_same_key_gives_the_first_answer_again(server: ServerProcess) -> None:
    with server.client() as http:

        def send(name: str, key: str) -> tuple[int, str | None, dict[str, object]]:
            body = {"query": ADD, "params": {"n": name}}
            found = http.post("/mutate", json=body, headers={"idempotency-key": key})
            return found.status_code, found.headers.get("idempotency-replay"), found.json()

        status, replay, first = send("Kay", "k1")
        assert (status, replay) == (200, None)
        status, replay, again = send("Kay", "k1")
        assert (status, replay) == (200, "true")
        assert again["commit"] == first["commit"]
        status, _, refused = send("Other", "k1")
        assert (status, refused["kind"]) == (409, "idempotency_conflict")
        assert send("Kim", "")[0] == 400
        assert send("Kim", "x" * 300)[0] == 400


@contextmanager
def cutting(server: ServerProcess, after: int) -> Iterator[str]:
    """A way to the server whose first connection is cut when so many bytes of the answer have passed."""
    host, port = server.url.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    first = [True]

    def carry(client: socket.socket) -> None:
        cut, first[0] = first[0], False
        with client, socket.create_connection((host, int(port)), timeout=30) as upstream:
            pump = threading.Thread(target=_pump, args=(client, upstream), daemon=True)
            pump.start()
            _pump(upstream, client, after if cut else None)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=carry, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _pump(source: socket.socket, sink: socket.socket, most: int | None = None) -> None:
    """Carry bytes from one socket to another, at most so many."""
    left = most
    try:
        # A cut before the answer has begun could come before the request has arrived.
        source.recv(1, socket.MSG_PEEK)
        while left is None or left > 0:
            chunk = source.recv(65536 if left is None else min(65536, left))
            if not chunk:
                break
            sink.sendall(chunk)
            left = None if left is None else left - len(chunk)
        sink.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@pytest.mark.parametrize("after", [0, 1, 17, 120, 400])
def test_a_client_whose_answer_is_cut_repeats_a_write_with_a_key(
    server: ServerProcess, after: int
) -> None:
    name = f"cut after {after}"
    with omnigraph.connect(server.url) as whole:
        before = len(whole.commits())
        with cutting(server, after) as url, omnigraph.connect(url) as graph:
            done = graph.mutate(ADD, {"n": name}, idempotency_key=name)
            assert done.replayed
        assert len(whole.commits()) == before + 1
        refused = pytest.raises(ServerUnreachable, match="unknown")
        with cutting(server, after) as url, omnigraph.connect(url) as graph, refused:
            graph.mutate(ADD, {"n": f"{name} without a key"})


def test_every_acknowledged_write_survives_a_kill_once(tmp_path: Path) -> None:
    _kill_under_writers(tmp_path, rounds=2, writers=4)


@pytest.mark.soak
def test_every_acknowledged_write_survives_fifty_kills_once(tmp_path: Path) -> None:
    _kill_under_writers(tmp_path, rounds=50, writers=16)


def _kill_under_writers(folder: Path, *, rounds: int, writers: int) -> None:
    place, drawn = make_graph(folder / "g"), random.Random(7)
    acknowledged: list[str] = []
    for number in range(rounds):
        server = start_server(str(place), "--unauthenticated", log=folder / f"log{number}")
        with ThreadPoolExecutor(writers) as pool:
            stopped, goal = threading.Event(), len(acknowledged) + drawn.randrange(5, 15)
            tasks = [
                pool.submit(_write_until, stopped, server, f"{number}.{writer}", acknowledged)
                for writer in range(writers)
            ]
            while len(acknowledged) < goal:
                SYSTEM.wait(0.01)
            stopped.set()
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(30)
            for task in tasks:
                task.result()
        assert server.process.stdout is not None
        server.process.stdout.close()
    assert acknowledged
    with omnigraph.open(place) as graph:
        found = [row["p.name"] for row in graph.query(NAMES)]
        assert len(found) == len(set(found))
        assert set(acknowledged) <= set(found)
        listed = graph.commits()
        assert [one.parent for one in listed[:-1]] == [one.id for one in listed[1:]]
        assert not graph.doctor()


def _write_until(
    stopped: threading.Event, server: ServerProcess, prefix: str, acknowledged: list[str]
) -> None:
    """Insert one after the other, and note what was acknowledged."""
    with omnigraph.connect(server.url) as graph:
        for turn in range(1000):
            name = f"{prefix}.{turn}"
            with suppress(OmniError):
                graph.mutate(ADD, {"n": name}, idempotency_key=name)
                acknowledged.append(name)
            if stopped.is_set():
                return
