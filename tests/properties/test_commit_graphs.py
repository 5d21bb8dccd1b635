"""Random graphs of commits: the base is the set of lowest common ancestors, and merges are what a replay says."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import BranchInUse, MergeBaseUnavailable, MergeConflicts
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.ancestry import find_shared
from tests.support.commit_model import ModelHistory, Replay, Rows, Step, steps

SCHEMA = "node P { name: String @key  v: I32? }"
BYSTANDERS = 12
QUICK = (0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2)))
QUICK_STEPS = 60


@dataclass
class Tally:
    """How many merges there were of each kind."""

    merges: int = 0
    conflicts: int = 0
    virtual: int = 0
    cautious: int = 0
    refused: int = 0
    refusals: list[str] = field(default_factory=list)


class Pair:
    """A graph and its model, side by side."""

    def __init__(
        self, graph: Graph, tally: Tally, spell: Callable[[str], str] = lambda name: name
    ) -> None:
        self.graph, self.tally, self.spell = graph, tally, spell
        self.model = ModelHistory()
        self.ids: dict[int, str] = {}
        self.results: list[object] = []
        graph.load(
            [{"type": "P", "data": {"name": f"q{n:02d}", "v": 0}} for n in range(BYSTANDERS)],
            mode="append",
        )
        self.model.write("main", {f"q{n:02d}": 0 for n in range(BYSTANDERS)})
        self._name("main")

    def _name(self, branch: str) -> None:
        head = self.graph.commits(branch=self.spell(branch), limit=1)[0]
        self.ids[self.model.heads[branch]] = head.id

    def run(self, history: Iterable[Step]) -> None:
        for step in history:
            match step:
                case ("put", branch, name, value) if branch in self.model.heads:
                    self._put(branch, name, int(value))
                case ("drop", branch, name) if branch in self.model.heads:
                    self._drop(branch, name)
                case ("create", name, source) if self._is_free(name, source):
                    self.graph.branch_create(self.spell(name), from_branch=self.spell(source))
                    self.model.heads[name] = self.model.heads[source]
                case ("delete", name) if name in self.model.heads:
                    self._delete(name)
                case ("merge", source, target) if {source, target} <= self.model.heads.keys():
                    self._merge(source, target)
                case ("cleanup",):
                    self.graph.cleanup(keep=1, confirm=True)

    def _is_free(self, name: str, source: str) -> bool:
        # A branch that others stand on was not deleted.
        return source in self.model.heads and name not in self.model.heads

    def _put(self, branch: str, name: str, value: int) -> None:
        if self.model.rows(branch).get(name) == value:
            return
        row = {"type": "P", "data": {"name": name, "v": value}}
        self.graph.load([row], mode="merge", branch=self.spell(branch))
        self.model.write(branch, self.model.rows(branch) | {name: value})
        self._name(branch)

    def _drop(self, branch: str, name: str) -> None:
        if name not in self.model.rows(branch):
            return
        text = "query d($n: String) { delete P where name = $n }"
        self.graph.mutate(text, {"n": name}, branch=self.spell(branch))
        self.model.write(branch, {n: v for n, v in self.model.rows(branch).items() if n != name})
        self._name(branch)

    def _delete(self, name: str) -> None:
        try:
            self.graph.branch_delete(self.spell(name))
        except BranchInUse:
            return
        del self.model.heads[name]

    def _merge(self, source: str, target: str) -> None:
        lowest = self._lowest(source, target)
        before = self.model.rows(target)
        heads = self.model.heads.copy()
        replay = self.model.merge(source, target)
        assert lowest == {self.ids[number] for number in replay.lowest}
        self.tally.merges += 1
        self.tally.virtual += len(lowest) > 1
        try:
            result = self.graph.merge(self.spell(source), into=self.spell(target))
        except MergeConflicts as error:
            kinds = {(c.target or c.source or {})["name"]: str(c.kind) for c in error.conflicts}
            if kinds != replay.conflicts:
                self._be_cautious(kinds, replay)
                self.model.heads = heads
            self.tally.conflicts += 1
            self.results.append(sorted(kinds.items()))
        except MergeBaseUnavailable as error:
            # What both share was deleted and nothing tells it.
            self.results.append(sorted(error.commits) == sorted(lowest))
            self.tally.refused += 1
            self.model.heads = heads
        else:
            assert str(result.outcome) == replay.outcome, (source, target)
            if result.commit is not None:
                self._name(target)
            self.results.append((str(result.outcome), sorted(replay.rows.items())))
        expected = self.model.rows(target)
        assert rows(self.graph, self.spell(target)) == expected, (source, target, before)

    def _be_cautious(self, kinds: dict[str, str], replay: Replay) -> None:
        """A state that is gone may leave rows open; then the merge asks where the replay knows, never the reverse."""
        assert replay.conflicts.keys() <= kinds.keys()
        self.tally.cautious += 1

    def _lowest(self, source: str, target: str) -> set[str]:
        manifest = self.graph._engine.manifest
        states = (manifest.current(BranchName(self.spell(one))) for one in (source, target))
        return set(find_shared(manifest, *states).lowest)


def rows(graph: Graph, branch: str) -> Rows:
    found = graph.table("node:P", branch=branch).to_pylist()
    return {row["name"]: row["v"] for row in found}


@contextmanager
def fresh_graph() -> Iterator[Graph]:
    with tempfile.TemporaryDirectory() as folder:
        yield omnigraphdb.init(Path(folder) / "g", SCHEMA)


def play(seed: int, length: int, tally: Tally) -> None:
    with fresh_graph() as graph:
        pair = Pair(graph, tally)
        pair.run(steps(seed, length))
        assert graph.doctor() == []
        for branch, head in pair.model.heads.items():
            known = {commit.id for commit in graph.commits(branch=branch, all=True)}
            reached = pair.model._ancestors([head])
            assert {pair.ids[number] for number in reached if number in pair.ids} <= known


@pytest.mark.parametrize("seed", QUICK)
def test_merges_of_a_random_graph_are_what_a_replay_says(seed: int) -> None:
    tally = Tally()
    play(seed, QUICK_STEPS, tally)
    assert tally.merges > 5


@pytest.mark.soak
def test_thousands_of_merges_are_what_a_replay_says() -> None:
    tally = Tally()
    for seed in range(100, 250):
        play(seed, 120, tally)
    print(tally)
    assert tally.merges > 3_000


def _reversed(name: str) -> str:
    return name if name == "main" else f"z{'9876543210'[int(name[1:]) % 10]}-{name}"


@pytest.mark.parametrize("seed", [7])
def test_other_names_and_unrelated_branches_change_nothing(seed: int) -> None:
    found = []
    for spell, bystanders in ((str, 0), (_reversed, 40)):
        with fresh_graph() as graph:
            pair = Pair(graph, Tally(), spell)
            for number in range(bystanders):
                graph.branch_create(f"u{number:02d}")
            pair.run(steps(seed, 40, cleanup=False))
            found.append(pair.results)
    assert found[0] == found[1]
    assert len(found[0]) > 5
