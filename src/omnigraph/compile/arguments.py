"""Parameters where a query uses them: what a value must be beyond its declared type."""

from collections.abc import Mapping
from typing import Any

from omnigraph.compile.checked import (
    Checked,
    CheckedRead,
    Demand,
    ParamRef,
)
from omnigraph.compile.params import bind
from omnigraph.errors import ParamError, shorten


def bind_arguments(
    checked: Checked, given: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Bind the parameters of a query and hold each to the use that is made of it.

    A text to search for, a vector to rank by, a limit and an offset cannot be NULL; a limit, an
    offset and an edit distance cannot be negative, and the constant of a fusion must be positive.
    """
    values = bind(checked.params, given, strict=strict)
    if isinstance(checked, CheckedRead):
        for demand in checked.demands:
            _require(demand, values[demand.parameter.name])
    return values


def _require(demand: Demand, value: object) -> None:
    parameter, word, least = demand.parameter, demand.word, demand.least
    if value is None:
        raise _make_refusal(parameter, "P05", f"{word} cannot be null", "null")
    if least is not None and isinstance(value, int) and value < least:
        raise _make_refusal(parameter, "P02", f"{word} must be at least {least}", shorten(value))


def _make_refusal(reference: ParamRef, code: str, rule: str, came: str) -> ParamError:
    message = (
        f"parameter '{reference.name}' ({reference.type}): {rule}, got {came}. Nothing was run"
    )
    return ParamError(reference.name, code, message, expected=str(reference.type), got=came)
