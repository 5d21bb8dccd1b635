"""The stories on an index of Debian: the sample beside the example, and the whole index where this machine's apt has it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import omnigraphdb
from tests.browser.conftest import CHROMIUM
from tests.browser.visits import Visit, open_visit
from tests.support.served import serving

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
if CHROMIUM is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.soak, pytest.mark.timeout(3600)]
expect = playwright.expect
EXAMPLE = Path(__file__).parents[2] / "examples" / "debian"
WHOLE = 50_000
"""Packages that the whole index has at least."""


def _collect(folder: Path) -> Path:
    """Read the index that apt has fetched; a machine without one skips."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "collect_suites.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    files = list(folder.glob("*-packages.parquet"))
    if done.returncode or not any(pq.read_metadata(one).num_rows >= WHOLE for one in files):
        pytest.skip(f"apt has no whole index here: {done.stderr[-200:]}")
    return folder


@pytest.fixture(scope="module", params=["sample", "whole"])
def debian(
    request: pytest.FixtureRequest, browser: "Browser", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    """The packages on main, and a branch in which a suite renewed some of them."""
    folder = tmp_path_factory.mktemp("debian")
    data = EXAMPLE / "data" if request.param == "sample" else _collect(folder / "indexes")
    place = folder / "debian.omni"
    with omnigraphdb.init(place, (EXAMPLE / "schema.pg").read_text(encoding="utf-8")) as graph:
        for kind, type_ in (("packages", "Package"), ("depends", "DependsOn")):
            table = pq.read_table(data / f"bookworm-{kind}.parquet")
            table = (
                table.rename_columns({"from": "src", "to": "dst"}) if kind == "depends" else table
            )
            graph.load(table, type=type_, mode="append", spark=False, actor="import")
        graph.branch_create("security")
        renewed = pq.read_table(data / "bookworm-security-packages.parquet")
        graph.on("security").load(
            renewed, type="Package", mode="merge", spark=False, actor="security"
        )
    with serving(str(place), "--unauthenticated", log=folder / "log") as server:
        expect.set_options(timeout=60_000)
        found = open_visit(browser, server)
        yield found
        assert found.wrong == []
        found.page.context.close()


def test_a_package_is_found_expanded_and_joined_to_another(debian: Visit) -> None:
    page = debian.open("graph")
    page.get_by_label("Find an entity").fill("libssl3")
    page.get_by_role("button", name=re.compile(r"^libssl3")).first.click()
    expect(page.get_by_text(re.compile(r"DependsOn ← 50 of [\d,]+ shown"))).to_be_visible()
    debian.take_picture("debian-graph")
    page.get_by_label("Size by").select_option("size_kb")
    debian.open("graph?open=Package/openssl&from=Package/openssl&to=Package/libc6")
    expect(page.get_by_label("Path", exact=True)).to_contain_text(re.compile(r"Path of \d hops?"))
    debian.take_picture("debian-path")


def test_what_a_suite_renewed_is_drawn_counted_and_merged(debian: Visit) -> None:
    page = debian.open("diff/main..security")
    expect(page.locator("[data-counts]")).to_have_attribute(
        "data-counts", re.compile(r"^\d+,[1-9]\d*,0$")
    )
    expect(page.locator("[data-drawn=true]")).to_be_visible()
    debian.take_picture("debian-diff")
    page.get_by_label("Property").select_option("version")
    page.get_by_label("Actor").select_option("security")
    expect(page.get_by_label("List of changes")).to_contain_text("version")
    debian.open("merge/security..main")
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_label("List of changes")).to_contain_text("version")
    debian.open("log")
    expect(page.get_by_label("Commits, newest first")).to_contain_text("of Package")
    debian.open("health")
    expect(page.get_by_label("Sizes of types")).to_contain_text("DependsOn")
