"""Runs the tables of the query grammar on tokens, and calls the tree builder for every completed rule.

Lark makes the tables. Its own loop passes every operand through each rank of operators, one reduction after another; here
such a chain is one look-up, which makes a long text three times as quick.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

from omnigraphdb.language.query.tokens import END

_Build = Callable[..., Any]
_Reduction = tuple[int, str, _Build | None]
"""The number of values of a rule, its name, and the function that joins them; None hands the only value on."""
_Table = Mapping[int, Mapping[str, tuple[Any, Any]]]


class State:
    """A state of the parser: its choices by terminal, and the steps from it that were prepared before."""

    __slots__ = ("choices", "landings", "steps")

    def __init__(self, choices: Mapping[str, tuple[Any, Any]]) -> None:
        self.choices = choices
        self.steps: dict[str, State | _Reduction] = {}
        self.landings: dict[tuple[str, str], tuple[State, State | _Reduction | None]] = {}


class Tables:
    """The tables of a grammar; steps are prepared when they are first taken, since one text takes few of them."""

    def __init__(self, grammar: Lark, builder: object) -> None:
        configuration = grammar.parse_interactive().parser_state.parse_conf
        table: _Table = configuration.states
        self._states = {number: State(choices) for number, choices in table.items()}
        self.start, self.end = (
            self._states[configuration.start_state],
            self._states[configuration.end_state],
        )
        self._builder = builder
        self._reductions: dict[Rule, _Reduction] = {}

    def prepare(self, state: State, kind: str) -> State | _Reduction | None:
        """Prepare the step of a state for a terminal: a state to shift to, or a reduction; None when none fits."""
        action, target = state.choices.get(kind, (None, None))
        if action is None:
            return None
        step = self._states[target] if action is Shift else self._reduce(target)
        state.steps[kind] = step
        return step

    def land(self, below: State, name: str, kind: str) -> tuple[State, State | _Reduction | None]:
        """Find the state behind a completed rule, past rules that only hand its value on, and the state's next step."""
        behind = name
        while True:
            state = self.go(below, behind)
            # The end is taken where the whole text is one value.
            is_done = kind == END and state is self.end
            step = None if is_done else state.steps.get(kind) or self.prepare(state, kind)
            if step.__class__ is not tuple or step[2] is not None:
                below.landings[name, kind] = state, step
                return state, step
            behind = step[1]

    def go(self, below: State, name: str) -> State:
        """Return the state behind a rule."""
        return self._states[below.choices[name][1]]

    def _reduce(self, rule: Rule) -> _Reduction:
        reduction = self._reductions.get(rule)
        if reduction is None:
            name = str(rule.origin.name)
            reduction = len(rule.expansion), name, _find_build(rule, name, self._builder)
            self._reductions[rule] = reduction
        return reduction


class Automaton:
    """One reading of a text: the states and values so far.

    `choices` holds the terminals that may be taken now, and the rules that may begin; merged states list too many.
    """

    def __init__(self, tables: Tables) -> None:
        self.result: Any = None
        self.choices: Mapping[str, object] = tables.start.choices
        self._tables = tables
        self._states = [tables.start]
        self._values: list[Any] = []

    def feed(self, token: Token, kind: str) -> bool:
        """Take a token as a terminal; return False when it does not fit behind the rules that it completed."""
        states, values = self._states, self._values
        state = states[-1]
        step = state.steps.get(kind) or self._tables.prepare(state, kind)
        while step.__class__ is tuple:
            size, name, build = step
            if build is not None:
                start = len(values) - size
                parts = values[start:]
                del values[start:], states[start + 1 :]
                values.append(build(*parts))
            else:
                states.pop()
            # A rule and the rules that only hand its value on are one look-up.
            below = states[-1]
            landing = below.landings.get((name, kind)) or self._tables.land(below, name, kind)
            state, step = landing
            states.append(state)
        if step is None:
            return self._finish(kind)
        states.append(step)  # type: ignore[arg-type]
        values.append(token)
        self.choices = step.choices  # type: ignore[union-attr]
        return True

    def _finish(self, kind: str) -> bool:
        state = self._states[-1]
        if kind != END or state is not self._tables.end:
            self.choices = state.choices
            return False
        self.result = self._values[-1]
        return True

    def accepted(self) -> frozenset[str]:
        """Return the terminals that can really be taken now."""
        return frozenset(kind for kind in self.choices if kind.isupper() and self._takes(kind))

    def _takes(self, kind: str) -> bool:
        states = list(self._states)
        while True:
            action, target = states[-1].choices.get(kind, (None, None))
            if action is None or action is Shift:
                return action is not None
            del states[len(states) - len(target.expansion) :]
            states.append(self._tables.go(states[-1], target.origin.name))
            if kind == END and states[-1] is self._tables.end:
                return True


# ---- from the values of a rule to one


def _find_build(rule: Rule, name: str, builder: object) -> _Build | None:
    """Choose the function that makes the value of a rule; None for a rule that only hands its one part on."""
    picks = tuple(_list_picks(rule))
    repeated = any(pick is not None and _is_repetition(rule, pick) for pick in picks)
    if name.startswith("_"):
        return _collect(rule, picks)
    if rule.options.expand1 and not rule.alias and len(picks) == 1 and not repeated:
        return None if len(rule.expansion) == 1 else _pick(picks[0])
    method: Callable[..., Any] = getattr(builder, str(rule.alias or name))
    if repeated:
        collect = _collect(rule, picks)
        return lambda *values: method(*collect(*values))
    return _call(rule, picks, method)


def _list_picks(rule: Rule) -> Iterator[int | None]:
    """List the positions of the values that a method gets; None for a value that the text leaves out."""
    position = 0
    for left_out in rule.options.empty_indices or (False,) * len(rule.expansion):
        if left_out:
            yield None
            continue
        symbol = rule.expansion[position]
        if not (symbol.is_term and getattr(symbol, "filter_out", False)):
            yield position
        position += 1


def _is_repetition(rule: Rule, position: int) -> bool:
    """Whether a value is the list of a repetition: Lark writes `x*` as a rule of its own."""
    symbol = rule.expansion[position]
    return not symbol.is_term and str(symbol.name).startswith("_")


def _collect(rule: Rule, picks: tuple[int | None, ...]) -> _Build:
    marked_picks = [(pick, pick is not None and _is_repetition(rule, pick)) for pick in picks]

    def collect(*values: Any) -> list[Any]:
        # The list of a repetition grows in place: a copy for every item would be quadratic.
        items: list[Any] = []
        for pick, repeats in marked_picks:
            if pick is None:
                items.append(None)
            elif not repeats:
                items.append(values[pick])
            elif items:
                items += values[pick]
            else:
                items = values[pick]
        return items

    return collect


def _pick(position: int | None) -> _Build:
    return lambda *values: None if position is None else values[position]


def _call(rule: Rule, picks: tuple[int | None, ...], method: _Build) -> _Build:
    size = len(rule.expansion)
    if picks == tuple(range(size)):
        return method
    if len(picks) == 1:
        pick = _pick(picks[0])
        return lambda *values: method(pick(*values))
    choose = itemgetter(*(size if pick is None else pick for pick in picks))
    if None not in picks:
        return lambda *values: method(*choose(values))
    return lambda *values: method(*choose((*values, None)))
