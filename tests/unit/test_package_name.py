"""The name of the package: what is installed and imported is `omnigraphdb`, what is stored or sent keeps its own words."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from omnigraphdb.packages import DISTRIBUTION

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "omnigraphdb"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

KEPT: Final = (
    r"""format\(\s*["']omnigraph["']\)""",
    r'NAME: Final = "omnigraph"',
    r"USING omnigraph ",
    r"USING omnigraph OPTIONS",
    r'(?:ADVICE|MOMENTS\)|parse_location\(options), "omnigraph"\)',
    r"omnigraph://",
    r"omnigraph:[a-z_`\"]",
    r"omnigraph-(?!server\b)[a-z{\"]",
    r"omnigraph\.yaml",
    r'b"omnigraph"',
    r'metadata\(\{"omnigraph"',
    r'return Server\(\n        "omnigraph"',
    r'class="omnigraph"',
    r"\.omnigraph[ {]",
)
"""The forms in which the word alone stands in the sources: names of Spark sources, resources, stored keys and actors, headers
and threads, the configuration file, metadata of Arrow answers, the server of agents, and a class of style sheets."""

WORD: Final = re.compile(r"(?<![A-Za-z0-9_])omnigraph(?![A-Za-z0-9_])")
INSTALLING: Final = re.compile(
    r"(?:pip install|uv add|uvx|uv tool install)\b[^\n`]*?'?(omnigraph\w*|'\.)(?:\[([\w,]+)\])?"
)


def list_texts() -> Iterator[Path]:
    yield from SOURCES.rglob("*.py")
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))


def find_others(text: str) -> list[str]:
    """Find where the word stands in no form that is kept."""
    kept = [match.span() for form in KEPT for match in re.finditer(form, text)]
    return [
        text[max(0, word.start() - 30) : word.end() + 30]
        for word in WORD.finditer(text)
        if not any(first <= word.start() and word.end() <= last for first, last in kept)
    ]


def test_the_old_name_stands_only_where_it_is_stored_or_sent() -> None:
    others = {
        path.relative_to(ROOT).as_posix(): places
        for path in SOURCES.rglob("*.py")
        if (places := find_others(path.read_text()))
    }
    assert others == {}


def test_a_use_of_the_old_name_is_found() -> None:
    assert find_others("import omnigraph\n")
    assert find_others("run `omnigraph serve`")
    assert not find_others('ACTOR = "omnigraph:recovery"')


def test_nothing_that_is_installed_has_the_name_of_another_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "omnigraphdb"
    assert PROJECT["scripts"].keys() == {"omnigraphdb", "omnigraphdb-server"}
    assert [path.name for path in SOURCES.parent.iterdir() if path.name != "__pycache__"] == [
        "omnigraphdb"
    ]


def test_installing_names_the_distribution_and_extras_that_exist() -> None:
    extras = {*PROJECT["optional-dependencies"]}
    commands = [
        command for path in list_texts() for command in INSTALLING.finditer(path.read_text())
    ]
    assert len(commands) > 5
    for command in commands:
        assert command.group(1) in (DISTRIBUTION, "'."), command.group()
        assert {*filter(None, (command.group(2) or "").split(","))} <= extras, command.group()
