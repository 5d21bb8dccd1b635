"""What policies and agents cost: `python bench/policy.py [rounds]`.

One-row mutations with and without a policy, in turn, so that both meet the same machine, and twice without one (A/A) for the
noise; the load of a large policy; a point query over HTTP and as a tool of the protocol, in turn, by plain HTTP requests.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import yaml

import omnigraphdb
from omnigraphdb.policy import PolicyAction, PolicyEngine, ResourceScope
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.tokens import read_tokens

SCHEMA = "node Person { name: String @key  age: I32? }"
ADD = "query add($n: String) { insert Person { name: $n } }"
POINT = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'
SIZE = 1000
"""Rules and actors of the large policy."""


def make_policy(size: int) -> str:
    """As many rules as actors, each with a group of its own."""
    rules = [
        {"id": f"r{i}", "allow": {"actors": {"group": f"g{i}"}, "actions": ["change", "read"]}}
        for i in range(size)
    ]
    return yaml.safe_dump(
        {"version": 1, "groups": {f"g{i}": [f"a{i}"] for i in range(size)}, "rules": rules}
    )


def bench_decisions(folder: Path, rounds: int) -> None:
    """Time mutations without a policy, without one again, with one of the handle, and with one of the graph."""
    text = make_policy(SIZE)
    began = time.process_time()
    policy = PolicyEngine.load_graph(text)
    print(f"load of {SIZE} rules and {SIZE} actors: {time.process_time() - began:.3f} s")
    graph = omnigraphdb.init(folder / "plain", SCHEMA)
    kept = omnigraphdb.init(folder / "kept", SCHEMA)
    kept.set_policy(text.replace("- read\n", "- read\n    - policy_change\n"))
    ways = {
        "A": graph,
        "A again": graph,
        "policy of the handle": graph.with_policy(policy),
        "policy of the graph": kept,
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, one in ways.items():
            start = time.process_time()
            one.mutate(ADD, {"n": f"{name} {number}"}, actor="a7")
            spent[name].append(time.process_time() - start)
    usual = median(spent["A"])
    for name, times in spent.items():
        print(f"mutation, {name}: {median(times) * 1e3:.2f} ms ({median(times) / usual - 1:+.1%})")
    scope = ResourceScope.branch("main")
    start = time.process_time()
    for _ in range(1000):
        policy.check(PolicyAction.CHANGE, scope, "a7")
    each = (time.process_time() - start) / 1000
    print(f"decision: {each * 1e6:.0f} µs, {each / usual:.1%} of a mutation")


async def bench_tools(folder: Path, rounds: int) -> None:
    """Time a point query over HTTP, and as a tool."""
    with omnigraphdb.init(folder / "served", SCHEMA) as graph:
        people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(10_000)]
        graph.load(people, mode="append")
        served = Served(
            graphs={"default": ServedGraph(id="default", graph=graph)},
            default="default",
            gate=Gate(has_tokens=True),
            tokens=read_tokens({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"a": "t"}'}),
            admission=Admission(16, 1 << 30),
        )
        app = Application(served)
        headers = {"authorization": "Bearer t", "accept": "application/json, text/event-stream"}
        params = {"name": "query", "arguments": {"query": POINT}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
        ) as http:
            ways: dict[str, Callable[[], Awaitable[Any]]] = {
                "HTTP": lambda: http.post("/query", json={"query": POINT}),
                "tool": lambda: http.post("/mcp", json=call),
            }
            spent: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, send in ways.items():
                    start = time.process_time()
                    found = await send()
                    spent[name].append(time.process_time() - start)
                    assert '"p.age"' in json.dumps(found.json())
        await app.end()
        app.close()
    times = {name: median(found[rounds // 10 :]) * 1e3 for name, found in spent.items()}
    print(f"point query: HTTP {times['HTTP']:.2f} ms, tool {times['tool']:.2f} ms")
    print(f"a tool costs {times['tool'] - times['HTTP']:+.2f} ms")


def main(rounds: int) -> None:
    """Run both."""
    with tempfile.TemporaryDirectory() as folder:
        bench_decisions(Path(folder), rounds)
        asyncio.run(bench_tools(Path(folder), rounds * 2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
