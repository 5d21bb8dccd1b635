"""Stories of visitors who meet trouble: no right to write, no token, no server, links into the past, texts that look like code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

import omnigraphdb
from omnigraphdb.failpoints import Failpoint
from tests.browser.conftest import CHROMIUM, SCRIPT
from tests.browser.visits import Visit, open_visit
from tests.support.served import ADD, ServerProcess, make_graph, serving

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
if CHROMIUM is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
expect = playwright.expect
TOKEN = "a-long-token-of-ana"
NAMES = "query names() { match { $p: Person } return { $p.name } }"


@pytest.fixture(autouse=True, scope="module")
def patience() -> None:
    expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A graph that visitors with a token may read, and nobody may change."""
    here = tmp_path_factory.mktemp("guarded")
    place = make_graph(here / "people.omni")
    with omnigraphdb.open(place) as graph:
        graph.branch_create("review")
        graph.mutate(ADD, {"n": "Cy"}, branch="review")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKEN": TOKEN}
    with serving(str(place), "--read-only", log=here / "serve.log", environment=tokens) as server:
        yield server


def test_a_token_is_typed_once_and_a_reader_sees_no_buttons_that_write(
    browser: "Browser", guarded: ServerProcess
) -> None:
    visit = open_visit(browser, guarded)
    visit.expected = ("401", "403")
    page = visit.open("merge/review..main")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    visit.take_picture("token")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("it takes the branch as it is")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Merge into"))).to_have_count(0)
    visit.take_picture("read-only")
    page.reload()
    expect(page.get_by_text("it takes the branch as it is")).to_be_visible()
    assert TOKEN not in page.url
    assert page.context.cookies() == []
    visit.open("start")
    expect(page.get_by_role("link", name="review")).to_be_visible()
    expect(page.get_by_role("button", name="New branch")).to_have_count(0)
    visit.open("schema?text=shown")
    expect(page.get_by_role("textbox", name="Schema text")).to_be_visible()
    expect(page.get_by_role("button", name="Plan the change")).to_have_count(0)
    visit.open("log")
    expect(page.get_by_label("Commits, newest first")).to_contain_text("load")
    expect(page.get_by_role("button", name="Branch from here")).to_have_count(0)
    # The token belongs to its tab: another one is asked again.
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_label("Token")).to_be_visible()
    assert visit.wrong == []
    page.context.close()


def _address(server: ServerProcess) -> str:
    return server.url.removeprefix("http://")


def test_a_lost_server_loses_no_text_and_a_merge_that_it_died_in_is_done_once(
    browser: "Browser", tmp_path: Path
) -> None:
    place = make_graph(tmp_path / "people.omni")
    with omnigraphdb.open(place) as graph:
        graph.branch_create("review")
        graph.mutate(ADD, {"n": "Cy"}, branch="review")
        graph.mutate(ADD, {"n": "Di"})
    deadly = {"OMNIGRAPH_FAILPOINTS": f"{Failpoint.MERGE_CONFIRMED}=exit"}
    log = tmp_path / "serve.log"
    with serving(str(place), "--unauthenticated", log=log, environment=deadly) as first:
        visit = open_visit(browser, first)
        visit.expected = ("ERR_CONNECTION", "ERR_EMPTY", "ERR_INCOMPLETE", "Failed to load")
        page = visit.open("merge/review..main")
        page.get_by_role("button", name="Merge into main").click()
        first.process.wait(60)
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        expect(page.get_by_role("button", name="Merging…")).to_be_disabled()
        visit.take_picture("lost")
    again = (str(place), "--unauthenticated", "--bind", _address(first))
    with serving(*again, log=log) as second:
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Merge")
        expect(page.get_by_label("List of changes")).to_contain_text("Cy")
        with second.client() as client:
            commits = client.get("/commits").json()["commits"]
        assert sum(one["merged_parent_commit_id"] is not None for one in commits) == 1
        visit.open("query")
        page.get_by_role("textbox", name="Query").click()
        page.keyboard.insert_text(NAMES)
        expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The server does not answer.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Query")).to_have_text(NAMES)
    with serving(*again, log=log):
        expect(page.get_by_text("The server does not answer.")).to_have_count(0)
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="Rows of the result")).to_contain_text("Cy")
        assert visit.wrong == []
        _change_the_schema(visit)
    page.context.close()


def _change_the_schema(visit: Visit) -> None:
    """Edit the text, plan, apply; the same server serves it, since another one would take its time."""
    httpx.delete(f"{visit.server.url}/branches/review").raise_for_status()
    page = visit.open("schema")
    page.get_by_role("button", name="Edit the text").click()
    editor = page.get_by_role("textbox", name="Schema text")
    expect(editor).to_contain_text("node Person")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nnode Place { name: Strng @key }")
    expect(page.locator(".cm-lintRange-error")).to_have_count(1)
    for _ in range(len("Strng @key }")):
        page.keyboard.press("Backspace")
    page.keyboard.insert_text("String @key }")
    page.get_by_role("button", name="Plan the change").click()
    expect(page.get_by_role("group", name="Plan")).to_contain_text("Place")
    visit.take_picture("schema")
    page.get_by_role("button", name="Apply to main").click()
    expect(page.locator("#node-Place")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="in one commit")).to_be_visible()


