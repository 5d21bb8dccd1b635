"""The canonical layout of query text; no comment is ever lost."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise, zip_longest

from lark import Token

from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.spell import Renderer, binding, param, quote
from omnigraphdb.language.query.tokens import COMMENT, END, HEADER, scan
from omnigraphdb.language.query.tree import (
    Binding,
    Clause,
    Delete,
    Filter,
    Insert,
    Matched,
    Negation,
    Option,
    Optional,
    Origin,
    PropertyMatch,
    Query,
    QueryFile,
    Read,
    Stage,
    Statement,
    Traversal,
    Unnest,
    Update,
    Upsert,
)
from omnigraphdb.language.source import Source
from omnigraphdb.values import dataclass, replace

# The formatter adds and drops these; the other tokens, the core, keep their number and places.
_FREE = frozenset({"_COMMA", "_LPAREN", "RPAREN", COMMENT, END})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comment:
    """A comment and the index of the core token behind it."""

    text: str
    index: int
    trailing: bool  # it ends a line that begins with something else
    spaced: bool  # a blank line stands before it
    closes: bool  # a closing parenthesis comes before that core token


@dataclass(frozen=True, slots=True)
class _Notes:
    """The parts of a text that its tree lacks: comments, and core tokens that follow a blank line."""

    comments: tuple[_Comment, ...] = ()
    spaced: frozenset[int] = frozenset()


LINE_CHARS_MAX = 100
INDENT = "  "


def format_source(source: Source) -> str:
    """Lay out a query file, its comments included; text that does not parse is `QueryError`."""
    return format_queries(parse_queries(source), _notes_of(source.text))


def format_queries(file: QueryFile, notes: _Notes | None = None) -> str:
    """Lay out a tree, with the comments of its text when they are given."""
    present_notes = notes or _Notes()
    layout = _Layout(file, present_notes)
    return "".join(f"{line}\n" for line in _insert_comments(layout.lines, present_notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the layout and how many core tokens it holds."""

    depth: int
    text: str
    core: int

    @property
    def begins_query(self) -> bool:
        return self.depth == 0 and self.text.startswith("query ")

    @property
    def opens(self) -> bool:
        return self.text.endswith(("{", "("))

    @property
    def closes(self) -> bool:
        return self.text.startswith(("}", ")"))

    @property
    def is_parenthesis(self) -> bool:
        return self.text.startswith(")")

    @property
    def may_be_spaced(self) -> bool:
        return not self.closes and not self.text.startswith(("{", "@"))


