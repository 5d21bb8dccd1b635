"""Whatever dies while a Connect server loads, merges, exports, indexes or streams: the graph is whole or untouched."""

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from tests.spark.test_kills import (
    AFTER,
    BEFORE,
    STREAMED,
    VERBS,
    Driver,
    Field,
    finish,
    make_graph,
    place,
    read_export,
    read_state,
)
from tests.support.s3 import S3Server
from tests.support.spark_connect import ConnectServer, start_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.s3,
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("spark"),
]

VICTIMS = ("client", "server", "task")
PLANNED_ROUNDS = 6
"""Only streams have processes that plan and commit; where they are when these die is left to chance."""
ROUNDS = [(verb, victim) for victim in VICTIMS for verb in VERBS] + [
    ("stream", "planner")
] * PLANNED_ROUNDS


@dataclass
class ConnectField(Field):
    """A Connect server with a client, either of which is started again when it was killed."""

    home: Path = field(default_factory=Path)
    server: ConnectServer | None = None

    def kill(self, victim: str, choose: random.Random) -> None:
        assert self.server is not None
        match victim:
            case "client":
                self.driver.kill()
            case "server":
                self.server.kill()
            case "planner":
                for pid in self.server.planners():
                    os.kill(pid, signal.SIGKILL)
            case _:
                for pid in self.server.workers():
                    os.kill(pid, signal.SIGKILL)

    def mend(self) -> None:
        """Start again what was killed; a new server knows nothing of the sessions of the old one."""
        if self.server is None or self.server.process.poll() is not None:
            self.driver.end()
            self.server = start_server(self.home)
            self.driver = Driver(self.server.address)
        elif self.driver.process is not None and self.driver.process.poll() is not None:
            self.driver.end()

    def end(self) -> None:
        """End both."""
        self.driver.end()
        if self.server is not None and self.server.process.poll() is None:
            self.server.kill()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectField]:
    found = ConnectField(None, Driver(""), home=tmp_path_factory.mktemp("connect"))  # type: ignore[arg-type]
    found.mend()
    try:
        yield found
    finally:
        found.end()


@pytest.mark.parametrize("seed", range(len(ROUNDS)))
def test_any_verb_on_connect_survives_whatever_dies(
    played: ConnectField, tmp_path: Path, s3_server: S3Server, seed: int
) -> None:
    choose = random.Random(seed)
    verb, victim = ROUNDS[seed]
    uri, options = place(tmp_path, choose.choice(["disk", "s3"]), s3_server)
    make_graph(tmp_path, uri, options)
    order = {"verb": verb, "uri": uri, "options": options, "home": str(tmp_path), "out": "out"}
    played.driver.send(order)
    said = played.wait(verb, choose)
    played.kill(victim, choose)
    said = said or played.driver.hear_end()
    played.mend()
    told = f"round {seed}: {verb}, {victim}, {uri}: {said}"
    check_answer(verb, victim, said, told)
    done = said == {"error": None}
    if verb == "stream":
        # The query of a dead client lives on at the server; the next one with its checkpoint takes over from it.
        finish(played, order, BEFORE)
    ends: list[Any] = STREAMED[-1:] if verb == "stream" else [BEFORE, AFTER.get(verb, BEFORE)]
    state = read_state(uri, options)
    assert state in ends, told
    assert not done or state == ends[-1], told
    if state != ends[-1] or (verb == "export" and not done):
        finish(played, order, BEFORE)
    assert read_state(uri, options) == ends[-1], told
    if verb == "export":
        assert read_export(tmp_path, "out" if done else "again") == BEFORE, told


def check_answer(verb: str, victim: str, said: dict[str, Any] | None, told: str) -> None:
    """A task that dies runs again; a server that dies is told in our words, but for streams, which belong to Spark."""
    if victim == "task":
        assert said == {"error": None}, told
    elif victim == "planner":
        # Spark does not repeat a plan or a commit: it ends the query, and its checkpoint continues.
        assert said is not None, told
        assert said["error"] is None or said["kind"] == "spark", told
    elif victim == "server" and verb != "stream":
        assert said is not None, told
        assert said["error"] is None or said["kind"] == "engine_error", told
