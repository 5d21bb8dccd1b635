"""What a server is asked: the bodies of requests."""

from typing import NotRequired, TypedDict

from omnigraphdb.api.wire.answers import Row


class QueryInput(TypedDict):
    """A read, on a branch or at a snapshot."""

    query: str
    name: NotRequired[str | None]
    params: NotRequired[Row | None]
    branch: NotRequired[str | None]
    snapshot: NotRequired[str | None]


class ExplainInput(QueryInput):
    """A read whose plan is asked for; with `profile` it is run and measured."""

    profile: NotRequired[bool | None]


class ReadInput(TypedDict):
    """A read in the words of earlier servers."""

    query_source: str
    query_name: NotRequired[str | None]
    params: NotRequired[Row | None]
    branch: NotRequired[str | None]
    snapshot: NotRequired[str | None]


class ExportInput(TypedDict):
    """What to export."""

    branch: NotRequired[str | None]
    snapshot: NotRequired[str | None]
    type_names: NotRequired[list[str] | None]


class BaselineInput(TypedDict):
    """What a baseline holds."""

    branch: NotRequired[str | None]
    type_names: NotRequired[list[str] | None]


class InvokeInput(TypedDict):
    """The call of a stored query."""

    params: NotRequired[Row | None]
    branch: NotRequired[str | None]
    snapshot: NotRequired[str | None]
    expect_mutation: NotRequired[bool | None]
