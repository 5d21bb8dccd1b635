"""Random groups of writers: the same rows, refusals and past states as when each of them commits alone."""

import tempfile
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.joined import write_together
from tests.support.settled import assert_settled
from tests.support.story import content

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA = """
node Person { k: String @key  n: I32?  mail: String? @unique }
node City { k: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City @card(0..1)
"""
BASE = [
    *({"type": "Person", "data": {"k": k, "n": n, "mail": k}} for n, k in enumerate("abcd")),
    {"type": "City", "data": {"k": "x"}},
    {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}},
    {"edge": "LivesIn", "from": "a", "to": "x", "data": {"id": "ax"}},
]
QUIET = {"maintenance": "off"}
Write = Callable[[Graph], Any]

keys = st.sampled_from("abcdpq")
numbers = st.integers(0, 5)


def mutation(text: str, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Write]:
    return st.fixed_dictionaries(params).map(lambda given: lambda graph: graph.mutate(text, given))


def _load(mode: "Mode", names: list[str]) -> Write:
    records = [{"type": "Person", "data": {"k": k, "n": 9}} for k in names]
    return lambda graph: graph.load(records, mode=mode)


def _conditional(number: int) -> Write:
    text = "query m($n: I32) { insert Person { k: 'if', n: $n } }".replace("'", '"')
    return lambda graph: graph.mutate(text, {"n": number}, if_commit=graph.commits()[0].id)


writes = st.one_of(
    mutation(
        "query m($k: String, $n: I32, $m: String) { insert Person { k: $k, n: $n, mail: $m } }",
        k=keys,
        n=numbers,
        m=keys,
    ),
    mutation(
        "query m($n: I32, $v: I32) { update Person set { n: $v } where n >= $n }",
        n=numbers,
        v=numbers,
    ),
    mutation("query m($k: String) { delete Person where k = $k }", k=keys),
    mutation(
        "query m($a: String, $b: String) { insert Knows { from: $a, to: $b } }", a=keys, b=keys
    ),
    mutation('query m($a: String) { insert LivesIn { from: $a, to: "x" } }', a=keys),
    st.builds(
        _load,
        st.sampled_from(["append", "merge", "overwrite"]),
        st.lists(keys, min_size=1, max_size=2, unique=True),
    ),
    st.builds(_conditional, numbers),
)


@settings(max_examples=8)
@given(group=st.lists(writes, min_size=2, max_size=5))
def test_a_group_equals_its_writers_one_by_one(group: list[Write]) -> None:
    with tempfile.TemporaryDirectory() as place:
        together = run(f"{place}/together", group, is_shared=True)
        alone = run(f"{place}/alone", group, is_shared=False)
    assert together == alone


def run(uri: str, group: list[Write], *, is_shared: bool) -> tuple[Any, ...]:
    """Let writers wait for the same locks, with one handle, which groups them, or each with its own."""
    graph = omnigraphdb.init(uri, SCHEMA, config=QUIET)
    graph.load(BASE, mode="append")
    handles = [graph if is_shared else omnigraphdb.open(uri, config=QUIET) for _ in group]
    works = [
        lambda write=write, own=own: write(own) for write, own in zip(group, handles, strict=True)
    ]
    told = [describe(one) for one in write_together(graph, works)]
    graph.refresh()
    commits = list(reversed(graph.commits()))
    assert all(newer.parent == older.id for older, newer in pairwise(commits))
    assert is_shared or all(commit.group is None for commit in commits)
    assert_settled(graph)
    past = [content(graph, at=commit.id) for commit in commits]
    kinds = [(commit.kind, commit.tables) for commit in commits]
    return told, content(graph), past, kinds


def describe(told: object) -> object:
    """What a writer heard, without the ids that differ from run to run."""
    if isinstance(told, BaseException):
        return type(told).__name__
    facts = told.to_dict()  # type: ignore[attr-defined]
    return {name: value for name, value in facts.items() if name not in ("commit", "uri")}
