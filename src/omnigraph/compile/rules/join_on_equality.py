"""Join the two sides of a product on an equality between them, so that it need not pair all rows."""

from dataclasses import replace

from omnigraph.catalog.types import FLOATS
from omnigraph.compile.checked import Compare, EntityRef, PropertyRef
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.operators import Filter, Operator, Product
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import add_filter
from omnigraph.compile.plan.visit import list_bound_variables, rewrite


def join_on_equality(plan: Plan) -> Plan:
    """Move equalities of equal types from a filter into the product below it, left side first."""
    return plan.with_root(lambda root: rewrite(root, _join_operator))


def _join_operator(operator: Operator) -> Operator:
    match operator:
        case Filter(input=Product() as product, conditions=tests):
            sides = list_bound_variables(product.left), list_bound_variables(product.right)
            found = {test: on for test in tests if (on := _equality(test, *sides)) is not None}
            rest = tuple(test for test in tests if test not in found)
            return add_filter(replace(product, on=(*product.on, *found.values())), rest)
        case _:
            return operator


def _equality(test: Test, left: frozenset[str], right: frozenset[str]) -> Compare | None:
    match test:
        case Compare(
            left=(PropertyRef() | EntityRef()) as one,
            op="=",
            right=(PropertyRef() | EntityRef()) as other,
        ) if one.type.scalar is other.type.scalar and one.type.scalar not in FLOATS:
            # Floats stay a filter: a hash would tell the two zeros apart.
            if one.variable in left and other.variable in right:
                return test
            if other.variable in left and one.variable in right:
                return Compare(left=other, op="=", right=one)
    return None
