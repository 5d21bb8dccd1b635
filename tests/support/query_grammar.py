"""The grammar of queries as the reference page shows it, and sentences made from what the page shows."""

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from omnigraphdb.language.query import parse
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS, PUNCTUATION, SCALARS

_FILE = Path(parse.__file__).with_name("query.lark")
_NAMED = {
    "WORD": "name",
    "TYPE": "type_name",
    "VARIABLE": "variable_name",
    "SUBJECT": "variable_name",
    "STRING": "string",
    "INT": "digits",
    "FLOAT": "decimal",
}
_PLACED = {"GROUP": '"("', "SIGN": '"-"', "EDGE_OPEN": '"<"', "ANY_EDGE": '"--"', "ROW": '"$"'}
_WRITTEN = {
    "COUNT": '"count"',
    "VECTOR": '"Vector"',
    "MCP": '"@mcp"',
    "ANNOTATION": '( "@description" | "@instruction" )',
    "SCALAR": "( " + " | ".join(f'"{one}"' for one in sorted(SCALARS)) + " )",
}
_RULE = re.compile(r"^[?!]?([a-z_0-9]+): (.*)$")
_PART = re.compile(r'"[^"]*"|[A-Za-z_0-9]+|[()\[\]|*+?]')


def spell_terminals() -> dict[str, str]:
    """Every terminal of the grammar as the page writes it."""
    spelled: dict[str, list[str]] = {}
    for word, terminal in (KEYWORDS | FUNCTIONS | PUNCTUATION).items():
        spelled.setdefault(terminal, []).append(f'"{word}"')
    joined = {
        terminal: words[0] if len(words) == 1 else f"( {' | '.join(words)} )"
        for terminal, words in spelled.items()
    }
    return joined | _NAMED | _PLACED | _WRITTEN


def show_grammar() -> str:
    """The grammar file with its terminals spelled out, and without what only the tree builder needs."""
    spelled = spell_terminals()
    shown: list[str] = []
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith(("//", "%declare")):
            continue
        bare = re.sub(r"\s+-> \w+$", "", line)
        rule = _RULE.match(bare)
        head, body = (f"{rule[1]} = ", rule[2]) if rule else ("", bare)
        shown.append(head + re.sub(r"\b_?[A-Z][A-Z_0-9]*\b", lambda one: spelled[one[0]], body))
    text = re.sub(r"\n{2,}", "\n", "\n".join(shown)).strip()
    return f"```\n{text}\n```\n"


# ---- sentences

Grammar = Mapping[str, list[str]]

_EXAMPLES = {
    "name": ("alpha", "beta", "gamma"),
    "type_name": ("Port", "Vessel"),
    "variable_name": ("$a", "$b"),
    "string": ('"x"', '"2026-01-01"'),
    "digits": ("1", "2"),
    "decimal": ("1.5",),
}


def read_grammar(text: str) -> dict[str, list[str]]:
    """The rules of a shown grammar, each as a list of its parts."""
    rules: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        head = re.match(r"^([a-z_0-9]+) = ", line)
        if head:
            name = head[1]
        rules.setdefault(name, []).extend(_PART.findall(line[head.end() if head else 0 :]))
    return rules


class Sentences:
    """Sentences of a grammar; deep inside, the first alternative and the fewest repetitions are taken."""

    def __init__(self, grammar: Grammar, seed: int, depth_max: int = 12) -> None:
        self._rules = {name: _read_choice(parts, 0)[0] for name, parts in grammar.items()}
        self._heights = _measure_heights(self._rules)
        self._chance = random.Random(seed)
        self._depth_max = depth_max

    def make(self, rule: str, depth: int = 0) -> Iterator[str]:
        """The words of one sentence."""
        if rule in _EXAMPLES:
            yield self._chance.choice(_EXAMPLES[rule])
        else:
            yield from self._write(self._rules[rule], depth + 1)

    def _choose(self, nodes: "list[Node]", deep: bool) -> "Node":
        if deep:
            return min(nodes, key=lambda one: _height(one, self._heights))
        return self._chance.choice(nodes)

    def _write(self, node: "Node", depth: int) -> Iterator[str]:
        kind, held = node
        deep = depth > self._depth_max
        match kind:
            case "word":
                assert isinstance(held, str)
                yield held
            case "rule":
                assert isinstance(held, str)
                yield from self.make(held, depth)
            case "choice":
                assert isinstance(held, list)
                yield from self._write(self._choose(held, deep), depth)
            case "all":
                for one in held:
                    assert isinstance(one, tuple)
                    yield from self._write(one, depth)
            case _:
                assert isinstance(held, list)
                least = 1 if kind == "+" else 0
                times = least if deep else self._chance.randint(least, 1 if kind == "?" else 2)
                # A comma that may be left out keeps a sign behind it from being an operator.
                if held == [("word", ",")]:
                    times = 1
                for _ in range(times):
                    yield from self._write(held[0], depth)


Node = tuple[str, "str | list[Node]"]


def _measure_heights(rules: Mapping[str, Node]) -> dict[str, int]:
    """How deep the lowest sentence of each rule is."""
    heights = dict.fromkeys(rules, 1_000)
    for _ in rules:
        heights |= {name: 1 + _height(node, heights) for name, node in rules.items()}
    return heights


def _height(node: Node, heights: Mapping[str, int]) -> int:
    kind, held = node
    if isinstance(held, str):
        return heights.get(held, 0) if kind == "rule" else 0
    if kind in "*?":
        return 0
    found = [_height(one, heights) for one in held]
    return min(found) if kind == "choice" else max(found, default=0)


def _read_choice(parts: list[str], at: int) -> tuple[Node, int]:
    found: list[Node] = []
    here: list[Node] = []
    while at < len(parts) and parts[at] not in (")", "]"):
        part = parts[at]
        at += 1
        match part:
            case "|":
                found.append(("all", here))
                here = []
            case "(" | "[":
                inner, at = _read_choice(parts, at)
                at += 1
                here.append(inner if part == "(" else ("?", [inner]))
            case "*" | "+" | "?":
                here[-1] = (part, [here[-1]])
            case _:
                here.append(("word", part[1:-1]) if part[0] == '"' else ("rule", part))
    return ("choice", [*found, ("all", here)]), at
