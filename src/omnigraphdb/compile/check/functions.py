"""The types of operators and functions: the operands that each takes, and the type of its value."""

import re
from collections.abc import Callable, Iterable, Sequence

from omnigraphdb.catalog.types import FLOATS, INTEGERS, NUMBERS, PropertyType, Scalar
from omnigraphdb.compile.checked import Call, Const, Duration, EntityRef, Operand, ParamRef
from omnigraphdb.values import replace

TEXT = PropertyType(scalar=Scalar.STRING)
WHOLE = PropertyType(scalar=Scalar.I64)
BROKEN = PropertyType(scalar=Scalar.F64)
TRUTH = PropertyType(scalar=Scalar.BOOL)

TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_DATE_TRUNCATIONS = TRUNCATIONS[:5]


def find_common_type(types: Iterable[PropertyType]) -> PropertyType | None:
    """Return the type that holds the values of all types, else None; numbers become I64 or F64."""
    members = list(types)
    nullable = any(type_.nullable for type_ in members)
    first = members[0]
    if all(type_.is_numeric for type_ in members):
        return replace(_number(members), nullable=nullable)
    are_equal = all(
        (type_.scalar, type_.is_list, type_.dimension)
        == (first.scalar, first.is_list, first.dimension)
        for type_ in members
    )
    if not are_equal or first.is_blob:
        return None
    return replace(first, enum_values=(), nullable=nullable)


def _number(types: Sequence[PropertyType]) -> PropertyType:
    return BROKEN if any(type_.scalar in FLOATS for type_ in types) else WHOLE


# ---- arithmetic


def type_arithmetic(op: str, left: Operand, right: Operand) -> PropertyType | None:
    """Return the type of `left op right`, None if the operands do not fit."""
    nullable = left.type.nullable or right.type.nullable
    if _is_number(left) and _is_number(right):
        return replace(_number((left.type, right.type)), nullable=nullable)
    if op in ("+", "-") and is_duration(right) and is_moment(left.type):
        return left.type if _fits_date(left, right) else None
    if op == "+" and is_duration(left) and is_moment(right.type):
        return right.type if _fits_date(right, left) else None
    return None


def _is_number(operand: Operand) -> bool:
    return operand.type.is_numeric and not is_nothing(operand)


def is_nothing(operand: Operand) -> bool:
    """Whether an operand is the literal `null`, which has no type of its own."""
    return isinstance(operand, Const) and operand.value is None


def is_moment(type_: PropertyType) -> bool:
    """Whether this is a Date or a DateTime."""
    return type_.is_plain and type_.scalar in (Scalar.DATE, Scalar.DATETIME)


# ---- durations


