"""Dataclasses that are quick to define: their methods are written when they are first called.

The standard decorator compiles the methods of a class as the class is defined. For some hundred classes that takes longer
than opening a graph and asking it; most of the methods are never called by one command. Decision 0023 has the numbers.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from functools import partial
from reprlib import recursive_repr
from types import MappingProxyType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # To a type checker they are those of the standard library.
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, **options):
        """Make of a class what `dataclasses.dataclass` makes of it; there is no `InitVar`."""

        def define(found):
            return _define(found, frozen=frozen, eq=eq, order=order, **options)

        return define if cls is None else define(cls)

    def replace(value, /, **changes):
        """Copy a value with other fields, as `dataclasses.replace` does; the class wrote the copy out beforehand."""
        return value.__replace__(**changes)


_Write = Callable[[type], Callable[..., Any]]
_DEFAULT, _MAKE, _SLOT = "_default_", "_make_", "_slot_"
_KEPT = object()
"""Stands for a field that a copy does not change."""


def _define(cls: type, *, frozen: bool, eq: bool, order: bool, **options: Any) -> type:
    # Python gives a class with an `__eq__` of its own a `__hash__` that is None.
    given = {name for name, value in vars(cls).items() if value is not None}
    # The standard decorator would spell out a signature for a class without a docstring.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    # A class that inherits how it is shown keeps it.
    shown: Any = cls.__repr__
    methods: dict[str, Any] = {"__repr__": _repr} if shown is object.__repr__ else {}
    methods["__init__"] = _defer(made, "__init__", _write_frozen_init if frozen else _write_init)
    methods["__replace__"] = _defer(made, "__replace__", _write_replace)
    if eq:
        methods["__eq__"] = _defer(made, "__eq__", _write_eq)
        methods["__hash__"] = _defer(made, "__hash__", _write_hash) if frozen else None
    if order:
        methods |= {name: _defer(made, name, write) for name, write in _ORDER.items()}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and options.get("slots"):
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in given:
            setattr(made, name, method)
    return made


def _defer(cls: type, name: str, write: _Write) -> Callable[..., Any]:
    """Stand in for a method until it is called for the first time."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        written = write(cls)
        written.__name__, written.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, written)
        return written(self, *args, **kwargs)

    return method


# ---- methods that are written


def _write_init(cls: type) -> Callable[..., Any]:
    return _write_any_init(cls, "self.{name} = {value}")


def _write_frozen_init(cls: type) -> Callable[..., Any]:
    # A slot that is asked directly takes a value in three quarters of the time of `object.__setattr__`.
    found = {_SLOT + one.name: getattr(cls, one.name, None) for one in fields(cls)}
    setters = {
        name: slot.__set__ for name, slot in found.items() if isinstance(slot, MemberDescriptorType)
    }
    if len(setters) == len(found):
        return _write_any_init(cls, _SLOT + "{name}(self, {value})", setters)
    return _write_any_init(cls, "_set(self, {name!r}, {value})", {"_set": object.__setattr__})


def _write_any_init(
    cls: type, assignment: str, setters: Mapping[str, Any] = MappingProxyType({})
) -> Callable[..., Any]:
    own: tuple[Field[Any], ...] = fields(cls)
    known: dict[str, Any] = {"_MISSING": MISSING, **setters}
    known |= {_DEFAULT + one.name: one.default for one in own if one.default is not MISSING}
    known |= {_MAKE + one.name: one.default_factory for one in own}
    by_position = [_parameter(one) for one in own if one.init and not one.kw_only]
    by_name = [_parameter(one) for one in own if one.init and one.kw_only]
    body = [assignment.format(name=one.name, value=_value(one)) for one in own if _is_set(one)]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ["self", *by_position, *(["*", *by_name] if by_name else [])]
    return _compile(parameters, body or ["pass"], known)


def _write_replace(cls: type) -> Callable[..., Any]:
    names = [one.name for one in fields(cls) if one.init]
    given = ", ".join(f"{name}=self.{name} if {name} is _KEPT else {name}" for name in names)
    parameters = ["self", "/", *(["*"] if names else []), *(f"{name}=_KEPT" for name in names)]
    # A class that inherits the method makes values of its own.
    return _compile(parameters, [f"return self.__class__({given})"], {"_KEPT": _KEPT})


def _parameter(one: Field[Any]) -> str:
    if one.default is not MISSING:
        return f"{one.name}={_DEFAULT}{one.name}"
    return one.name if one.default_factory is MISSING else f"{one.name}=_MISSING"


def _is_set(one: Field[Any]) -> bool:
    return one.init or one.default is not MISSING or one.default_factory is not MISSING


def _value(one: Field[Any]) -> str:
    made = f"{_MAKE}{one.name}()"
    if one.default_factory is MISSING:
        return one.name if one.init else _DEFAULT + one.name
    return f"{made} if {one.name} is _MISSING else {one.name}" if one.init else made


def _write_comparison(sign: str, cls: type) -> Callable[..., Any]:
    compared = f"{_parts(cls, 'self')} {sign} {_parts(cls, 'other')}"
    same = "other.__class__ is self.__class__"
    return _compile(["self", "other"], [f"return {compared} if {same} else NotImplemented"], {})


_write_eq = partial(_write_comparison, "==")
_ORDER: dict[str, _Write] = {
    "__lt__": partial(_write_comparison, "<"),
    "__le__": partial(_write_comparison, "<="),
    "__gt__": partial(_write_comparison, ">"),
    "__ge__": partial(_write_comparison, ">="),
}


def _write_hash(cls: type) -> Callable[..., Any]:
    return _compile(["self"], [f"return hash({_parts(cls, 'self')})"], {})


def _parts(cls: type, of: str) -> str:
    compared = [one.name for one in fields(cls) if one.compare]
    return f"({''.join(f'{of}.{name}, ' for name in compared)})"


def _compile(parameters: list[str], body: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    text = f"def method({', '.join(parameters)}):\n " + "\n ".join(body)
    exec(text, known)
    written: Callable[..., Any] = known["method"]
    return written


# ---- methods that every class shares


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(_self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
