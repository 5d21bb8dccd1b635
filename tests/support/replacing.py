"""How many rows a load or merge in steps replaces by one commit, as a test wants it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from omnigraphdb.storage.lance import tables


@contextmanager
def two_commits(wanted: bool = True) -> Iterator[None]:
    """Append every row that replaces another first, as if there were many of them."""
    with pytest.MonkeyPatch.context() as patch:
        if wanted:
            patch.setattr(tables, "REPLACED_ROWS_MAX", 0)
        yield
