"""Turn a negated block that only tests outer variables into a filter, which can go down to a scan."""

from omnigraph.compile.plan.algebra import Always, Test, all_of, may_be_empty, negate_test
from omnigraph.compile.plan.operators import Anti, Argument, Filter, Operator
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import add_filter
from omnigraph.compile.plan.visit import rewrite


def negations_to_filters(plan: Plan) -> Plan:
    """Replace `not { tests }` by the test that they are not all true: some are false or unknown."""
    return plan.with_root(lambda root: rewrite(root, _as_filter))


def _as_filter(operator: Operator) -> Operator:
    match operator:
        case Anti(input=below, inner=Filter(input=Argument(), conditions=tests)) if not any(
            may_be_empty(test) for test in tests
        ):
            return add_filter(below, (_refute(tests),))
        case _:
            return operator


def _refute(tests: tuple[Test, ...]) -> Test:
    test = all_of(tests)
    return Always(not test.value) if isinstance(test, Always) else negate_test(test)
