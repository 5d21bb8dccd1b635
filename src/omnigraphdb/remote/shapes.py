"""Answers against the shapes of the wire: where the first value stands that does not fit, and what it should be."""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, get_args, get_origin

from omnigraphdb.api.wire.hints import (
    UNIONS,
    fields_of,
    is_shape,
    name_value,
    required_names,
    spell_hint,
)
from omnigraphdb.errors import shorten

Misfit = str | None
Check = Callable[[Any], Misfit]


@cache
def make_check(hint: Any) -> Check:
    """Make the check of a type: it gives the place of the first misfit and what is wrong there, None where all fits.

    Names that a shape does not know are let through: a newer server says more.
    """
    origin = get_origin(hint)
    if hint is Any:
        return lambda _: None
    if is_shape(hint):
        return _check_object(hint)
    if origin in UNIONS:
        return _check_union(get_args(hint), hint)
    if origin is Literal:
        known = get_args(hint)
        return lambda value: (
            None if isinstance(value, str) and value in known else _tell(value, hint)
        )
    if origin is list:
        return _check_items(list, enumerate, make_check(get_args(hint)[0]), hint)
    if origin is dict:
        return _check_items(dict, dict.items, make_check(get_args(hint)[1]), hint)
    # What JSON gives has exactly these types, so that a truth value is no whole number.
    kinds = (int, float) if hint is float else (hint,)
    return lambda value: None if type(value) in kinds else _tell(value, hint)


def _check_object(shape: Any) -> Check:
    required = required_names(shape)

    def check(value: Any) -> Misfit:
        if type(value) is not dict:
            return _tell(value, shape)
        for name, fits in _make_checks(shape):
            if name in value:
                misfit = fits(value[name])
                if misfit is not None:
                    return f".{name}{misfit}"
            elif name in required:
                return f" has no '{name}'"
        return None

    return check


@cache
def _make_checks(shape: Any) -> tuple[tuple[str, Check], ...]:
    """Make the checks of the fields when a value comes: a shape may stand in itself."""
    return tuple((name, make_check(hint)) for name, hint in fields_of(shape).items())


def _check_items(kind: type, items: Callable[[Any], Any], fits: Check, hint: Any) -> Check:
    def check(value: Any) -> Misfit:
        if type(value) is not kind:
            return _tell(value, hint)
        for place, item in items(value):
            misfit = fits(item)
            if misfit is not None:
                return f"[{shorten(place)}]{misfit}"
        return None

    return check


def _check_union(members: tuple[Any, ...], hint: Any) -> Check:
    checks = tuple(make_check(one) for one in members)

    def check(value: Any) -> Misfit:
        misfits = [fits(value) for fits in checks]
        if None in misfits:
            return None
        # A misfit inside an object or a list says more than that none of the members fits.
        inside = [one for one in misfits if one is not None and not one.startswith(" is ")]
        return inside[0] if inside else _tell(value, hint)

    return check


def _tell(value: object, hint: Any) -> str:
    return f" is {name_value(value)}, not {spell_hint(hint)}"
