"""Runs the tables of the query grammar on tokens, and calls the tree builder for every completed rule.

Lark makes the tables. Its own loop passes every operand through each rank of operators, one reduction after another; here
such a chain is one look-up, which makes a long text three times as quick.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, cast

from lark import Lark, Token
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

from omnigraph.language.query.tokens import END

_Build = Callable[[list[Any]], Any]
_Reduction = tuple[int, str, _Build | None]
"""How many values a rule replaces, its name, and what makes one value of them; None hands its only value on."""
_Table = Mapping[int, Mapping[str, tuple[Any, Any]]]


class Tables:
    """The tables of a grammar; steps are prepared when they are first taken, since one text takes few of them."""

    def __init__(self, grammar: Lark, builder: object) -> None:
        found = grammar.parse_interactive().parser_state.parse_conf
        self.states: _Table = found.states
        self.start, self.end = cast(int, found.start_state), cast(int, found.end_state)
        self.steps: dict[int, dict[str, int | _Reduction]] = {state: {} for state in self.states}
        self.chains: dict[tuple[int, int, str], int] = {}
        self._builder = builder
        self._reductions: dict[Rule, _Reduction] = {}

    def prepare(self, state: int, kind: str) -> "int | _Reduction | None":
        """Prepare what a state does with a terminal: the state to shift to, or a reduction; None when it takes none."""
        action, target = self.states[state].get(kind, (None, None))
        if action is None:
            return None
        step = cast(int, target) if action is Shift else self._reduce(target)
        self.steps[state][kind] = step
        return step

    def follow(self, below: int, state: int, kind: str) -> int:
        """Find the state behind all rules that only hand a value on."""
        following = state
        while True:
            step = self.steps[following].get(kind) or self.prepare(following, kind)
            if step is None or isinstance(step, int) or step[2] is not None:
                break
            following = self.states[below][step[1]][1]
        self.chains[below, state, kind] = following
        return following

    def _reduce(self, rule: Rule) -> _Reduction:
        found = self._reductions.get(rule)
        if found is None:
            name = str(rule.origin.name)
            found = len(rule.expansion), name, _find_build(rule, name, self._builder)
            self._reductions[rule] = found
        return found


class Automaton:
    """One reading of a text: the states and values so far.

    `choices` holds the terminals that may be taken now, and the rules that may begin; merged states list too many.
    """

    def __init__(self, tables: Tables) -> None:
        self.result: Any = None
        self.choices: Mapping[str, object] = tables.states[tables.start]
        self._tables = tables
        self._states = [tables.start]
        self._values: list[Any] = []

    def feed(self, token: Token, kind: str) -> bool:
        """Take a token as a terminal; False when it does not fit, behind the rules that it completed."""
        tables, states, values = self._tables, self._states, self._values
        steps, chains, targets = tables.steps, tables.chains, tables.states
        while True:
            state = states[-1]
            step = steps[state].get(kind)
            if step is None:
                step = tables.prepare(state, kind)
            if step.__class__ is int:
                states.append(step)
                values.append(token)
                self.choices = targets[step]
                return True
            if step is None:
                self.choices = targets[state]
                return False
            size, name, build = step  # type: ignore[misc]
            if build is None:
                below = states[-2]
                states[-1] = chains.get((below, state, kind)) or tables.follow(below, state, kind)
                continue
            if size:
                taken = values[-size:]
                del values[-size:], states[-size:]
            else:
                taken = []
            state = targets[states[-1]][name][1]
            values.append(build(taken))
            states.append(state)
            if kind == END and state == tables.end:
                self.result = values[-1]
                return True

    def accepted(self) -> frozenset[str]:
        """The terminals that can really be taken now."""
        return frozenset(kind for kind in self.choices if kind.isupper() and self._takes(kind))

    def _takes(self, kind: str) -> bool:
        states = list(self._states)
        targets = self._tables.states
        while True:
            action, target = targets[states[-1]].get(kind, (None, None))
            if action is None or action is Shift:
                return action is not None
            del states[len(states) - len(target.expansion) :]
            states.append(targets[states[-1]][target.origin.name][1])
            if kind == END and states[-1] == self._tables.end:
                return True


# ---- from the values of a rule to one


def _find_build(rule: Rule, name: str, builder: object) -> _Build | None:
    """Choose what makes one value of those of a rule; None for a rule of one value that only hands it on."""
    picks = tuple(_list_picks(rule))
    repeated = any(pick is not None and _is_repetition(rule, pick) for pick in picks)
    if name.startswith("_"):
        return _collect(rule, picks)
    if rule.options.expand1 and not rule.alias and len(picks) == 1 and not repeated:
        return None if len(rule.expansion) == 1 else itemgetter(picks[0])
    method: Callable[..., Any] = getattr(builder, str(rule.alias or name))
    if repeated:
        collect = _collect(rule, picks)
        return lambda values: method(*collect(values))
    return _call(rule, picks, method)


def _list_picks(rule: Rule) -> Iterator[int | None]:
    """The places of the values that a method gets; None for one that the text leaves out."""
    place = 0
    for left_out in rule.options.empty_indices or (False,) * len(rule.expansion):
        if left_out:
            yield None
            continue
        symbol = rule.expansion[place]
        if not (symbol.is_term and getattr(symbol, "filter_out", False)):
            yield place
        place += 1


def _is_repetition(rule: Rule, place: int) -> bool:
    """Whether a value is a list whose items stand for themselves: Lark writes `x*` as a rule of its own."""
    symbol = rule.expansion[place]
    return not symbol.is_term and str(symbol.name).startswith("_")


def _collect(rule: Rule, picks: tuple[int | None, ...]) -> _Build:
    places = [(pick, pick is not None and _is_repetition(rule, pick)) for pick in picks]

    def collect(values: list[Any]) -> list[Any]:
        # The list of a repetition grows in place: a copy for every item would be quadratic.
        found: list[Any] = []
        for pick, repeats in places:
            if pick is None:
                found.append(None)
            elif not repeats:
                found.append(values[pick])
            elif found:
                found += values[pick]
            else:
                found = values[pick]
        return found

    return collect


def _call(rule: Rule, picks: tuple[int | None, ...], method: Callable[..., Any]) -> _Build:
    size = len(rule.expansion)
    if picks == tuple(range(size)):
        return lambda values: method(*values)
    if len(picks) == 1:
        only = picks[0]
        return lambda values: method(None if only is None else values[only])
    choose = itemgetter(*(size if pick is None else pick for pick in picks))
    if None not in picks:
        return lambda values: method(*choose(values))

    def call(values: list[Any]) -> Any:
        values.append(None)
        return method(*choose(values))

    return call
