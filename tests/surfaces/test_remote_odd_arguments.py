"""Every argument of every call of a served graph, replaced by values of other kinds: a refusal in our words, and nothing is written."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.errors import OmniError
from omnigraph.remote.graph import RemoteGraph
from tests.engine.test_odd_arguments import EMPTY_NAMES, SCHEMA, required
from tests.support.odd_arguments import ODD, call_oddly, is_foreign, list_methods, try_call
from tests.support.served import serving
from tests.support.settled import fingerprint

LEFT_ALONE = frozenset({"close", "schema_apply"})
"""Calls that end the handle, and those that write something for an empty text."""
TAKEN_ELSEWHERE = frozenset(
    {
        ("load", "source", "an empty mapping"),
        ("change_page", "start", "None"),
        ("explain", "params", "an empty list"),
        ("explain", "params", "empty text"),
        *(
            (method, side, "a whole number")
            for method in ("diff", "diff_drawing", "diff_stream")
            for side in ("base", "head")
        ),
    }
)
"""What only one of the two takes: a graph at hand compares manifest versions and binds nothing to plan a read, for example."""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RemoteGraph, Graph]]:
    """A served graph, and the same graph at hand."""
    folder = tmp_path_factory.mktemp("odd-remote")
    with omnigraph.init(folder / "g", SCHEMA, config={"maintenance": "off"}) as made:
        people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "ab"]
        made.load([*people, {"edge": "Knows", "from": "a", "to": "b"}], mode="append")
        made.ensure_indices()
        made.optimize()
    with (
        serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as server,
        omnigraph.connect(server.url) as remote,
        omnigraph.open(folder / "g", read_only=True) as local,
    ):
        yield remote, local
        assert "Traceback" not in server.log.read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own: a blank text names a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("method", list_methods(RemoteGraph, leave=LEFT_ALONE))
def test_a_call_of_a_served_graph_refuses_what_it_cannot_take(
    graphs: tuple[RemoteGraph, Graph], folder: Path, method: str
) -> None:
    remote, local = graphs
    before = fingerprint(local)
    for found in call_oddly(method, getattr(remote, method), required(method, folder)):
        assert not is_foreign(found[-1]), found
        if found[1:3] in EMPTY_NAMES:
            assert isinstance(found[-1], OmniError), found
        if method == "branch_create" and not isinstance(found[-1], Exception):
            remote.branch_delete(found[-1].name)  # type: ignore[attr-defined]
    assert fingerprint(local) == before


WRITES = frozenset({"mutate", "load", "merge", "branch_create", "branch_delete"})


@pytest.mark.parametrize("method", list_methods(RemoteGraph, leave=LEFT_ALONE | WRITES))
def test_a_served_graph_refuses_what_a_graph_at_hand_refuses(
    graphs: tuple[RemoteGraph, Graph], folder: Path, method: str
) -> None:
    remote, local = graphs
    call: Any = getattr(local, method, None)
    known = {} if call is None else inspect.signature(call).parameters
    usual = required(method, folder)
    needed = {
        one.name: usual.get(one.name, "main") for one in known.values() if one.default is one.empty
    }
    for _, argument, kind, found in call_oddly(method, getattr(remote, method), usual):
        if argument in known and (method, argument, kind) not in TAKEN_ELSEWHERE:
            expected = try_call(call, needed | {argument: ODD[kind]})
            told = (method, argument, kind, expected, found)
            assert isinstance(expected, OmniError) == isinstance(found, OmniError), told
