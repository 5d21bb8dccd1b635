"""What a server is asked: the bodies of requests."""

from typing import Literal, NotRequired, TypedDict

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


class MutateInput(TypedDict):
    """A mutation; the longer names are those of earlier servers. With `dry_run` it is only counted and checked."""

    query: NotRequired[str]
    name: NotRequired[str | None]
    query_source: NotRequired[str]
    query_name: NotRequired[str | None]
    params: NotRequired[Row | None]
    branch: NotRequired[str | None]
    dry_run: NotRequired[bool | None]


Mode = Literal["append", "merge", "overwrite"]

LoadInput = TypedDict(
    "LoadInput",
    {
        "data": str,
        "branch": NotRequired[str | None],
        "from": NotRequired[str | None],
        "mode": NotRequired[Mode | None],
        "create_missing": NotRequired[list[str] | None],
        "dry_run": NotRequired[bool | None],
    },
)


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
