"""Writers that run at the same time: threads of this process, or processes of their own."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import omnigraphdb
from omnigraphdb.errors import OmniError

WAIT_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Written:
    """What one writer got through: how many writes landed, and the kinds of those that did not."""

    landed: int
    refused: tuple[str, ...] = ()


def in_threads(works: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """Run everything at once; give what each raised."""
    gate = threading.Barrier(len(works))
    raised: list[BaseException | None] = [None] * len(works)

    def run(place: int, work: Callable[[], None]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "a writer did not finish"
    return raised


def in_processes(
    uri: str, jobs: Sequence[Mapping[str, Any]], options: Mapping[str, str] | None
) -> list[Written]:
    """Run each job (`query`, `params` per round) in a process of its own, all starting together."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.writers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in jobs
    ]
    for child, job in zip(children, jobs, strict=True):
        assert child.stdin is not None
        child.stdin.write(json.dumps({"uri": uri, "options": options, **job}) + "\n")
        child.stdin.flush()
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    found = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        out, _ = child.communicate(timeout=WAIT_SECONDS)
        body = json.loads(out)
        found.append(Written(body["landed"], tuple(body["refused"])))
    return found


def _work() -> None:
    job = json.loads(sys.stdin.readline())
    graph = omnigraphdb.open(job["uri"], storage_options=job["options"])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    landed, refused = 0, []
    for params in job["rounds"]:
        try:
            graph.mutate(job["query"], params)
            landed += 1
        except OmniError as error:
            refused.append(f"{error.kind}: {error}")
    sys.stdout.write(json.dumps({"landed": landed, "refused": refused}))


if __name__ == "__main__":
    _work()
