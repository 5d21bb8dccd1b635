"""Differences between the constraints of a type before and after, once the names of its properties are paired."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum

from omnigraphdb.catalog.diff.matching import DeclaredType
from omnigraphdb.catalog.model import Columns, EdgeType, Level, NodeType
from omnigraphdb.values import dataclass


class RuleKind(StrEnum):
    """The constraints a type may carry; only an index may be added later."""

    KEY = "key"
    UNIQUE = "unique"
    INDEX = "index"
    RANGE = "range"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One constraint: its demand, the properties that it concerns, and the level at which it was written."""

    kind: RuleKind
    columns: tuple[str, ...]
    low: int | float | None = None
    high: int | float | None = None
    pattern: str | None = None
    level: Level = Level.BODY

    @property
    def demand(self) -> "Rule":
        """The same rule without regard to its spelling."""
        return replace(self, level=Level.BODY)

    @property
    def column(self) -> str | None:
        """The only property it names, if there is one only."""
        return self.columns[0] if len(self.columns) == 1 else None

    def is_at(self, name: str) -> bool:
        """Whether the constraint is written at that property."""
        return self.level is Level.PROPERTY and self.column == name

    def renamed(self, becomes: Mapping[str, str]) -> "Rule":
        """Return the same rule after its properties got new names."""
        return replace(self, columns=tuple(sorted(becomes.get(c, c) for c in self.columns)))

    def __str__(self) -> str:
        match self.kind:
            case RuleKind.KEY | RuleKind.UNIQUE | RuleKind.INDEX:
                return f"@{self.kind}({', '.join(self.columns)})"
            case RuleKind.RANGE:
                return f"@range({self.column}, {_bound(self.low)}..{_bound(self.high)})"
            case RuleKind.CHECK:
                return f'@check({self.column}, "{self.pattern}")'


def _bound(value: float | None) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChanges:
    """The changes of the constraints of a type, in order, under the new property names."""

    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]
    moved: tuple[Rule, ...]
    """Spelled at the other level; `level` is the new one."""

    def of_property(self, name: str) -> "RuleChanges":
        """Return the changes of rules that were or are written at one property."""
        return RuleChanges(
            removed=tuple(r for r in self.removed if r.is_at(name)),
            added=tuple(r for r in self.added if r.is_at(name)),
            moved=tuple(r for r in self.moved if r.column == name),
        )

    def of_body(self) -> "RuleChanges":
        """Return the changes of rules that were and are written in the body."""
        return RuleChanges(
            removed=tuple(r for r in self.removed if r.level is Level.BODY),
            added=tuple(r for r in self.added if r.level is Level.BODY),
            moved=(),
        )


def compare_rules(old: DeclaredType, new: DeclaredType, becomes: Mapping[str, str]) -> RuleChanges:
    """Compare the constraints of a type with those of the type that it becomes."""
    before = {rule.demand: rule for rule in (rule.renamed(becomes) for rule in _rules(old))}
    after = {rule.demand: rule for rule in _rules(new)}
    return RuleChanges(
        removed=tuple(
            before[d] for d in _sort_rules(before) if d not in after and not _is_implied(d, after)
        ),
        added=tuple(
            after[d] for d in _sort_rules(after) if d not in before and not _is_implied(d, before)
        ),
        moved=tuple(
            after[d]
            for d in _sort_rules(after)
            if d in before and before[d].level != after[d].level
        ),
    )


def _sort_rules(rules: Iterable[Rule]) -> list[Rule]:
    kinds = list(RuleKind)
    return sorted(rules, key=lambda r: (kinds.index(r.kind), r.columns, str(r)))


def _is_implied(demand: Rule, others: Mapping[Rule, Rule]) -> bool:
    """Whether a key on the other side asks for the same index."""
    return demand.kind is RuleKind.INDEX and replace(demand, kind=RuleKind.KEY) in others


def _rules(declared: DeclaredType) -> Iterator[Rule]:
    """Yield every constraint of a type; the index that a key implies is part of the key."""
    key = None if isinstance(declared, EdgeType) else declared.key
    if key is not None:
        yield _group(RuleKind.KEY, key)
    yield from (_group(RuleKind.UNIQUE, group) for group in declared.unique)
    for group in declared.indices:
        if key is None or group.columns != key.columns:
            yield _group(RuleKind.INDEX, group)
    if isinstance(declared, NodeType):
        for bounds in declared.ranges:
            columns = (bounds.property,)
            yield Rule(kind=RuleKind.RANGE, columns=columns, low=bounds.low, high=bounds.high)
        for check in declared.checks:
            yield Rule(kind=RuleKind.CHECK, columns=(check.property,), pattern=check.pattern)


def _group(kind: RuleKind, group: Columns) -> Rule:
    return Rule(kind=kind, columns=tuple(sorted(group.columns)), level=group.level)
