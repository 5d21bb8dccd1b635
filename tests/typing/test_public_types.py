"""Editors know every name, call and attribute of the package: mypy and basedpyright reveal the types."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.reference import list_members

# Two processes would write the same cache of mypy.
pytestmark = pytest.mark.xdist_group("typing")

ROOT = Path(__file__).parents[2]
CALLS = Path(__file__).with_name("calls.py")
STUBS = Path(__file__).with_name("stubs")
LINE = re.compile(r"^ *reveal_type\((?P<expression>.*)\)  # (?P<type>.+)$")
JSON_VALUES = re.compile(r"(dict|Mapping|list|tuple)\[(str, |Any, )?Any\]")
WRONG = (
    "omnigraphdb.Grahp",
    'omnigraphdb.open("g").load([], mode="apend")',
    'omnigraphdb.open("g").merge("side", granularity="cell")',
    'omnigraphdb.open("g").export_files("out", format="xml")',
    'omnigraphdb.open("g").diff("main", "side", kinds=["nodes"])',
    'omnigraphdb.open("g").changes(ops=["upsert"])',
    'omnigraphdb.connect("http://g").load([], mode="apend")',
)
"""Names and values that are misspelt: an editor marks each of them."""
FRAMES = re.compile(r"\b(query_frame|diff_frame|changes_frame|vertices|edges)\b")
"""Frames are of the library that the caller names, which no checker knows."""

Revealed = Mapping[str, Mapping[int, str]]


@pytest.fixture(scope="module")
def attributes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that reveals every attribute of every public class, and ends with what is wrong."""
    lines = ["import omnigraphdb", ""]
    for number, (name, class_) in enumerate(_public_classes()):
        lines.append(f"def _see{number}(value: omnigraphdb.{name}) -> None:")
        lines += [f"    reveal_type(value.{one})" for one in _attributes(class_)] or ["    pass"]
    path = tmp_path_factory.mktemp("typing") / "attributes.py"
    path.write_text("\n".join([*lines, *WRONG, ""]))
    return path


def _public_classes() -> Iterator[tuple[str, type]]:
    for name in sorted({*omnigraphdb.__all__, *omnigraphdb.errors.__all__}):
        found = getattr(omnigraphdb, name)
        if inspect.isclass(found):
            yield name, found


def _attributes(class_: type) -> list[str]:
    builtin = {name for base in (list, str, Exception) for name in dir(base)}
    named = {name for base in class_.__mro__ for name in getattr(base, "__annotations__", {})}
    return sorted(name for name in {*dir(class_), *named} - builtin if not name.startswith("_"))


@pytest.fixture(scope="module")
def seen_by_mypy(attributes: Path) -> Revealed:
    """What mypy reveals, by file and line."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
            *("--output=json", "--cache-dir", str(ROOT / ".mypy_cache" / "typing")),
            *(str(CALLS), str(attributes)),
        ],
        cwd=ROOT,
        env={"MYPYPATH": f"{STUBS}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return _by_line((one["file"], one["line"], one["message"]) for one in found)


@pytest.fixture(scope="module")
def seen_by_basedpyright(attributes: Path) -> Revealed:
    """What basedpyright reveals, by file and line."""
    config = {
        "include": [str(CALLS), str(attributes)],
        "stubPath": str(STUBS),
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
    }
    project = attributes.with_name("pyrightconfig.json")
    project.write_text(json.dumps(config))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson"),
            *("-p", str(project), "--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return _by_line(
        (one["file"], one["range"]["start"]["line"] + 1, one["message"]) for one in found
    )


def _by_line(messages: Iterator[tuple[str, int, str]]) -> Revealed:
    """Messages without the names of modules: a type that was revealed, or what is wrong."""
    files: dict[str, dict[int, str]] = {CALLS.name: {}, "attributes.py": {}}
    for file, line, message in messages:
        revealed = re.fullmatch(r'(?:Revealed type is|Type of ".*" is) "(.*)"', message, re.S)
        text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", revealed[1]) if revealed else f"wrong: {message}"
        files.setdefault(Path(file).name, {}).setdefault(line, text)
    return files


@pytest.fixture(params=["mypy", "basedpyright"])
def seen(request: pytest.FixtureRequest) -> Revealed:
    """What one of the checkers reveals."""
    found: Revealed = request.getfixturevalue(f"seen_by_{request.param}")
    return found


def test_calls_have_the_types_that_editors_should_show(seen: Revealed) -> None:
    expected = {
        number: found["type"]
        for number, line in enumerate(CALLS.read_text().splitlines(), 1)
        if (found := LINE.match(line))
    }
    assert seen[CALLS.name] == expected


def test_no_attribute_is_of_unknown_type(seen: Revealed, attributes: Path) -> None:
    lines = attributes.read_text().splitlines()
    shown = seen[attributes.name]
    wrong = {lines[number - 1]: text for number, text in shown.items() if _is_unknown(text)}
    assert {line for line in wrong if not FRAMES.search(line)} == set(WRONG)
    assert len(shown) == sum("reveal_type" in line for line in lines) + len(WRONG)


def _is_unknown(text: str) -> bool:
    return bool(re.search(r"^wrong|\bAny\b|\bUnknown\b", JSON_VALUES.sub(r"\1", text)))


@pytest.mark.parametrize("class_", [omnigraphdb.Graph, omnigraphdb.Snapshot])
def test_every_verb_is_among_the_calls(class_: type) -> None:
    text = CALLS.read_text()
    quiet = {"close", "export", "export_lines", "export_files", "explain", "stream", "entity"}
    quiet |= {"pin", "pin_write", "tables", "to_dict", "branch", "commit", "location"}
    verbs = {*list_members(class_)} - quiet
    assert {name for name in verbs if f".{name}" not in text} == set()


def test_every_name_is_imported_on_use_and_listed() -> None:
    lazy = {*omnigraphdb._HOMES} - {"open"}
    assert lazy <= {*omnigraphdb.__all__}
    assert sorted(omnigraphdb.__all__) == list(omnigraphdb.__all__)
    assert [name for name in dir(omnigraphdb) if not hasattr(omnigraphdb, name)] == []
