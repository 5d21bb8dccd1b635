"""The values that a parameter can have beside its type: those of the enum that it is compared with or assigned to."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import Assign, Checked, Compare, InList, ParamRef, PropertyRef


def find_choices(checked: Checked) -> dict[str, tuple[str, ...]]:
    """Find the enum values that each parameter may take; a parameter of several enums takes the values common to them."""
    choices: dict[str, tuple[str, ...]] = {}
    for name, type_ in _list_meetings(checked):
        values = choices.get(name, type_.enum_values)
        choices[name] = tuple(value for value in values if value in type_.enum_values)
    return choices


def _list_meetings(checked: Checked) -> Iterator[tuple[str, PropertyType]]:
    for part in _list_parts(checked):
        match part:
            case (
                Compare(left=PropertyRef(type=type_), op="=" | "!=", right=ParamRef(name=name))
                | Compare(left=ParamRef(name=name), op="=" | "!=", right=PropertyRef(type=type_))
                | InList(operand=PropertyRef(type=type_), choices=ParamRef(name=name))
                | Assign(value=ParamRef(name=name), type=type_)
            ) if type_.is_enum:
                yield name, type_
            case _:
                pass


def _list_parts(value: object) -> Iterator[object]:
    """List a checked tree and everything in it."""
    if isinstance(value, tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _list_parts(part)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in fields(value):
            yield from _list_parts(getattr(value, field.name))
