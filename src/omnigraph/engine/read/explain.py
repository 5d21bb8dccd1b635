"""How a read would go about its work: its plan, with the index or the memory that each operator would use."""

from collections.abc import Iterator
from typing import assert_never

from omnigraph.compile.checked import Bm25, Nearest, Ranking, Rrf
from omnigraph.compile.plan.explain import render_operator
from omnigraph.compile.plan.operators import (
    Anti,
    Argument,
    Expand,
    Filter,
    Group,
    Operator,
    OptionalJoin,
    Product,
    Project,
    Rank,
    Scan,
    Slice,
    Sort,
)
from omnigraph.compile.plan.visit import list_inputs
from omnigraph.engine.read.operators.expand import hop_note
from omnigraph.engine.read.operators.scan import access_of
from omnigraph.engine.read.profile import Step, steps_of
from omnigraph.engine.read.reader import Reader
from omnigraph.storage.values import IndexKind


def explain_steps(reader: Reader) -> tuple[Step, ...]:
    """The operators of a plan from the result down, each with the way it would take; nothing is run."""
    return tuple(_explain_operator(reader.plan.root, reader, 0))


def measure_steps(reader: Reader) -> tuple[Step, ...]:
    """The operators of a plan that was run with a profile, each with what it did."""
    assert reader.profile is not None, "only a run with a profile is measured"
    return steps_of(reader.plan.root, reader.profile)


def _explain_operator(operator: Operator, reader: Reader, depth: int) -> Iterator[Step]:
    yield Step(
        operator=render_operator(operator), depth=depth, notes=tuple(_notes(operator, reader))
    )
    for below in list_inputs(operator):
        yield from _explain_operator(below, reader, depth + 1)


def _notes(operator: Operator, reader: Reader) -> Iterator[str]:
    match operator:
        case Scan(search=search):
            yield access_of(operator, reader, explain_only=True).note
            for test in search:
                yield f"terms of {test.field.property}"
        case Expand():
            yield hop_note(operator, reader)
        case Rank(ranking=ranking):
            yield from _ranking_notes(ranking, reader)
        case (
            Argument() | Filter() | Product() | Anti() | OptionalJoin() | Group() | Sort()
            | Slice() | Project()
        ):  # fmt: skip
            return
        case _:
            assert_never(operator)


def _ranking_notes(ranking: Ranking, reader: Reader) -> Iterator[str]:
    match ranking:
        case Bm25(field=field):
            yield f"terms of {field.property} in memory"
        case Nearest(field=field):
            covered = reader.entities(field.variable).covered(field.property, IndexKind.VECTOR)
            way = "vector index on" if covered else "vectors compared one by one:"
            yield f"{way} {field.property}"
        case Rrf(first=first, second=second):
            yield from _ranking_notes(first, reader)
            yield from _ranking_notes(second, reader)
