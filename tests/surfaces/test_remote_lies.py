"""Answers of servers and proxies that are no answers: each gives one `RemoteError` for every call, and takes bounded memory."""

import inspect
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb import errors
from omnigraphdb.errors import OmniError, RemoteError
from omnigraphdb.remote.failures import WAIT_SECONDS_MAX, read_wait
from omnigraphdb.remote.graph import RemoteGraph
from omnigraphdb.remote.transport import Transport
from tests.engine.test_odd_arguments import READ, SCHEMA, required
from tests.support.cutting import Hurried
from tests.support.lying_server import (
    ARROW,
    JSON,
    NDJSON,
    Liar,
    Request,
    list_calls,
    lying,
    pack,
    pack_zeros,
    spell,
    spell_arrow,
    spell_rows,
)
from tests.support.served import ServerProcess, serving

MIB = 1024 * 1024
HTML = b"<html><body>\x1b[31mBad\x07 gateway\x9b\x7f</body></html>"
ROWS = spell_rows({"x": [1, 2, 3]})
ROWS_BYTES = spell_arrow(ROWS)
DEEP = b"[" * 100_000 + b"]" * 100_000
HALF = pack(b'{"queries": [' + b"1," * 5000)[:-20]


def chunked(body: bytes, media: str = JSON) -> bytes:
    return spell(body, media=media, transfer_encoding="chunked")


