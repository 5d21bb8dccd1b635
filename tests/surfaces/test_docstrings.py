"""The examples of docstrings run, one after the other, on the graph that the package's own docstring makes."""

import doctest
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import omnigraphdb
from tests.support.reference import list_members

CLASSES = ("Graph", "Snapshot", "QueryResult", "QueryStream", "Explanation", "Cancellation")
FUNCTIONS = ("init", "open", "parse_schema", "lint", "discard_recovery", "relocate")
WITHOUT = {"Snapshot.export_files"}
"""A part of `Graph.export_files`: it takes a runner."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def documented() -> Iterator[tuple[str, object]]:
    """Everything that has an example: the package, its functions, its classes and their methods, in this order."""
    yield "omnigraphdb", omnigraphdb
    yield from ((name, getattr(omnigraphdb, name)) for name in FUNCTIONS)
    for name in CLASSES:
        class_ = getattr(omnigraphdb, name)
        yield name, class_
        for method, found in list_members(class_).items():
            if isinstance(found, FunctionType):
                yield f"{name}.{method}", found


def test_every_public_method_has_an_example() -> None:
    without = [name for name, found in documented() if ">>>" not in (inspect.getdoc(found) or "")]
    assert [name for name in without if name not in WITHOUT and not name.endswith(".to_dict")] == []


def test_the_examples_of_docstrings_come_out_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"omnigraphdb": omnigraphdb}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    told: list[str] = []
    for name, found in documented():
        text = inspect.getdoc(found) or ""
        test = parser.get_doctest(text, names, name, None, None)
        runner.run(test, out=told.append, clear_globs=False)
        # A name that one example leaves is there for the next, as in a session.
        names = test.globs
    assert told == [], "\n".join(told)
    assert os.listdir(tmp_path)


def test_help_names_everything_public() -> None:
    import pydoc

    text = pydoc.plain(pydoc.render_doc(omnigraphdb))
    assert [name for name in omnigraphdb.__all__ if name not in text] == []
    assert text.index("omnigraphdb.init") < text.index("CLASSES")