class _Layout:
    """Turns a file into lines; blocks stay on one line when they fit and hold no comment."""

    def __init__(self, file: QueryFile, notes: _Notes) -> None:
        self.lines: list[_Line] = []
        self._spell = Renderer()
        self._indices = [comment.index for comment in notes.comments]
        self._closing = {comment.index for comment in notes.comments if comment.closes}
        self._index = 0
        if file.extended:
            self._line(0, HEADER)
        for query in file.queries:
            self._query(query)

    def _line(self, depth: int, text: str) -> None:
        line = _Line(depth=depth, text=text, core=_core_count(text))
        self.lines.append(line)
        self._index += line.core

    def _fits(self, depth: int, head: str, text: str) -> bool:
        """Whether a block fits on a line; a comment behind its brace asks for lines."""
        start, end = _core_count(f"{head} {{"), _core_count(text)
        short = len(INDENT) * depth + len(text) <= LINE_CHARS_MAX
        return short and not self._commented(self._index + start, self._index + end)

    def _commented(self, start: int, end: int) -> bool:
        """Whether a comment stands before a core token of this range."""
        return bisect_left(self._indices, start) < bisect_left(self._indices, end)

    def _block(self, depth: int, head: str, parts: Sequence[str], tail: str = "") -> None:
        flat = f"{head} {{ {', '.join(parts)} }}{tail}"
        if self._fits(depth, head, flat):
            self._line(depth, flat)
            return
        self._line(depth, f"{head} {{")
        for part in parts[:-1]:
            self._line(depth + 1, f"{part},")
        self._line(depth + 1, parts[-1])
        self._line(depth, f"}}{tail}")

    # ---- queries

    def _query(self, query: Query) -> None:
        texts = (("description", query.description), ("instruction", query.instruction))
        annotations = [f"@{name}({quote(text)})" for name, text in texts if text is not None]
        if query.mcp is not None:
            annotations.append(f"@mcp({', '.join(map(_spell_option, query.mcp))})")
        self._head(query, "" if annotations else " {")
        if annotations:
            for annotation in annotations:
                self._line(1, annotation)
            self._line(0, "{")
        if isinstance(query.body, Read):
            self._read(query.body)
        else:
            for statement in query.body:
                self._statement(statement)
        self._line(0, "}")

    def _head(self, query: Query, tail: str) -> None:
        params = [param(parameter) for parameter in query.params]
        flat = f"query {query.name.text}({', '.join(params)}){tail}"
        if not params or (len(flat) <= LINE_CHARS_MAX and not self._commented_params(flat, tail)):
            self._line(0, flat)
            return
        self._line(0, f"query {query.name.text}(")
        for text in params[:-1]:
            self._line(1, f"{text},")
        self._line(1, params[-1])
        self._line(0, f"){tail}")

    def _commented_params(self, flat: str, tail: str) -> bool:
        start = self._index + _core_count("query name")
        end = self._index + _core_count(flat) - _core_count(tail)
        return self._commented(start, end) or end in self._closing

    # ---- reading

    def _read(self, read: Read) -> None:
        bare = replace(read, order=(), limit=None, offset=None) if read.union else read
        self._single(read.bounded or bare)
        for every, member in read.union:
            self._line(1, "union all" if every else "union")
            self._single(member)
        # The order of a union follows its last read.
        if read.union:
            self._ends(read)

    def _single(self, read: Read) -> None:
        for stage in read.stages:
            self._stage(stage)
        self._matched(read)
        head = "return distinct" if read.distinct else "return"
        self._block(1, head, [self._spell.item(item) for item in read.items])
        self._rest(read)

    def _stage(self, stage: Stage) -> None:
        self._matched(stage)
        head = "with distinct" if stage.distinct else "with"
        self._block(1, head, [self._spell.item(item) for item in stage.items])
        self._rest(stage)

    def _matched(self, part: Read | Stage | Matched) -> None:
        if part.clauses:
            self._clauses(1, "match", part.clauses)

    def _rest(self, part: Read | Stage) -> None:
        """Lay out the conditions and ends behind the items of a part."""
        if part.having:
            self._block(1, "having", [self._spell.expr(condition) for condition in part.having])
        self._ends(part)

    def _ends(self, part: Read | Stage) -> None:
        if part.order:
            self._block(1, "order", [self._spell.key(key) for key in part.order])
        for word, bound in (("offset", part.offset), ("limit", part.limit)):
            if bound is not None:
                self._line(1, f"{word} {self._spell.expr(bound)}")
        if isinstance(part, Stage) and part.per:
            self._line(1, f"per {', '.join(map(self._spell.expr, part.per))}")

    def _clauses(self, depth: int, head: str, clauses: Sequence[Clause]) -> None:
        only = self._flat(clauses[0]) if len(clauses) == 1 else None
        flat = f"{head} {{ {only} }}"
        if only is not None and self._fits(depth, head, flat):
            self._line(depth, flat)
            return
        self._line(depth, f"{head} {{")
        for clause in clauses:
            self._clause(depth + 1, clause)
        self._line(depth, "}")

    def _flat(self, clause: Clause) -> str | None:
        """Spell a clause on one line, unless it is a block of clauses itself."""
        return None if isinstance(clause, Negation | Optional) else self._spell.clause(clause)

    def _clause(self, depth: int, clause: Clause) -> None:
        match clause:
            case Binding() if clause.matches:
                self._block(depth, binding(clause), self._pairs(clause.matches))
            case Binding():
                self._line(depth, binding(clause))
            case Traversal():
                self._line(depth, self._spell.traversal(clause))
            case Filter():
                self._line(depth, self._spell.filter(clause.condition))
            case Negation():
                self._clauses(depth, "not", clause.clauses)
            case Optional():
                self._clauses(depth, "optional", clause.clauses)

    def _pairs(self, pairs: Iterable[PropertyMatch]) -> list[str]:
        return [self._spell.pair(pair) for pair in pairs]

    # ---- writing

    def _statement(self, statement: Statement) -> None:
        self._origin(statement.origin)
        match statement:
            case Insert():
                tail = " if absent" if statement.if_absent else ""
                head = f"insert {statement.type_name.text}"
                self._block(1, head, self._pairs(statement.assignments), tail)
            case Upsert():
                self._block(1, f"upsert {statement.type_name.text}", self._pairs(statement.key))
                self._block(1, "set", self._pairs(statement.assignments))
            case Update():
                target, where = self._target(statement)
                head = f"update {target} set"
                self._block(1, head, self._pairs(statement.assignments), where)
            case Delete():
                target, where = self._target(statement)
                self._line(1, f"delete {target}{where}")
        if statement.returning:
            self._block(1, "returning", [self._spell.item(item) for item in statement.returning])

    def _origin(self, origin: Origin | None) -> None:
        match origin:
            case Matched():
                for stage in origin.stages:
                    self._stage(stage)
                self._matched(origin)
            case Unnest():
                self._line(1, f"unnest ${origin.parameter.text} as ${origin.item.text}")
            case None:
                pass

    def _target(self, statement: Update | Delete) -> tuple[str, str]:
        """Return the written target and the condition behind it; a variable has its conditions in the match."""
        if statement.where is None:
            return f"${statement.target.text}", ""
        return statement.target.text, f" where {self._spell.expr(statement.where)}"


