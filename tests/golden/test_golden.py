"""What users, programs and stored data see is as it was recorded, but for additions.

A difference that is meant is recorded by `python -m tests.golden.record --only PART` and committed with the change.
"""

import pytest

from omnigraphdb.api.graph import Graph
from omnigraphdb.surfaces.cli import tree
from tests.golden.comparison import Comparison
from tests.golden.forms import IN_ORDER, Entries, format_record, parse_record
from tests.golden.python_part import describe
from tests.golden.record import PARTS, compare_part, place_of, record_part

RENEW = "if this is meant, run `python -m tests.golden.record --only {}` and read what changed"


def compare(recorded: Entries, now: Entries) -> Comparison:
    comparison = Comparison()
    comparison.compare(recorded, now)
    return comparison


@pytest.mark.parametrize("part", PARTS)
def test_record_of_today_is_that_of_before(part: str) -> None:
    now = parse_record(format_record(record_part(part)))
    comparison = compare_part(part, now)
    for addition in comparison.additions:
        print(addition)
    assert comparison.differences == {}, f"{comparison.diff}\n{RENEW.format(part)}"


@pytest.mark.parametrize("part", PARTS)
def test_record_that_is_read_and_written_again_is_the_same(part: str) -> None:
    text = place_of(part).read_text(encoding="utf-8")
    assert format_record(parse_record(text)) == text


def test_additions_are_allowed() -> None:
    recorded = {"a": {"rows": [1], "order": {IN_ORDER: ["x", "z"]}}, "b": {"absent": "tags"}}
    now = {"a": {"more": 0, "rows": [1], "order": {IN_ORDER: ["x", "y", "z"]}}, "b": [], "c": 1}
    comparison = compare(recorded, now)
    assert comparison.differences == {}
    assert comparison.additions == [
        "a.order: 'y' added",
        "a.more: added",
        "b: no longer absent",
        "c: a new entry",
    ]


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": {IN_ORDER: ["x", "y"]}}, {"a": {IN_ORDER: ["y", "x"]}}),
        ({"a": "of <id 1>", "b": "<id 1>"}, {"a": "of <id 1>", "b": "<id 2>"}),
        ({"a": "of <id 1>", "b": "<id 2>"}, {"a": "of <id 1>", "b": "<id 1>"}),
        ({"a": {"<id 1>": 1, "<id 2>": 2}}, {"a": {"<id 1>": 2, "<id 2>": 1}}),
    ],
)
def test_everything_else_is_a_difference(recorded: Entries, now: Entries) -> None:
    assert compare(recorded, recorded).differences == {}
    comparison = compare(recorded, now)
    assert comparison.differences
    assert "recorded" in comparison.diff


def test_names_may_have_other_numbers_if_they_have_them_everywhere() -> None:
    recorded = {"a": "<id 1> of <id 2>", "b": {"<id 2>": 3}}
    now = {"a": "<id 7> of <id 1>", "b": {"<id 1>": 3}}
    assert compare(recorded, now).differences == {}


def test_changed_default_and_changed_help_are_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = Graph.history.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "limit", 99)
    monkeypatch.setattr(tree, "ABOUT", "A graph.")
    comparison = compare_part("python", describe("Graph", Graph))
    assert comparison.differences["Graph.history"] == [
        "the entry: '* limit: int = 100' is gone or moved"
    ]
    assert "+| * limit: int = 99" in comparison.diff
    help_comparison = compare_part("help", record_part("help"))
    assert list(help_comparison.differences) == ["omnigraphdb"]
    assert "+| A graph." in help_comparison.diff
