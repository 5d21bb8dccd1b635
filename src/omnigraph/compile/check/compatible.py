"""Which types go together: in a comparison, as member of a list, as value of a property."""

from omnigraph.catalog.types import NUMBERS, PropertyType, Scalar


def comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether two types compare: one scalar each, equal or both numeric; an enum is text."""
    return left.is_plain and right.is_plain and _akin(left, right)


def member_of(item: PropertyType, container: PropertyType) -> bool:
    """Whether a value can be an item of a list type."""
    is_list = container.is_list and not container.is_blob
    return is_list and item.is_plain and _akin(item, container)


def storable(given: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be assigned to a property of another."""
    if target.is_vector or given.is_vector:
        return target.dimension == given.dimension
    if target.is_list or given.is_list:
        return target.is_list and given.is_list and _akin(given, target)
    if target.is_blob:
        return given.scalar in (Scalar.STRING, Scalar.BLOB)
    return comparable(given, target)


def _akin(left: PropertyType, right: PropertyType) -> bool:
    return left.scalar is right.scalar or {left.scalar, right.scalar} <= NUMBERS
