"""The operator Filter: keeps the rows for which conditions are true, exactly as pushed-down filters do."""

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from omnigraphdb.compile.checked import TextMatch
from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.row_ids import Mask
from omnigraphdb.engine.read.evaluate import truth
from omnigraphdb.engine.read.operators.rows import Groups, Rows, make_source
from omnigraphdb.engine.read.operators.search import text_mask
from omnigraphdb.engine.read.reader import Reader


def keep_all(tests: Sequence[Test], rows: Bindings, reader: Reader) -> Bindings:
    """Keep the rows for which every test is true; each test sees only the rows that passed the tests before."""
    for test in tests:
        if not rows.rows:
            break
        rows = rows.keep(holds(test, rows, reader))
    return rows


def keep_groups(tests: Sequence[Test], groups: Groups, reader: Reader) -> Groups:
    """Keep the groups for which every test is true."""
    for test in tests:
        groups = groups.take(np.flatnonzero(holds(test, groups, reader)))
    return groups


def holds(test: Test, rows: Rows, reader: Reader) -> Mask:
    """Mark the rows for which a test is true; unknown counts as not true."""
    if isinstance(test, TextMatch) and isinstance(rows, Bindings):
        return text_mask(test, rows, reader)
    truths = truth(test, make_source(rows, reader))
    if truths.null_count:
        truths = pc.fill_null(truths, False)
    return np.asarray(truths.to_numpy(zero_copy_only=False), dtype=bool)
