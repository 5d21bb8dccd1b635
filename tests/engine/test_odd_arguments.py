"""Every argument of every public call, replaced by values of other kinds: a refusal in our words, or a success, and nothing is written."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.errors import OmniError
from tests.support.odd_arguments import call_oddly, is_foreign, list_methods
from tests.support.settled import assert_settled, fingerprint

SCHEMA = "node Person { name: String @key  age: I64?  photo: Blob? } edge Knows: Person -> Person"
READ = "query q() { match { $p: Person } return { $p.name } }"
SAME = 'query q() { update Person set { age: 2 } where name = "nobody" }'
LEFT_ALONE = frozenset({"close", "show", "schema_apply", "set_policy"})
"""Calls that end the handle or start a server, and those that write something for None or for an empty text."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    place = tmp_path_factory.mktemp("odd") / "g"
    with omnigraphdb.init(place, SCHEMA, config={"maintenance": "off"}) as made:
        people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "ab"]
        made.load([*people, {"edge": "Knows", "from": "a", "to": "b"}], mode="append")
        made.ensure_indices()
        made.optimize()
        yield made


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own: a blank text names a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def required(method: str, folder: Path) -> dict[str, Any]:
    """Arguments with which a call is right, by name."""
    return {
        "source": {"mutate": SAME, "load": [], "merge": "side"}.get(method, READ),
        "schema": SCHEMA,
        "type_name": "Person",
        "type": "Person",
        "id": "a",
        "name": "spare",
        "mode": "append",
        "edges": ["Knows"],
        "directory": str(folder / "out"),
        "out": str(folder / "out.arrow"),
        "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    }


@pytest.mark.parametrize("method", list_methods(Graph, leave=LEFT_ALONE))
def test_a_call_of_a_graph_refuses_what_it_cannot_take(
    graph: Graph, folder: Path, method: str
) -> None:
    before = fingerprint(graph)
    usual = required(method, folder)
    for found in call_oddly(method, getattr(graph, method), usual):
        assert not is_foreign(found[-1]), found
        if found[1:3] in EMPTY_NAMES:
            assert isinstance(found[-1], OmniError), found
        if found[0] == "branch_create" and not isinstance(found[-1], Exception):
            graph.branch_delete("spare")
        if found[0] == "tag" and not isinstance(found[-1], Exception):
            graph.tag_delete("spare")
    # A tag that was made and taken back leaves a version of the manifest.
    assert method == "tag" or fingerprint(graph) == before


EMPTY_NAMES = [
    (name, kind)
    for name in ("branch", "from_branch", "into", "directory")
    for kind in ("empty text", "blank text", "an empty list", "an empty mapping", "a whole number")
    if (name, kind) != ("directory", "blank text")
]
"""What names nothing, and meant main or the folder of work."""


@pytest.mark.parametrize("method", list_methods(Snapshot))
def test_a_call_of_a_snapshot_refuses_what_it_cannot_take(
    graph: Graph, folder: Path, method: str
) -> None:
    call = getattr(graph.snapshot(), method)
    for found in call_oddly(method, call, required(method, folder)):
        assert not is_foreign(found[-1]), found


FUNCTIONS = [
    name
    for name in sorted(omnigraphdb.__all__)
    if inspect.isfunction(getattr(omnigraphdb, name)) and name != "show"
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_package_refuses_what_it_cannot_take(
    graph: Graph, folder: Path, name: str
) -> None:
    usual = required(name, folder) | {"uri": graph.uri, "url": "http://127.0.0.1:9"}
    for found in call_oddly(name, getattr(omnigraphdb, name), usual):
        assert not is_foreign(found[-1]), found
        if isinstance(found[-1], Graph):
            found[-1].close()
    assert_settled(graph)


@pytest.mark.parametrize("flag", ["no", 1, 0, "", [], object()])
def test_a_flag_is_true_or_false(graph: Graph, flag: Any) -> None:
    for call in (
        lambda: graph.cleanup(keep=1, confirm=flag),
        lambda: graph.repair(confirm=flag),
        lambda: graph.schema_apply(SCHEMA, allow_data_loss=flag),
        lambda: graph.mutate(SAME, dry_run=flag),
        lambda: graph.diff("main", "main", images=flag),
        lambda: graph.changes(images=flag),
        lambda: graph.branches(compare=flag),
        lambda: graph.commits(all=flag),
        lambda: graph.explain(READ, profile=flag),
        lambda: graph.path("Person", "a", "Person", "b", undirected=flag),
    ):
        with pytest.raises(omnigraphdb.UserInputError, match="True or False"):
            call()
