"""Any text that parses is either refused with findings or checked into something whole."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.compile.check import check_error, check_findings
from omnigraphdb.compile.checked import (
    Bind,
    Checked,
    CheckedRead,
    EntityRef,
    Hop,
    Pattern,
    PropertyRef,
)
from omnigraphdb.compile.descriptor import describe_operation
from omnigraphdb.errors import OmniError
from omnigraphdb.language.query.parse import parse_findings
from omnigraphdb.language.source import Source
from tests.support.compiling import EXTENDED, harbour
from tests.unit.compile.test_check_codes import ACCEPTED, MUTATIONS, READS

TOKEN = re.compile(r'"[^"]*"|\$?\w+|[<>!=]=?|[^\s\w]')
BODIES = [(params, body) for _, params, body, _ in READS + MUTATIONS] + list(ACCEPTED)
TEXTS = [TOKEN.findall(f"query q({params}) {{ {body} }}") for params, body in BODIES]
BLOCKS = [
    TOKEN.findall(text)
    for text in (
        "not { $v callsAt $p not { $p feeds $x } }",
        "optional { $v $c:callsAt $p }",
        "not { $v callsAt $x }",
        "$p is null or $v.dwt in [1, 2]",
        "$_ feeds $_",
        "$x feeds $p",
    )
]
PIECES = TEXTS + BLOCKS


@st.composite
def spliced(draw: st.DrawFn) -> str:
    """A query with a stretch of another put into it, or a stretch left out."""
    tokens = list(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(tokens)))
        other = draw(st.sampled_from(PIECES))
        start = draw(st.integers(0, len(other)))
        length = draw(st.integers(0, 16))
        tokens[at : at + draw(st.integers(0, 3))] = other[start : start + length]
    return (EXTENDED if draw(st.booleans()) else "") + " ".join(tokens)


@given(spliced())
def test_a_query_is_refused_with_findings_or_checked_whole(text: str) -> None:
    source = Source(text)
    file, _ = parse_findings(source)
    for query in file.queries if file else ():
        checked, found = check_findings(query, harbour(), source)
        assert (checked is None) == bool(found)
        if checked is None:
            assert isinstance(check_error(found, harbour(), source), OmniError)
            assert all(d.message and d.code and d.query_name for d in found)
        else:
            describe_operation(checked, harbour())
            assert_whole(checked)


def assert_whole(checked: Checked) -> None:
    """Every variable used is one that is introduced, once, where its users can see it."""
    if not isinstance(checked, CheckedRead):
        return
    introduced: list[str] = []
    if checked.stages or checked.union:
        return
    _assert_block(checked.pattern, frozenset(), introduced)
    inner = frozenset(variable.name for variable in checked.pattern.row_variables)
    for block in checked.blocks:
        _assert_block(block.pattern, inner, introduced)
    assert sorted(introduced) == sorted(checked.variables)
    rows = {variable.name for variable in checked.pattern.row_variables}
    assert set(used(checked.columns)) | set(used(checked.order)) <= rows


def _assert_block(block: Pattern, visible: frozenset[str], introduced: list[str]) -> None:
    own = {variable.name for variable in block.variables}
    assert own.isdisjoint(visible)
    introduced += own
    inner = visible | own
    for optional in block.optionals:
        _assert_block(optional, inner, introduced)
        inner |= {variable.name for variable in optional.row_variables}
    asked = (value.pattern for value in block.blocks)
    for negation in (*block.negations, *block.existences, *asked):
        _assert_block(negation, inner, introduced)
    mentioned = {*used(block.binds), *used(block.hops), *used(block.conditions)}
    assert mentioned <= inner
    assert mentioned & visible <= block.outer <= visible
    assert len({bind.variable for bind in block.binds}) == len(block.binds)
    _assert_reached(block)


def _assert_reached(block: Pattern) -> None:
    """From scans and outer variables, hops lead to everything else."""
    own = {variable.name for variable in block.variables}
    reached = {bind.variable for bind in block.binds} | block.outer
    for _ in block.hops:
        for hop in block.hops:
            if {hop.left, hop.right} & reached:
                reached |= {hop.left, hop.right} | ({hop.edge_variable} - {None})  # type: ignore[operator]
    assert own <= reached


def used(part: object) -> Iterator[str]:
    """The variables a part of a checked query refers to."""
    match part:
        case PropertyRef() | EntityRef() | Bind():
            yield part.variable
        case Hop():
            yield from (n for n in (part.left, part.right, part.edge_variable) if n)
    if isinstance(part, tuple):
        for item in part:
            yield from used(item)
    elif is_dataclass(part):
        for one in fields(part):
            yield from used(getattr(part, one.name))
