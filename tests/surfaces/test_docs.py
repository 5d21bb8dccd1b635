"""Documents are true: every block of Python and of the shell runs, every link leads somewhere, every file and module that is named exists."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraphdb.surfaces.cli.calls import GLOBAL_FLAGS
from omnigraphdb.surfaces.cli.main import main
from tests.support.reference import commands

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)
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
    for number, (language, block) in enumerate(BLOCK.findall(page.read_text()), 1):
        if language == "python":
            exec(compile(block, f"{page.name} block {number}", "exec"), names)
        else:
            run_shell(block, monkeypatch)
        for name, value in re.findall(r"^export (\w+)=(\S+)", block, re.M):
            monkeypatch.setenv(name, value)


def run_shell(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block as someone who pastes it; one of our commands alone runs in this process, which is quicker."""
    lines = [shlex.split(line, comments=True) for line in block.splitlines() if line]
    if all(line[0] == "omnigraphdb" for line in lines) and not re.search(r"[|>$]", block):
        for line in lines:
            run_command(line, monkeypatch)
        return
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euc", block], env=os.environ | {"PATH": path}, check=True)


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one command; it has to succeed."""
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_shows_have_the_options_that_it_shows(page: Path) -> None:
    known = commands()
    shown = re.findall(r"^(?:\$ )?omnigraphdb (.+)$", page.read_text(), re.M)
    for words in (shlex.split(line, comments=True) for line in shown if "|" not in line):
        name = next((name for name in (" ".join(words[:2]), words[0]) if name in known), None)
        assert name is not None, words
        options = {
            option for one in known[name].params for option in (*one.opts, *one.secondary_opts)
        }
        options |= {one for flag in GLOBAL_FLAGS for one in re.findall(r"--?[a-z-]+", flag)}
        wrong = [
            word for word in words if word.startswith("-") and word.partition("=")[0] not in options
        ]
        assert [word for word in wrong if len(word) > 1] == [], words


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|bench|docs|examples)/[\w./-]+)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_tree_of_the_readme_is_the_tree() -> None:
    picture = (ROOT / "README.md").read_text().split("src/omnigraphdb/\n")[1].split("```")[0]
    package, missing = "", []
    for line in picture.splitlines()[:-1]:
        found = re.fullmatch(r" {2}(?:(\w+)/)? {2,}((?:\w+/? ?)*).*", line)
        assert found is not None, line
        package = found[1] or package
        names = [name for name in found[2].split() if not line[16:].startswith(" ")]
        folder = ROOT / "src/omnigraphdb" / package
        there = {one.stem + "/" * one.is_dir() for one in folder.iterdir()}
        missing += [f"{package}/{name}" for name in names if name not in there]
    assert missing == []


def test_modules_that_the_internals_name_exist() -> None:
    missing = [
        f"{page.name}: {name}"
        for page in sorted((ROOT / "docs" / "internals").glob("*.md"))
        for name in sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)(?:\(\))?`", page.read_text())))
        if (ROOT / "src/omnigraphdb" / name.partition(".")[0]).exists() and not _is_there(name)
    ]
    assert missing == []


def _is_there(name: str) -> bool:
    """Whether a dotted name is a module of the package, or something that a module has."""
    parts = name.split(".")
    for taken in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["omnigraphdb", *parts[:taken]]))
        except ModuleNotFoundError:
            continue
        for part in parts[taken:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_decision_is_in_the_index_with_its_title_date_and_status() -> None:
    folder = ROOT / "docs" / "decisions"
    rows = []
    for path in sorted(folder.glob("0*.md")):
        title, _, state = path.read_text().split("\n")[:3]
        number, text = title.removeprefix("# ").split(": ", 1)
        date, status = re.fullmatch(r"Date: (\d{4}-\d\d-\d\d)\. Status: (.+)\.", state).groups()  # type: ignore[union-attr]
        rows.append(f"| [{number}]({path.name}) | {text} | {date} | {status} |")
    index = (folder / "README.md").read_text()
    assert [line for line in index.split("\n") if line.startswith("| [")] == rows
