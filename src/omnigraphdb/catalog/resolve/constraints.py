"""The constraints of a declaration: the names that each may contain, and their normal form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.model import Check, Columns, Level, Range
from omnigraphdb.catalog.names import EDGE_ENDS
from omnigraphdb.catalog.resolve.draft import Draft, Drafts, Owner, type_shown
from omnigraphdb.catalog.types import NUMBERS, PropertyType, Scalar
from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import Findings
from omnigraphdb.language.schema import tree
from omnigraphdb.language.source import Span
from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = Later("pyarrow"), Later("pyarrow.compute")

_BOUND_CHARS_MAX = 400
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_EXACT_FLOAT_MAX = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The constraints of one type; key, unique and index groups each once, sorted by columns."""

    key: Columns | None = None
    unique: tuple[Columns, ...] = ()
    indices: tuple[Columns, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()


def read_rules(
    findings: Findings, owner: Owner, drafts: Drafts, constraints: Iterable[tree.Constraint]
) -> Rules:
    """Read the constraints on the properties and in the body of a declaration."""
    reader = _Reader(findings, owner, drafts)
    for draft in drafts.values():
        reader.property(draft)
    for constraint in constraints:
        reader.constraint(constraint)
    return reader.rules()


def normal_groups(groups: Iterable[Columns]) -> tuple[Columns, ...]:
    """List each group once, sorted by columns; spelled on the property when it is spelled both ways."""
    levels: dict[tuple[str, ...], Level] = {}
    for group in groups:
        if group.level is Level.PROPERTY or group.columns not in levels:
            levels[group.columns] = group.level
    return tuple(Columns(columns, levels[columns]) for columns in sorted(levels))


def with_key(indices: Iterable[Columns], key: Columns | None) -> tuple[Columns, ...]:
    """Add the index group that a key implies; an index on just the key adds nothing to it."""
    others = [group for group in indices if key is None or group.columns != key.columns]
    return normal_groups([*others, key] if key else others)


def range_order(bounds: Range) -> tuple[str, bool, float, bool, float]:
    """Make the sort key of ranges: property, then bounds, open ones first."""
    low, high = bounds.low, bounds.high
    return (bounds.property, low is not None, low or 0, high is not None, high or 0)


@dataclass(slots=True)
class _Reader:
    """One declaration, and the constraints read so far."""

    findings: Findings
    owner: Owner
    drafts: Drafts
    keys: list[tuple[Columns, Span]] = field(default_factory=list)
    unique: list[Columns] = field(default_factory=list)
    index: list[Columns] = field(default_factory=list)
    ranges: set[Range] = field(default_factory=set)
    checks: set[Check] = field(default_factory=set)

    def rules(self) -> Rules:
        """Return the normal form of the constraints that were read."""
        key = self._one_key()
        return Rules(
            key=key,
            unique=normal_groups(self.unique),
            indices=with_key(self.index, key),
            ranges=tuple(sorted(self.ranges, key=range_order)),
            checks=tuple(sorted(self.checks, key=lambda c: (c.property, c.pattern))),
        )

    def property(self, draft: Draft) -> None:
        """Read the marks of a property; those of an interface were checked where they stand."""
        for kind in sorted(draft.marks.flags):
            if not draft.inherited_from:
                self._eligible(kind, draft, Level.PROPERTY, draft.marks.flag_span)
            self._group(kind, Columns((draft.name,), Level.PROPERTY), draft.marks.flag_span)
        if draft.marks.embed and not draft.inherited_from:
            self._embed(draft)

    def constraint(self, written: tree.Constraint) -> None:
        """Read a constraint of the body."""
        if self.owner.kind is TypeKind.EDGE and written.kind in ("key", "range", "check"):
            self._report(
                "S054",
                written.span,
                f"'@{written.kind}' cannot constrain {self.owner.shown}: "
                "only node types have keys, ranges and checks",
                fix="remove it, or turn the edge into a node with two edges",
            )
            return
        match written.kind:
            case "range":
                self._range(written)
            case "check":
                self._check(written)
            case "key" | "unique" | "index":
                self._body_group(written)

    # ---- key, unique, index

    def _body_group(self, written: tree.Constraint) -> None:
        kind = written.kind
        for name in written.columns:
            if self._is_end(name.text):
                continue
            draft = self._find_property(written, name)
            if draft is not None:
                self._eligible(kind, draft, Level.BODY, name.span)
        columns = tuple(sorted({name.text for name in written.columns}))
        self._group(kind, Columns(columns, Level.BODY), written.span)

    def _is_end(self, column: str) -> bool:
        return self.owner.kind is TypeKind.EDGE and column in EDGE_ENDS

    def _group(self, kind: str, group: Columns, span: Span) -> None:
        if kind == "key":
            self.keys.append((group, span))
        else:
            (self.unique if kind == "unique" else self.index).append(group)

    def _one_key(self) -> Columns | None:
        groups = normal_groups(group for group, _ in self.keys)
        if len(groups) > 1:
            first, first_span = self.keys[0]
            other, span = next(key for key in self.keys if key[0].columns != first.columns)
            texts = [f"@key({shorten(', '.join(group.columns))})" for group in (first, other)]
            self._report(
                "S053",
                max(span, first_span),
                f"{self.owner.shown} has more than one key: {texts[0]} and {texts[1]}",
                earlier=min(span, first_span),
                fix="keep one, join them as @key(a, b), or make the other @unique",
            )
        return groups[0] if groups else None

    def _eligible(self, kind: str, draft: Draft, level: Level, span: Span) -> None:
        """Report a column that this kind of group cannot have."""
        type_ = draft.type
        if type_ is None:
            return
        where = self.owner.of(draft.name)
        if not _may_have(kind, type_, level):
            self._report(
                "S051",
                span,
                f"'@{kind}' cannot be on '{where}', which is {_a(type_)}: {_ELIGIBLE[kind]}",
                draft.name,
                fix="constrain another property",
                later=kind == "unique" and level is Level.BODY,
            )
        elif kind == "key" and type_.nullable:
            self._report(
                "S052",
                span,
                f"'@key' cannot be on '{where}', which is {_a(type_)}: a key is always there",
                draft.name,
                fix=f"write {shorten(draft.name)}: {type_shown(type_.required())}",
            )

    # ---- range, check, embed

    def _range(self, written: tree.Constraint) -> None:
        draft = self._find_property(written, written.columns[0])
        numbers = [
            self._bound(written, bound) if bound else None for bound in (written.low, written.high)
        ]
        if draft is None:
            return
        low, high = numbers
        where = self.owner.of(draft.name)
        if draft.type is not None and not draft.type.is_numeric:
            self._report(
                "S055",
                written.columns[0].span,
                f"'@range' needs a number, '{where}' is {_a(draft.type)}",
                draft.name,
                fix="constrain a number (I32, I64, U32, U64, F32 or F64)",
                later=draft.type.is_list and draft.type.scalar in NUMBERS,
            )
        elif low is not None and high is not None and low > high:
            self._report(
                "S059",
                written.span,
                f"the '@range' of '{where}' is empty: {low} is greater than {high}",
                draft.name,
                fix=f"write @range({shorten(draft.name)}, {high}..{low})",
                later=True,
            )
        self.ranges.add(Range(property=draft.name, low=low, high=high))

    def _bound(self, written: tree.Constraint, bound: tree.Number) -> int | float | None:
        value = parse_bound(bound.text)
        if value is None:
            self._report(
                "S057",
                bound.span,
                f"the bound {shorten(bound.text)} of '@range' on "
                f"'{self.owner.of(written.columns[0].text)}' does not fit in 64 bits",
                written.columns[0].text,
                fix="leave that side open",
            )
        return value

    def _check(self, written: tree.Constraint) -> None:
        draft = self._find_property(written, written.columns[0])
        if draft is None or written.pattern is None:
            return
        where, pattern = self.owner.of(draft.name), written.pattern.text
        if draft.type is not None and not draft.type.is_text:
            self._report(
                "S056",
                written.columns[0].span,
                f"'@check' needs one String or enum, '{where}' is {_a(draft.type)}",
                draft.name,
                fix="constrain a text property",
                later=draft.type.is_list and draft.type.scalar is Scalar.STRING,
            )
        fault = None if self.findings.stored else pattern_fault(pattern)
        if fault is not None:
            self._report(
                "S058",
                written.pattern.span,
                f"the pattern of '@check' on '{where}' does not compile: {fault}",
                draft.name,
                fix="use RE2 syntax, which has no look-around and no back-references",
                later=True,
            )
        self.checks.add(Check(property=draft.name, pattern=pattern))

    def _embed(self, draft: Draft) -> None:
        mark = draft.marks.embed
        if mark is None:
            return
        where, name = self.owner.of(draft.name), mark.embed.source
        if draft.type is not None and not draft.type.is_vector:
            self._report(
                "S060",
                draft.written.type.span,
                f"'@embed' needs a vector, '{where}' is {_a(draft.type)}",
                draft.name,
                fix="write Vector(n) with the dimension of the model",
            )
        source = self.drafts.get(name)
        if source is None:
            self._report(
                "S061",
                mark.span,
                f"'{where}' embeds '{shorten(name)}', which is not a property of {self.owner.shown}",
                draft.name,
                near=(name, self.drafts),
            )
        elif source.type is not None and not _is_free_text(source.type):
            self._report(
                "S062",
                mark.span,
                f"'{where}' embeds '{self.owner.of(name)}', which is {_a(source.type)}, not String",
                draft.name,
                fix="embed a String property",
            )

    # ---- shared

    def _find_property(self, written: tree.Constraint, name: tree.Name) -> Draft | None:
        """Find the property that a constraint names; a literal or an unknown name is reported."""
        if not name.text.isidentifier():
            self._report(
                "S057",
                name.span,
                f"'@{written.kind}' of {self.owner.shown} takes property names, "
                f"not {shorten(name.text)}".replace('\\"', '"'),
                fix=f"write @{written.kind} behind the property, or @{written.kind}(property, …)",
            )
            return None
        draft = self.drafts.get(name.text)
        if draft is None:
            ends = EDGE_ENDS if self.owner.kind is TypeKind.EDGE else ()
            self._report(
                "S050",
                name.span,
                f"'@{written.kind}' names '{self.owner.of(name.text)}', which is not a property",
                name.text,
                near=(name.text, chain(self.drafts, ends)),
            )
        return draft

    def _report(
        self,
        code: str,
        span: Span,
        message: str,
        property_name: str | None = None,
        *,
        fix: str | None = None,
        earlier: Span | None = None,
        near: tuple[str, Iterable[str]] | None = None,
        later: bool = False,
    ) -> None:
        self.findings.report(
            code,
            span,
            message,
            type_name=self.owner.name.text,
            property_name=property_name,
            fix=fix,
            earlier=earlier,
            near=near,
            later=later,
        )


_ELIGIBLE = {
    "key": "a key has no list, vector or Blob",
    "unique": "a unique group has no list, vector or Blob",
    "index": "lists and Blobs have no index",
}


def _may_have(kind: str, type_: PropertyType, level: Level) -> bool:
    if kind == "index":
        return not (type_.is_blob or (type_.is_list and level is Level.PROPERTY))
    return type_.is_plain


def _is_free_text(type_: PropertyType) -> bool:
    return type_.is_text and not type_.is_enum


def _a(type_: PropertyType) -> str:
    text = type_shown(type_)
    return f"an {text}" if text.startswith(("I", "e", "F")) else f"a {text}"


def parse_bound(text: str) -> int | float | None:
    """Read a bound; a whole one is an int however it is spelled, one beyond 64 bits is None."""
    if len(text) > _BOUND_CHARS_MAX:
        return None
    if "." not in text:
        integer = int(text)
        return integer if _INT64_MIN <= integer <= _UINT64_MAX else None
    number = float(text)
    if number.is_integer() and abs(number) <= _EXACT_FLOAT_MAX:
        return int(number)
    return number if abs(number) != float("inf") else None


def pattern_fault(pattern: str) -> str | None:
    """Return the reason why a pattern is not RE2, or None."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        return shorten(str(error).removeprefix("Invalid regular expression: "), 200)
    return None
