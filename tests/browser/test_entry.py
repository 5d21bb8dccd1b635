"""A page of somebody else, in a real browser, that tries to write to a server on this machine; and the explorer, which may."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import omnigraphdb
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.support.every_route import make_busy_graph
from tests.support.served import ServerProcess, make_graph, serving
from tests.support.settled import digest

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
if CHROMIUM is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
EVIL = "evil.example"
WRITES = [
    ["POST", "/mutate", '{"query": "query a() { insert Person { name: \\"x\\" } }"}'],
    ["POST", "/load/ndjson?mode=overwrite", '{"type": "Person", "data": {"name": "x"}}'],
    ["POST", "/branches", '{"name": "theirs"}'],
    [
        "POST",
        "/schema/apply",
        '{"schema_source": "node P { k: String @key }", "allow_data_loss": true}',
    ],
    ["POST", "/branches/merge", '{"source": "side"}'],
    ["POST", "/queries/names", ""],
    ["POST", "/mcp", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'],
    ["DELETE", "/branches/gone", ""],
]
"""Requests that a server carries out when they are its own page's."""
SEND = """async ([root, writes, mode]) => {
  const statuses = [];
  for (const [method, path, text] of writes) {
    const body = text ? new Blob([text]) : undefined;
    try { statuses.push((await fetch(root + path, { method, mode, body })).status); }
    catch (error) { statuses.push(String(error)); }
  }
  return statuses;
}"""
"""Send each write as a page may send it without asking first: a blob has no type."""
BEACONS = """([root, writes]) => writes.map(([, path, text]) => navigator.sendBeacon(root + path, new Blob([text])))"""
FORM = """([root]) => {
  const form = document.createElement("form");
  form.method = "POST"; form.enctype = "text/plain"; form.action = root + "/queries/add";
  document.body.append(form); form.submit();
}"""
CREATE = """async name => (await fetch("/branches", { method: "POST", headers: { "content-type": "application/json" },
  body: JSON.stringify({ name }) })).status"""


class _Page(BaseHTTPRequestHandler):
    """A page that may hold a frame with another one."""

    frame = ""

    def do_GET(self) -> None:
        body = f"<!doctype html><title>theirs</title>{self.frame}".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving_page(frame: str = "") -> Iterator[str]:
    """Serve a page on another port of this machine."""
    handler = type("_Framing", (_Page,), {"frame": frame})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("entry")
    make_busy_graph(made / "g", made / "queries")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    words = (str(folder / "g"), "--unauthenticated", "--queries", str(folder / "queries"))
    with serving(*words, log=folder / "log") as found:
        yield found


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    found = browser.new_page()
    yield found
    found.close()


def count_refusals(server: ServerProcess) -> int:
    return server.log.read_text().count("status=403")


def test_a_page_elsewhere_cannot_write(folder: Path, server: ServerProcess, page: "Page") -> None:
    before, refused = digest(folder / "g"), count_refusals(server)
    with serving_page() as theirs:
        page.goto(theirs)
        statuses = page.evaluate(SEND, [server.url, WRITES, "no-cors"])
        # The browser itself sends no DELETE without asking first, as the other mode does.
        assert statuses[:-1] == [0] * (len(WRITES) - 1)
        assert "DELETE" in statuses[-1]
        assert all(
            "Failed" in str(one) for one in page.evaluate(SEND, [server.url, WRITES, "cors"])
        )
        assert all(page.evaluate(BEACONS, [server.url, WRITES]))
        with page.expect_navigation() as moved:
            page.evaluate(FORM, [server.url])
        assert moved.value.status == 403
    # Each of them came, and was refused; beacons are sent when the browser likes.
    assert count_refusals(server) - refused >= 2 * len(WRITES) - 1
    assert digest(folder / "g") == before


def test_a_name_that_turns_into_this_machine_reads_and_writes_nothing(
    folder: Path, server: ServerProcess, browser: "Browser"
) -> None:
    """The page's own name leads to the server: to the browser both are one origin."""
    before, port = digest(folder / "g"), httpx.URL(server.url).port
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    tricked = browser.browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, rules])
    try:
        page = tricked.new_page()
        shown = page.goto(f"http://{EVIL}:{port}/schema")
        assert shown is not None
        assert (shown.status, shown.json()["kind"]) == (403, "host_refused")
        assert page.evaluate(SEND, ["", WRITES, "same-origin"]) == [403] * len(WRITES)
        assert page.evaluate("async () => (await fetch('/branches')).status") == 403
        assert page.goto(f"http://{EVIL}:{port}/ui/").status == 403  # type: ignore[union-attr]
        assert page.goto(f"http://localhost:{port}/schema").status == 200  # type: ignore[union-attr]
    finally:
        tricked.close()
    assert digest(folder / "g") == before


def test_the_explorer_itself_writes(server: ServerProcess, page: "Page") -> None:
    page.goto(f"{server.url}/ui/")
    assert page.evaluate(CREATE, "by-the-page") == 200
    with server.client() as http:
        assert "by-the-page" in http.get("/branches").json()["branches"]


def test_the_page_of_a_notebook_writes_from_its_frame(tmp_path: Path, page: "Page") -> None:
    with omnigraphdb.open(make_graph(tmp_path / "g")) as graph:
        shown = graph.show(write=True)
        try:
            with serving_page(shown._repr_html_()) as notebook:
                page.goto(notebook)
                frame = page.frames[-1]
                frame.wait_for_load_state()
                assert frame.url.startswith(shown.url.partition("/ui/")[0])
                assert frame.evaluate(CREATE, "from-the-frame") == 200
                root = shown.url.partition("/ui/")[0]
                assert page.evaluate(SEND, [root, WRITES[:1], "no-cors"]) == [0]
            assert {branch.name for branch in graph.branches()} == {"from-the-frame", "main"}
            assert graph.snapshot().tables()["node:Person"] == 2
        finally:
            shown.close()