LIES: dict[str, bytes] = {
    "HTML with 200": spell(HTML, media="text/html"),
    "HTML with 502": spell(HTML, status=502, media="text/html"),
    "HTML with 401": spell(HTML, status=401, media="text/html"),
    "HTML with 403": spell(HTML, status=403, media="text/html"),
    "HTML with 404": spell(HTML, status=404, media="text/html"),
    "HTML that says it is JSON": spell(HTML),
    "HTML that says it is Arrow": spell(HTML, media=ARROW),
    "HTML that says it is lines": spell(HTML, media=NDJSON),
    "a list": spell(b"[1, 2]"),
    "null": spell(b"null"),
    "a text": spell(b'"x"'),
    "a number": spell(b"5"),
    "an empty object": spell(b"{}"),
    "no number": spell(b'{"commits": NaN}'),
    "infinity": spell(b'{"commits": -Infinity}'),
    "a number of many digits": spell(b'{"commits": ' + b"9" * 9000 + b"}"),
    "much nesting": spell(DEEP),
    "much nesting that says it is lines": spell(DEEP + b"\n", media=NDJSON),
    "a name twice": spell(b'{"error": "a", "error": "b"}'),
    "no UTF-8": spell(b'{"error": "\xff\xfe"}'),
    "UTF-16": spell('{"error": "x"}'.encode("utf-16")),
    "half of a surrogate pair": spell(b'{"error": "\\ud800"}'),
    "an empty body": spell(),
    "no type": spell(b"{}", media=None),
    "204": spell(status=204, media=None),
    "202 with an object": spell(b"{}", status=202),
    "206 with an object": spell(b"{}", status=206),
    "304": b"HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n",
    "a body that is shorter than told": spell(b'{"a": 1}', length=1000),
    "a chunk that is cut": chunked(b'100\r\n{"a": 1'),
    "no chunks": chunked(b"zzzz\r\n{}\r\n0\r\n\r\n"),
    "lines that are cut": chunked(b'100\r\n{"a": 1}\n{"b"', NDJSON),
    "a line that is broken": spell(b'{"a": 1}\n{"b": \n{"c": 2}\n', media=NDJSON),
    "two records in a line": spell(b'{"a": 1}\n{"b": 1},{"c": 1}\n', media=NDJSON),
    "a record in two lines": spell(b'{"a": [1\n2]}\n', media=NDJSON),
    "lines that are no objects": spell(b"1\n[2]\n", media=NDJSON),
    "a blank line": spell(b'{"a": 1}\n\n{"c": 2}\n', media=NDJSON),
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
    "a length that is no number": b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\nxx",
    "gzip that is none": spell(b"{}", content_encoding="gzip"),
    "gzip that is cut": spell(HALF, content_encoding="gzip"),
    "gzip that goes on": spell(pack(b"{}") + b"more", content_encoding="gzip"),
    "gzip in gzip": spell(pack(pack(b"{}")), content_encoding="gzip"),
    "a packing that was not asked for": spell(b"{}", content_encoding="br"),
    "two packings": spell(pack(b"{}"), content_encoding="gzip, gzip"),
    "Arrow that is cut": spell(ROWS_BYTES[:-12], media=ARROW),
    "Arrow without its end": spell(ROWS_BYTES[:-8], media=ARROW),
    "Arrow that goes on": spell(ROWS_BYTES + b"x", media=ARROW),
    "Arrow without a query": spell(spell_arrow(pa.table({"x": [1]})), media=ARROW),
    "Arrow with odd facts": spell(spell_arrow(spell_rows({"x": [1]}, branch=5)), media=ARROW),
    "Arrow of nulls": spell(spell_arrow(spell_rows({"x": pa.nulls(3)})), media=ARROW),
    "Arrow of other types": spell(
        spell_arrow(spell_rows({"x": pa.array([1], pa.duration("s"))})),
        media=ARROW,
    ),
    "Arrow with days of no calendar": spell(
        spell_arrow(spell_rows({"x": pa.array([2**31 - 1], pa.int32()).view(pa.date32())})),
        media=ARROW,
    ),
    "Arrow that is packed": spell(
        spell_arrow(spell_rows({"x": [0] * 100_000}), pa.ipc.IpcWriteOptions(compression="zstd")),
        media=ARROW,
    ),
    "Arrow of a message without end": spell(b"\xff\xff\xff\xff\xff\xff\xff\x7f", media=ARROW),
    "zeros that say they are Arrow": spell(b"\0" * 64, media=ARROW),
    "an early hint, then a page": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    + spell(HTML, media="text/html"),
    "other protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n{}",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6 \x1b[2J\r\n\r\n",
    "HTTP of another age": b"HTTP/9.9 200 OK\r\n\r\n{}",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n{}",
    "huge headers": spell(b"{}", x_many="y" * 300_000),
    "an escape in a header": b"HTTP/1.1 200 O\x1b[31mK\r\ncontent-type: te\x9bxt\r\n\r\n{}",
    "redirect to itself": spell(status=307, media=None, location="/"),
    "redirect to nowhere": spell(status=302, media="text/html", location="http://[oh"),
    "429 of a proxy": spell(b"slow down", status=429, media="text/plain"),
    "429 without facts": spell(b'{"message": "slow down"}', status=429),
    "500 with a list": spell(b"[]", status=500),
    "500 with odd fields": spell(b'{"error": 5, "kind": []}', status=500),
    "503 with an odd hint": spell(
        b'{"error": "x", "kind": "not_ready", "hint": {"a": 1}}', status=503
    ),
    "503 with nothing": spell(status=503, media=None),
}

BLOB_HEADS = frozenset({"redirect to itself", "redirect to nowhere"})
"""To `HEAD` a place is an answer: that of a blob that is stored elsewhere, which is not followed."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[RemoteGraph], Any]]:
    return list_calls(tmp_path_factory.mktemp("lies"), required)


def try_call(call: Callable[[RemoteGraph], Any], graph: RemoteGraph) -> object:
    try:
        return call(graph)
    except Exception as error:
        return error


def is_safe(text: str) -> bool:
    """Whether a terminal shows a text and does not obey it."""
    return all(char in "\n\t" or char.isprintable() for char in text)


def test_every_kind_of_call_is_asked(calls: dict[str, Any]) -> None:
    named = "query stream mutate load branches commits diff changes export schema_plan schema_apply merge"
    assert set(named.split()) <= set(calls)
    assert len(calls) > 40
    assert len(LIES) >= 60


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_one_remote_error_for_every_call(calls: dict[str, Any], lie: str) -> None:
    with lying(lambda _: LIES[lie]) as liar:
        for name, call in calls.items():
            with liar.graph() as graph:
                found = try_call(call, graph)
            if name == "blob" and is_told_by_head(liar, lie):
                continue
            assert type(found) is RemoteError, (name, found)
            check_words(name, found)


def is_told_by_head(liar: Liar, lie: str) -> bool:
    """Whether the answer to the last `HEAD` is one: it has no body that could lie."""
    return liar.requests[-1].method == "HEAD" and lie in BLOB_HEADS


WRITES = frozenset(
    {
        *(
            "mutate",
            "load",
            "merge",
            "schema_apply",
            "branch_create",
            "branch_delete",
            "run_stored",
        ),
        *("tag", "tag_delete", "ensure_indices", "optimize", "cleanup", "repair"),
    }
)


def check_words(name: str, error: RemoteError) -> None:
    """It says what came, from where, what state is left and what to do; nothing in it is obeyed by a terminal."""
    text = str(error)
    assert is_safe(text), text
    assert error.hint
    assert error.method in text
    assert error.path in text
    assert error.status is None or str(error.status) in text
    assert len(text) < 900
    if name in WRITES:
        assert error.is_unknown == text.endswith("whether the write was done is unknown")
    else:
        assert text.endswith("nothing was changed"), text


def test_what_a_proxy_answers_leaves_a_write_unknown_or_not(calls: dict[str, Any]) -> None:
    for lie, is_unknown in {
        "HTML with 200": True,
        "HTML with 502": True,
        "HTML with 403": False,
        "429 of a proxy": False,
        "redirect to itself": False,
        "a body that is shorter than told": True,
    }.items():
        with lying(lambda _, lie=lie: LIES[lie]) as liar, liar.graph() as graph:  # type: ignore[misc]
            for name in sorted(WRITES):
                found = try_call(calls[name], graph)
                assert isinstance(found, RemoteError)
                assert found.is_unknown == is_unknown, (name, lie)


def test_a_write_without_a_key_is_sent_once_and_a_read_again(calls: dict[str, Any]) -> None:
    with lying(lambda _: LIES["HTML with 502"]) as liar, liar.graph() as graph:
        try_call(calls["mutate"], graph)
        assert len(liar.requests) == 1
        try_call(calls["branches"], graph)
        assert len(liar.requests) == 6
    with lying(lambda _: LIES["HTML with 200"]) as liar, liar.graph() as graph:
        # It would be the same page again.
        try_call(calls["branches"], graph)
        assert len(liar.requests) == 1


def test_the_beginning_of_the_body_is_shown() -> None:
    page = LIES["HTML with 502"]
    with (
        lying(lambda _: page) as liar,
        liar.graph() as graph,
        pytest.raises(RemoteError) as caught,
    ):
        graph.branches()
    assert f"GET /branches of '{liar.url}' got the answer 502 with 'text/html'" in str(caught.value)
    assert "<html><body>\\u001b[31mBad\\u0007 gateway" in str(caught.value)
    assert len(caught.value.beginning) <= 120


# ---- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_does_not_follow_to_another_host(calls: dict[str, Any], status: int) -> None:
    with lying(lambda _: spell(b"{}")) as other:
        moved = spell(status=status, media=None, location=f"{other.url}/there")
        with lying(lambda _: moved) as liar, liar.graph(token="secret") as graph:
            for call in calls.values():
                try_call(call, graph)
        assert liar.requests
        assert b"secret" in liar.requests[0].head
        assert other.requests == []


# ---- bombs

BOMBS = {
    "JSON": (JSON, b'{"queries": ["', b'"]}', b"x"),
    "JSON of lists": (JSON, b'{"queries": [', b"[]]}", b"[],"),
    "JSON of lists within the bound": (JSON, b'{"queries": [', b"[]]}", b"[],"),
    "lines of lists within the bound": (NDJSON, b'{"queries": [', b"[]]}\n", b"[],"),
    "lines": (NDJSON, b'{"a": "', b'"}\n', b"x"),
    "Arrow": (ARROW, ROWS_BYTES[:-8], b"", b"\0"),
    "a page": ("text/html", b"<html>", b"</html>", b"x"),
}
CHILD = """
import sys
from tests.support.lying_server import consume
from omnigraphdb.errors import RemoteError
from omnigraphdb.remote.graph import RemoteGraph
from omnigraphdb.remote.transport import Transport
from tests.support.cutting import Hurried
import pyarrow, omnigraphdb.remote.forms, omnigraphdb.remote.pictures
def peak():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) // 1024
before = peak()
for ask in (lambda g: g.stored_queries(), lambda g: g.query("query q() { match { $p: P } return { $p.k } }"),
            lambda g: g.export(), lambda g: g.table("P"), lambda g: g.export_lines()):
    with RemoteGraph(Transport(sys.argv[1], None, None, Hurried())) as graph:
        try:
            consume(ask(graph))
        except RemoteError as error:
            print(error.message[-160:])
        else:
            raise SystemExit("no error")
