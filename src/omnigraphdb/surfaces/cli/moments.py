"""Moments and ids as people read them: how long ago on a terminal, in full elsewhere."""

import sys
from collections.abc import Iterable
from datetime import datetime

from omnigraphdb.display import count_of, format_time
from omnigraphdb.runtime import SYSTEM, datetime_of
from omnigraphdb.surfaces.cli.terminal import is_terminal

_UNITS = (("year", 31_557_600), ("month", 2_629_800), ("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60))  # fmt: skip
ID_CHARS_MIN = 12


def spell_age(moment: datetime, now: datetime | None = None) -> str:
    """How long ago a moment was: `3 minutes ago`."""
    seconds = int(((now or datetime_of(SYSTEM.now_us())) - moment).total_seconds())
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{count_of(seconds // length, unit)} ago"
    return "just now" if seconds < 10 else f"{seconds} seconds ago"


def show_moment(moment: datetime) -> str:
    """A moment for stdout; programs read the same text whenever they run."""
    return spell_age(moment) if is_terminal(sys.stdout) else format_time(moment)


def shorten_ids(ids: Iterable[str]) -> int:
    """How many characters tell ids apart; programs get all of them."""
    known = list(ids)
    longest = max(map(len, known), default=0)
    if not is_terminal(sys.stdout):
        return longest
    lengths = range(min(ID_CHARS_MIN, longest), longest + 1)
    return next((n for n in lengths if len({one[:n] for one in known}) == len(set(known))), longest)
