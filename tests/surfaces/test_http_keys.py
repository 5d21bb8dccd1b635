"""Writes with a key are done once, however often they are sent, and whatever dies in between."""

import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.errors import OmniError
from omnigraphdb.remote.graph import RemoteGraph
from omnigraphdb.remote.transport import Transport
from omnigraphdb.runtime import SYSTEM
from tests.support.cutting import Hurried
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


@pytest.mark.parametrize(
    ("path", "body"), [("/tags", {"name": "t"}), ("/optimize", {}), ("/cleanup", {"keep": 9})]
)
def test_a_write_that_cannot_be_repeated_by_a_key_refuses_one(
    server: ServerProcess, path: str, body: dict[str, object]
) -> None:
    with server.client() as http:
        answer = http.post(path, json=body, headers={"idempotency-key": "k"})
        assert answer.status_code == 400
        assert (
            answer.json()["error"]
            == "Idempotency-Key is not read by this request; nothing was done"
        )
        assert http.get("/tags").json() == {"tags": []}


def test_every_acknowledged_write_survives_two_kills_once(tmp_path: Path) -> None:
    kill_under_writers(tmp_path, rounds=2)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_acknowledged_write_survives_fifty_kills_once(tmp_path: Path) -> None:
    kill_under_writers(tmp_path, rounds=50)


WRITERS = 16


def kill_under_writers(folder: Path, *, rounds: int) -> None:
    """Kill a server again and again; who got no answer asks the next server with the same key."""
    place, drawn = make_graph(folder / "g"), random.Random(7)
    acknowledged: list[str] = []
    unanswered: list[str] = []
    for number in range(rounds):
        server = start_server(str(place), "--unauthenticated", log=folder / f"log{number}")
        write_again(server, unanswered, acknowledged)
        with ThreadPoolExecutor(WRITERS) as pool:
            stopped, goal = threading.Event(), len(acknowledged) + drawn.randrange(20, 60)
            tasks = [
                pool.submit(write_until, stopped, server, f"{number}.{writer}", acknowledged)
                for writer in range(WRITERS)
            ]
            while len(acknowledged) < goal:
                SYSTEM.wait(0.01)
            stopped.set()
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(30)
            unanswered = [name for task in tasks if (name := task.result()) is not None]
        assert server.process.stdout is not None
        server.process.stdout.close()
    with serving(str(place), "--unauthenticated", log=folder / "log") as last:
        write_again(last, unanswered, acknowledged)
    with omnigraphdb.open(place) as graph:
        found = [row["p.name"] for row in graph.query(NAMES)]
        assert sorted(found) == sorted([*acknowledged, "Ada", "Bo"])
        listed = graph.commits()
        assert [one.parent for one in listed[:-1]] == [one.id for one in listed[1:]]
        assert not graph.doctor()


def write_until(
    stopped: threading.Event, server: ServerProcess, prefix: str, acknowledged: list[str]
) -> str | None:
    """Insert one after the other, and note what was acknowledged; give the name that got no answer."""
    with RemoteGraph(Transport(server.url, None, None, Hurried())) as graph:
        for turn in range(1000):
            name = f"{prefix}.{turn}"
            try:
                graph.mutate(ADD, {"n": name}, idempotency_key=name)
            except OmniError:
                return name
            acknowledged.append(name)
            if stopped.is_set():
                return None
    return None


def write_again(server: ServerProcess, names: list[str], acknowledged: list[str]) -> None:
    """Send what got no answer once more: whether it was done before or not, it is there once."""
    with omnigraphdb.connect(server.url) as graph:
        for name in names:
            graph.mutate(ADD, {"n": name}, idempotency_key=name)
            acknowledged.append(name)
