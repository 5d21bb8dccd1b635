"""Hand the tests of a scanned variable to its scan, so that storage and its indexes answer them."""

from dataclasses import replace

from omnigraph.compile.checked import TextMatch
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.operators import Filter, Operator, Scan
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import add_filter
from omnigraph.compile.plan.visit import has_text, rewrite


def push_into_scans(plan: Plan) -> Plan:
    """Split each filter on a scan into what storage tests, what the text index finds, and the rest."""
    return plan.with_root(lambda root: rewrite(root, _push_operator))


def _push_operator(operator: Operator) -> Operator:
    match operator:
        case Filter(input=Scan() as scan, conditions=tests):
            search = tuple(test for test in tests if isinstance(test, TextMatch))
            plain = tuple(test for test in tests if not has_text(test))
            mixed = tuple(test for test in tests if has_text(test) and test not in search)
            scan = replace(
                scan, filter=_add_tests(scan.filter, plain), search=(*scan.search, *search)
            )
            return add_filter(scan, mixed)
        case _:
            return operator


def _add_tests(tests: tuple[Test, ...], more: tuple[Test, ...]) -> tuple[Test, ...]:
    return tuple(dict.fromkeys((*tests, *more)))
