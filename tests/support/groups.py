"""Tests that share one Spark session run in one process, however many there are."""

from typing import Any

import pytest

SPARK = "spark"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal tests out one by one, and all that need Spark to one process.

    The mark `xdist_group` would say the same, but pytest-xdist 3.8 cannot pass it on under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Dealing(LoadScopeScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if SPARK in nodeid.lower() else nodeid

    return Dealing(config, log) if config.getvalue("dist") == "loadgroup" else None
