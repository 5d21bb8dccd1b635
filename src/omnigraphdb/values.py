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
        """Make a dataclass of a class, as `dataclasses.dataclass` does, but without `InitVar`."""

        def define(decorated):
            return _define(decorated, frozen=frozen, eq=eq, order=order, **options)

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
    own_names = {name for name, value in vars(cls).items() if value is not None}
    # The standard decorator would spell out a signature for a class without a docstring.
    cls.__doc__ = cls.__doc__ or cls.__name__
    data_class: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    # A class that inherits a `__repr__` keeps it.
    inherited_repr: Any = cls.__repr__
    methods: dict[str, Any] = {"__repr__": _repr} if inherited_repr is object.__repr__ else {}
    methods["__init__"] = _defer(
        data_class, "__init__", _write_frozen_init if frozen else _write_init
    )
    methods["__replace__"] = _defer(data_class, "__replace__", _write_replace)
    if eq:
        methods["__eq__"] = _defer(data_class, "__eq__", _write_eq)
        methods["__hash__"] = _defer(data_class, "__hash__", _write_hash) if frozen else None
    if order:
        methods |= {name: _defer(data_class, name, write) for name, write in _ORDER.items()}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and options.get("slots"):
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own_names:
            setattr(data_class, name, method)
    return data_class


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
    slots = {_SLOT + field.name: getattr(cls, field.name, None) for field in fields(cls)}
    setters = {
        name: slot.__set__ for name, slot in slots.items() if isinstance(slot, MemberDescriptorType)
    }
    if len(setters) == len(slots):
        return _write_any_init(cls, _SLOT + "{name}(self, {value})", setters)
    return _write_any_init(cls, "_set(self, {name!r}, {value})", {"_set": object.__setattr__})


def _write_any_init(
    cls: type, assignment: str, setters: Mapping[str, Any] = MappingProxyType({})
) -> Callable[..., Any]:
    class_fields: tuple[Field[Any], ...] = fields(cls)
    namespace: dict[str, Any] = {"_MISSING": MISSING, **setters}
    namespace |= {
        _DEFAULT + field.name: field.default
        for field in class_fields
        if field.default is not MISSING
    }
    namespace |= {_MAKE + field.name: field.default_factory for field in class_fields}
    by_position = [_parameter(field) for field in class_fields if field.init and not field.kw_only]
    by_name = [_parameter(field) for field in class_fields if field.init and field.kw_only]
    body = [
        assignment.format(name=field.name, value=_value(field))
        for field in class_fields
        if _is_set(field)
    ]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ["self", *by_position, *(["*", *by_name] if by_name else [])]
    return _compile(parameters, body or ["pass"], namespace)


def _write_replace(cls: type) -> Callable[..., Any]:
    names = [field.name for field in fields(cls) if field.init]
    arguments = ", ".join(f"{name}=self.{name} if {name} is _KEPT else {name}" for name in names)
    parameters = ["self", "/", *(["*"] if names else []), *(f"{name}=_KEPT" for name in names)]
    # A class that inherits the method makes values of its own.
    return _compile(parameters, [f"return self.__class__({arguments})"], {"_KEPT": _KEPT})


def _parameter(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}={_DEFAULT}{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=_MISSING"


def _is_set(field: Field[Any]) -> bool:
    return field.init or field.default is not MISSING or field.default_factory is not MISSING


def _value(field: Field[Any]) -> str:
    factory_call = f"{_MAKE}{field.name}()"
    if field.default_factory is MISSING:
        return field.name if field.init else _DEFAULT + field.name
    return (
        f"{factory_call} if {field.name} is _MISSING else {field.name}"
        if field.init
        else factory_call
    )


def _write_comparison(sign: str, cls: type) -> Callable[..., Any]:
    compared = f"{_parts(cls, 'self')} {sign} {_parts(cls, 'other')}"
    is_same_class = "other.__class__ is self.__class__"
    return _compile(
        ["self", "other"], [f"return {compared} if {is_same_class} else NotImplemented"], {}
    )


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
    compared = [field.name for field in fields(cls) if field.compare]
    return f"({''.join(f'{of}.{name}, ' for name in compared)})"


def _compile(
    parameters: list[str], body: list[str], namespace: dict[str, Any]
) -> Callable[..., Any]:
    text = f"def method({', '.join(parameters)}):\n " + "\n ".join(body)
    exec(text, namespace)
    written: Callable[..., Any] = namespace["method"]
    return written


# ---- methods that every class shares


@recursive_repr()
def _repr(self: Any) -> str:
    members = ", ".join(
        f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({members})"


def _refuse_to_set(_self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
