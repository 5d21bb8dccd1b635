"""Turn a negated block that only tests outer variables into a filter, which can go down to a scan."""

from collections.abc import Mapping

from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.algebra import Always, Test, all_of, any_of, unless
from omnigraph.compile.checked import EntityRef, IsNull
from omnigraph.compile.operators import Anti, Argument, Filter, Operator, rewrite
from omnigraph.compile.plan import Plan, Slot
from omnigraph.compile.rebuild import filtered

_ID = PropertyType(scalar=Scalar.STRING, nullable=True)


def negations_to_filters(plan: Plan) -> Plan:
    """Replace `not { tests }` by the test that they are not all true: some are false or unknown."""
    slots = plan.by_name
    return plan.with_root(lambda root: rewrite(root, lambda one: _as_filter(one, slots)))


def _as_filter(operator: Operator, slots: Mapping[str, Slot]) -> Operator:
    match operator:
        case Anti(input=below, inner=Filter(input=Argument(), conditions=tests), on=on):
            return filtered(below, (any_of((_refuted(tests), *_unbound(on, slots))),))
        case _:
            return operator


def _refuted(tests: tuple[Test, ...]) -> Test:
    test = all_of(tests)
    return Always(not test.value) if isinstance(test, Always) else unless(test)


def _unbound(on: tuple[str, ...], slots: Mapping[str, Slot]) -> tuple[Test, ...]:
    """A missing optional entity matches no block, so its row stays whatever the tests say."""
    return tuple(
        IsNull(operand=EntityRef(variable=name, type=_ID), negated=False)
        for name in on
        if slots[name].optional
    )
