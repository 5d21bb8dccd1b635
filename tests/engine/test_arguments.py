"""Arguments of another kind than the documented one are refused in our words, before anything is touched."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    ConfigError,
    OmniError,
    ParamError,
    PolicyConfigError,
    QueryError,
    UserInputError,
)
from tests.support.settled import assert_settled

HALF = "half \ud800 of a pair"
READ = "query q() { match { $n: Note } return { $n } }"
WRITE = 'query q() { insert Note { text: "a" } }'
GIVEN = "query q($t: String) { match { $n: Note { text: $t } } return { $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", "node Note { text: String @key }") as graph:
        yield graph


ODD: dict[str, tuple[Callable[[Any], object], type[OmniError]]] = {
    "a limit below zero": (lambda g: g.commits(limit=-1), UserInputError),
    "a limit that is text": (lambda g: g.commits(limit="3"), UserInputError),
    "versions to keep as text": (lambda g: g.cleanup(keep="3"), UserInputError),
    "a name that is a number": (lambda g: g.query(READ, 5), UserInputError),
    "a branch that is a number": (lambda g: g.query(READ, branch=5), UserInputError),
    "a branch that cannot be stored": (lambda g: g.branch_create(HALF), UserInputError),
    "a page of nothing": (lambda g: g.changes(limit=0), UserInputError),
    "a page of a commit below zero": (
        lambda g: g.commit_changes(g.commits()[0], limit=-1),
        UserInputError,
    ),
    "versions to keep below zero": (lambda g: g.cleanup(keep=-1), UserInputError),
    "no threads": (lambda g: omnigraphdb.open(g.uri, config={"load_concurrency": 0}), ConfigError),
    "a cache below zero": (
        lambda g: omnigraphdb.open(g.uri, config={"cache_bytes": -1}),
        ConfigError,
    ),
    "a place that is empty": (lambda _: omnigraphdb.open(""), UserInputError),
    "a place to be made that is empty": (
        lambda _: omnigraphdb.init("", "node Note { text: String @key }"),
        UserInputError,
    ),
    "a file that is empty text": (lambda g: g.load("", mode="append"), UserInputError),
    "a folder that is empty text": (lambda g: g.export_files(""), UserInputError),
    "a baseline that is empty text": (lambda g: g.baseline(""), UserInputError),
    "a page that is text": (lambda g: g.changes(limit="3"), UserInputError),
    "a page of a commit that is text": (
        lambda g: g.commit_changes(g.commits()[0], limit="3"),
        UserInputError,
    ),
    "an age that is a number": (lambda g: g.cleanup(older_than=3), UserInputError),
    "types in one text": (lambda g: g.export(types="Note"), UserInputError),
    "types to compare in one text": (
        lambda g: g.diff("main", "main", types="Note"),
        UserInputError,
    ),
    "kinds that are a number": (lambda g: g.changes(kinds=3), UserInputError),
    "a version that is a truth value": (lambda g: g.query(READ, at=True), UserInputError),
    "a state that is none": (lambda g: g.diff("main", None), UserInputError),
    "a type that is a number": (lambda g: g.table(5), UserInputError),
    "a type that is a list": (lambda g: g.entity(["Note"], "a"), UserInputError),
    "a mode that is a list": (lambda g: g.load([], mode=["append"]), UserInputError),
    "a file that no system can name": (lambda g: g.load("a\0b", mode="append"), UserInputError),
    "an operation that is a number": (lambda g: g.discard_recovery(5), UserInputError),
    "an id that is a number": (lambda g: g.entity("Note", 7), UserInputError),
    "an id that cannot be stored": (lambda g: g.entity("Note", HALF), UserInputError),
    "a batch that cannot be stored": (
        lambda g: g.load([], mode="append", batch_id=HALF),
        UserInputError,
    ),
    "a file that cannot be named": (lambda g: g.load(HALF, mode="append"), UserInputError),
    "a place that is a number": (lambda _: omnigraphdb.open(5), UserInputError),  # type: ignore[arg-type]
    "settings that are no mapping": (lambda g: omnigraphdb.open(g.uri, config=5), ConfigError),  # type: ignore[arg-type]
    "a policy": (lambda g: omnigraphdb.open(g.uri, policy="permit"), PolicyConfigError),
    "a query that cannot be stored": (lambda g: g.query(f"// {HALF}\n{READ}"), QueryError),
    "a parameter that cannot be stored": (lambda g: g.query(GIVEN, {"t": HALF}), ParamError),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_argument_is_refused_in_words_that_can_be_printed(graph: Graph, name: str) -> None:
    call, kind = ODD[name]
    with pytest.raises(kind) as caught:
        call(graph)
    assert str(caught.value).encode()
    assert_settled(graph)


@pytest.mark.parametrize("actor", [HALF, 5])
def test_an_actor_that_cannot_be_stored_leaves_no_intent_behind(graph: Graph, actor: Any) -> None:
    for write in (
        lambda: graph.mutate(WRITE, actor=actor),
        lambda: graph.load([{"type": "Note", "data": {"text": "b"}}], mode="append", actor=actor),
        lambda: graph.schema_apply("node Note { text: String @key  n: I32? }", actor=actor),
        lambda: graph.optimize(actor=actor),
        lambda: omnigraphdb.open(graph.uri, actor=actor),
    ):
        with pytest.raises(UserInputError, match="actor"):
            write()
    assert graph.pending_recoveries() == []
    assert graph.mutate(WRITE, actor="ann").affected_nodes == 1
    assert_settled(graph)


def test_more_than_can_be_counted_is_no_bound(graph: Graph) -> None:
    graph.mutate(WRITE)
    assert len(graph.commits(limit=2**70)) == 2
    assert graph.changes(limit=2**70).caught_up
