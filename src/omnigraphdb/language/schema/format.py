"""The one layout of a schema text; comments and blank lines between members stay."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import field

from omnigraphdb.language.schema.tree import (
    Annotation,
    Argument,
    Card,
    Comment,
    Constraint,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NodeDecl,
    Property,
    SchemaTree,
    TypeExpr,
)
from omnigraphdb.values import dataclass

_INDENT = "  "
_ESCAPED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def format_schema(tree: SchemaTree) -> str:
    """Lay a schema out: one member per line, one blank line between bodies, nothing lost."""
    page = _Page(tree)
    previous: Declaration | None = None
    for declaration in tree.declarations:
        page.trail(declaration.span.start)
        blank_before = previous is not None and not (_is_line(previous) and _is_line(declaration))
        _declaration(page, declaration, blank_before)
        previous = declaration
    page.finish()
    return page.text()


def quote(text: str) -> str:
    """Write a text with its quotes and escapes."""
    return f'"{text.translate(_ESCAPED)}"'


def type_text(written: TypeExpr) -> str:
    """Write a type."""
    if written.dimension is not None:
        core = f"Vector({written.dimension})"
    elif written.enum_values:
        core = f"enum({', '.join(value.text for value in written.enum_values)})"
    else:
        core = f"[{written.scalar}]" if written.is_list else str(written.scalar)
    return core + "?" if written.nullable else core


# ---- lines


def _is_line(declaration: Declaration) -> bool:
    return isinstance(declaration, EdgeDecl) and not declaration.has_body


def _declaration(page: "_Page", declaration: Declaration, blank_before: bool) -> None:
    start, end = declaration.span.start, declaration.span.end
    head = _head(declaration)
    if _is_line(declaration):
        page.line(head, start, end, blank_before=blank_before)
        return
    members = _members(declaration)
    page.line(head, start, start, blank_before=blank_before)
    if not members and not page.has_comment_before(end):
        page.extend(" {}")
        return
    page.open_block(" {")
    for member in members:
        page.trail(member.span.start)
        page.line(_member(member), member.span.start, member.span.end)
    page.trail(end)
    page.comments_before(end)
    page.close_block("}")


def _members(declaration: Declaration) -> Sequence[Property | Constraint]:
    if isinstance(declaration, InterfaceDecl):
        return declaration.properties
    return declaration.members


def _head(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDecl():
            return f"interface {declaration.name.text}"
        case NodeDecl():
            names = ", ".join(name.text for name in declaration.implements)
            implements = [f"implements {names}"] if names else []
            words = ["node", declaration.name.text, *map(_annotation, declaration.annotations)]
            return " ".join(words + implements)
        case EdgeDecl():
            ends = f"{declaration.source.text} -> {declaration.target.text}"
            card = [_card(declaration.card)] if declaration.card else []
            marks = map(_annotation, declaration.annotations)
            return " ".join([f"edge {declaration.name.text}: {ends}", *card, *marks])


def _member(member: Property | Constraint) -> str:
    if isinstance(member, Constraint):
        return _constraint(member)
    marks = map(_annotation, member.annotations)
    return " ".join([f"{member.name.text}: {type_text(member.type)}", *marks])


def _card(card: Card) -> str:
    return f"@card({card.low}..{'' if card.high is None else card.high})"


def _constraint(constraint: Constraint) -> str:
    arguments = [name.text for name in constraint.columns]
    if constraint.kind == "range":
        low, high = (bound.text if bound else "" for bound in (constraint.low, constraint.high))
        arguments.append(f"{low}..{high}")
    if constraint.pattern is not None:
        arguments.append(_argument(constraint.pattern))
    return f"@{constraint.kind}({', '.join(arguments)})"


def _annotation(annotation: Annotation) -> str:
    values = [annotation.value, *annotation.extra] if annotation.value else []
    arguments = [_argument(value) for value in values]
    arguments += [f"{name.text}={_argument(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}" + (f"({', '.join(arguments)})" if arguments else "")


def _argument(argument: Argument) -> str:
    return quote(argument.text) if argument.form == "string" else argument.text


# ---- where comments go


@dataclass(slots=True)
class _Page:
    """Lines written so far, and the comments still to place, in text order.

    A comment behind code on its line stays behind it; every other comment gets a line of its own before
    the code that follows. A comment inside a member moves before that member.
    """

    tree: SchemaTree
    lines: list[str] = field(default_factory=list)
    indent: str = ""
    placed: int = 0
    fresh: bool = True
    """Whether the next line is the first of its block, so that no blank line belongs before it."""
    full: bool = False
    """Whether the last line ends with a line comment, so that nothing can follow on it."""

    def line(self, text: str, start: int, end: int, *, blank_before: bool = False) -> None:
        """Write a line, before it the comments that stand before its end."""
        pending = self._comments(end)
        first = pending[0].span.start if pending else start
        self._blank(first, blank_before)
        self._own_lines(pending)
        if pending:
            self._blank(start)
        self._write(text)

    def extend(self, text: str) -> None:
        """Add to the last line."""
        self.lines[-1] += text

    def open_block(self, text: str) -> None:
        """Begin a block at the end of the last line."""
        self.extend(text)
        self.indent, self.fresh = _INDENT, True

    def close_block(self, text: str) -> None:
        """End the block with a line."""
        self.indent, self.fresh = "", False
        self._write(text)

    def trail(self, before: int) -> None:
        """Put the comments that follow on the line of the last thing behind it."""
        while self.placed < len(self.tree.comments) and self.lines and not self.full:
            comment = self.tree.comments[self.placed]
            if comment.own_line or comment.span.start >= before:
                return
            self.extend(f" {comment.text}")
            self.full = comment.text.startswith("//")
            self.placed += 1

    def comments_before(self, end: int) -> None:
        """Write the comments that stand before an offset, each on its line."""
        pending = self._comments(end)
        if pending:
            self._blank(pending[0].span.start)
        self._own_lines(pending)

    def has_comment_before(self, end: int) -> bool:
        """Whether a comment waits that stands before an offset."""
        waiting = self.tree.comments[self.placed : self.placed + 1]
        return any(comment.span.start < end for comment in waiting)

    def finish(self) -> None:
        """Write the comments that are left after the last declaration."""
        end = max((comment.span.end for comment in self.tree.comments), default=0) + 1
        self.trail(end)
        self.comments_before(end)

    def text(self) -> str:
        """Return the whole page."""
        return "".join(f"{line}\n" for line in self.lines)

    def _write(self, text: str) -> None:
        self.lines.append(self.indent + text)
        self.fresh = self.full = False

    def _comments(self, end: int) -> Sequence[Comment]:
        comments = self.tree.comments
        stop = bisect_left(comments, end, self.placed, key=lambda comment: comment.span.start)
        pending = comments[self.placed : stop]
        self.placed = stop
        return pending

    def _blank(self, start: int, blank_before: bool = False) -> None:
        if self.lines and not self.fresh and (blank_before or start in self.tree.gaps):
            self.lines.append("")

    def _own_lines(self, comments: Iterable[Comment]) -> None:
        for index, comment in enumerate(comments):
            if index:
                self._blank(comment.span.start)
            self._write(comment.text)
