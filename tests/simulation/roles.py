"""The roles of objects in a graph, and the shapes of its states: without names, ids and times."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from tests.simulation.bucket import Stored

_INNER: Final = (
    ("version", r"_versions/.*"),
    ("data", r"data/.*"),
    ("deletions", r"_deletions/.*"),
    ("index", r"_indices/.*"),
    ("transaction", r"_transactions/.*"),
    ("ref", r"_refs/branches/(?P<ref>.*)\.json"),
)
STAGED: Final = ("data", "deletions", "index", "transaction")
"""Files with names of their own, written by several threads at the same time."""
_ULID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def name_role(key: str, tables: Mapping[str, str]) -> str:
    """Name the role of a key in a graph: no id, no number, no time is in it."""
    path = key.partition("/")[2]
    table = re.match(
        r"(nodes/[^/]+|edges/[^/]+|__manifest|[^/]+\.lance)/(?:tree/(.+?)/(?=_|data/))?(.*)", path
    )
    if table is not None:
        at, branch, rest = table.groups()
        owner = tables.get(at, re.sub(r"/.*", "/?", at))
        for name, pattern in _INNER:
            inner = re.fullmatch(pattern, rest)
            if inner is not None:
                ref = inner.groupdict().get("ref")
                what = name if ref is None else f"{name} {ref}"
                return f"{what} of {owner}" + (f" on {branch}" if branch else "")
        return f"{rest} of {owner}"
    path = re.sub(r"-[0-9a-f]{16}\.json$", "", path)
    return _ULID.sub("*", path)


def order_races(roles: Sequence[str]) -> tuple[str, ...]:
    """Sort what threads do at the same time: files that are staged or removed, locks, and the versions of a group."""
    ordered: list[str] = []
    for race, members in groupby(roles, _name_race):
        together = list(members)
        ordered += sorted(together) if race else together
    return tuple(ordered)


def _name_race(role: str) -> str:
    verb, what, *_ = role.split()
    if what in STAGED or (verb == "DELETE" and what == "version"):
        return "files"
    if what == "version" and "__manifest" not in role:
        return "versions"
    return "locks" if what.startswith("__locks/") else ""


Shape = frozenset[tuple[str, int]]


def shape_of(objects: Stored) -> Shape:
    """Describe a state without names, ids and times: two states of one shape hold the same files and texts by role.

    Versions are counted, and the texts say what is going on. Files with names of their own are left out: nobody looks
    at those that no version names.
    """
    entries = Counter(_shape_entry(key, stored.data) for key, stored in objects.items())
    del entries[""]
    return frozenset(entries.items())


def _shape_entry(key: str, data: bytes) -> str:
    role = name_role(key, {})
    if role.startswith(STAGED):
        return ""
    if key.endswith(".json") and "/_refs/" not in key:
        role += f" {_strip(json.loads(data))}"
    return role


_SPELLED: Final = frozenset({"decision", "writer_kind"})
"""The fields of sidecars whose values say how far somebody is; of the others it is enough whether they are there."""


def _strip(value: object) -> object:
    """Keep of a text what does not differ from one run to the next."""
    if isinstance(value, dict):
        return {
            name: inner if name in _SPELLED else _strip(inner)
            for name, inner in sorted(value.items())
            if inner is not None
        }
    if isinstance(value, list):
        return [_strip(inner) for inner in value]
    return type(value).__name__
