"""Golden plans: a query on top, then its plan as lowered and after each rule that changed its text.

`python -m tests.support.plan_fixtures` writes the plans anew below every query; read the difference
before keeping it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile.check import check
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.rules import RULES
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source

FOLDER = Path(__file__).parents[1] / "fixtures" / "plans"
_HEADING = "== "


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCase:
    """One fixture: its query text and the text it should come to."""

    name: str
    query: str
    golden: str

    @property
    def read(self) -> CheckedRead:
        """The checked query."""
        return checked_read(self.query)

    @property
    def rendered(self) -> str:
        """The query and every stage of its plan."""
        shown = {_tree(plan): title for title, plan in reversed(list(stages_of(self.read)))}
        stages = (f"{_HEADING}{title}\n{tree}\n" for tree, title in reversed(shown.items()))
        return "\n".join((self.query, *stages))


def _tree(plan: Plan) -> str:
    return plan.text.partition("\n")[2]


@cache
def harbour() -> Catalog:
    """The schema of every fixture."""
    return compile_schema((FOLDER / "harbour.pg").read_text())


def checked_read(text: str) -> CheckedRead:
    """Parse and check the only query of a text, which is a read."""
    source = Source(text)
    file = parse_queries(source)
    checked = check(file.queries[0], harbour(), source)
    assert isinstance(checked, CheckedRead)
    return checked


def stages_of(read: CheckedRead) -> Iterator[tuple[str, Plan]]:
    """Give the lowered plan, then the plan after each rule that changed it."""
    plan = lower(read, harbour())
    yield "lowered", plan
    for rule in RULES:
        before, plan = plan, rule(plan)
        if plan != before:
            yield rule.__name__, plan


def cases() -> tuple[PlanCase, ...]:
    """Read every fixture."""
    return tuple(_case(path) for path in sorted(FOLDER.glob("*.plan")))


def _case(path: Path) -> PlanCase:
    text = path.read_text()
    return PlanCase(
        name=path.stem, query=text.partition(f"\n{_HEADING}")[0].rstrip("\n") + "\n", golden=text
    )


def main() -> None:
    """Write every plan anew."""
    for case in cases():
        (FOLDER / f"{case.name}.plan").write_text(case.rendered)


if __name__ == "__main__":
    main()
