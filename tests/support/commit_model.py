"""Histories over plain dicts: commits keep their rows, merges take the base that networkx and a replay say."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import networkx

Rows = dict[str, int]
"""One value per name."""

UNKNOWN: Final = object()
"""A row on which the parts of a base disagree."""

Known = dict[str, object]


@dataclass
class ModelCommit:
    """A commit: its parents and what it shows."""

    number: int
    parents: tuple[int, ...]
    rows: Rows


@dataclass
class Replay:
    """What a merge comes to."""

    outcome: str
    lowest: frozenset[int]
    rows: Rows
    conflicts: dict[str, str] = field(default_factory=dict)


class ModelHistory:
    """Branches of a graph of commits."""

    def __init__(self) -> None:
        self.commits: dict[int, ModelCommit] = {}
        self.heads: dict[str, int] = {}
        self.graph = networkx.DiGraph()
        self._numbers = count()
        self.heads["main"] = self.add((), {})

    def add(self, parents: tuple[int, ...], rows: Rows) -> int:
        """Add a commit after others."""
        number = next(self._numbers)
        self.commits[number] = ModelCommit(number, parents, dict(rows))
        self.graph.add_node(number)
        self.graph.add_edges_from((parent, number) for parent in parents)
        return number

    def rows(self, branch: str) -> Rows:
        """What a branch shows."""
        return self.commits[self.heads[branch]].rows

    def write(self, branch: str, rows: Rows) -> None:
        """Commit rows on a branch."""
        self.heads[branch] = self.add((self.heads[branch],), rows)

    def lowest(self, ours: Iterable[int], theirs: Iterable[int]) -> frozenset[int]:
        """Common ancestors that are no ancestor of another one."""
        common = self._ancestors(ours) & self._ancestors(theirs)
        covered = {one for c in common for one in networkx.ancestors(self.graph, c)}
        return frozenset(common - covered)

    def _ancestors(self, heads: Iterable[int]) -> set[int]:
        return {one for head in heads for one in (head, *networkx.ancestors(self.graph, head))}

    def base(self, ours: Iterable[int], theirs: Iterable[int]) -> Known:
        """The rows of the base: the lowest common ancestors, each merged over what it shares with those before."""
        lowest = sorted(self.lowest(ours, theirs))
        rows: Known = dict(self.commits[lowest[0]].rows)
        for place, number in enumerate(lowest[1:], 1):
            shared = self.base(lowest[:place], [number])
            rows = _fold(rows, dict(self.commits[number].rows), shared)
        return rows

    def merge(self, source: str, target: str) -> Replay:
        """Say what a merge comes to, and commit it unless there are conflicts."""
        ours, theirs = self.heads[source], self.heads[target]
        done = self.replay(ours, theirs)
        if done.outcome in ("fast_forward", "merged"):
            self.heads[target] = self.add((theirs, ours), done.rows)
        return done

    def replay(self, ours: int, theirs: int) -> Replay:
        """Say what a merge of one commit into another comes to."""
        before = self.commits[theirs].rows
        lowest = self.lowest([ours], [theirs])
        if ours in lowest:
            return Replay("already_up_to_date", lowest, before)
        outcome = "fast_forward" if theirs in lowest else "merged"
        rows, conflicts = _merge(self.commits[ours].rows, before, self.base([ours], [theirs]))
        if conflicts:
            return Replay("conflicts", lowest, before, conflicts)
        return Replay(outcome, lowest, rows)


def _fold(left: Known, right: Known, shared: Known) -> Known:
    merged: Known = {}
    for name in left.keys() | right.keys() | shared.keys():
        a, b, base = left.get(name), right.get(name), shared.get(name)
        if a is base and base is UNKNOWN:
            value: object = UNKNOWN
        elif a == base and a is not UNKNOWN:
            value = b
        elif (b == base and b is not UNKNOWN) or (a == b and a is not UNKNOWN):
            value = a
        else:
            value = UNKNOWN
        if value is not None:
            merged[name] = value
    return merged


def _merge(source: Rows, target: Rows, base: Known) -> tuple[Rows, dict[str, str]]:
    merged: Rows = {}
    conflicts: dict[str, str] = {}
    for name in source.keys() | target.keys() | base.keys():
        a, b, before = source.get(name), target.get(name), base.get(name)
        if a in (b, before):
            value = b
        elif b == before:
            value = a
        else:
            value = b
            if a is None or b is None:
                conflicts[name] = "delete_vs_update"
            else:
                conflicts[name] = "divergent_insert" if before is None else "divergent_update"
        if value is not None:
            merged[name] = value
    return merged, conflicts


# ---- random steps

Step = tuple[str, ...]
BRANCHES_MAX: Final = 8
BRANCHES_FIRST: Final = 5
NAMES: Final = tuple(f"p{number:02d}" for number in range(40))
VALUES: Final = 2
"""Few values, so that two sides often make the same change."""

KINDS: Final = {
    "put": 20,
    "drop": 10,
    "merge": 30,
    "spread": 20,
    "create": 10,
    "delete": 6,
    "cleanup": 2,
}


def steps(seed: int, length: int, *, cleanup: bool = True) -> Iterator[Step]:
    """Random steps: writes, branches made, deleted and made again, merges in any direction, cleanup between."""
    dice = random.Random(seed)
    alive = ["main"]
    for number in range(BRANCHES_FIRST):
        alive.append(f"b{number}")
        yield ("create", alive[-1], "main")
    for _ in range(length):
        kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
        branch = dice.choice(alive)
        match kind:
            case "put":
                yield _put(dice, branch)
            case "drop":
                yield ("drop", branch, dice.choice(NAMES))
            case "merge" if len(alive) > 1:
                source, target = dice.sample(alive, 2)
                if dice.random() < 0.6:
                    # Work of its own: else most merges would only catch up.
                    yield _put(dice, target)
                yield ("merge", source, target)
            case "spread" if len(alive) > BRANCHES_FIRST:
                # A feature that several branches take is how two heads come to have several lowest ancestors.
                source, *targets = dice.sample(alive, 4)
                for target in targets:
                    yield _put(dice, target)
                    yield ("merge", source, target)
                if source != "main" and dice.random() < 0.3:
                    alive.remove(source)
                    yield ("delete", source)
            case "create" if len(alive) < BRANCHES_MAX:
                # A name may come again: the branches of one name have nothing to do with each other.
                free = {f"b{number}" for number in range(BRANCHES_MAX + 2)} - {*alive}
                alive.append(dice.choice(sorted(free)))
                yield ("create", alive[-1], branch)
            case "delete" if branch != "main":
                alive.remove(branch)
                yield ("delete", branch)
            case "cleanup" if cleanup:
                yield ("cleanup",)


def _put(dice: random.Random, branch: str) -> Step:
    return ("put", branch, dice.choice(NAMES), str(dice.randrange(VALUES)))