# ---- comments between the lines


def _insert_comments(lines: Sequence[_Line], notes: _Notes) -> list[str]:
    """Put every comment before the line that holds its token, or behind the line it ended."""
    page, queue, start = _Page(), deque(notes.comments), 0
    for line, following in zip_longest(lines, lines[1:]):
        end = start + line.core
        indent = INDENT * (line.depth + line.closes)
        if line.begins_query and start > 0:
            page.section()
        for comment in _before(queue, line, start):
            page.write(indent + comment.text, spaced=comment.spaced)
        spaced = start in notes.spaced and line.may_be_spaced
        for comment in _within(queue, end):
            page.write(indent + comment.text, spaced=spaced)
            spaced = False
        tail = _behind(queue, end, closing=following is not None and following.is_parenthesis)
        page.write(INDENT * line.depth + "  ".join([line.text, *tail]), spaced=spaced)
        page.fresh = line.opens
        start = end
    for comment in queue:
        page.write(comment.text, spaced=comment.spaced)
    return page.lines


@dataclass(slots=True)
class _Page:
    """The lines written so far; where nothing stands above, no blank line is due."""

    lines: list[str] = field(default_factory=list)
    fresh: bool = True

    def section(self) -> None:
        self.lines.append("")
        self.fresh = True

    def write(self, text: str, *, spaced: bool) -> None:
        if spaced and not self.fresh:
            self.lines.append("")
        self.lines.append(text)
        self.fresh = False


def _before(queue: deque[_Comment], line: _Line, start: int) -> Iterator[_Comment]:
    """Yield the comments above a line; a lone `)` has only the comments that stood before it."""
    while queue and queue[0].index == start and (line.core > 0 or queue[0].closes):
        yield queue.popleft()


def _within(queue: deque[_Comment], end: int) -> Iterator[_Comment]:
    """Yield the comments between the words of a line."""
    while queue and queue[0].index < end:
        yield queue.popleft()


def _behind(queue: deque[_Comment], end: int, *, closing: bool) -> Iterator[str]:
    """Yield the comments at the end of a line; before a lone `)` only the comments that stood before it."""
    while queue and queue[0].trailing and queue[0].index == end:
        if closing and not queue[0].closes:
            return
        yield queue.popleft().text


# ---- comments of the text
# The comments and blank lines of a query text, each tied to the token behind it.


def _core_count(text: str) -> int:
    """Count the core tokens of a text."""
    return len(_core(list(scan(text))))


def _notes_of(text: str) -> _Notes:
    """Read the comments and blank lines of a text."""
    tokens = list(scan(text))
    core, closing = _core(tokens), _before_parenthesis(tokens)
    comments: list[_Comment] = []
    spaced: set[int] = set()
    index, end, on_line = 0, 0, False
    for at, token in enumerate(tokens):
        breaks = text.count("\n", end, token.start_pos)
        if token.type == COMMENT:
            on_line = on_line and breaks == 0
            comments.append(
                _Comment(
                    text=token.rstrip(),
                    index=index,
                    trailing=on_line,
                    spaced=breaks > 1,
                    closes=at in closing,
                )
            )
            on_line = on_line and "\n" not in token
        elif at in core:
            if breaks > 1:
                spaced.add(index)
            index, on_line = index + 1, True
        else:
            on_line = on_line and breaks == 0
        end = token.end_pos or 0
    return _Notes(tuple(comments), frozenset(spaced))


def _core(tokens: list[Token]) -> set[int]:
    """List the positions of the core tokens; the braces of an empty block say nothing and are left out."""
    said = [(at, token.type) for at, token in enumerate(tokens) if token.type != COMMENT]
    empty = {
        at
        for (left, kind), (right, next_kind) in pairwise(said)
        if (kind, next_kind) == ("LBRACE", "RBRACE")
        for at in (left, right)
    }
    return {at for at, kind in said if kind not in _FREE} - empty


def _before_parenthesis(tokens: list[Token]) -> set[int]:
    """Find the positions of the comments whose next token is a closing parenthesis."""
    positions, following = set(), END
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].type != COMMENT:
            following = tokens[at].type
        elif following == "RPAREN":
            positions.add(at)
    return positions


def _spell_option(option: Option) -> str:
    value = option.value
    return f"{option.name.text}: {quote(value) if isinstance(value, str) else str(value).lower()}"
