"""A graph whose edges do not fit in the cache answers every standing question, in memory that its bound allows."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraphdb
from tests.support.two_cores import two_cores

SCHEMA = "node Person { key: String @key  age: I32 @index }\nedge Knows: Person -> Person"
QUESTIONS = {
    "hop": 'match { $p: Person { key: "p0000007" }  $p knows $f } return { count($f) as n }',
    "inward": 'match { $f: Person { key: "p0000007" }  $p knows $f } return { count($p) as n }',
    "filtered": "match { $p: Person  $p.age > 80  $p knows $f  $f.age < 20 } return { count($f) as n }",
    "all two-paths": "match { $p: Person  $p knows $m  $m knows $f } return { count($f) as n }",
    "edges": "match { $p: Person  $p $e:knows $f } return { count($f) as n }",
    "within three": 'match { $p: Person { key: "p0000007" }  $p knows{1,3} $f } return { count($f) as n }',
    "top degree": "match { $p: Person  $p knows $f } return { $p.key, count($f) as n } order { n desc } limit 10",
    "shortest": 'match { $p: Person { key: "p0000007" }  $f: Person { key: "LAST" }  $p $w:knows{1,8} $f } '
    "return { hops($w) as n }",
}
WORKING_BYTES = 256 * 1024 * 1024
"""What a read takes beside its cache: a million rows in flight, ids that are looked up, pages that Lance reads ahead."""
ASK = """
import json, sys, threading
import omnigraphdb

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

uri, bytes_max, questions = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
graph = omnigraphdb.open(uri, read_only=True, config={"cache_bytes": bytes_max})
graph.query('query q() { match { $p: Person { key: "nobody" } } return { $p.age } }')
before, peak, ended = anonymous(), 0, threading.Event()

def watch():
    global peak
    while not ended.wait(0.02):
        peak = max(peak, anonymous())

watching = threading.Thread(target=watch)
watching.start()
found = {name: graph.query(f"query q() {{ {text} }}").rows[0]["n"] for name, text in questions.items()}
ended.set()
watching.join()
print(json.dumps({"found": found, "grown": peak - before, "cached": graph._engine.cache.bytes_cached}))
"""


@dataclass(frozen=True)
class Made:
    """A graph, and the numbers it was made of."""

    home: Path
    near: npt.NDArray[np.int64]
    far: npt.NDArray[np.int64]
    ages: npt.NDArray[np.int32]

    @property
    def answers(self) -> dict[str, int]:
        """What the questions find, by counting."""
        nodes = len(self.ages)
        pairs = np.unique(self.near * nodes + self.far)
        near, far = pairs // nodes, pairs % nodes
        chosen = (self.ages[near] > 80) & (self.ages[far] < 20)
        out = np.bincount(near, minlength=nodes)
        hops = self._count_hops(near, far, 7)
        return {
            "hop": int((near == 7).sum()),
            "inward": int((far == 7).sum()),
            "filtered": int(chosen.sum()),
            "all two-paths": int((out * np.bincount(far, minlength=nodes)).sum()),
            "edges": len(self.near),
            "within three": int(((hops > 0) & (hops <= 3)).sum()),
            "top degree": int(out.max()),
            "shortest": int(hops[-1]),
        }

    def _count_hops(
        self, near: npt.NDArray[np.int64], far: npt.NDArray[np.int64], start: int
    ) -> npt.NDArray[np.int64]:
        """How many hops away every node is; -1 for nodes that are more than eight away."""
        hops = np.full(len(self.ages), -1)
        hops[start] = 0
        for hop in range(1, 9):
            reached = far[hops[near] == hop - 1]
            hops[reached[hops[reached] < 0]] = hop
        return hops


def make(home: Path, nodes: int, edges: int) -> Made:
    chance = np.random.default_rng(11)
    near = chance.integers(0, nodes, edges)
    far = (chance.random(edges) ** 2 * nodes).astype(np.int64)
    ages = chance.integers(16, 90, nodes).astype(np.int32)
    keys = pa.array(np.char.add("p", np.char.zfill(np.arange(nodes).astype("U"), 7)))
    with omnigraphdb.init(home, SCHEMA) as graph:
        graph.load({"Person": pa.table({"key": keys, "age": ages})}, mode="append", spark=False)
        for part in np.array_split(np.arange(edges), max(1, edges // 5_000_000)):
            ends = {"from": keys.take(pa.array(near[part])), "to": keys.take(pa.array(far[part]))}
            graph.load({"Knows": pa.table(ends)}, mode="append", spark=False)
    return Made(home, near, far, ages)


@pytest.mark.parametrize(
    ("nodes", "edges", "bytes_max"),
    [
        pytest.param(2_000, 40_000, 400_000, id="small"),
        pytest.param(1_000_000, 20_000_000, 256 * 1024 * 1024, id="large", marks=pytest.mark.soak),
    ],
)
def test_standing_questions_are_answered_within_the_bound(
    tmp_path: Path, nodes: int, edges: int, bytes_max: int
) -> None:
    made = make(tmp_path / "g", nodes, edges)
    asked = json.dumps(QUESTIONS).replace("LAST", f"p{nodes - 1:07d}")
    for stored in (True, False):
        if not stored:
            shutil.rmtree(next(made.home.glob("edges/*/_adjacency")))
        ran = subprocess.run(
            [sys.executable, "-c", ASK, str(made.home), str(bytes_max), asked],
            env=two_cores(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seen = json.loads(ran.stdout)
        assert seen["found"] == made.answers
        assert seen["cached"] <= bytes_max
        assert seen["grown"] <= bytes_max + WORKING_BYTES
