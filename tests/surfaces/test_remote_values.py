"""Values and names in calls of a served graph: they mean what they mean at hand, or are refused as they are there."""

import io
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import GraphClosed, NotFound, OmniError, ServerUnreachable, UserInputError
from omnigraphdb.remote.graph import RemoteGraph
from tests.support.served import ServerProcess, serving

SCHEMA = """
node Item { key: String @key  whole: I64?  part: F64?  day: Date?  at: DateTime?  text: String?  flag: Bool?
  many: [I32]?  scan: Blob? }
"""
DECLARED = ("I64", "F64", "Date", "DateTime", "String", "Bool", "[I32]", "Vector(2)")
PROPERTIES = ("whole", "part", "day", "at", "text", "flag", "many")
VALUES: Mapping[str, Any] = {
    "an integer of numpy": np.int64(5),
    "a fraction of numpy": np.float32(0.5),
    "a truth of numpy": np.bool_(True),
    "a text of numpy": np.str_("a"),
    "a day of numpy": np.datetime64("2020-01-02"),
    "a moment of numpy": np.datetime64("2020-01-02T03:04:05"),
    "an array of numpy": np.array([1, 2]),
    "a scalar of Arrow": pa.scalar(5),
    "an array of Arrow": pa.array([1, 2]),
    "a list of numpy": [np.int32(1), np.int32(2)],
    "a day": date(2020, 1, 2),
    "a moment": datetime(2020, 1, 2, 3, 4, 5, 678_000),
    "a moment elsewhere": datetime(2020, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
    "a moment of UTC": datetime(2020, 1, 2, 3, tzinfo=UTC),
    "a time of day": time(1, 2),
    "no number": math.nan,
    "more than all numbers": math.inf,
    "no numbers": [math.nan, 1.0],
    "a decimal": Decimal("1.5"),
    "bytes": b"ab",
    "an identifier": uuid.UUID(int=5),
    "a pair": (1, 2),
    "a set": {1},
    "a range": range(2),
    "half a pair of surrogates": "\ud800",
    "a large number": 2**62,
    "too large a number": 2**63 + 5,
    "far too large a number": 10**30,
    "a mapping": {"a": 1},
    "a list in a list": [[1]],
    "less than nothing": -0.0,
    "an object": object(),
}
DAYS = frozenset(name for name in VALUES if name.startswith(("a day", "a moment")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, and a copy of it."""
    made = tmp_path_factory.mktemp("values")
    with omnigraphdb.init(made / "g", SCHEMA, config={"maintenance": "off"}) as graph:
        graph.load([{"type": "Item", "data": {"key": "a"}}], mode="append")
    copytree(made / "g", made / "copy")
    return made


@pytest.fixture(scope="module")
def local(place: Path) -> Iterator[Graph]:
    with omnigraphdb.open(place / "copy", config={"maintenance": "off"}) as graph:
        yield graph


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[ServerProcess]:
    with serving(str(place / "g"), "--unauthenticated", log=place / "log") as found:
        yield found
        assert "Traceback" not in found.log.read_text()


@pytest.fixture(scope="module")
def remote(server: ServerProcess) -> Iterator[RemoteGraph]:
    with omnigraphdb.connect(server.url) as graph:
        yield graph


def tell(call: Callable[[], Any]) -> object:
    """What came of a call: its rows or counts, or the class and the kind of its refusal."""
    try:
        return call()
    except OmniError as error:
        return type(error), error.kind


@pytest.mark.parametrize("name", VALUES)
def test_a_parameter_means_the_same(local: Graph, remote: RemoteGraph, name: str) -> None:
    for declared in DECLARED:
        if name in DAYS and declared == "String":
            # JSON has no days: what arrives is a text.
            continue
        read = f"query q($v: {declared}?) {{ match {{ $i: Item }} return {{ $i.key, $v as v }} }}"

        def run(graph: Any, read: str = read) -> object:
            return tell(lambda: graph.query(read, {"v": VALUES[name]}).rows)

        assert run(local) == run(remote), (name, declared)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_a_record_means_the_same(local: Graph, remote: RemoteGraph, name: str) -> None:
    for column in PROPERTIES:
        if name in DAYS and column == "text":
            continue
        record = {"type": "Item", "data": {"key": "a", column: VALUES[name]}}

        def run(graph: Any, record: Any = record, column: str = column) -> object:
            done = tell(lambda: graph.load([record], mode="merge").total_rows)
            return done, graph.entity("Item", "a")[column]

        assert run(local) == run(remote), (name, column)


SOURCES: Mapping[str, Callable[[], Any]] = {
    "a list of texts": lambda: ["a"],
    "a text for a record": lambda: ["{}"],
    "a number for a record": lambda: iter([5]),
    "nothing for a record": lambda: [None],
    "a number for a name": lambda: [{1: 2}],
    "bytes for a name": lambda: [{b"a": 1}],
    "a text that is no UTF-8": lambda: io.StringIO('{"type": "Item"}\n"\ud800'),
    "bytes that are no UTF-8": lambda: io.BytesIO(b"\xff"),
    "a file that is nowhere": lambda: "nowhere.jsonl",
    "a number": lambda: 5,
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_refused_alike(local: Graph, remote: RemoteGraph, name: str) -> None:
    found = [tell(partial(one.load, SOURCES[name](), mode="merge")) for one in (local, remote)]
    assert isinstance(found[0], tuple)
    assert found[0] == found[1]


def test_a_query_with_half_a_pair_of_surrogates_is_refused_alike(
    local: Graph, remote: RemoteGraph
) -> None:
    text = 'query q() { match { $i: Item } return { "\ud800" as v } }'
    assert tell(lambda: local.query(text)) == tell(lambda: remote.query(text))


@pytest.mark.parametrize("name", [".", "{branch}", "merge", "a%2Fb", "a?b", "a#b", "a;b", "..."])
def test_a_branch_is_deleted_by_its_name(local: Graph, remote: RemoteGraph, name: str) -> None:
    """Names that stand for something else in addresses and in the routes of the server."""

    def run(graph: Any) -> object:
        made = tell(lambda: graph.branch_create(name).name)
        return made, tell(lambda: graph.branch_delete(name)), len(graph.branches())

    assert run(local) == run(remote)


@pytest.mark.parametrize("name", [".", "..", "{commit}", "%2e", "a/b", ""])
def test_a_commit_is_looked_for_by_its_name(local: Graph, remote: RemoteGraph, name: str) -> None:
    for graph in (local, remote):
        for call in (graph.commit, graph.commit_changes):
            with pytest.raises(NotFound) as caught:
                call(name)
            assert caught.value.kind == "not_found"


@pytest.mark.parametrize("name", [".", "..", "{graph_id}"])
def test_dots_do_not_lead_to_another_graph(server: ServerProcess, name: str) -> None:
    with omnigraphdb.connect(server.url, graph=name) as graph, pytest.raises(OmniError) as caught:
        graph.snapshot()
    assert caught.value.kind == "user_input"


def test_a_blob_is_refused_with_its_reason(local: Graph, remote: RemoteGraph) -> None:
    for id, column in (("nobody", "scan"), ("a", "scan"), ("a", "nothing"), ("a", "text")):
        found = [tell(partial(graph.blob, "Item", id, column)) for graph in (local, remote)]
        assert isinstance(found[0], tuple)
        assert found[0] == found[1]
    with pytest.raises(NotFound, match="nobody"):
        remote.blob("Item", "nobody", "scan")


def test_a_page_of_the_feed_begins_where_one_at_hand_does(
    local: Graph, remote: RemoteGraph
) -> None:
    first = local.commits()[-1].id
    places: list[dict[str, Any]] = [
        {}, {"start": "beginning"}, {"cursor": first}, {"cursor": first, "start": "now"},
    ]  # fmt: skip
    for place in places:
        pages = [graph.change_page(**place) for graph in (local, remote)]
        assert [len(one.blocks) for one in pages] == [len(pages[0].blocks)] * 2
        assert pages[0].caught_up
        assert pages[1].caught_up


# ---- addresses and tokens


@pytest.mark.parametrize(
    "url",
    [
        "", "http://", "http:///path", "http:// ", "http://a b", "http://[::1", "http://x:port", "http://x:99999",
        "ftp://x", "127.0.0.1:8080", "http://x?graph=y", "http://x#y", "http://x\ny", "http://me:secret@x:port",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(UserInputError) as caught:
        omnigraphdb.connect(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["a-secret\nline", "a-secret-ü", "a-secret\0", "a-secret\ud800"])
def test_a_token_that_no_header_spells_is_refused_and_not_repeated(
    server: ServerProcess, token: str
) -> None:
    with pytest.raises(UserInputError) as caught:
        omnigraphdb.connect(server.url, token=token)
    assert "a-secret" not in str(caught.value)


def test_a_password_in_an_address_is_not_shown() -> None:
    with omnigraphdb.connect("http://me:secret@127.0.0.1:1") as graph:
        with pytest.raises(ServerUnreachable) as caught:
            graph.snapshot()
        assert "secret" not in f"{caught.value} {graph!r} {graph.uri}"


def test_a_closed_handle_is_refused_alike(place: Path, server: ServerProcess) -> None:
    handles: list[Any] = [omnigraphdb.connect(server.url), omnigraphdb.open(place / "copy")]
    read = "query q() { match { $i: Item } return { $i.key } }"
    for graph in handles:
        graph.close()
        for call in (graph.branches, partial(graph.query, read)):
            with pytest.raises(GraphClosed):
                call()
        with pytest.raises(GraphClosed):
            list(graph.export())
