"""Every file of a graph is damaged in turn: what a read needs is named by a deep examination, and every error is one of ours."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN
from tests.support.every_file import (
    CHANGES,
    Answers,
    damaged,
    list_files,
    make_graph,
    read_everything,
)

UNREAD = re.compile(r"_transactions|_indices|_versions\.json$|^_schema|^__schema_state")
"""Kinds of files that no read needs, or without which no graph opens: only a soak damages them."""

NO_DIGESTS = "__manifest/data/"
"""Nobody takes digests of the rows of the manifest: a flipped bit that leaves them readable is not noticed."""

REFS = "/_refs/branches/"
"""A branch whose ref is gone is a branch that was deleted: its forks are found, and its commits are no one's."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("files") / "g"
    make_graph(home)
    return home


@pytest.fixture(scope="module")
def right(home: Path) -> Answers:
    answers = read_everything(home)
    errors = {one.partition(":")[0] for one in answers.values() if is_error(one)}
    assert errors <= {"ChangeDiffRefused"}
    with omnigraphdb.open(home) as graph:
        examined = graph.doctor(deep=True)
        assert (list(examined), examined.files_without_digest) == ([], 0)
    return answers


def list_kinds(home: Path) -> Mapping[str, list[str]]:
    """Group the files by their directories and endings."""
    kinds: dict[str, list[str]] = {}
    for name in list_files(home):
        parts = name.split("/")
        within = ("data", "tree", "__schemas")
        places = [one for one in parts[1:-1] if one.startswith("_") or one in within]
        kind = "/".join([parts[0], *places]) + os.path.splitext(name)[1]
        kinds.setdefault(kind, []).append(name)
    return kinds


def examine_damage(home: Path, right: Answers, damages: Iterable[tuple[str, str]]) -> list[str]:
    """Damage files in turn, and list where a read is wrong and the file is not named."""
    unnamed: list[str] = []
    for name, how in damages:
        with damaged(home, name, CHANGES[how]):
            now = read_everything(home)
            if is_error(now["open"]):
                # Nobody can ask a graph that does not open; the error says what is wrong.
                continue
            issues = examine(home)
        wrong = sorted(one for one in right if now.get(one) != right[one])
        if name.startswith(NO_DIGESTS) and how == "flipped":
            wrong = [one for one in wrong if is_error(now.get(one, ""))]
        told = [one for one in issues if name in one or REFS in name]
        if wrong and not told:
            unnamed.append(f"{name} {how}: {wrong[:2]} {now.get(wrong[0])}, told {issues}")
    return unnamed


def is_error(answer: str) -> bool:
    return ": " in answer


def examine(home: Path) -> list[str]:
    with omnigraphdb.open(home, read_only=True) as graph:
        return [str(one) for one in graph.doctor(deep=True)]


def test_what_a_read_needs_is_named(home: Path, right: Answers) -> None:
    kinds = [names for kind, names in list_kinds(home).items() if not UNREAD.search(kind)]
    chosen = [
        (name, how)
        for names in kinds
        for how, name in zip(CHANGES, (names[len(names) // 2], names[0], names[-1]), strict=True)
    ]
    assert examine_damage(home, right, chosen) == []


@pytest.mark.soak
def test_what_any_read_needs_is_named(home: Path, right: Answers) -> None:
    assert examine_damage(home, right, product(list_files(home), CHANGES)) == []


# ---- writes


WORK: Mapping[str, Callable[[Graph], object]] = {
    "insert": lambda graph: graph.mutate('query q() { insert Person { name: "new" } }'),
    "update": lambda graph: graph.mutate(
        "query q() { update Person set { age: 9 } where age > 1 }"
    ),
    "delete": lambda graph: graph.mutate('query q() { delete Person where name = "p5" }'),
    "merge": lambda graph: graph.merge("late"),
    "repair": lambda graph: graph.repair(confirm=True, force=True),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(keep=1, confirm=True),
    "branch": lambda graph: graph.branch_create("new", from_branch=MAIN),
    "schema": lambda graph: graph.schema_plan(graph.schema_source),
}


FEW = ("nodes/_versions.manifest", "nodes/_deletions")
"""The newest version of a table comes first in its directory."""


@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        ("flipped", FEW),
        *(pytest.param(how, ("",), marks=pytest.mark.soak) for how in CHANGES),
    ],
)
@pytest.mark.filterwarnings("ignore::omnigraphdb.OmniWarning")
def test_every_error_of_a_write_is_one_of_ours(
    home: Path, right: Answers, how: str, kinds: tuple[str, ...]
) -> None:
    whole = home.with_name("whole")
    shutil.copytree(home, whole, dirs_exist_ok=True)
    raised = 0
    for kind, names in list_kinds(home).items():
        if not kind.startswith(kinds):
            continue
        for work in WORK.values():
            with damaged(home, names[0], CHANGES[how]):
                try:
                    with omnigraphdb.open(home) as graph:
                        work(graph)
                except OmniError:
                    raised += 1
            shutil.rmtree(home)
            shutil.copytree(whole, home)
    assert raised
