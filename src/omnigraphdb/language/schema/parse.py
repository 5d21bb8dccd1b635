"""Parsing schema text: into a tree, or into an error with its findings."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from lark import Lark, UnexpectedInput, UnexpectedToken
from lark.utils import TextSlice

from omnigraphdb.errors import ResourceLimit
from omnigraphdb.language.diagnostics import Diagnostic, find_half_character, schema_error
from omnigraphdb.language.schema.build import TreeBuilder, bad_escapes, token_span
from omnigraphdb.language.schema.explain import explain
from omnigraphdb.language.schema.fault import Fault, Progress, fault_at, fault_at_end
from omnigraphdb.language.schema.tree import (
    Annotation,
    Comment,
    InterfaceDecl,
    Property,
    SchemaTree,
)
from omnigraphdb.language.source import Source, Span
from omnigraphdb.language.tables import tables_file
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX, SOURCE_BYTES_MAX
from omnigraphdb.values import dataclass, replace

_RESUME = re.compile(
    r"""
      "(?:[^"\\\n]++|\\.)*+"?+
    | //[^\n]*+
    | /\*[\s\S]*?(?:\*/|\Z)
    | \b(?P<declaration>interface|node|edge)(?=[ \t\r\n]+[A-Za-z_])
    | (?<![\w@])(?P<member>[a-z_]\w*+)(?=[ \t\r\n]*:)
    | (?P<constraint>@(?:key|unique|index|range|check))(?=[ \t\r\n]*\()
    | (?P<close>\})
    """,
    re.VERBOSE,
)


def decode_schema(data: bytes, name: str = "<text>") -> Source:
    """Read the bytes of a schema file, which are UTF-8, perhaps with a byte-order mark."""
    bare = data.removeprefix(BOM_UTF8)
    try:
        return Source(bare.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        start = len(bare[: error.start].decode("utf-8"))
        finding = Diagnostic(
            code="S001",
            message=f"byte {len(data) - len(bare) + error.start} is not UTF-8 ({error.reason}); "
            "a schema is UTF-8 text",
            fix="save the file as UTF-8",
            span=Span(start, start + 1),
        )
        raise schema_error(Source(bare.decode("utf-8", "replace"), name), [finding]) from error


def parse_schema_text(source: Source) -> SchemaTree:
    """Parse a schema; several errors of one text are reported together, in text order."""
    _refuse_unreadable(source)
    findings: list[Diagnostic] = []
    tree = _parse_all(source.text, findings)
    if tree is not None:
        findings += _second_values(tree)
    if findings or tree is None:
        findings.sort(key=lambda finding: finding.span)
        raise schema_error(source, findings[:PROBLEMS_SHOWN_MAX])
    comments, gaps = read_trivia(source.text)
    return replace(tree, comments=comments, gaps=gaps)


def _refuse_unreadable(source: Source) -> None:
    half = find_half_character(source, "S001", "schema")
    if half is not None:
        raise schema_error(source, [half])
    size = len(source.text.encode("utf-8"))
    if size > SOURCE_BYTES_MAX:
        raise ResourceLimit(
            f"bytes of the schema '{source.name}'",
            SOURCE_BYTES_MAX,
            size,
            hint="a schema this large is likely another file; check its name",
        )


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("schema.lark")
    return Lark(
        grammar.read_text("utf-8"),
        parser="lalr",
        start=["schema", "rest"],
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=TreeBuilder(),
        cache=tables_file(grammar),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resume:
    """The offset and the rule with which parsing continues after a fault."""

    offset: int = 0
    rule: str = "schema"
    progress: Progress


def _parse_all(text: str, findings: list[Diagnostic]) -> SchemaTree | None:
    """Parse a text, record each fault and continue after it; there is a tree only without faults."""
    start = _Resume(progress=Progress())
    resume: _Resume | None = start
    while resume is not None and len(findings) < PROBLEMS_SHOWN_MAX:
        outcome = _parse_from(text, resume, findings)
        if not isinstance(outcome, Fault):
            return outcome if resume is start else None
        if not any(finding.span == outcome.span for finding in findings):
            findings.append(explain(outcome))
        resume = _after(outcome)
    return None


def _parse_from(text: str, resume: _Resume, findings: list[Diagnostic]) -> SchemaTree | Fault:
    """Parse from an offset to the end, or to the first fault."""
    progress = resume.progress
    parser: Any = _parser().parse_interactive(
        TextSlice(text, resume.offset, len(text)), start=resume.rule
    )
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            progress.saw(token)
            if token.type == "STRING" and "\\" in token:
                remaining = max(0, PROBLEMS_SHOWN_MAX - len(findings))
                findings += [_escape_finding(*bad) for bad in islice(bad_escapes(token), remaining)]
        tree: SchemaTree = parser.feed_eof()
    except UnexpectedInput as error:
        return _fault(text, error, frozenset(parser.accepts()), progress)
    return tree


def _fault(text: str, error: UnexpectedInput, accepts: frozenset[str], progress: Progress) -> Fault:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return fault_at_end(text, accepts, progress)
    offset: Any = error.pos_in_stream
    return fault_at(text, int(offset), accepts, progress)


def _after(fault: Fault) -> _Resume | None:
    """Find the next member of the body at hand, or the next declaration."""
    if fault.swallowed is not None:
        return _Resume(offset=token_span(fault.swallowed).start, progress=Progress())
    body = any(token.type == "LBRACE" for token in fault.progress.opened)
    for match in _RESUME.finditer(fault.text, fault.span.end):
        if match["declaration"]:
            return _Resume(offset=match.start(), progress=Progress())
        if body and match.lastgroup:
            return _Resume(offset=match.start(), rule="rest", progress=fault.progress.at_member())
    return None


def _escape_finding(escape: str, span: Span) -> Diagnostic:
    text = escape if escape[1:].isprintable() else f"\\ before U+{ord(escape[1]):04X}"
    return Diagnostic(
        code="S002",
        message=f"'{text}' is not an escape of this language",
        expected='\\", \\\\, \\n, \\r or \\t',
        fix=f"write \\{escape} for a backslash",
        span=span,
    )


def _second_values(tree: SchemaTree) -> Iterator[Diagnostic]:
    """Report second values: an annotation takes one value and then keywords; a rename hint has its own rule."""
    for annotation in _annotations(tree):
        if annotation.extra and annotation.name != "rename_from":
            yield Diagnostic(
                code="S001",
                message=f"'@{annotation.name}' has a second value; only keywords may follow the first",
                expected="a keyword (name=value) or ')'",
                span=annotation.extra[0].span,
            )


def _annotations(tree: SchemaTree) -> Iterator[Annotation]:
    for declaration in tree.declarations:
        if isinstance(declaration, InterfaceDecl):
            members: tuple[Any, ...] = declaration.properties
        else:
            yield from declaration.annotations
            members = declaration.members
        for member in members:
            if isinstance(member, Property):
                yield from member.annotations


# ---- text that the grammar ignores and the formatter keeps: comments and blank lines


_PIECE = re.compile(
    r"""
      (?P<space> [ \t\r\n]++ )
    | (?P<comment> //[^\n]*+ | /\*[\s\S]*?\*/ )
    | "(?:[^"\\]++|\\[\s\S])*+"
    | [^ \t\r\n"/]++
    | [\s\S]
    """,
    re.VERBOSE,
)


def read_trivia(text: str) -> tuple[tuple[Comment, ...], frozenset[int]]:
    """Find the comments of a text that parses, and the offsets that follow a blank line."""
    comments: list[Comment] = []
    gaps: set[int] = set()
    for piece, own_line in _pieces(text):
        if piece["comment"] is not None:
            comment = piece["comment"].rstrip(" \t\r")
            span = Span(piece.start(), piece.start() + len(comment))
            comments.append(Comment(text=comment, own_line=own_line, span=span))
        elif piece["space"] is not None and piece["space"].count("\n") > 1:
            gaps.add(piece.end())
    return tuple(comments), frozenset(gaps)


def _pieces(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Cut a text into pieces, each with the fact whether it is the first on its line."""
    first = True
    for piece in _PIECE.finditer(text):
        yield piece, first
        space = piece["space"]
        first = (first or "\n" in space) if space is not None else False
