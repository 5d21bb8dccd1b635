"""Put the values of one call into a plan that serves many."""

from collections.abc import Mapping
from datetime import datetime

from omnigraph.compile.checked import Const, Now, ParamRef
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.leaves import Change, Fixed
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import change_leaves
from omnigraph.compile.rules.coerce_literals import coerce_test
from omnigraph.compile.rules.fold_constants import fold_test


def fill(plan: Plan, values: Mapping[str, object], now: datetime) -> Plan:
    """Replace parameters and `now()` by constants, then coerce and fold what they take part in.

    `values` holds every declared parameter as a typed Python value, None for NULL. The plan itself is
    not changed; a plan without parameters or `now()` is given back as it is.
    """

    def fixed(leaf: Fixed) -> Fixed:
        if isinstance(leaf, ParamRef):
            return Const(value=values[leaf.name], type=leaf.type)
        return leaf

    def instant(leaf: Now) -> Const:
        return Const(value=now, type=leaf.type)

    def settle(test: Test) -> Test:
        return fold_test(coerce_test(test), plan.by_name)

    return change_leaves(plan, Change(fixed=fixed, now=instant), settle)
