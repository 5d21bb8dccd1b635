"""Stories of people who look at a graph, told by a real browser."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.browser.conftest import CHROMIUM
from tests.browser.visits import Visit, open_visit
from tests.support.served import ServerProcess

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
if CHROMIUM is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = pytest.mark.xdist_group("browser")
SCREENS = [
    "start",
    "graph?open=Port/rtm&open=Port/ham&from=Port/rtm&to=Port/ham&list=edges",
    "query",
    "schema",
    "log",
    "diff/main..review",
    "merge/clash..main",
    "node/Port/rtm",
    "health",
    "jobs",
]
STATES = [
    "schema?text=shown",
    "graph?open=Port/rtm&time=main",
    "query?q=query q($k: String) { match { $v: Vessel { kind: $k } } return { $v.nmae } }",
    "diff/main..review?side=before&operation=update",
    "log?branches=all",
    "merge/review..main",
    "node/Port/nobody",
    "commit/nothing",
]
"""Screens in the states that people meet less often."""
FIRST_PAINT_MS = 300
FIRST_PAINTS = 5
PAINTED = """() => new Promise(done => new PerformanceObserver(list => list.getEntriesByName("first-contentful-paint").forEach(one => done(one.startTime)))
  .observe({ type: "paint", buffered: true }))"""
"""Milliseconds from the beginning of a visit to what one first sees."""
expect = playwright.expect
TOO_WIDE = """width => document.documentElement.scrollWidth <= width ? [] :
  [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > width).map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture
def visit(browser: "Browser", served: ServerProcess) -> Iterator[Visit]:
    expect.set_options(timeout=30_000)
    found = open_visit(browser, served)
    yield found
    assert found.wrong == []
    found.page.context.close()


def test_an_entity_is_found_without_a_query_and_expanded(visit: Visit) -> None:
    page = visit.open("graph")
    page.get_by_label("Find an entity").fill("rotter")
    page.get_by_role("button", name=re.compile("Rotterdam")).click()
    expect(page.get_by_role("status").filter(has_text="shown")).to_contain_text("nodes")
    expect(page.get_by_text("CallsAt ← 35 of 35 shown")).to_have_count(0)
    drawn = page.locator("[data-nodes]")
    expect(drawn).to_have_attribute("data-nodes", re.compile(r"^(3[5-9]|4\d)$"))
    expect(page.get_by_role("heading", name="Rotterdam")).to_be_visible()
    visit.take_picture("graph")
    # The address is the view: a fresh visitor sees the same.
    page.goto(page.url)
    expect(page.locator("[data-nodes]")).to_have_attribute(
        "data-nodes", re.compile(r"^(3[5-9]|4\d)$")
    )


def test_who_types_before_the_types_are_known_is_answered_when_they_are(visit: Visit) -> None:
    held: list[Route] = []
    visit.page.route("**/schema/graph*", lambda one: held.append(one))
    page = visit.open("graph")
    page.get_by_label("Find an entity").fill("rotter")
    page.wait_for_timeout(600)
    expect(page.get_by_text("Nothing holds")).to_have_count(0)
    for one in held:
        one.continue_()
    page.unroute("**/schema/graph*")
    expect(page.get_by_role("button", name=re.compile("Rotterdam"))).to_be_visible()


def test_a_wrong_query_is_marked_and_a_right_one_answers(visit: Visit) -> None:
    page = visit.open("query")
    editor = page.get_by_role("textbox", name="Query")
    editor.click()
    page.keyboard.insert_text(
        "query q() { match { $v: Vessel } return { $v.nmae, $v.dwt } order { $v.dwt } limit 3 }"
    )
    expect(page.locator(".cm-lintRange-error")).to_have_count(1)
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(
        "query q() { match { $v: Vessel } return { $v.name, $v.dwt } order { $v.dwt } limit 3 }"
    )
    page.keyboard.press("Control+Enter")
    rows = page.get_by_role("region", name="Rows of the result")
    expect(rows).to_contain_text("Vessel 0")
    # Whole numbers of 64 bits are exact.
    expect(rows).to_contain_text(str(2**60 + 2))
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_role("columnheader", name="Operator")).to_be_visible()


def test_a_drawn_comparison_counts_what_the_server_counts(visit: Visit) -> None:
    page = visit.open("diff/main..review")
    stats = httpx.get(f"{visit.server.url}/diff", params={"from": "main", "to": "review"}).json()[
        "stats"
    ]
    counts = f"{stats['inserts']},{stats['updates']},{stats['deletes']}"
    expect(page.locator("[data-counts]")).to_have_attribute("data-counts", counts)
    expect(page.get_by_label("List of changes")).to_contain_text("Rotterdam Maasvlakte")
    visit.take_picture("diff")
    page.get_by_role("button", name="− removed").click()
    expect(page.get_by_label("List of changes")).not_to_contain_text("Rotterdam Maasvlakte")
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.get_by_label("Before or after").fill("0")
    assert "side=before" in page.url
    # The other side is drawn from what is here.
    page.get_by_role("button", name="all", exact=True).click()
    expect(page.locator("[data-counts]")).to_have_attribute("data-counts", counts)
    assert sum("/diff/graph" in one for one in asked) == 1