_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]{1,6})Y)?(?:([0-9]{1,6})M)?(?:([0-9]{1,6})W)?(?:([0-9]{1,6})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> Duration | None:
    """Read an ISO 8601 duration of whole units; return None for any other text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    years, months, weeks, days, hours, minutes, seconds = (
        int(number or 0) for number in match.groups()
    )
    return Duration(
        years * 12 + months, weeks * 7 + days, ((hours * 60 + minutes) * 60 + seconds) * 1000
    )


def is_duration(operand: Operand) -> bool:
    """Whether an operand is a duration."""
    return isinstance(operand, Const) and isinstance(operand.value, Duration)


def _fits_date(moment: Operand, duration: Operand) -> bool:
    assert isinstance(duration, Const)
    assert isinstance(duration.value, Duration)
    return moment.type.scalar is Scalar.DATETIME or not duration.value.milliseconds


# ---- functions


Result = PropertyType | str
"""The type of a call, or a text of the arguments that the function takes when they do not fit."""


def _takes(
    *kinds: Callable[[Operand], bool], minimum: int, takes: str, gives: PropertyType
) -> "Rule":
    def rule(arguments: Sequence[Operand]) -> Result:
        count = minimum <= len(arguments) <= len(kinds)
        fits = count and all(kind(operand) for kind, operand in zip(kinds, arguments, strict=False))
        return gives if fits else takes

    return rule


Rule = Callable[[Sequence[Operand]], Result]


def _text(operand: Operand) -> bool:
    return operand.type.is_text and not isinstance(operand, EntityRef)


def _integer(operand: Operand) -> bool:
    return operand.type.is_plain and operand.type.scalar in INTEGERS


def _moment(operand: Operand) -> bool:
    return is_moment(operand.type)


def _list(operand: Operand) -> bool:
    return operand.type.is_list and not operand.type.is_blob


def _same_number(arguments: Sequence[Operand]) -> Result:
    if len(arguments) == 1 and arguments[0].type.is_numeric:
        return _number((arguments[0].type,))
    return "one number"


def _round(arguments: Sequence[Operand]) -> Result:
    fits = 1 <= len(arguments) <= 2 and arguments[0].type.is_numeric
    if fits and all(map(_is_digits, arguments[1:])):
        return _number((arguments[0].type,))
    return "a number, and how many digits behind the point to keep: an integer from 0 to 15"


def _is_digits(operand: Operand) -> bool:
    if isinstance(operand, ParamRef):
        return _integer(operand)
    return isinstance(operand, Const) and operand.value in range(16)


def _concat(arguments: Sequence[Operand]) -> Result:
    return TEXT if arguments and all(map(_text, arguments)) else "one or more Strings"


def _truncate(arguments: Sequence[Operand]) -> Result:
    match arguments:
        case [Const(value=str() as unit), moment] if _moment(moment):
            is_date = moment.type.scalar is Scalar.DATE
            units = _DATE_TRUNCATIONS if is_date else TRUNCATIONS
            if unit in units:
                return moment.type
            return f"one of {', '.join(units)} in quotes, and a Date or a DateTime"
    return f"one of {', '.join(TRUNCATIONS)} in quotes, and a Date or a DateTime"


def _item(arguments: Sequence[Operand]) -> Result:
    if len(arguments) == 1 and _list(arguments[0]):
        return replace(arguments[0].type, is_list=False, nullable=True)
    return "one list"


def _one_text(gives: PropertyType) -> Rule:
    return _takes(_text, minimum=1, takes="one String", gives=gives)


def _one_moment() -> Rule:
    return _takes(_moment, minimum=1, takes="a Date or a DateTime", gives=WHOLE)


RULES: dict[str, Rule] = {
    "lower": _one_text(TEXT),
    "upper": _one_text(TEXT),
    "trim": _one_text(TEXT),
    "length": _one_text(WHOLE),
    "substring": _takes(
        *(_text, _integer, _integer),
        minimum=2,
        takes="a String, where to begin (from 1), and how many characters",
        gives=TEXT,
    ),
    "replace": _takes(
        *(_text, _text, _text), minimum=3, takes="a String, what to find, what to put", gives=TEXT
    ),
    "concat": _concat,
    "abs": _same_number,
    "floor": _same_number,
    "ceil": _same_number,
    "round": _round,
    "year": _one_moment(),
    "month": _one_moment(),
    "day": _one_moment(),
    "date_trunc": _truncate,
    "size": _takes(_list, minimum=1, takes="one list", gives=WHOLE),
    "first": _item,
    "last": _item,
}
"""The functions whose arguments are plain values; NULL gives NULL."""


def type_call(function: str, arguments: Sequence[Operand]) -> Result:
    """Return the type of a call of a function of plain values."""
    result = RULES[function](arguments)
    if isinstance(result, str):
        return result
    return replace(
        result, nullable=result.nullable or any(argument.type.nullable for argument in arguments)
    )


def give_type(operand: Operand, target: PropertyType) -> Operand:
    """Return the same value with a type that holds it; `null` takes any type."""
    if isinstance(operand, Const) and (operand.value is None or operand.value == ()):
        return replace(operand, type=replace(target, nullable=operand.value is None))
    if operand.type.scalar is target.scalar or not {operand.type.scalar, target.scalar} <= NUMBERS:
        return operand
    result_type = replace(target, nullable=operand.type.nullable)
    return Call(function="number", arguments=(operand,), type=result_type)
