"""Every argument of every call of a served graph, replaced by values of other kinds: a refusal in our words, and nothing is written."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.branches import Branch
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Tag
from omnigraphdb.errors import OmniError
from omnigraphdb.remote.graph import RemoteGraph
from tests.engine.test_odd_arguments import EMPTY_NAMES, SCHEMA, required
from tests.support.odd_arguments import ODD, call_oddly, is_foreign, list_methods, try_call
from tests.support.served import serving
from tests.support.settled import fingerprint

LEFT_ALONE = frozenset({"close", "schema_apply"})
"""Calls that end the handle, and those that write something for an empty text."""
VERSIONS = frozenset({"diff", "diff_drawing", "diff_stream"})
EMPTY = frozenset({"an empty list", "empty text"})
NO_ID = frozenset(ODD) - {"None", "a whole number", "no number", "a truth value"}


def is_other_elsewhere(method: str, argument: str, kind: str) -> bool:
    """Whether a graph at hand rightly answers a call in another way than a served graph."""
    match argument:
        case "base" | "head":
            # At hand a number is a manifest version; in an address it is a text, and so the name of a branch.
            return method in VERSIONS and kind == "a whole number"
        case "params":
            # At hand a plan is made before anything is bound, and nothing is bound to nothing.
            return method == "explain" and kind in EMPTY
        case "source":
            # Bytes are lines for a server, which has no files of its own; at hand a mapping is of frames by type.
            return method == "load" and kind in ("bytes", "an empty mapping")
        case "type" | "allow_empty" | "batch_id":
            # Only a graph at hand takes them.
            return method == "load"
        case "spark" | "progress":
            # They change nothing about an answer, so that a served graph leaves them out.
            return True
        case "deep":
            # A deep examination reads every file, which a server leaves to whoever has them.
            return True
        case "actor":
            # The token of a server says who asks.
            return True
        case "if_commit":
            # No header spells anything but an id; at hand the head of the branch is simply another one. No route of loads has a condition.
            return kind in NO_ID or method == "load"
        case _:
            return False


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph."""
    made = tmp_path_factory.mktemp("odd-remote")
    with omnigraphdb.init(made / "g", SCHEMA, config={"maintenance": "off"}) as graph:
        people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "ab"]
        graph.load([*people, {"edge": "Knows", "from": "a", "to": "b"}], mode="append")
        graph.ensure_indices()
        graph.optimize()
    return made


@pytest.fixture(scope="module")
def copied(place: Path) -> Iterator[Graph]:
    """A copy of the graph at hand, with the same commits."""
    copytree(place / "g", place / "copy")
    with omnigraphdb.open(place / "copy", config={"maintenance": "off"}) as graph:
        yield graph


@pytest.fixture(scope="module")
def remote(place: Path, copied: Graph) -> Iterator[RemoteGraph]:
    """The graph, served."""
    words = (str(place / "g"), "--unauthenticated")
    with serving(*words, log=place / "log") as server, omnigraphdb.connect(server.url) as found:
        yield found
        assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def served(place: Path, remote: RemoteGraph) -> Iterator[Graph]:
    """What the server serves, to be looked at."""
    with omnigraphdb.open(place / "g", read_only=True) as graph:
        yield graph


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own: a blank text names a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("method", list_methods(RemoteGraph, leave=LEFT_ALONE))
def test_a_call_of_a_served_graph_refuses_what_it_cannot_take(
    remote: RemoteGraph, served: Graph, folder: Path, method: str
) -> None:
    before = fingerprint(served)
    for found in call_oddly(method, getattr(remote, method), required(method, folder)):
        assert not is_foreign(found[-1]), found
        if found[1:3] in EMPTY_NAMES:
            assert isinstance(found[-1], OmniError), found
        if method == "branch_create" and not isinstance(found[-1], Exception):
            remote.branch_delete(found[-1].name)  # type: ignore[attr-defined]
        if method == "tag" and not isinstance(found[-1], Exception):
            remote.tag_delete(found[-1].name)  # type: ignore[attr-defined]
    assert method in ("tag", "tag_delete") or fingerprint(served) == before


def find_required(method: str, folder: Path, graph: Graph) -> dict[str, Any]:
    """Arguments with which a call is right, so that one of them is wrong at a time."""
    usual = required(method, folder) | {"property": "photo"}
    usual |= {"from_type": "Person", "from_id": "a", "to_type": "Person", "to_id": "b"}
    is_of_commit = method in ("commit", "commit_changes")
    return usual | ({"id": graph.commits()[0].id} if is_of_commit else {})


def tell_outcome(outcome: object) -> tuple[type, str] | None:
    """The class and the kind of a refusal; None where nothing was refused."""
    return (type(outcome), outcome.kind) if isinstance(outcome, OmniError) else None


@pytest.mark.parametrize("method", list_methods(RemoteGraph, leave=LEFT_ALONE | {"run_stored"}))
def test_a_served_graph_refuses_as_a_graph_at_hand_does(
    remote: RemoteGraph, copied: Graph, folder: Path, method: str
) -> None:
    local = getattr(copied, method, None)
    if local is None:
        return
    known = inspect.signature(local).parameters
    usual = find_required(method, folder, copied)
    needed = {
        one.name: usual.get(one.name, "main") for one in known.values() if one.default is one.empty
    }
    for _, argument, kind, found in call_oddly(method, getattr(remote, method), usual):
        if argument not in known:
            continue
        expected = try_call(local, needed | {argument: ODD[kind]})
        for graph, one in ((remote, found), (copied, expected)):
            if method == "branch_create" and isinstance(one, Branch):
                graph.branch_delete(one.name)
            if isinstance(one, Tag):
                graph.tag_delete(one.name)
        told = (method, argument, kind, expected, found)
        if not is_other_elsewhere(method, argument, kind):
            assert tell_outcome(expected) == tell_outcome(found), told
