"""Words that errors share: values cut to a bound, close names."""

from collections.abc import Iterable, Sequence

from omnigraphdb.later import Later
from omnigraphdb.limits import SUGGESTED_CHARS_MAX, SUGGESTIONS_MAX, VALUE_SHOWN_CHARS_MAX

display, json = Later("omnigraphdb.display"), Later("json")


def shorten(value: object, limit: int = VALUE_SHOWN_CHARS_MAX) -> str:
    """Word a user value for a message: quoted as JSON would, cut to a bound."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply to show"
    except (TypeError, ValueError):
        text = repr(value)
    text = text[1:-1] if isinstance(value, str) else text
    text = escape_controls(printable(text))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Return a text that can be printed, sent and stored: half a surrogate pair cannot, its escape can."""
    return text.encode("utf-8", "backslashreplace").decode()


def escape_controls(text: str) -> str:
    """Make a text harmless to terminals: spell control characters and direction marks as JSON spells them."""
    spelt: str = text if text.isprintable() else display.escape_controls(text)
    return spelt


def did_you_mean(name: str, candidates: Iterable[str]) -> list[str]:
    """List close names: equal but for case first, then within a third of the length in edits.

    A single letter is not close to another: changing all of a name leaves nothing of it.
    """
    names = list(dict.fromkeys(candidates)) if len(name) <= SUGGESTED_CHARS_MAX else []
    folded = [n for n in names if n.lower() == name.lower() and n != name]
    distance = min(max(1, len(name) // 3), len(name) - 1)
    near = sorted((_edits(name.lower(), n.lower()), n) for n in names if n not in folded)
    return (folded + [n for edits, n in near if edits <= distance])[:SUGGESTIONS_MAX]


def suggestion(near: Sequence[str]) -> str:
    """Word close names as `; did you mean 'a' or 'b'?`, or nothing."""
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def _edits(a: str, b: str) -> int:
    """Edit distance in which two swapped neighbours count as one slip."""
    if abs(len(a) - len(b)) > max(1, len(a) // 3):
        return max(len(a), len(b))
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, row = row, current
    return row[-1]
