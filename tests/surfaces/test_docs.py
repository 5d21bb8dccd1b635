"""Every Python block of the documents runs, page by page, in an empty folder."""

import re
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


def _page(page: Path) -> ParameterSet:
    """A page as a case; the one on Spark runs where the session of the Spark tests is."""
    marks = [pytest.mark.xdist_group("spark")] if page.name == "spark.md" else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [_page(page) for page in WITH_CODE])
def test_the_blocks_of_a_page_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page.name == "spark.md":
        # One that the page started would stay for the other tests, and not know where they are.
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    for number, block in enumerate(BLOCK.findall(page.read_text()), 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