print(peak() - before)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_takes_bounded_memory(bomb: str) -> None:
    media, before, after, unit = BOMBS[bomb]
    # The unit is written so many times; within the bound it is the values that take much.
    packed = pack_zeros(6 * MIB if "within" in bomb else 400 * MIB, before, after, unit)
    assert len(packed) < 2 * MIB
    with lying(lambda _: spell(packed, media=media, content_encoding="gzip")) as liar:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, liar.url],
            env={"PYTHONPATH": ":".join(sys.path), "PATH": ""}
            | {"OMNIGRAPH_ANSWER_BYTES": str(64 * MIB)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout.splitlines()[-1])
    assert grown < 200, f"{grown} MiB: {done.stdout}"


def test_an_arrow_message_that_unpacks_is_bounded() -> None:
    """A packed message of Arrow is refused, however small it is."""
    zeros = spell_rows({"x": pa.array([0] * 1000)})
    packed = spell_arrow(zeros, pa.ipc.IpcWriteOptions(compression="lz4"))
    with (
        lying(lambda _: spell(packed, media=ARROW)) as liar,
        liar.graph() as graph,
        pytest.raises(RemoteError, match="packed, which was not asked for"),
    ):
        graph.query(READ)


def test_the_bound_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spell_arrow(spell_rows({"x": list(range(2000))}))
    with lying(lambda _: spell(rows, media=ARROW)) as liar:
        with liar.graph(answer_bytes=100_000) as graph:
            assert len(graph.query(READ)) == 2000
        with (
            liar.graph(answer_bytes=10_000) as graph,
            pytest.raises(RemoteError, match="more than the 10000 bytes") as caught,
        ):
            graph.query(READ)
        assert "OMNIGRAPH_ANSWER_BYTES" in str(caught.value.hint)
        monkeypatch.setenv("OMNIGRAPH_ANSWER_BYTES", "10000")
        with liar.graph() as graph, pytest.raises(RemoteError, match="more than the 10000 bytes"):
            graph.query(READ)
        for odd in ("", "0", "-1", "many", "1e9"):
            monkeypatch.setenv("OMNIGRAPH_ANSWER_BYTES", odd)
            with pytest.raises(errors.ConfigError, match="OMNIGRAPH_ANSWER_BYTES"):
                omnigraphdb.connect(liar.url)
        with pytest.raises(errors.UserInputError, match="answer_bytes"):
            omnigraphdb.connect(liar.url, answer_bytes=0)


