"""Masks: ids, moments, addresses and durations of a recording, replaced by their order of first appearance."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

YEAR_MIN: Final = 2025
"""Moments from this year on are those of the recording; the data of the sessions is older."""
MOMENT_US_MIN: Final = int(datetime(YEAR_MIN, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
MOMENT_US_MAX: Final = 4 * MOMENT_US_MIN
SECOND_US: Final = 1_000_000
DIGITS: Final = 9
"""Significant digits of a fraction; the last ones are those of the machine."""

_ULID: Final = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
_UUID: Final = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_DAY: Final = r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\d"
_TIME: Final = r"[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_PATTERN: Final = re.compile(
    rf"(?P<id>(?<![0-9A-Za-z]){_ULID}(?![0-9A-Za-z]))"
    rf"|(?P<uuid>(?<![0-9a-zA-Z]){_UUID}(?![0-9a-zA-Z]))"
    rf"|(?P<prefix>(?<![0-9A-Za-z])01[0-9A-HJKMNP-TV-Z]{{4,24}}(?![0-9A-Za-z]))"
    rf"|(?P<moment>{_DAY}{_TIME})"
    rf"|(?P<day>{_DAY})"
    rf"|(?P<us>(?<![0-9A-Za-z.])1[789]\d{{14}}(?![0-9A-Za-z]))"
    rf"|(?P<address>(?:127\.0\.0\.1|localhost):\d{{4,5}})"
    rf"|(?P<took>(?<![\w.])\d[\d,]*(?:\.\d+)? ?(?:ms|µs)(?!\w))"
    rf"|(?P<removed>(?<=versions, )\d[\d,]* bytes)"
    rf"|(?P<ago>just now|\d+ (?:second|minute)s? ago)"
)
_LONG_WORDS: Final = re.compile(r"[0-9A-Za-z_+/=.-]{24,}")


@dataclass
class Mask:
    """Replaces what differs between two recordings of the same code; equal values get equal names."""

    places: Mapping[str, str]
    """Texts, such as folders, and what stands for them."""
    tokens: tuple[str, ...] = ()
    """Ends of keys of JSON objects whose texts are opaque to whoever reads them."""
    measures: frozenset[str] = frozenset()
    """Keys of JSON objects whose numbers are measured: durations, processes, ages."""
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def mask(self, value: Any, key: str | None = None) -> Any:
        """Replace in a value of JSON; `key` is the name that the value has in its object."""
        match value:
            case dict():
                return {self.mask_text(name): self.mask(one, name) for name, one in value.items()}
            case list() | tuple():
                return [self.mask(one, key) for one in value]
            case bool() | None:
                return value
            case int() | float() if key in self.measures:
                return f"<{key}>"
            case int() if MOMENT_US_MIN <= value < MOMENT_US_MAX:
                return self._name_moment(value)
            case float():
                return float(f"{value:.{DIGITS}g}") if value == value else "NaN"
            case str() if (key or "").endswith(self.tokens) and _LONG_WORDS.fullmatch(value):
                return self._name("token", value)
            case str():
                return self.mask_text(value)
        return value

    def mask_text(self, text: str) -> str:
        """Replace in a text."""
        for place, name in self.places.items():
            text = text.replace(place, name)
        for (kind, value), name in self._names.items():
            if kind == "token":
                text = text.replace(value, name)
        return _PATTERN.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match[0]
        replacements: Mapping[str, Callable[[], str]] = {
            "id": lambda: self._name("id", text),
            "uuid": lambda: self._name("id", text),
            "prefix": lambda: "<short id>",
            "moment": lambda: self._name_text(text),
            "day": lambda: "<day>",
            "us": lambda: self._name_moment(int(text)),
            "address": lambda: "<address>",
            "took": lambda: "<duration>",
            "removed": lambda: "<bytes>",
            "ago": lambda: "<age>",
        }
        return replacements[kind]()

    def _name_text(self, text: str) -> str:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
        us = (delta.days * 86_400 + delta.seconds) * SECOND_US + delta.microseconds
        return self._name_moment(us)

    def _name_moment(self, us: int) -> str:
        # Two moments of one second are equal or not by chance.
        return "<second>" if us % SECOND_US == 0 else self._name("moment", str(us))

    def _name(self, kind: str, value: str) -> str:
        if (kind, value) not in self._names:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            self._names[kind, value] = f"<{kind} {number}>"
        return self._names[kind, value]


def name_places(folder: Path) -> dict[str, str]:
    """Name the folder of a recording, in each of its spellings."""
    return {str(folder.resolve()): "<folder>", str(folder): "<folder>"}
