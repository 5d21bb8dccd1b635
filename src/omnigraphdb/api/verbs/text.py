"""Query texts under the schema of a graph: their mistakes, and what may be written next."""

from typing import TYPE_CHECKING, Any

from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import arg, arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Endpoint, Method, Verb
from omnigraphdb.ids import MAIN

if TYPE_CHECKING:
    from omnigraphdb.api.text_reports import CompletionItems, LintedText
    from omnigraphdb.api.verbs.handle import Handle


@arguments
class TextLint:
    """A query text to be checked."""

    text: str = arg("The text.")


def _run_lint(graph: "Handle", asked: TextLint, _call: Call) -> "LintedText":
    from omnigraphdb.api.text_reports import lint_text

    return lint_text(asked.text, graph.catalog)


LINT_TEXT = Verb(
    arguments=TextLint,
    result="omnigraphdb.api.text_reports:LintedText",
    run=_run_lint,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="Check a query text against the schema",
    endpoint=Endpoint(method=Method.POST, path="/lint", operation="lintText", input="LintInput"),
)


@arguments
class TextComplete:
    """A query text, and the place of the cursor in it."""

    text: str = arg("The text.")
    offset: int = arg("The characters before the cursor.")


def _run_complete(graph: "Handle", asked: TextComplete, _call: Call) -> "CompletionItems":
    from omnigraphdb.api.text_reports import complete_text

    return complete_text(asked.text, asked.offset, graph.catalog)


COMPLETE_TEXT = Verb(
    arguments=TextComplete,
    result="omnigraphdb.api.text_reports:CompletionItems",
    run=_run_complete,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="List what may be written next at an offset of a query text",
    endpoint=Endpoint(
        method=Method.POST, path="/complete", operation="completeText", input="CompleteInput"
    ),
)

TEXT_VERBS: tuple[Verb[Any, Any], ...] = (LINT_TEXT, COMPLETE_TEXT)
