"""Move every `not` down to a single test, where an index or the opposite operator can answer it."""

from omnigraph.compile.plan.algebra import Always, Test, push_down_negations
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import change_tests


def push_negations(plan: Plan) -> Plan:
    """Apply de Morgan's laws, which hold for unknown too, until only single tests are negated."""
    return change_tests(plan, _push_test)


def _push_test(test: Test) -> Test:
    return test if isinstance(test, Always) else push_down_negations(test)
