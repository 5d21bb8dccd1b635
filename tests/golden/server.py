"""A served graph with tokens, a policy and stored queries."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.golden.world import POLICY, make_graph, write_queries
from tests.support.served import ServerProcess, serving

ACTORS: Final = ("ada", "bo")


@contextmanager
def serve_graph(folder: Path, *words: str) -> Iterator[ServerProcess]:
    """Serve the graph of the sessions; the token of an actor is its name after `t-`."""
    make_graph(folder / "g").close()
    queries = write_queries(folder / "queries")
    tokens = json.dumps({actor: f"t-{actor}" for actor in ACTORS})
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens}
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    policy = ("--policy", str(folder / "policy.yaml"))
    call = (str(folder / "g"), "--queries", str(queries), *policy, *words)
    with serving(*call, log=folder / "log", environment=environment) as server:
        yield server
