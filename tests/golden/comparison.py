"""The comparison of a record with a new one: additions are allowed, everything else is a difference."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.golden.forms import IN_ORDER, Entries, format_entry

_NAMED: Final = re.compile(r"<(?:id|moment|token) \d+>")


@dataclass
class Comparison:
    """What a new record has more than the recorded one, and in which entries it says something else.

    A name such as `<id 4>` may have another number in the new record, if it has it everywhere.
    """

    additions: list[str] = field(default_factory=list)
    differences: dict[str, list[str]] = field(default_factory=dict)
    """The places that differ, by entry."""
    diff: str = ""
    _renamed: dict[str, str] = field(default_factory=dict)
    _taken: dict[str, str] = field(default_factory=dict)
    _entry: str = ""

    def compare(self, recorded: Entries, now: Entries) -> None:
        """Compare every entry."""
        for name, value in recorded.items():
            self._entry = name
            if name in now:
                self._compare(value, now[name], "")
            else:
                self._note("", "the entry is gone")
        self.additions += [f"{name}: a new entry" for name in now if name not in recorded]
        self.diff = "\n".join(self._draw(recorded, now))

    def _compare(self, old: Any, new: Any, path: str) -> None:
        match old, new:
            case {"absent": _}, _ if not isinstance(new, dict) or "absent" not in new:
                self.additions.append(f"{self._entry}{path}: no longer absent")
            case dict(), dict() if set(old) == set(new) == {IN_ORDER}:
                self._compare_order(old[IN_ORDER], new[IN_ORDER], path)
            case dict(), dict():
                self._compare_objects(old, new, path)
            case list(), list():
                if len(old) != len(new):
                    self._note(path, f"{len(old)} items became {len(new)}")
                for number, (one, other) in enumerate(zip(old, new, strict=False)):
                    self._compare(one, other, f"{path}[{number}]")
            case str(), str():
                if not self._is_same_text(old, new):
                    self._note(path, f"{old!r} became {new!r}")
            case _:
                if type(old) is not type(new) or old != new:
                    self._note(path, f"{old!r} became {new!r}")

    def _compare_objects(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        named = iter([name for name in new if _NAMED.search(name)])
        for name, value in old.items():
            key = next(named, name) if _NAMED.search(name) else name
            if key not in new or not self._is_same_text(name, key):
                self._note(f"{path}.{name}", "is gone")
            else:
                self._compare(value, new[key], f"{path}.{name}")
        self.additions += [
            f"{self._entry}{path}.{name}: added"
            for name in new
            if name not in old and not _NAMED.search(name)
        ]

    def _compare_order(self, old: list[Any], new: list[Any], path: str) -> None:
        rest = iter(new)
        for value in old:
            for other in rest:
                if other == value:
                    break
                self.additions.append(f"{self._entry}{path}: {other!r} added")
            else:
                self._note(path, f"{value!r} is gone or moved")
                return
        self.additions += [f"{self._entry}{path}: {other!r} added" for other in rest]

    def _is_same_text(self, old: str, new: str) -> bool:
        if _NAMED.split(old) != _NAMED.split(new):
            return False
        pairs = list(zip(_NAMED.findall(old), _NAMED.findall(new), strict=True))
        for one, other in pairs:
            if self._renamed.setdefault(one, other) != other:
                return False
            if self._taken.setdefault(other, one) != one:
                return False
        return True

    def _note(self, path: str, text: str) -> None:
        self.differences.setdefault(self._entry, []).append(f"{path or 'the entry'}: {text}")

    def _draw(self, recorded: Entries, now: Entries) -> Iterator[str]:
        for name, places in self.differences.items():
            yield f"{name}:"
            yield from (f"    {place}" for place in places)
            old, new = format_entry(recorded[name]), format_entry(now.get(name))
            new = _NAMED.sub(lambda match: self._taken.get(match[0], match[0]), new)
            yield from difflib.unified_diff(
                old.split("\n"), new.split("\n"), "recorded", "now", lineterm=""
            )
            yield ""