# ---- links


def test_a_permalink_shows_the_same_in_a_fresh_browser(
    browser: "Browser", served: ServerProcess
) -> None:
    first = open_visit(browser, served, permissions=["clipboard-read", "clipboard-write"])
    page = first.open("diff/main..review?operation=update")
    expect(page.locator("[data-counts]")).to_have_attribute(
        "data-counts", re.compile("^0,[1-9],0$")
    )
    counts = page.locator("[data-counts]").get_attribute("data-counts") or ""
    page.get_by_role("button", name="Copy permalink").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    address = page.evaluate("navigator.clipboard.readText()")
    assert "main" not in address
    assert "review" not in address
    page.context.close()
    rename = 'query q() { update Port set { name: "Hamburg an der Elbe" } where code = "ham" }'
    httpx.post(f"{served.url}/mutate", json={"query": rename}).raise_for_status()
    other = open_visit(browser, served)
    other.page.goto(address)
    counted = other.page.locator("[data-counts]")
    expect(counted).to_have_attribute("data-counts", counts)
    assert other.wrong == []
    other.page.context.close()


def test_a_deleted_branch_is_said_to_be_gone(browser: "Browser", served: ServerProcess) -> None:
    httpx.post(f"{served.url}/branches", json={"name": "short-lived"}).raise_for_status()
    httpx.delete(f"{served.url}/branches/short-lived").raise_for_status()
    visit = open_visit(browser, served)
    for screen in ("graph?open=Port/rtm", "schema", "log", "node/Port/rtm"):
        page = visit.open(screen, "short-lived")
        told = page.get_by_role("alert").first
        expect(told).to_contain_text("short-lived")
        expect(told).to_contain_text("not found")
    visit.take_picture("gone")
    page.context.close()


# ---- keys and texts


def _tab_to(page: "Page", name: str) -> None:
    """Press Tab until what has the focus has this name."""
    for _ in range(60):
        page.keyboard.press("Tab")
        text = page.evaluate("document.activeElement.innerText || ''")
        if text.strip() == name:
            return
    raise AssertionError(f"no Tab reaches {name}")


def test_a_branch_is_merged_by_keyboard_alone(browser: "Browser", served: ServerProcess) -> None:
    httpx.post(f"{served.url}/branches", json={"name": "aaa"}).raise_for_status()
    add = 'query q() { insert Port { code: "tro", name: "Tromsø" } }'
    httpx.post(f"{served.url}/mutate", json={"query": add, "branch": "aaa"}).raise_for_status()
    visit = open_visit(browser, served)
    page = visit.open("start")
    expect(page.get_by_role("link", name="aaa")).to_be_visible()
    for name in ("aaa", "Merge"):
        _tab_to(page, name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Merge into main")).to_be_visible()
    _tab_to(page, "Look at the changes")
    page.keyboard.press("Enter")
    expect(page.get_by_label("List of changes")).to_contain_text("Tromsø")
    _tab_to(page, "Merge aaa into main")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Merge into main")).to_be_visible()
    _tab_to(page, "Merge into main")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("branch merge")
    assert visit.wrong == []
    page.context.close()


def test_markup_in_values_is_text_on_every_screen(
    browser: "Browser", served: ServerProcess
) -> None:
    with httpx.Client(base_url=served.url) as client:
        client.post("/branches", json={"name": "odd"}).raise_for_status()
        rename = 'query q($n: String) { update Port set { name: $n } where code = "ant" }'
        for branch, name in (("odd", SCRIPT), ("main", f"{SCRIPT} too")):
            body = {"query": rename, "params": {"n": name}, "branch": branch}
            headers = {"omnigraph-message": SCRIPT}
            client.post("/mutate", json=body, headers=headers).raise_for_status()
    visit = open_visit(browser, served)
    asked = "query q() { match { $p: Port } return { $p.name } }"
    screens = [
        "graph?open=Port/osl",
        f"query?q={asked}",
        "log",
        "diff/main..odd",
        "merge/odd..main",
        "node/Port/osl",
    ]
    for screen in screens:
        page = visit.open(screen)
        if screen.startswith("query"):
            page.get_by_role("button", name="Run").click()
        expect(page.locator("#content")).to_contain_text(SCRIPT)
        assert page.evaluate("document.querySelectorAll('#content script').length") == 0
        assert "broken" not in page.title()
    assert visit.wrong == []
    page.context.close()
