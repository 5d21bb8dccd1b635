"""Child processes of tests: those of the package's own tools."""

from omnigraph.testing.child import KILLED, ParkedChild, parked_child, run_child, spawn

__all__ = ["KILLED", "ParkedChild", "parked_child", "run_child", "spawn"]
