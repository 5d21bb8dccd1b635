"""The type checker: from a query tree and a schema to a checked query, or to its findings."""

from omnigraph.compile.check.query import (
    check,
    check_error,
    check_file,
    check_findings,
    find_repeated_names,
)

__all__ = ["check", "check_error", "check_file", "check_findings", "find_repeated_names"]
