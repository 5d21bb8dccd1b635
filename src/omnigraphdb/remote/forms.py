"""The forms of the documents that a server answers with: the shape of each on the wire, and the value that it stands for."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeVar

from omnigraphdb.api import wire
from omnigraphdb.api.comparisons import DiffPage
from omnigraphdb.api.results import SchemaText
from omnigraphdb.api.texts import schema_of
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.engine.results import (
    LoadResult,
    MutationResult,
)
from omnigraphdb.remote import decode
from omnigraphdb.remote.answers import Form
from omnigraphdb.wire import from_dict

Body = Mapping[str, Any]
V = TypeVar("V")


def form_value(cls: type[V]) -> Form[V]:
    """The form of a public value, which is declared at its fields."""
    return Form(cls, partial(from_dict, cls))


CATALOG: Final = Form(
    SchemaText, lambda body: compile_schema(schema_of(str(body["schema_source"])))
)
EXPLANATION: Final = Form(wire.ExplanationOutput, decode.read_explanation)
HISTORY: Final = Form(wire.EntityHistoryOutput, decode.read_history)
LOAD: Final = form_value(LoadResult)
MUTATION: Final = form_value(MutationResult)
QUERIES: Final[Form[list[dict[str, Any]]]] = Form(
    wire.QueryCatalogOutput, lambda body: body["queries"]
)


def form_diff(*, images: bool) -> Form[DiffPage]:
    """The form of a page of a comparison."""
    return Form(wire.DiffOutput, partial(decode.read_diff_page, images=images))


def form_block(*, images: bool) -> Form[Body]:
    """The form of a page of what one commit changed."""
    return Form(wire.CommitChangesOutput, partial(decode.read_block, images=images))


def form_feed(*, images: bool) -> Form[Body]:
    """The form of a page of the change feed."""
    return Form(wire.ChangePageOutput, partial(decode.read_feed_page, images=images))
