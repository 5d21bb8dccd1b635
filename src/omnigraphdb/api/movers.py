"""What moved between two answers: values that changed, nodes that changed their group."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.api.analytics import Answer, require_answer
from omnigraphdb.api.arguments import count_of
from omnigraphdb.engine.analytics.arcs import Nodes
from omnigraphdb.errors import UserInputError

GROUPS: Final = frozenset({"wcc", "scc", "label_propagation", "louvain"})
"""Algorithms whose values are numbers of groups, which say nothing but who belongs together."""


def compare(before: Answer, after: Answer, *, top: int | None = None) -> pa.Table:
    """The nodes whose value moved between two answers, the largest moves first: before, after, change.

    A node that only one answer has is NULL in the other. Components and groups are compared by their members, whatever
    their numbers: a node moved if it is not where most of its former group is; such moves have no size.
    """
    count = count_of("top", top)
    named = require_answer("before", before).algorithm, require_answer("after", after).algorithm
    if named[0] != named[1]:
        raise UserInputError(
            f"an answer of {named[0]} and one of {named[1]} have no values in common; nothing was compared",
            hint="compare two answers of one algorithm",
        )
    joined = _join_answers(before.to_arrow(), after.to_arrow())
    moved = _list_moved_members(joined) if named[0] in GROUPS else _list_moved_values(joined)
    size = pc.fill_null(pc.abs(moved["change"]), np.inf)
    order = [("size", "descending"), ("type", "ascending"), ("id", "ascending")]
    ranked = moved.append_column("size", size).sort_by(order).drop_columns(["size"])
    return ranked if count is None else ranked[:count]


def _join_answers(before: pa.Table, after: pa.Table) -> pa.Table:
    joined = before.select(["type", "id", "value"]).join(
        after.select(["type", "id", "value"]),
        keys=["type", "id"],
        left_suffix="_before",
        right_suffix="_after",
        join_type="full outer",
    )
    return joined.rename_columns(["type", "id", "before", "after"])


def _list_moved_values(joined: pa.Table) -> pa.Table:
    change = pc.subtract(joined["after"].cast(pa.float64()), joined["before"].cast(pa.float64()))
    return joined.append_column("change", change).filter(
        pc.fill_null(pc.not_equal(change, 0.0), True)
    )


def _list_moved_members(joined: pa.Table) -> pa.Table:
    both = pc.and_(joined["before"].is_valid(), joined["after"].is_valid())
    stayed = np.zeros(joined.num_rows, bool)
    rows = joined.filter(both)
    stayed[_to_numpy(both)] = _find_stayed(_to_numpy(rows["before"]), _to_numpy(rows["after"]))
    change = pa.nulls(joined.num_rows, pa.float64())
    return joined.append_column("change", change).filter(pa.array(~stayed))


def _find_stayed(before: Nodes, after: Nodes) -> Any:
    """Whether each node is in the group that continues its former one.

    A group continues another if each of them shares more nodes with the other than with any else; of equal shares the
    one of smaller numbers counts.
    """
    former, present = (np.unique(one, return_inverse=True) for one in (before, after))
    width = max(len(present[0]), 1)
    pairs, places, counts = np.unique(
        former[1] * width + present[1], return_inverse=True, return_counts=True
    )
    continued = np.ones(len(pairs), bool)
    for side in (pairs // width, pairs % width):
        order = np.lexsort((pairs, -counts, side))
        continued[order[np.diff(side[order], prepend=-1) == 0]] = False
    return continued[places]


def _to_numpy(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False)
