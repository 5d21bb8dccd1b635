"""What a notebook shows, rendered by a real browser: every text can be read on a light and on a dark page."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  seen: DateTime? }
edge Knows: Person -> Person
"""
EVIL = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
ASK = "query q() { match { $p: Person } return { $p.name, $p.age, $p.bio, $p.seen } }"

MEASURE = """
const parts = color => color.match(/[0-9.]+/g).map(Number);
const light = color => parts(color).slice(0, 3).map(v => {
  v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
}).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const lines = cell => {
  const range = document.createRange(); range.selectNodeContents(cell); return range.getClientRects().length;
};
const measured = {};
for (const page of document.querySelectorAll('.page')) {
  const back = light(getComputedStyle(page).backgroundColor);
  const cells = [...page.querySelectorAll('th, td, dd, .og-t, .og-good, .og-bad, .og-changed')];
  measured[page.id] = {
    contrast: Math.min(...cells.map(cell => contrast(light(getComputedStyle(cell).color), back))),
    rows: page.querySelectorAll('tbody tr').length,
    overflow: Math.max(...[...page.querySelectorAll('.omnigraph')].map(one => one.scrollWidth - one.clientWidth)),
    wrapped: [...page.querySelectorAll('td')].filter(
      cell => /^\\d{4}-\\d\\d-\\d\\d/.test(cell.textContent) && lines(cell) > 1).length,
  };
}
const out = document.createElement('output');
out.textContent = JSON.stringify({measured, hacked: window.hacked === true});
document.body.append(out);
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with omnigraph.init(tmp_path_factory.mktemp("notebook") / "g", SCHEMA) as made:
        people = [
            {"type": "Person", "data": {"name": f"P{n}", "age": n, "bio": EVIL * 4, "seen": "2026-01-10T08:00:00Z"}}
            for n in range(25)
        ]  # fmt: skip
        made.load(people, mode="append", actor=None)
        made.branch_create("review")
        made.mutate(
            'query q() { update Person set { age: 90 } where name = "P3" }', branch="review"
        )
        made.mutate('query q() { delete Person where name = "P4" }', branch="review")
        yield made


def shown(graph: Graph) -> list[str]:
    """The HTML of every kind of result."""
    results: tuple[Any, ...] = (
        graph.query(ASK),
        graph.explain(ASK, profile=True),
        graph.catalog,
        graph.diff("main", "review", images=True),
        graph.commits(),
        graph.branches(compare=True),
        graph.merge("review", dry_run=True),
        graph.describe(),
        graph.index_status(),
    )
    return [result._repr_html_() for result in results]


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_every_result_can_be_read_on_a_light_and_a_dark_page(graph: Graph, tmp_path: Path) -> None:
    body = "".join(shown(graph))
    pages = "".join(
        f'<div class="page" id="{name}" style="background:{back};color:{text};font-family:sans-serif">{body}</div>'
        for name, back, text in (("light", "#ffffff", "#111111"), ("dark", "#111111", "#dddddd"))
    )
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{pages}<script>{MEASURE}</script>")
    found = measure(file)
    assert found["hacked"] is False
    assert set(found["measured"]) == {"light", "dark"}
    for page in found["measured"].values():
        assert page["contrast"] >= 3
        assert page["rows"] > 40
        assert page["overflow"] <= 0
        assert page["wrapped"] == 0


def measure(file: Path) -> dict[str, Any]:
    """What the script of a page found, once the browser has laid the page out."""
    assert BROWSER is not None
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={file.parent / 'browser'}",
    )
    done = subprocess.run(
        [BROWSER, *options, "--window-size=1000,800", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = re.search(r"<output>(.*?)</output>", done.stdout, re.S)
    assert told is not None, done.stderr[-500:]
    return json.loads(html.unescape(told[1]))