def test_packed_answers_are_read() -> None:
    body = pack(b'{"queries": []}')
    with lying(lambda _: spell(body, content_encoding="gzip")) as liar, liar.graph() as graph:
        assert graph.stored_queries() == []
        assert b"accept-encoding: gzip\r\n" in liar.requests[0].head + b"\r\n"


# ---- refusals of the server itself


def refuse(**facts: Any) -> bytes:
    body = {"error": "no \x1b[31mway\x07\x9b\u202e", "kind": "too_many_requests"} | facts
    headers = {name: text for name, text in facts.items() if name == "retry_after"}
    return spell(json.dumps(body).encode(), status=429, **headers)


def test_a_refusal_of_the_server_stays_what_it_is_and_is_escaped(calls: dict[str, Any]) -> None:
    answer = refuse(hint="do \x1b]0;this\x07")
    with lying(lambda _: answer) as liar, liar.graph() as graph:
        for name, call in calls.items():
            found = try_call(call, graph)
            if name == "blob" and liar.requests[-1].method == "HEAD":
                continue
            assert type(found) is errors.TooManyRequests, (name, found)
            assert str(found) == "no \\u001b[31mway\\u0007\\u009b\\u202e"
            assert found.hint == "do \\u001b]0;this\\u0007"


NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
WAITS = {
    "": 1,
    "7": 7,
    "0": 0,
    "-5": 1,
    "soon": 1,
    "1.5": 1,
    "9" * 5000: WAIT_SECONDS_MAX,
    "999999": WAIT_SECONDS_MAX,
    "٣": 1,
    format_datetime(NOW + timedelta(seconds=90), usegmt=True): 90,
    format_datetime(NOW - timedelta(days=1), usegmt=True): 0,
    format_datetime(NOW + timedelta(days=300), usegmt=True): WAIT_SECONDS_MAX,
    "Monday, 04-May-26 03:02:31 GMT": 30,
    "Fri, 99 Foo 2026 03:02:31 GMT": 1,
    "Mon, 04 May 99999999 03:02:31 GMT": 1,
}


