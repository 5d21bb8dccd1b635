"""Bodies of writes that are refused, and what is changed in a body to make a bad one."""

import json
import random
import string
from typing import Any

NOWHERE = "a/branch/that/is/nowhere"
REFUSED: dict[str, dict[str, Any]] = {
    "mutate": {
        "query": "query q() { insert Nope { a: 1 } }",
        "branch": NOWHERE,
        "params": {"x": 1},
    },
    "load": {"data": '{"type": "Nope", "data": {}}\n', "branch": NOWHERE, "mode": "append"},
    "ingest": {"data": '{"type": "Nope", "data": {}}\n', "from": NOWHERE, "mode": "merge"},
    "createBranch": {"name": "no name: it has spaces", "from": NOWHERE},
    "createTag": {"name": "no name: it has spaces", "branch": NOWHERE},
    "mergeBranches": {"source": NOWHERE, "target": NOWHERE, "delete_branch": False},
    "applySchema": {"schema_source": "node {", "allow_data_loss": False},
    "invokeQuery": {"params": {"x": 1}, "branch": NOWHERE, "expect_mutation": True},
}
"""Bodies of writes that are refused, and stay so however a field of them is changed."""
REFUSED["mutateIfGraphCommit"] = REFUSED["change"] = REFUSED["mutate"]
REFUSED["invokeQueryIfGraphCommit"] = REFUSED["invokeQuery"]
REFUSED["mergeBranchesIfGraphCommit"] = REFUSED["mergeBranches"]
REFUSED["applySchemaIfGraphCommit"] = REFUSED["applySchema"]


MAINTAINING = frozenset({"ensureIndices", "optimize", "cleanup", "repair"})
"""Writes that take an empty body: they change files, and no row."""


def change_value(drawn: random.Random, value: Any) -> Any:
    """Something else in the place of a value: of another type, too long, too deep, or text that is no text."""
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    others = [
        None, True, -1, 1.5, 10**30, "", "\0", "\ud800", "x" * 5000, "../../etc/passwd", "%2e%2e", "‮",
        [], {}, [value], {"a": value}, deep, {"": {"": {}}},
    ]  # fmt: skip
    return drawn.choice(others)


def change_body(drawn: random.Random, body: dict[str, Any]) -> bytes:
    """A body with one thing wrong: a field, or some bytes."""
    changed: dict[str, Any] = dict(body)
    name = drawn.choice(list(body))
    match drawn.randrange(5):
        case 0:
            changed[name] = change_value(drawn, body[name])
        case 1:
            changed["".join(drawn.choices(string.printable, k=5))] = 1
        case 2:
            del changed[name]
        case _:
            pass
    text = bytearray(json.dumps(changed).encode())
    if changed == body:
        for _ in range(drawn.randrange(1, 4)):
            place = drawn.randrange(len(text))
            match drawn.randrange(3):
                case 0:
                    text[place] = drawn.randrange(256)
                case 1:
                    del text[place:]
                    text += b" "
                case 2:
                    text[place:place] = bytes(drawn.randrange(256) for _ in range(3))
    return bytes(text)
