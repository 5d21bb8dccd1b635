"""The JSON form of values: what is encoded is read back, and is what the declaration says."""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Literal, NewType, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.engine.results import (
    Commit,
    LoadResult,
    MutationResult,
    OperationStatus,
    RecoveryAudit,
    SchemaApplyResult,
)
from omnigraphdb.surfaces.http.shapes import describe_shapes, name_component
from omnigraphdb.values import dataclass
from omnigraphdb.wire import (
    UNIONS,
    Codec,
    Value,
    derived,
    fields_of_value,
    from_dict,
    is_value,
    wire,
)
from tests.support.reference import result_classes
from tests.support.shapes import fits

Name = NewType("Name", str)


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Value):
    """A point."""

    x: int
    y: int = field(default=0, metadata=wire(omit=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Value):
    """A value with a field of every kind."""

    id: Name = field(metadata=wire("sample_id"))
    taken: datetime
    colour: Colour
    shade: Colour | None = None
    at: Point | None = field(default=None, metadata=wire(omit=True))
    path: tuple[Point, ...] = ()
    named: Mapping[str, Point] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    times: tuple[datetime | None, ...] = ()
    doubled: int = field(
        default=2,
        metadata=wire(codec=Codec(encode=lambda n: n * 2, decode=lambda n: n // 2, hint=int)),
    )
    state: str = field(default="on", metadata=wire(hint=Literal["on", "off"]))
    note: str = field(default="", metadata=wire(omit=lambda sample: sample.state == "off"))
    secret: str = field(default="s", metadata=wire(local=True))

    @derived
    def length(self) -> int:
        """The number of points."""
        return len(self.path)


moments = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)
)
points = st.builds(Point, x=st.integers(), y=st.integers())
samples = st.builds(
    Sample,
    id=st.text(),
    taken=moments,
    colour=st.sampled_from(Colour),
    shade=st.none() | st.sampled_from(Colour),
    at=st.none() | points,
    path=st.lists(points).map(tuple),
    named=st.dictionaries(st.text(), points),
    counts=st.dictionaries(st.text(), st.integers()),
    times=st.lists(st.none() | moments).map(tuple),
    doubled=st.integers(),
    state=st.sampled_from(["on", "off"]),
    note=st.just(""),
    secret=st.just("s"),
)


@given(samples)
def test_a_value_is_read_back_from_its_json(sample: Sample) -> None:
    body = json.loads(json.dumps(sample.to_dict()))
    assert from_dict(Sample, body) == sample
    fits(Sample, body)


def test_a_form_is_spelled_as_declared() -> None:
    taken = datetime(1970, 1, 1, second=1, tzinfo=UTC)
    sample = Sample(id=Name("a"), taken=taken, colour=Colour.RED, path=(Point(x=1),), state="off")
    assert sample.to_dict() == {
        "sample_id": "a",
        "taken": 1_000_000,
        "colour": "red",
        "shade": None,
        "path": [{"x": 1}],
        "named": {},
        "counts": {},
        "times": [],
        "doubled": 4,
        "state": "off",
        "length": 1,
    }


def test_names_that_a_class_does_not_know_are_passed_over() -> None:
    assert from_dict(Point, {"x": 1, "z": 2}) == Point(x=1)


def test_a_missing_field_without_default_is_an_error() -> None:
    with pytest.raises(TypeError):
        from_dict(Point, {"y": 1})


def test_fields_say_what_is_always_there() -> None:
    required = {member.name for member in fields_of_value(Sample) if member.is_required}
    assert required == {member.name for member in fields_of_value(Sample)} - {"at", "note"}
    schema = describe_shapes([Sample])["SampleOutput"]
    assert schema["properties"]["at"] == {"$ref": "#/components/schemas/PointOutput"}
    assert schema["properties"]["state"] == {"type": "string", "enum": ["on", "off"]}
    assert "secret" not in schema["properties"]


# ---- the values of the package

VALUES = [cls for cls in result_classes() if issubclass(cls, Value)]


PARTS: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("MutationResult", "rows"): st.just(({"n": 1},)),
    ("MutationResult", "columns"): st.just(("n",)),
    ("RecoverySidecar", "holder"): st.none() | st.just({"host": "h", "process": 1}),
    ("MergeResult", "tables"): st.just({"node:Person": (1, 0, 2)}),
    ("MergeResult", "branch_delete_error"): st.none(),
    ("EntityPath", "cost"): st.integers() | st.just(1.5),
    ("EntityPath", "edges"): st.just(({"type": "E", "id": "e", "from": "a", "to": "b", "w": 1},)),
    ("DrawnCommit", "counts"): st.none() | st.just({"inserted": 1, "updated": 0, "deleted": 2}),
}
"""Parts whose declared type says less than their form in JSON, by class and field."""


Row = dict[str, Any]
rows = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=2)


@cache
def make_values(cls: Any) -> st.SearchStrategy[Any]:
    """Build values of a class."""
    hints = get_type_hints(cls)
    parts = {
        member.attribute: PARTS.get(
            (cls.__name__, member.attribute), make_parts(hints[member.attribute])
        )
        for member in fields_of_value(cls)
        if not member.is_derived
    }
    return st.builds(cls, **parts)


def make_parts(hint: Any) -> st.SearchStrategy[Any]:
    """Build values of a declared type."""
    if hint is datetime:
        return moments
    if is_value(hint):
        # A value may hold others of its class.
        return st.deferred(lambda: make_values(hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in UNIONS:
        return st.one_of([make_parts(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(make_parts(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(st.text(), make_parts(arguments[1]), max_size=2)
    return rows if hint == Row else st.from_type(hint)


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
def test_values_of_the_package_are_read_back_and_fit_their_description(cls: Any) -> None:
    @settings(max_examples=20)
    @given(make_values(cls))
    def check(value: Any) -> None:
        body = json.loads(json.dumps(value.to_dict()))
        fits(cls, body)
        again = from_dict(cls, body)
        assert again.to_dict() == value.to_dict()

    check()


def test_values_have_components_of_their_own() -> None:
    names = [name_component(cls) for cls in VALUES]
    assert len(set(names)) == len(names)
    assert {Commit, LoadResult, MutationResult, OperationStatus, RecoveryAudit} < set(VALUES)
    assert SchemaApplyResult in VALUES