@pytest.mark.parametrize("text", WAITS)
def test_a_wait_is_read_and_bounded(text: str) -> None:
    assert read_wait(text, int(NOW.timestamp() * 1_000_000)) == WAITS[text]


@pytest.mark.parametrize("text", [one for one in WAITS if one.isascii() and len(one) < 100])
def test_a_wait_of_any_kind_is_an_attribute(text: str) -> None:
    with (
        lying(lambda _: refuse(retry_after=text)) as liar,
        liar.graph() as graph,
        pytest.raises(errors.TooManyRequests) as caught,
    ):
        graph.branches()
    assert 0 <= caught.value.retry_after <= WAIT_SECONDS_MAX


# ---- true answers, changed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("truth")
    with omnigraphdb.init(folder / "g", SCHEMA, config={"maintenance": "off"}) as graph:
        people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "abc"]
        graph.load([*people, {"edge": "Knows", "from": "a", "to": "b"}], mode="append")
        graph.branch_create("side")
        graph.load(people[:1], mode="merge", branch="side")
        graph.load(
            [{"type": "Person", "data": {"name": "d", "age": 2}}], mode="merge", branch="side"
        )
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    2**70,
    1e300,
    "5",
    "\x1b[31m",
    [],
    {},
    [None],
    {"a": 1},
)


def change(value: Any) -> Iterator[Any]:
    """Every value that differs in one place: a part is missing, is of another kind, or comes again."""
    match value:
        case dict():
            for name, part in value.items():
                yield {one: two for one, two in value.items() if one != name}
                for odd in (*ODD_VALUES, *change(part)):
                    yield {**value, name: odd}
        case [first, *rest]:
            yield [first, first, *rest]
            for odd in (*ODD_VALUES, *change(first)):
                yield [odd, *rest]
        case _:
            return


def forward(url: str, request: Request) -> httpx.Response:
    headers = dict(line.decode().split(": ", 1) for line in request.head.split(b"\r\n")[1:])
    for name in ("host", "content-length", "accept-encoding", "connection"):
        headers.pop(name, None)
    return httpx.request(
        request.method, url + request.target, headers=headers, content=request.body, timeout=60
    )


WITHOUT_DOCUMENT = frozenset(
    {"query", "stream", "table", "blob", "export", "export_lines", "baseline", "baseline_stream"}
)
CHANGED = sorted(
    {name for name, _ in inspect.getmembers(RemoteGraph) if not name.startswith("_")}
    - {"close", "on", "uri", *WRITES, *WITHOUT_DOCUMENT}
)
"""The calls whose answers are JSON and that write nothing."""


