"""Writers that are made to share one publish: they wait for the same locks before any of them gets them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.records import lance_branch

WAIT_SECONDS_MAX = 60.0
Work = Callable[[], object]


def write_together(
    graph: Graph, works: Sequence[Work], branch: str = "main"
) -> list[object | BaseException]:
    """Run works that all wait for the locks of a branch, in this order; give what each returned or raised."""
    engine = graph._engine
    told: list[object | BaseException] = [None] * len(works)

    def run(place: int) -> None:
        try:
            told[place] = works[place]()
        except BaseException as error:
            told[place] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(works))]
    name = BranchName(branch)
    keys = [lock_key(key, lance_branch(name)) for key in engine.view(name).snapshot.entries]
    with engine.committer.locks.acquire(keys):
        for thread in threads:
            thread.start()
            _wait_for_queue(graph, threads, thread)
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
        assert not thread.is_alive(), "a writer did not finish"
    return told


def _wait_for_queue(
    graph: Graph, threads: Sequence[threading.Thread], started: threading.Thread
) -> None:
    """Wait until everybody who was started waits for locks; some may have been refused before that."""
    pause = threading.Event()
    for _ in range(int(WAIT_SECONDS_MAX / 0.002)):
        alive = sum(thread.is_alive() for thread in threads)
        if len(graph._engine.committer.locks.queue) >= alive:
            return
        pause.wait(0.002)
    raise AssertionError(f"{started.name} never waited for its locks")


# ---- what a group writes


def write_member(graph: Graph, number: int, tag: str = "m") -> object:
    """The write of one member of a group: odd ones update a row of their own, even ones insert into three tables."""
    if number % 2:
        return graph.mutate(
            "query m($k: String, $n: I32) { update Person set { n: $n } where k = $k }",
            {"k": "abcd"[number // 2 % 4], "n": 100 + number},
            actor=f"actor-{number}",
        )
    return graph.mutate(
        """query m($p: String, $c: String) {
             insert Person { k: $p, n: 1 }  insert City { k: $c }  insert LivesIn { from: $p, to: $c } }""",
        {"p": f"{tag}p{number}", "c": f"{tag}c{number}"},
        actor=f"actor-{number}",
    )


def perform_together(uri: str, count: int, config: Mapping[str, str], tag: str = "m") -> None:
    """Open a graph and write one group: what a child process does."""
    with omnigraphdb.open(uri, config={"maintenance": "off", **config}) as graph:
        write_together(graph, [partial(write_member, graph, n, tag) for n in range(count)])