def test_a_parameter_that_meets_an_enum_offers_its_values(visit: Visit) -> None:
    text = "query q($k: String) { match { $v: Vessel { kind: $k } } return { count($v) as n } }"
    page = visit.open(f"query?q={text}")
    choices = page.get_by_role("group", name="Parameters").get_by_role("combobox")
    expect(choices.get_by_role("option")).to_have_text(["choose…", "bulk", "roro", "tanker"])
    for kind, count in (("bulk", "70"), ("roro", "0")):
        choices.select_option(kind)
        page.get_by_role("button", name="Run").click()
        rows = page.get_by_role("region", name="Rows of the result")
        expect(rows.get_by_role("cell", name=count, exact=True)).to_be_visible()


@pytest.mark.soak  # A machine that does other work paints late.
def test_the_first_paint_comes_soon(browser: "Browser", served: ServerProcess) -> None:
    taken = []
    for _ in range(FIRST_PAINTS):
        page = browser.new_page()
        page.goto(f"{served.url}/ui/g/default/@main/start")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        taken.append(page.evaluate(PAINTED))
        page.close()
    assert min(taken) <= FIRST_PAINT_MS, taken


def test_time_runs_along_a_branch_and_every_screen_follows(visit: Visit) -> None:
    page = visit.open("graph?open=Port/ant&open=Port/rtm", "review")
    expect(page.get_by_role("heading", name="Rotterdam Maasvlakte")).to_be_visible()
    drawn = page.locator("[data-nodes]")
    now = int(drawn.get_attribute("data-nodes") or 0)
    page.get_by_role("button", name="Time").click()
    slider = page.get_by_role("slider", name="Commit of review")
    commits = httpx.get(f"{visit.server.url}/commits", params={"branch": "review"}).json()[
        "commits"
    ]
    expect(slider).to_have_value(str(len(commits) - 1))
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Rotterdam", exact=True)).to_be_visible()
    expect(drawn).to_have_attribute("data-nodes", str(now + 1))
    visit.take_picture("time")
    # The address holds the commit, and the other screens are of the same moment.
    then = commits[3]["graph_commit_id"]
    assert f"/@{then}/" in page.url
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Schema").click()
    assert f"/@{then}/" in page.url
    expect(page.locator("#node-Vessel")).to_contain_text("70 rows")
    page.get_by_role("button", name="One commit earlier").click()
    expect(page.locator("#node-Vessel")).to_contain_text("0 rows")
    visit.open(
        "query?time=review&q=query q() { match { $p: Port } return { count($p) as n } }", then
    )
    page.get_by_role("button", name="Run").click()
    rows = page.get_by_role("region", name="Rows of the result")
    expect(rows).to_contain_text("4")
    page.get_by_role("button", name="Back to now").click()
    expect(rows).to_contain_text("5")
    visit.open("node/Port/rtm?time=review", then)
    expect(page.get_by_role("heading", level=1)).to_have_text("Rotterdam")
    page.get_by_role("link", name="Compare with now").click()
    expect(page.locator("[data-counts]")).to_have_attribute("data-counts", "2,1,2")


def test_what_was_not_there_then_is_said(visit: Visit) -> None:
    commits = httpx.get(f"{visit.server.url}/commits").json()["commits"]
    visit.expected = ("404",)
    page = visit.open("node/Port/rtm", commits[-1]["graph_commit_id"])
    expect(page.get_by_text("It was not there then.")).to_be_visible()
    visit.open("graph?open=Port/rtm", commits[-1]["graph_commit_id"])
    expect(page.get_by_text("not there then")).to_be_visible()


def test_a_comparison_is_filtered_by_who_changed_what(visit: Visit) -> None:
    page = visit.open("diff/main..review")
    listed = page.get_by_label("List of changes")
    expect(listed).to_contain_text("Rotterdam Maasvlakte")
    page.get_by_label("Actor").select_option("cy")
    expect(listed).not_to_contain_text("Rotterdam Maasvlakte")
    expect(listed).to_contain_text("51.2")
    page.get_by_label("Actor").select_option("ana")
    page.get_by_label("Property").select_option("name")
    expect(page.locator("[data-counts]")).to_have_attribute("data-counts", "0,1,0")
    expect(listed).to_contain_text("Rotterdam Maasvlakte")
    listed.get_by_label("seen").check()
    page.reload()
    expect(page.get_by_label("List of changes").get_by_label("seen")).to_be_checked()


def test_a_path_between_two_nodes_is_drawn_and_told(visit: Visit) -> None:
    page = visit.open("graph?open=Port/rtm")
    page.get_by_role("button", name="Path from here").click()
    page.get_by_label("Find an entity").fill("hamb")
    page.get_by_role("button", name=re.compile("Hamburg")).last.click()
    steps = page.get_by_label("Path", exact=True)
    expect(steps).to_contain_text("Path of 1 hop")
    expect(steps).to_contain_text("Feeds")
    visit.take_picture("path")
    # Vessels and ports are of two types: the way goes along what is drawn.
    visit.open("graph?open=Port/rtm&open=Port/ham&from=Vessel/9100000&to=Vessel/9100002")
    expect(steps).to_contain_text("Path of 3 hops")
    page.get_by_role("button", name="Clear").click()
    expect(steps).to_have_count(0)
    visit.open("graph?open=Port/rtm&open=Port/ant&from=Vessel/9100000&to=Port/ant")
    expect(steps).to_contain_text("No path")


