"""A connection that is cut after any byte of the request or of the reply: a write with a key is done once."""

from collections.abc import Callable, Iterator

import pytest

import omnigraphdb
from omnigraphdb.errors import ServerUnreachable
from omnigraphdb.remote.graph import RemoteGraph
from omnigraphdb.remote.transport import Transport
from tests.support.cutting import Cutter, Hurried, Side, cutting
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving

OFFSETS = 30
"""Offsets of each write that are cut by default, spread over request and reply."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("cuts")
    with omnigraphdb.open(make_graph(folder / "g")) as graph:
        graph.branch_create("side")
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


Write = Callable[[RemoteGraph, str, str | None], bool]
"""Writes something new under a name and with a key; tells whether the answer was a replay."""


def mutate(graph: RemoteGraph, name: str, key: str | None) -> bool:
    return graph.mutate(ADD, {"n": name}, idempotency_key=key).replayed


def load(graph: RemoteGraph, name: str, key: str | None) -> bool:
    record = {"type": "Person", "data": {"name": name}}
    return graph.load([record], mode="append", idempotency_key=key).replayed


def merge(graph: RemoteGraph, _: str, key: str | None) -> bool:
    return graph.merge("side", idempotency_key=key).replayed


def prepare(write: Write, whole: RemoteGraph, name: str) -> None:
    """A merge needs something to merge."""
    if write is merge:
        whole.mutate(ADD, {"n": name}, branch="side")


def write_through(
    cutter: Cutter, whole: RemoteGraph, write: Write, name: str, cut: tuple[Side, int] | None
) -> bool:
    """Write over a fresh connection that is cut, and require exactly one commit; tell whether it was a replay."""
    prepare(write, whole, name)
    before = whole.commits(limit=1)[0]
    if cut is not None:
        cutter.cut_next(*cut)
    with RemoteGraph(Transport(cutter.url, None, None, Hurried())) as graph:
        replayed = write(graph, name, f"key of {name}")
    assert whole.commits(limit=1)[0].parent == before.id, f"{name}: not exactly one commit"
    return replayed


def cut_everywhere(server: ServerProcess, write: Write, offsets: int | None) -> None:
    kind = f"{write.__name__} at {offsets or 'every offset'}"
    with omnigraphdb.connect(server.url) as whole, cutting(server.url) as cutter:
        # The first merge is a fast-forward, whose answer is longer than those that follow.
        for number in range(2):
            write_through(cutter, whole, write, f"{kind} measured {number}", None)
        lengths = dict(cutter.carried)
        assert all(length > 200 for length in lengths.values())
        every = [(side, after) for side in Side for after in range(lengths[side])]
        step = 1 if offsets is None else max(1, len(every) // offsets)
        chosen = every[::step]
        for number, (side, after) in enumerate(chosen, 1):
            name = f"{kind} cut at {side} {after:04}"
            replayed = write_through(cutter, whole, write, name, (side, after))
            # A request that did not arrive whole was not carried out; an answer that was cut was.
            assert replayed == (side is Side.REPLY), name
            assert cutter.cuts == number, f"{name}: not cut, {cutter}"
        found = [row["p.name"] for row in whole.query(NAMES)]
        assert len(found) == len(set(found))
        assert len([one for one in found if one.startswith(kind)]) == len(chosen) + 2


@pytest.mark.parametrize("write", [mutate, load, merge])
def test_a_cut_anywhere_leaves_one_commit(server: ServerProcess, write: Write) -> None:
    cut_everywhere(server, write, OFFSETS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("write", [mutate, load, merge])
def test_a_cut_at_every_byte_leaves_one_commit(server: ServerProcess, write: Write) -> None:
    cut_everywhere(server, write, None)


@pytest.mark.parametrize("write", [mutate, load, merge])
@pytest.mark.parametrize("cut", [(Side.REQUEST, 150), (Side.REPLY, 0), (Side.REPLY, 100)])
def test_a_write_without_a_key_is_not_repeated(
    server: ServerProcess, write: Write, cut: tuple[Side, int]
) -> None:
    with omnigraphdb.connect(server.url) as whole, cutting(server.url) as cutter:
        name = f"{write.__name__} without a key {cut[0]} {cut[1]}"
        prepare(write, whole, name)
        before = whole.commits(limit=1)[0]
        cutter.cut_next(*cut)
        with (
            RemoteGraph(Transport(cutter.url, None, None, Hurried())) as graph,
            pytest.raises(ServerUnreachable, match="whether the write was done is unknown"),
        ):
            write(graph, name, None)
        newest = whole.commits(limit=1)[0]
        assert (newest == before) == (cut[0] is Side.REQUEST)
        assert newest in (before, whole.commit(newest.id))


def test_no_slot_is_left_taken_by_what_was_cut(server: ServerProcess) -> None:
    with omnigraphdb.connect(server.url) as whole, cutting(server.url) as cutter:
        for number in range(20):
            cutter.cut_next(Side.REQUEST, 200)
            with (
                RemoteGraph(Transport(cutter.url, None, None, Hurried())) as graph,
                pytest.raises(ServerUnreachable),
            ):
                mutate(graph, f"dropped {number}", None)
        with server.client() as http:
            assert "omnigraph_writes_inflight{" not in http.get("/metrics").text
        assert mutate(whole, "after all", None) is False
