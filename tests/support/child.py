"""Child processes of tests: those of the package's own tools."""

from omnigraph.testing.child import KILLED, ParkedChild, run_child, run_parked_child, spawn

__all__ = ["KILLED", "ParkedChild", "run_child", "run_parked_child", "spawn"]