def test_nodes_are_pinned_sized_and_listed(visit: Visit) -> None:
    page = visit.open("graph?open=Port/rtm")
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    assert "pin=Port%2Frtm%40" in page.url
    page.get_by_label("Size by").select_option("dwt")
    assert "size=dwt" in page.url
    page.get_by_role("button", name=re.compile("^Edges")).click()
    expect(page.get_by_role("link", name="CallsAt →").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^Nodes")).click()
    page.get_by_role("button", name="Vessel 0", exact=True).click()
    page.get_by_role("button", name="Details").click()
    expect(page.get_by_role("heading", name="Vessel 0")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Unpin").click()
    assert "pin=" not in page.url


def test_the_log_counts_and_health_tells_sizes_and_what_cleanup_would_remove(
    visit: Visit,
) -> None:
    page = visit.open("log", "review")
    rows = page.get_by_label("Commits, newest first").get_by_role("listitem")
    expect(rows.filter(has_text="the new name").get_by_text("1 changed").last).to_be_visible()
    expect(rows.filter(has_text="the first fleet").get_by_text("145 added").last).to_be_visible()
    visit.open("health")
    expect(page.get_by_text("Every invariant holds")).to_be_visible()
    expect(page.get_by_label("Sizes of types")).to_contain_text("Vessel")
    visit.take_picture("health")
    page.get_by_label("Keep the newest").fill("1")
    page.get_by_role("button", name="Preview a cleanup").click()
    expect(page.get_by_text("would be removed")).to_be_visible()
    expect(page.get_by_text("omnigraphdb cleanup PATH --keep 1 --confirm")).to_be_visible()


def test_a_branch_is_made_and_merged_by_buttons(visit: Visit) -> None:
    page = visit.open("start")
    page.get_by_role("button", name="New branch").click()
    page.get_by_label("Name").fill("story")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_label("Branch or commit that is shown")).to_have_value("story")
    answer = httpx.post(
        f"{visit.server.url}/mutate",
        json={
            "query": 'query q() { insert Port { code: "sto", name: "Stockholm" } }',
            "branch": "story",
        },
    )
    assert answer.status_code == 200
    visit.open("merge/story..main")
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("branch merge")
    expect(page.get_by_label("List of changes")).to_contain_text("Stockholm")
    visit.open("log")
    expect(page.get_by_label("Commits, newest first")).to_contain_text("branch merge")
    visit.take_picture("log")


def test_conflicts_show_all_three_sides_and_no_button(visit: Visit) -> None:
    page = visit.open("merge/clash..main")
    conflicts = page.get_by_label("Conflicts")
    expect(conflicts).to_contain_text("ant")
    expect(conflicts).to_contain_text("51.9")
    expect(conflicts).to_contain_text("51.2")
    visit.take_picture("merge")
    expect(page.get_by_role("button", name="Merge into main")).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("node/Port/nobody", "not found"),
        ("diff/main..gone", "not found"),
        ("nothing", "no screen"),
    ],
)
def test_a_stale_link_says_what_is_wrong(
    browser: "Browser", served: ServerProcess, path: str, told: str
) -> None:
    page = browser.new_page()
    page.goto(f"{served.url}/ui/g/default/@main/{path}")
    expect(page.get_by_role("alert").first).to_contain_text(told, timeout=30_000)
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_every_screen_is_within_its_width_and_accessible(
    browser: "Browser", served: ServerProcess, width: int, scheme: Any
) -> None:
    _look_over(browser, served, width, scheme)


@pytest.mark.soak
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (320, "light"), (640, "dark")])
def test_every_screen_is_accessible_in_other_light(
    browser: "Browser", served: ServerProcess, width: int, scheme: Any
) -> None:
    _look_over(browser, served, width, scheme)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_every_state_of_a_screen_is_accessible(
    browser: "Browser", served: ServerProcess, width: int, scheme: Any
) -> None:
    _look_over(browser, served, width, scheme, STATES)


def _look_over(
    browser: "Browser",
    served: ServerProcess,
    width: int,
    scheme: Any,
    screens: Sequence[str] = SCREENS,
) -> None:
    """Every screen is as wide as the window, and axe finds nothing serious."""
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = browser.new_page(
        viewport={"width": width, "height": 800}, reduced_motion="reduce", color_scheme=scheme
    )
    for screen in screens:
        page.goto(f"{served.url}/ui/g/default/@main/{screen}")
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=30_000)
        page.wait_for_load_state("load")
        assert page.evaluate(TOO_WIDE, width) == [], screen
        found = axe.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], (
            screen,
            [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious],
        )
    page.close()
