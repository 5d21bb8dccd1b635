"""What the conformance files say of query texts holds before any graph is opened."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile.check import check_mutation, check_read
from omnigraphdb.compile.checked import CheckedMutation, CheckedRead
from omnigraphdb.compile.params import bind_arguments
from omnigraphdb.errors import OmniError
from omnigraphdb.language.source import Source
from tests.conformance import run

COMPILED = re.compile(r"T\d+|P\d\d|Q\d+|QueryError|ParamError")
"""Refusals that need no data; W codes may come from here or from the write itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """One read or mutation of a case, with the schema it meets."""

    id: str
    catalog: Catalog
    facts: dict[str, Any]


def steps() -> Iterator[Step]:
    for case in run.cases():
        if case.file == "schema_text.yaml":
            continue
        catalog = compile_schema(case.schema)
        for position, facts in enumerate(_flat(case.steps)):
            if "schema_apply" in facts and "error" not in facts:
                catalog = compile_schema(facts["schema_apply"])
            if "query" in facts or "mutate" in facts:
                yield Step(f"{case.id}-{position}", catalog, facts)


def _flat(written: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for facts in written:
        yield from _flat(facts["concurrent"]) if "concurrent" in facts else [facts]


def compiled(step: Step) -> CheckedRead | CheckedMutation:
    facts = step.facts
    name, params = facts.get("name"), facts.get("params")
    if "query" in facts:
        read = check_read(Source(facts["query"]), step.catalog, name)
        bind_arguments(read, params)
        return read
    mutation = check_mutation(Source(facts["mutate"]), step.catalog, name)
    bind_arguments(mutation, params)
    return mutation


STEPS = list(steps())


@pytest.mark.parametrize("step", [s for s in STEPS if "error" not in s.facts], ids=lambda s: s.id)
def test_what_runs_compiles(step: Step) -> None:
    checked = compiled(step)
    if "columns" in step.facts and isinstance(checked, CheckedRead):
        assert [column.name for column in checked.columns] == step.facts["columns"]


@pytest.mark.parametrize(
    "step", [s for s in STEPS if COMPILED.search(str(s.facts.get("error", "")))], ids=lambda s: s.id
)
def test_what_is_wrong_in_itself_is_refused_by_code_and_names(step: Step) -> None:
    wanted = run._error_spec(step.facts["error"])
    with pytest.raises(OmniError) as caught:
        compiled(step)
    error = caught.value
    assert not wanted.get("code") or error.code in wanted["code"], error
    told = f"{error} {error.to_dict()}"
    assert [word for word in wanted.get("mentions") or () if str(word) not in told] == []
