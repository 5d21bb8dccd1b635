"""The exception tree: one group each, stable kinds, wire form, pickling, no secrets of the machine."""

import inspect
import pickle
from typing import Any, get_args

import pytest

import omnigraphdb
from omnigraphdb import errors
from omnigraphdb.api import wire
from omnigraphdb.errors import OmniError, Problem, data_error, did_you_mean, shorten
from tests.support.shapes import fits

GROUPS = (
    errors.UserInputError,
    errors.NotFoundError,
    errors.AuthError,
    errors.ConflictError,
    errors.LimitError,
    errors.RecoveryError,
    errors.StorageError,
    errors.InternalError,
)
CLASSES = [
    one
    for _, one in sorted(vars(errors).items())
    if inspect.isclass(one) and issubclass(one, OmniError) and not one.__name__.startswith("_")
]
_SAMPLES: dict[str, Any] = {
    "problems": [Problem(rule="W13", message="m", line=3)],
    "conflicts": (),
    "dependants": ["b"],
    "waited": 60.0,
    "seconds": 60.0,
}


def sample(kind: type[OmniError], *, nulls: bool = False) -> OmniError:
    """Build an error of a class from facts of the right shape; with `nulls`, from None wherever a fact may be None."""
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name == "self" or parameter.default is not inspect.Parameter.empty:
            continue
        text = parameter.annotation
        if nulls and type(None) in get_args(text):
            arguments[name] = None
        else:
            arguments[name] = _SAMPLES.get(
                name, 7 if text is int else True if text is bool else "x"
            )
    positional = [v for n, v in arguments.items() if _is_positional(kind, n)]
    keywords = {n: v for n, v in arguments.items() if not _is_positional(kind, n)}
    return kind(*positional, **keywords)


def _is_positional(kind: type[OmniError], name: str) -> bool:
    found = inspect.signature(kind.__init__).parameters[name]
    return found.kind is not inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_belongs_to_one_group_and_survives_the_trip_between_processes(
    kind: type[OmniError],
) -> None:
    assert sum(issubclass(kind, group) for group in GROUPS) == (kind is not OmniError)
    error = sample(kind)
    fits(wire.ErrorBody, error.to_dict())
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.to_dict() == error.to_dict()
    assert (again.kind, again.code, again.hint) == (error.kind, error.code, error.hint)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_that_lacks_facts_has_the_declared_shape(kind: type[OmniError]) -> None:
    fits(wire.ErrorBody, sample(kind, nulls=True).to_dict())


def test_kinds_are_unique_but_for_the_group_of_not_found() -> None:
    named = [kind for kind in CLASSES if kind not in (errors.NotFoundError,)]
    kinds = [kind.kind for kind in named]
    assert sorted(kinds) == sorted(set(kinds))


def test_every_error_is_importable_from_the_package() -> None:
    assert all(getattr(omnigraphdb, kind.__name__) is kind for kind in CLASSES)


def test_the_wire_body_has_the_message_the_class_and_one_structured_field() -> None:
    body = errors.ManifestConflict("node:Person", 7, 9).to_dict()
    assert body["code"] == "conflict"
    assert body["manifest_conflict"] == {"table_key": "node:Person", "expected": 7, "actual": 9}
    assert "nothing was written" in body["error"]


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("J07", errors.DataError),
        ("W01", errors.DataError),
        ("W10", errors.ConstraintError),
        ("W14", errors.ConstraintError),
        ("W15", errors.ReferentialError),
        ("W16", errors.ReferentialError),
        ("W20", errors.KeyConflict),
    ],
)
def test_the_first_problem_decides_the_class_and_the_code(rule: str, kind: type[OmniError]) -> None:
    error = data_error(
        [Problem(rule=rule, message="first", table_key="node:P"), Problem(rule="W99", message="x")]
    )
    assert type(error) is kind
    assert error.code == rule
    assert error.details["total"] == 2
    assert rule in str(error)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("nmae", ["name", "node", "age"], ["name"]),
        ("Persn", ["Person", "Port"], ["Person"]),
        ("person", ["Person", "persons"], ["Person", "persons"]),
        ("zzz", ["name"], []),
        ("x", ["y", "id", "X"], ["X"]),
        ("ab", ["ax", "cd"], ["ax"]),
    ],
)
def test_close_names_are_offered(name: str, known: list[str], expected: list[str]) -> None:
    assert did_you_mean(name, known) == expected


def test_values_in_messages_are_short() -> None:
    assert shorten("x" * 100) == "x" * 59 + "…"
    assert shorten({"a": 1}) == '{"a": 1}'
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in shorten(deep)


def test_a_lock_timeout_names_its_holder_as_far_as_it_is_known() -> None:
    holder = {"process": 7, "host": "h", "operation": "Load", "operation_id": "01X"}
    error = errors.LockTimeout("node:A", "b", 60.0, holder=holder, since="2026-01-02T03:04:05Z")
    assert "process 7 on host 'h' holds it since 2026-01-02T03:04:05Z for Load 01X" in str(error)
    assert "node:A on branch 'b'" in str(error)
    assert error.to_dict()["lock"] == {
        "table_key": "node:A",
        "holder": holder,
        "since": "2026-01-02T03:04:05Z",
    }
    assert "another writer holds it" in str(errors.LockTimeout("__schema_apply__", "main", 1))
    lost = errors.LockLost("cleanup", "node:A", "b")
    assert "cleanup lost the lock of node:A on branch 'b'" in str(lost)
    assert (lost.kind, lost.hint) == ("lock_lost", "run it again")
    foreseen = errors.LockTimeout("node:A", "b", 60.0, holder=holder, turns=(5, 14.3))
    assert "cannot become free within 60 s" in str(foreseen)
    assert "5 more turns come before this one, and none of the last took less than 14 s" in str(
        foreseen
    )
