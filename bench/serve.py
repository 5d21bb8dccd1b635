"""A server against a bare echo of the same framework and against the calls in process; ratios of one run.

The echo is Starlette under uvicorn that returns the body it got: what is left above it is ours. Both servers run in
processes of their own, and rounds of each take turns, so that a machine that slows down slows all of them.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx

import omnigraphdb

SCHEMA = "node Person { name: String @key  age: I64? }  edge Knows: Person -> Person"
FIND = "query find($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
ECHO = """
import sys, uvicorn
from starlette.requests import Request
from starlette.responses import Response
async def app(scope, receive, send):
    body = await Request(scope, receive).body()
    await Response(body, media_type="application/json")(scope, receive, send)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", lifespan="off")
"""


@contextmanager
def started(*words: str, url: str, bytecode: Path | None = None) -> Iterator[tuple[float, float]]:
    """A server in a process of its own; gives the seconds until it answered, and those of the processor."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=None if bytecode is None else keep_bytecode(bytecode),
    )
    try:
        while True:
            try:
                httpx.get(f"{url}/readyz", timeout=1)
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit(f"the server did not start: {words}") from None
                time.sleep(0.01)
        yield time.perf_counter() - began, processor_seconds(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def keep_bytecode(folder: Path) -> dict[str, str]:
    """The environment of a process that finds compiled modules, as an installed package has them."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder)}


def processor_seconds(process: int) -> float:
    """The time that a process has computed: a busy machine lengthens it less than the time that has passed."""
    facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def measure(call: Callable[[], object], count: int) -> float:
    """The median seconds of one call."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def throughput(make: Callable[[int], Callable[[], object]], clients: int, seconds: float) -> float:
    """Calls per second of so many clients at once."""
    calls = [make(number) for number in range(clients)]
    for call in calls:
        call()
    done, end = [0] * clients, time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            calls[number]()
            done[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(done) / seconds


def post(client: http.client.HTTPConnection, path: str, body: object) -> bytes:
    """Post by the plainest client there is: many clients share the processor with the server that they measure."""
    client.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = client.getresponse()
    text = answer.read()
    if answer.status != HTTPStatus.OK:
        raise SystemExit(f"{path} answered {answer.status}: {text!r}")
    return text


def main() -> None:
    """Print one line per claim."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--calls", type=int, default=100)
    options.add_argument("--seconds", type=float, default=2.0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        run(Path(home), given.rounds, given.calls, given.seconds)
        start_with_tables(Path(home), 50)


def run(home: Path, rounds: int, count: int, seconds: float) -> None:
    for place in ("served", "here"):
        with omnigraphdb.init(home / place, SCHEMA) as graph:
            rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(1000)]
            edges = [{"edge": "Knows", "from": "p0", "to": f"p{n}"} for n in range(1, 101)]
            graph.load([*rows, *edges], mode="append")
    ours, echo = free_port(), free_port()
    url, echo_url = f"http://127.0.0.1:{ours}", f"http://127.0.0.1:{echo}"
    words = ("-m", "omnigraphdb", "serve", str(home / "served"), "--unauthenticated")
    fresh = iter(range(10**9))

    def name_row() -> dict[str, object]:
        return {"query": ADD, "params": {"n": f"new {os.getpid()} {next(fresh)}"}}

    def insert(client: httpx.Client) -> Callable[[], object]:
        return lambda: client.post("/mutate", json=name_row()).raise_for_status()

    with (
        started(*words, "--bind", f"127.0.0.1:{ours}", "--log-level", "error", url=url),
        started("-c", ECHO, str(echo), url=echo_url),
        httpx.Client(base_url=url, timeout=60, verify=False) as client,
        httpx.Client(base_url=echo_url, timeout=60, verify=False) as bare,
        omnigraphdb.open(home / "here") as graph,
    ):
        body = {"query": FIND, "params": {"n": "p500"}}
        points, echoes, calls, writes, local = [], [], [], [], []
        for _ in range(rounds):
            points.append(measure(lambda: client.post("/query", json=body), count))
            echoes.append(measure(lambda: bare.post("/query", json=body), count))
            calls.append(measure(lambda: graph.query(FIND, {"n": "p500"}).to_dict(), count))
            writes.append(measure(insert(client), count // 4))
            local.append(measure(lambda: graph.mutate(ADD, {"n": f"l{next(fresh)}"}), count // 4))
        point, bound = min(points), min(echoes) + 1.5 * min(calls)
        print(
            f"point query {point * 1e3:.2f} ms, echo + 1.5 × in process {bound * 1e3:.2f} ms: ",
            end="",
        )
        print(f"{point / bound:.2f} (at most 1)")
        print(f"one-row mutate / in process: {min(writes) / min(local):.2f} (at most 1.2)")
        compare_neighbours(client, bare, graph, rounds, count)

        def reader(_: int) -> Callable[[], object]:
            client = http.client.HTTPConnection("127.0.0.1", ours, timeout=60)
            return lambda: post(client, "/query", body)

        def writer(_: int) -> Callable[[], object]:
            client = http.client.HTTPConnection("127.0.0.1", ours, timeout=60)
            return lambda: post(client, "/mutate", name_row())

        eight, many = throughput(reader, 8, seconds), throughput(reader, 32, seconds)
        print(f"32 reading clients / 8: {many / eight:.2f} (at least 0.8)")
        # A disk is fast and slow by turns, so that one sample says little.
        gains = [
            throughput(writer, 8, seconds) / throughput(writer, 1, seconds) for _ in range(rounds)
        ]
        shown = ", ".join(f"{gain:.2f}" for gain in sorted(gains))
        print(f"8 writing clients / 1: {statistics.median(gains):.2f} ({shown}; at least 2.5)")


def compare_neighbours(
    client: httpx.Client, bare: httpx.Client, graph: omnigraphdb.Graph, rounds: int, count: int
) -> None:
    """What the server adds to a hundred neighbours, beyond an echo of as many bytes."""
    asked = {"type": "Person", "id": "p0"}
    answer = client.get("/neighbours", params=asked).raise_for_status().content
    served, echoes, calls = [], [], []
    for _ in range(rounds):
        served.append(measure(lambda: client.get("/neighbours", params=asked), count))
        echoes.append(measure(lambda: bare.post("/", content=answer), count))
        calls.append(measure(lambda: graph.neighbours("Person", "p0").to_dict(), count))
    ratio = (min(served) - min(echoes)) / min(calls)
    print(f"neighbours in the server / in process: {ratio:.2f} (at most 2)")


def start_with_tables(home: Path, tables: int) -> None:
    """The time from the start of the process to its first answer."""
    schema = "\n".join(f"node T{n} {{ name: String @key }}" for n in range(tables))
    omnigraphdb.init(home / "wide", schema).close()
    port = free_port()
    words = ("-m", "omnigraphdb", "serve", str(home / "wide"), "--unauthenticated")
    url, taken = f"http://127.0.0.1:{port}", []
    # The first start compiles the modules.
    for _ in range(4):
        with started(
            *words, "--bind", f"127.0.0.1:{port}", url=url, bytecode=home / "bytecode"
        ) as found:
            taken.append(found)
    passed, computed = (min(times) for times in zip(*taken[1:], strict=True))
    print(
        f"start to ready with {tables} tables: {passed:.2f} s (at most 1.5), {computed:.2f} s of processor time"
    )


if __name__ == "__main__":
    main()
