"""Reports of a server about its graph as the values that a graph at hand gives: indexes, issues, recoveries."""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from omnigraphdb.api.reports import Examination, IndexReport, Issue
from omnigraphdb.api.results import RecoveryAudit, RecoverySidecar
from omnigraphdb.remote.answers import Form
from omnigraphdb.remote.forms import form_value
from omnigraphdb.wire import from_dict

Body = Mapping[str, Any]


def read_examination(body: Body) -> Examination:
    """Read the issues of a graph."""
    return Examination(from_dict(Issue, issue) for issue in body["findings"])


class _Examination(TypedDict):
    """The issues of a graph."""

    findings: list[Issue]


class _RecoveryList(TypedDict):
    """Writes that recovery has yet to finish, and those it finished."""

    pending: list[RecoverySidecar]
    settled: list[RecoveryAudit]


EXAMINATION: Final = Form(_Examination, read_examination)
INDEXES: Final = form_value(IndexReport)
PENDING: Final = Form(
    _RecoveryList, lambda body: [from_dict(RecoverySidecar, entry) for entry in body["pending"]]
)
RECOVERIES: Final = Form(
    _RecoveryList, lambda body: [from_dict(RecoveryAudit, entry) for entry in body["settled"]]
)
