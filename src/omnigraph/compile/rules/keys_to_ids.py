"""Read the id in place of a single String key, because they are equal and the id always has an index."""

from collections.abc import Mapping

from omnigraph.compile.checked import EntityRef, PropertyRef
from omnigraph.compile.plan.plan import Plan, Slot
from omnigraph.compile.plan.rebuild import change_leaves
from omnigraph.compile.plan.visit import Change, Reference


def keys_to_ids(plan: Plan) -> Plan:
    """Replace every read of such a key, in tests, order and result alike."""
    slots = plan.by_name
    return change_leaves(plan, Change(reference=lambda leaf: _id(leaf, slots)))


def _id(leaf: Reference, slots: Mapping[str, Slot]) -> Reference:
    match leaf:
        case PropertyRef(variable=variable, property=name) if slots[variable].key == name:
            return EntityRef(variable=variable, type=leaf.type)
        case _:
            return leaf
