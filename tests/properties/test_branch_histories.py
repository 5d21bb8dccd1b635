"""Random histories of branches: made, deleted, made again, merged in any direction, tagged, cleaned up; what is kept reads as it did."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    BranchExists,
    ConflictError,
    HistoryReclaimed,
    UserInputError,
)
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I64? @index } node City { name: String @key }"
NAMES = ("a", "b", "c", "a/x")
KEYS = [f"p{number}" for number in range(8)]
REFUSALS = (BranchExists, ConflictError, HistoryReclaimed, UserInputError)
"""What a step may be refused with; anything else is a fault."""

Content = dict[str, list[tuple[str, Any]]]


def read(graph: Graph, **at: Any) -> Content:
    rows = {one: graph.table(one, **at).to_pylist() for one in ("Person", "City")}
    return {one: sorted((row["name"], row.get("age")) for row in found) for one, found in rows.items()}  # fmt: skip


class Story:
    """A graph, what each of its branches shows, and what every commit showed when it was a head."""

    def __init__(self, root: Path, seed: int) -> None:
        self.graph = omnigraphdb.init(root, SCHEMA, config={"maintenance": "off"})
        self.random = random.Random(seed)
        self.heads: dict[str, Content] = {"main": read(self.graph)}
        self.commits: dict[str, Content] = {}
        self.number = 0

    def step(self) -> None:
        """Do one thing; only the branch that it is about may show something else afterwards."""
        self.number += 1
        chosen = self.random.choice(STEPS)
        touched = None
        with suppress(*REFUSALS):
            touched = chosen(self, self.random.choice(sorted(self.heads)))
        if touched is not None:
            self.heads[touched] = read(self.graph, branch=touched)
            newest = self.graph.commits(branch=touched, limit=1)[0].id
            assert self.commits.setdefault(newest, self.heads[touched]) == self.heads[touched]
        assert {name: read(self.graph, branch=name) for name in self.heads} == self.heads

    def check_past(self) -> None:
        """Every commit that can be read reads as it did; a tagged one can be read."""
        for branch in self.heads:
            for commit in self.graph.commits(branch=branch):
                if commit.id in self.commits:
                    with suppress(HistoryReclaimed):
                        found = read(self.graph, branch=branch, at=commit)
                        assert found == self.commits[commit.id]
        for tag in self.graph.tags():
            if str(tag.commit) in self.commits:
                found = read(self.graph, branch=tag.branch, at=str(tag.commit))
                assert found == self.commits[str(tag.commit)]


Step = Callable[[Story, str], str | None]
"""Does something on a branch, and names the branch that shows something else; None when none does."""


def _write(story: Story, branch: str) -> str:
    people = [{"type": "Person", "data": {"name": key, "age": story.number}} for key in story.random.sample(KEYS, 2)]  # fmt: skip
    city = [{"type": "City", "data": {"name": f"c{story.number}"}}]
    mode = story.random.choice(["merge", "overwrite"])
    story.graph.load(people if mode == "merge" else city, mode=mode, branch=branch)  # type: ignore[arg-type]
    return branch


def _delete(story: Story, branch: str) -> str:
    text = "query q($n: String) { delete Person where name = $n }"
    story.graph.mutate(text, {"n": story.random.choice(KEYS)}, branch=branch)
    return branch


def _create(story: Story, branch: str) -> str:
    name = story.random.choice(NAMES)
    at = story.random.choice([None, story.random.choice(story.graph.commits(branch=branch))])
    story.graph.branch_create(name, from_branch=branch, at=at)
    return name


def _drop(story: Story, branch: str) -> None:
    story.graph.branch_delete(branch)
    del story.heads[branch]


def _merge(story: Story, branch: str) -> str:
    into = story.random.choice(sorted(story.heads))
    story.graph.merge(branch, into=into)
    return into


def _tag(story: Story, branch: str) -> None:
    commit = story.random.choice(story.graph.commits(branch=branch)[:4])
    story.graph.tag(story.random.choice("tuv"), commit, branch=branch)


def _untag(story: Story, branch: str) -> None:
    for tag in story.graph.tags()[:1]:
        story.graph.tag_delete(tag.name)


def _clean_up(story: Story, branch: str) -> None:
    report = story.graph.cleanup(keep=story.random.choice([1, 1, 2]), confirm=True)
    assert [one.error for one in (*report.tables, report.manifest) if one.error] == []
    story.check_past()


def _maintain(story: Story, branch: str) -> None:
    story.graph.optimize()
    story.graph.ensure_indices(branch=branch)


def _reopen(story: Story, branch: str) -> None:
    story.graph.close()
    story.graph = omnigraphdb.open(story.graph.uri, config={"maintenance": "off"})


STEPS: tuple[Step, ...] = (
    *(_write, _write, _write, _delete, _create, _create, _drop, _merge, _merge),
    *(_tag, _untag, _clean_up, _maintain, _reopen),
)


def tell(root: Path, seed: int, steps: int) -> None:
    story = Story(root, seed)
    for _ in range(steps):
        story.step()
    story.check_past()
    story.graph.cleanup(keep=1, confirm=True)
    assert_settled(story.graph)
    story.graph.close()


def test_a_random_history_of_branches_keeps_what_it_shows(tmp_path: Path) -> None:
    tell(tmp_path / "g", 1, 40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 42))
def test_many_long_histories_of_branches_keep_what_they_show(tmp_path: Path, seed: int) -> None:
    tell(tmp_path / "g", seed, 150)
