"""Our dataclasses are the standard ones, written later: both decorators make the same of a class."""

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, Generic, TypeVar, cast

import pytest

from omnigraphdb.values import dataclass, replace

Decorator = Callable[..., Any]
T = TypeVar("T")
OURS = cast(Decorator, dataclass)
THEIRS = cast(Decorator, dataclasses.dataclass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A value that goes to another process."""

    name: str
    parts: tuple[int, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False)


def _frozen(decorate: Decorator) -> Any:
    @decorate(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, hash=False, compare=False)
        note: str = field(default="", repr=False, compare=False)

    return Point


def _mutable(decorate: Decorator) -> Any:
    @decorate(slots=True)
    class Point:
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)

    return Point


def _checked(decorate: Decorator) -> Any:
    @decorate(frozen=True, kw_only=True)
    class Point(Generic[T]):
        """A point that computes a part of itself."""

        x: T
        y: int = 2
        tags: tuple[T, ...] = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "tags", (self.x,))

    return Point


def _own_methods(decorate: Decorator) -> Any:
    @decorate(frozen=True, slots=True)
    class Point:
        """A point that says itself how it looks and what it equals."""

        x: int
        y: int = 2

        def __repr__(self) -> str:
            return "here"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.x == self.x

    return Point


def _ordered(decorate: Decorator) -> Any:
    @decorate(frozen=True, slots=True, order=True)
    class Point:
        """A point with an order."""

        x: int
        y: int = 2

    return Point


def _derived(decorate: Decorator) -> Any:
    @decorate(frozen=True, slots=True)
    class Base:
        """What comes first."""

        x: int
        y: int = 1

    @decorate(frozen=True, slots=True)
    class Point(Base):
        """What comes after it."""

        y: int = 2
        z: int = 3

    return Point


def _identical(decorate: Decorator) -> Any:
    @decorate(frozen=True, slots=True, eq=False, weakref_slot=True)
    class Point:
        """A point that equals only itself."""

        x: int
        y: int = 2

    return Point


FORMS = [_frozen, _mutable, _checked, _own_methods, _ordered, _derived, _identical]


def _tried(do: Callable[[], object]) -> object:
    """What something gives, or the kind of error it raises."""
    try:
        return do()
    except Exception as error:
        return type(error)


def _replace(cls: Any) -> Callable[..., Any]:
    """Ours for our classes, theirs for those of the standard library."""
    return replace if hasattr(cls, "__replace__") else dataclasses.replace


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "a repr": lambda cls: repr(cls(x=1)),
    "by position": lambda cls: repr(cls(1)),
    "too little": lambda cls: cls(),
    "too much": lambda cls: cls(x=1, nothing=2),
    "values": lambda cls: [getattr(cls(x=1, y=5), one.name) for one in dataclasses.fields(cls)],
    "equal": lambda cls: cls(x=1) == cls(x=1),
    "not equal": lambda cls: cls(x=1) == cls(x=2),
    "another kind": lambda cls: cls(x=1) == (1, 2),
    "equal hashes": lambda cls: len({cls(x=1), cls(x=1)}),
    "other hashes": lambda cls: len({cls(x=1), cls(x=2)}),
    "an order": lambda cls: (cls(x=1) < cls(x=2), cls(x=1) >= cls(x=1), cls(x=2) <= cls(x=1)),
    "another value": lambda cls: repr(dataclasses.replace(cls(x=1), y=7)),
    "another value by name": lambda cls: repr(_replace(cls)(cls(x=1), y=7)),
    "no such part": lambda cls: _replace(cls)(cls(x=1), nothing=7),
    "a dict": lambda cls: dataclasses.asdict(cls(x=1)),
    "a set part": lambda cls: setattr(cls(x=1), "y", 3),
    "a deleted part": lambda cls: delattr(cls(x=1), "y"),
    "a copy": lambda cls: repr(copy.copy(cls(x=1))),
    "a deep copy": lambda cls: repr(copy.deepcopy(cls(x=1))),
    "matched parts": lambda cls: cls.__match_args__,
    "slots": lambda cls: getattr(cls, "__slots__", None),
    "a list of its own": lambda cls: cls(x=1).tags is not cls(x=1).tags,
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_both_decorators_make_the_same_class(
    form: Callable[[Decorator], Any], question: str
) -> None:
    ask = QUESTIONS[question]
    ours, theirs = form(OURS), form(THEIRS)
    assert _tried(lambda: ask(ours)) == _tried(lambda: ask(theirs))
    assert _tried(lambda: ask(ours)) == _tried(lambda: ask(theirs))


def test_a_value_goes_to_another_process_and_comes_back() -> None:
    sent = Sent(name="a", parts=(1, 2), seen={"b": 1})
    back = pickle.loads(pickle.dumps(sent))
    assert (back, back.seen, hash(back)) == (sent, {"b": 1}, hash(sent))
    with pytest.raises(FrozenInstanceError):
        back.name = "b"


def test_a_value_is_matched_by_its_parts() -> None:
    match _frozen(OURS)(4):
        case object(x=4, y=y):
            assert y == 2
        case _:
            pytest.fail("not matched")


def test_a_class_below_keeps_what_the_class_above_was_written() -> None:
    base = _frozen(OURS)

    class Below(base):  # type: ignore[misc, valid-type]
        pass

    assert (Below(1).x, base(2).x, Below(3).x) == (1, 2, 3)
    assert Below(1) == Below(1) != base(1)


def test_threads_that_make_the_first_value_all_make_one() -> None:
    for _ in range(20):
        cls, made = _frozen(OURS), list[Any]()
        gate = threading.Barrier(4)

        def make(cls: Any = cls, made: list[Any] = made, gate: threading.Barrier = gate) -> None:
            gate.wait()
            made.append(cls(1, 5))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert made == [cls(1, 5)] * 4


def test_no_method_is_written_before_it_is_called() -> None:
    cls = _frozen(OURS)
    before = cls.__init__, cls.__eq__, cls.__hash__
    one = cls(1)
    assert cls.__init__ is not before[0]
    assert (cls.__eq__, cls.__hash__) == before[1:]
    assert one == cls(1)
    assert (cls.__eq__ is before[1], cls.__hash__ is before[2]) == (False, True)