@pytest.mark.parametrize("name", CHANGED)
def test_an_answer_that_differs_in_one_place_never_raises_what_is_foreign(
    server: ServerProcess, tmp_path: Path, name: str
) -> None:
    with omnigraphdb.connect(server.url) as graph:
        newest = graph.commits(limit=1)[0].id
    usual = {
        "base": "main",
        "head": "side",
        "id": newest if "commit" in name else "a",
        "name": "side",
    }
    usual |= {"from_type": "Person", "from_id": "a", "to_type": "Person", "to_id": "b"}
    if name in ("changes", "changes_stream", "change_page"):
        usual |= {"branch": "side"}
    call = list_calls(tmp_path, lambda method, folder: required(method, folder) | usual)[name]
    truth: dict[str, httpx.Response] = {}
    lie: list[bytes] = []
    asked: list[str] = []

    def answer(request: Request) -> bytes:
        asked.append(request.target)
        if lie and request.target == target:
            return spell(lie[0])
        found = truth.setdefault(request.target, forward(server.url, request))
        return spell(found.content, status=found.status_code, media=found.headers["content-type"])

    with lying(answer) as liar:
        target = ""
        with liar.graph() as graph:
            assert not isinstance(try_call(call, graph), Exception)
        refused = told = 0
        for target in dict.fromkeys(asked):
            every = list(change(truth[target].json()))
            for changed in every[:: max(1, len(every) // 60)]:
                lie[:] = [json.dumps(changed).encode()]
                with liar.graph() as graph:
                    found = try_call(call, graph)
                if isinstance(found, Exception):
                    assert isinstance(found, OmniError), (changed, found)
                    assert not isinstance(found, errors.InternalError), found
                    refused += isinstance(found, RemoteError)
                told += 1
        assert refused > told // 5, (refused, told)


def test_a_feed_that_names_its_own_page_again_ends() -> None:
    page = {"blocks": [], "next_page_token": "x", "engine": "local", "reason": ""}
    with lying(lambda _: spell(json.dumps(page).encode())) as liar, liar.graph() as graph:
        with pytest.raises(RemoteError, match="read already"):
            graph.changes()
        assert len(liar.requests) == 2


def test_a_baseline_without_its_end_is_refused(tmp_path: Path) -> None:
    lines = spell(
        b'{"type": "P"}\n{"type": "P"}\n',
        media=NDJSON,
        omnigraph_snapshot_id="c",
        omnigraph_resume_cursor="r",
    )
    with lying(lambda _: lines) as liar, liar.graph() as graph:
        with pytest.raises(RemoteError, match="baseline"):
            list(graph.baseline_stream().lines)
        with pytest.raises(RemoteError, match="baseline"):
            graph.baseline(tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_bytes_of_a_blob_are_those_that_were_asked_for() -> None:
    told = spell(media=None, length=10, omnigraph_blob_kind="inline", omnigraph_snapshot_id="c")
    whole = json.dumps({"schema_source": SCHEMA}).encode()

    def answer(request: Request) -> bytes:
        if request.method == "HEAD":
            return told
        if "/schema" in request.target:
            return spell(whole)
        return spell(b"short", status=206, media="application/octet-stream")

    with lying(answer) as liar, liar.graph() as graph:
        blob = graph.blob("Person", "a", "photo")
        with pytest.raises(RemoteError, match="bytes 0 to 9 of a blob were asked for"):
            blob.read()


@pytest.mark.parametrize("seed", range(4))
def test_arrow_with_any_byte_changed_never_raises_what_is_foreign(seed: int) -> None:
    table = spell_rows(
        {
            "a": pa.array([1, None, 3]),
            "b": ["x", "yé", None],
            "c": pa.array([[1], None, [2, 3]], pa.list_(pa.int32())),
            "d": pa.array([0, 1, None], pa.int32()).view(pa.date32()),
        }
    )
    whole = spell_arrow(table)
    changed = [b""]
    with lying(lambda _: spell(changed[0], media=ARROW)) as liar:
        for at in range(seed, len(whole), 4):
            for mask in (0xFF, 0x01, 0x80):
                changed[0] = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
                with liar.graph(answer_bytes=MIB) as graph:
                    found = try_call(lambda graph: graph.query(READ).rows, graph)
                assert not isinstance(found, Exception) or type(found) is RemoteError, (at, found)


def test_a_server_that_is_silent_is_unreachable() -> None:
    for silence in (b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", b"HTTP/1.1 20"):
        with lying(lambda _, silence=silence: silence) as liar, liar.graph() as graph:  # type: ignore[misc]
            with pytest.raises(errors.ServerUnreachable, match="broke off") as caught:
                graph.branches()
            assert type(caught.value) is errors.ServerUnreachable
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        RemoteGraph(Transport(f"http://127.0.0.1:{port}", None, None, Hurried())) as graph,
        pytest.raises(errors.ServerUnreachable, match="cannot be reached"),
    ):
        graph.branches()


# ---- the command line

ESCAPES = "a\x1b]0;owned\x07\x1b[2J\r\x9b31m\x7f\u202e\u2028z"
SPELT = r"a\u001b]0;owned\u0007\u001b[2J"
HEAD = {
    "graph_commit_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "manifest_branch": None,
    "manifest_version": 1,
    "parent_commit_id": None,
    "merged_parent_commit_id": None,
    "actor_id": ESCAPES,
    "created_at": 1,
    "kind": "load",
    "tables": ["node:P"],
    "message": ESCAPES,
    "group": None,
}
LISTED = {"name": ESCAPES, "head": ESCAPES, "parent": None, "head_actor": ESCAPES}
ANSWERS = {
    "/graphs": {"graphs": [{"graph_id": ESCAPES, "uri": ESCAPES}]},
    "/branches": {"branches": [ESCAPES], "details": [LISTED]},
    "/commits": {"commits": [HEAD], "next_page_token": None},
    "/entity": {"type_name": "P", "entity": {"id": ESCAPES, "s": ESCAPES}},
    "/snapshot": {
        "branch": "main",
        "manifest_version": 1,
        "internal_schema_version": 1,
        "graph_commit_id": HEAD["graph_commit_id"],
        "tables": [],
    },
    "/schema": {"schema_source": f"// {ESCAPES}\nnode Person {{ name: String @key }}\n"},
}
COMMANDS = {
    "graphs list": ["graphs", "list"],
    "branch list": ["branch", "list"],
    "commit list": ["commit", "list"],
    "schema show": ["schema", "show"],
    "query as a table": ["query", "-e", READ],
    "query as facts": ["query", "-e", READ, "--format", "kv"],
    "query as JSON": ["query", "-e", READ, "--format", "json"],
    "export": ["export"],
}


def answer_oddly(request: Request) -> bytes:
    path = request.target.partition("?")[0]
    if path == "/query":
        return spell(spell_arrow(spell_rows({ESCAPES: [ESCAPES], "n": [1]})), media=ARROW)
    if path == "/export":
        return spell(json.dumps({"type": ESCAPES}).encode() + b"\n", media=NDJSON)
    if path in ANSWERS:
        return spell(json.dumps(ANSWERS[path]).encode())
    return spell(HTML, media="text/html", status=502)


def run_command(url: str, words: list[str], *, color: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "omnigraphdb", "--color", color, *words, "--server", url],
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("color", ["never", "always"])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_prints_no_controls_of_a_server(command: str, color: str) -> None:
    with lying(answer_oddly) as liar:
        done = run_command(liar.url, COMMANDS[command], color=color)
    assert done.returncode == 0, done.stderr
    shown = (
        re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        if color == "always"
        else done.stdout
    )
    assert is_safe(shown), shown
    assert SPELT in shown


def test_the_command_line_reports_a_lie_and_a_refusal() -> None:
    refusal = json.dumps({"error": ESCAPES, "kind": "policy_denied", "hint": ESCAPES}).encode()
    for answer in (spell(HTML, media="text/html"), spell(refusal, status=403)):
        with lying(lambda _, answer=answer: answer) as liar:  # type: ignore[misc]
            for words in (["branch", "list"], ["branch", "list", "--json"], ["graphs", "list"]):
                done = run_command(liar.url, words, color="never")
                assert done.returncode == 1
                assert "Traceback" not in done.stderr
                assert is_safe(done.stdout + done.stderr)
                assert "\\u001b" in done.stderr
