"""Rewrites that drop needless work of a plan: variables after their last use, rows that are only counted."""

from typing import assert_never

from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Multiplicity,
    Operator,
    OptionalJoin,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    Stage,
    Tally,
    Union,
)
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.plan.visit import change_inputs, variables_of
from omnigraphdb.limits import PATH_HOPS_MAX
from omnigraphdb.values import replace

_WEIGHABLE = frozenset({"count", "min", "max"})
"""Sums are left out: adding a product instead of its terms rounds differently."""

Names = frozenset[str]
Pruned = tuple[Operator, Names]

_NONE: Names = frozenset()


# ---- variables
# Drop a variable after its last use, so that a hop copies, and reaches for, nothing in vain.


def prune_bindings(plan: Plan) -> Plan:
    """Say on each hop which variables are still needed; rows stay as many as they were."""
    return plan.with_root(lambda root: _prune(root, _NONE)[0])


def _prune(operator: Operator, live: Names) -> Pruned:
    """Prune an operator for the variables that are used above it; also return the variables that it still has."""
    match operator:
        case Scan(variable=variable):
            return operator, frozenset({variable})
        case Argument(variables=variables):
            return operator, frozenset(variables)
        case Expand() | FindPaths():
            return _prune_expand(operator, live)
        case Product():
            return _prune_product(operator, live)
        case Anti(input=below, inner=inner, on=on) | Semi(input=below, inner=inner, on=on):
            rows, have = _prune(below, live.union(on))
            return replace(operator, input=rows, inner=_prune(inner, frozenset(on))[0]), have
        case Attach(input=below, inner=inner, on=on, tally=tally):
            rows, have = _prune(below, live.union(on))
            inner, _ = _prune(inner, frozenset(on) | variables_of(tally))
            return replace(operator, input=rows, inner=inner), have
        case OptionalJoin():
            return _prune_optional(operator, live)
        case Stage(input=below, entities=entities):
            rows, _ = _prune(below, frozenset(entities) | variables_of(operator))
            return replace(operator, input=rows), frozenset(entities)
        case Union(inputs=inputs):
            return Union(tuple(_prune(member, _NONE)[0] for member in inputs)), _NONE
        case Filter() | Rank() | Group() | Sort() | Slice() | Project():
            rows, have = _prune(operator.input, live | _read(operator))
            return replace(operator, input=rows), have
        case _:
            assert_never(operator)


def _prune_expand(expand: Expand | FindPaths, live: Names) -> Pruned:
    if isinstance(expand, FindPaths) and _has_same_rows(expand, live):
        expand = _forget_paths(expand)
    ends = {expand.source, expand.target} if expand.closes else {expand.source}
    rows, have = _prune(expand.input, (live - expand.binds) | ends)
    have |= expand.binds
    remaining = have & live
    keep = None if remaining == have else tuple(sorted(remaining))
    return replace(expand, input=rows, keep=keep), remaining


def _has_same_rows(paths: FindPaths, live: Names) -> bool:
    """Whether a walk that binds no path gives the same rows, since nobody looks at the paths."""
    choice = paths.choice
    plain = choice.by is None and choice.best is None and not choice.every
    # Whether a path may be as long as another bound says is decided where the bound is read.
    short = isinstance(paths.high, int) and paths.high <= PATH_HOPS_MAX
    return plain and short and choice.variable not in live


def _forget_paths(paths: FindPaths) -> Expand:
    return Expand(
        input=paths.input,
        source=paths.source,
        target=paths.target,
        target_type=paths.target_type,
        edge=paths.edge,
        direction=paths.direction,
        low=paths.low,
        high=paths.high,
        closes=paths.closes,
        walked=paths.walked,
        where=paths.where,
    )


def _prune_product(product: Product, live: Names) -> Pruned:
    needed = live.union(*(variables_of(test) for test in product.on))
    left, on_left = _prune(product.left, needed)
    right, on_right = _prune(product.right, needed)
    return replace(product, left=left, right=right), on_left | on_right


def _prune_optional(join: OptionalJoin, live: Names) -> Pruned:
    on, binds = frozenset(join.on), live.intersection(join.binds)
    rows, have = _prune(join.input, live.difference(join.binds) | on)
    inner, _ = _prune(join.inner, on | binds)
    return replace(join, input=rows, inner=inner, binds=tuple(sorted(binds))), have | binds


def _read(operator: Filter | Rank | Group | Sort | Slice | Project) -> Names:
    """Name the variables an operator itself looks at."""
    ties = operator.ties if isinstance(operator, Rank | Sort) else ()
    return variables_of(operator) | frozenset(ties)


# ---- counted rows
# Mark hops whose equal rows need only be counted, or only be found: degrees then replace the rows.


def count_matches(plan: Plan) -> Plan:
    """Mark hops below a count as counted and hops inside a negation as any, where variables end."""
    return plan.with_root(lambda root: _mark_counted(root, Multiplicity.EACH))


def _mark_counted(operator: Operator, multiplicity: Multiplicity) -> Operator:
    match operator:
        case Group(tallies=tallies) if all(map(_is_weighable, tallies)):
            return change_inputs(operator, lambda below: _mark_counted(below, Multiplicity.COUNTED))
        case Anti(input=below, inner=inner) | Semi(input=below, inner=inner):
            marked = _mark_counted(inner, Multiplicity.ANY)
            return replace(operator, input=_mark_counted(below, multiplicity), inner=marked)
        case Attach(input=below, inner=inner, tally=tally):
            marked = _mark_counted(inner, _find_multiplicity(tally))
            return replace(operator, input=_mark_counted(below, multiplicity), inner=marked)
        case Stage() | Union():
            return change_inputs(operator, lambda below: _mark_counted(below, Multiplicity.EACH))
        case Expand(input=below, keep=keep):
            below = _mark_counted(below, multiplicity)
            mark = Multiplicity.EACH if keep is None else multiplicity
            return replace(operator, input=below, multiplicity=mark)
        case _:
            return change_inputs(operator, lambda below: _mark_counted(below, multiplicity))


def _find_multiplicity(tally: Tally | None) -> Multiplicity:
    """Return the meaning of equal rows of a block for its value."""
    if tally is None:
        return Multiplicity.ANY
    return Multiplicity.COUNTED if _is_weighable(tally) else Multiplicity.EACH


def _is_weighable(tally: Tally) -> bool:
    return tally.function in _WEIGHABLE and not tally.distinct
