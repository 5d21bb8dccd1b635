"""What a request asks the gate: the rights of its verb, for the branches that it names, and for a commit or snapshot the branch that made it."""

from collections.abc import Callable, Iterator, Sequence

from omnigraphdb.api.rights import CallKind, list_actions, required_rights
from omnigraphdb.compile.check import choose
from omnigraphdb.engine.history.pages import read_compared
from omnigraphdb.errors import NotFound, NotFoundError, OmniError, UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.lineage import SPELL_COMMIT, commit_not_found, parse_moment
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.gate import Ask, Refusal, unknown_query
from omnigraphdb.surfaces.http.reads import read_point

Asks = Callable[[Call], Iterator[Ask]]


def ask_rights(
    verb: CallKind, hidden: Refusal | None = None, **arguments: str | None
) -> Iterator[Ask]:
    """Ask for the rights of a verb."""
    for right in required_rights(verb, served=True, **arguments):
        scope = ResourceScope(
            branch_name=right.branch, target_name=right.target, query_name=right.query
        )
        yield Ask(PolicyAction(right.action), scope, hidden)


def ask_read(call: Call) -> Iterator[Ask]:
    """A read of a branch, or of a point in its history."""
    yield from _ask_point(call, CallKind.READ)


def ask_export(call: Call) -> Iterator[Ask]:
    """An export of a branch, or of a point in its history."""
    yield from _ask_point(call, CallKind.EXPORT)


def ask_mutate(call: Call) -> Iterator[Ask]:
    """A mutation of a branch, and the rows that it returns."""
    text = call.given("query") or call.given("query_source") or ""
    name = call.given("name") or call.given("query_name")
    yield from _ask_mutate(call, text, name)


def _ask_mutate(call: Call, text: str, name: str | None) -> Iterator[Ask]:
    branch = _normal(call.given("branch"))
    returned = branch if _returns_rows(call, text, name) else None
    yield from ask_rights(CallKind.MUTATE, branch=branch, returned=returned)


def _returns_rows(call: Call, text: str, name: str | None) -> bool:
    """Whether a mutation returns rows; the handler refuses what is none."""
    if "returning" not in text:
        return False
    try:
        source = Source(text, "query")
        query = choose(parse_queries(source), call.place.graph.catalog, source, name)
    except OmniError:
        return False
    return isinstance(query.body, tuple) and any(one.returning for one in query.body)


def ask_graphs(_call: Call) -> Iterator[Ask]:
    """The list of graphs."""
    yield from ask_rights(CallKind.LIST_GRAPHS)


def ask_query(call: Call) -> Iterator[Ask]:
    """A stored query: the right to run it, then the right to what it does."""
    name = call.path["name"]
    yield from ask_rights(CallKind.INVOKE_QUERY, unknown_query, query=name)
    stored = call.place.queries
    if stored is None or name not in stored.by_name:
        raise unknown_query()
    if stored[name].mutation:
        yield from _ask_mutate(call, stored[name].text, name)
    else:
        yield from ask_read(call)


def ask_commit(call: Call) -> Iterator[Ask]:
    """A commit, which is read on the branch that made it.

    A commit of a branch that may not be read is unknown. So is a beginning that several commits share: a refusal would
    name them.
    """
    name = call.path["commit"]
    try:
        author = call.place.graph.commit(name).branch
    except UserInputError as error:
        raise NotFoundError(f"commit '{name}' not found") from error
    except NotFoundError:
        author = None
    yield from ask_rights(CallKind.READ, lambda: commit_not_found(name), branch=author)


def ask_commits(call: Call) -> Iterator[Ask]:
    """The commits of a branch, after one that is read on the branch that made it."""
    yield from ask_read(call)
    since = call.text("since")
    if since is not None and parse_moment(since) is None:
        author = find_commit_branch(call, since)
        yield from ask_rights(CallKind.READ, lambda: commit_not_found(since), branch=author)


def ask_diff(call: Call) -> Iterator[Ask]:
    """Two branches or commits, and what an earlier page says was compared."""
    token = call.text("page_token")
    ends = [call.needed("from"), call.needed("to")]
    branches = _list_branches(call)
    yield from _ask_states(call, ends, branches)
    for end, commit in () if token is None else zip(ends, read_compared(token), strict=True):
        if end not in branches or not _has_commit(call, end, commit):
            yield from _ask_states(call, [commit], branches)


def ask_drawn_diff(call: Call) -> Iterator[Ask]:
    """Two branches or commits."""
    yield from _ask_states(call, [call.needed("base"), call.needed("head")], _list_branches(call))


def ask_log(call: Call) -> Iterator[Ask]:
    """Every branch that is named; without one those that may be read are shown."""
    for name in call.texts("branch") or ():
        yield from ask_rights(CallKind.READ, branch=_normal(name))


def _list_branches(call: Call) -> tuple[str, ...]:
    return (MAIN, *sorted(one.name for one in call.place.graph.branches() if one.name != MAIN))


def _has_commit(call: Call, branch: str, commit: str) -> bool:
    return any(one.id == commit for one in call.place.graph.commits(branch=branch))


def _ask_states(call: Call, ends: Sequence[str], branches: tuple[str, ...]) -> Iterator[Ask]:
    """The two states of a comparison: each is asked for where it can be read."""
    authors = [_find_state_branch(call, one, branches) for one in ends]
    for name, author in zip(ends, authors, strict=True):
        if author is None or not call.may_read(author):
            yield from _ask_unknown_state(call, name, author, branches)
    yield from ask_rights(CallKind.COMPARE, base=authors[0], head=authors[-1])


def _find_state_branch(call: Call, name: str, branches: tuple[str, ...]) -> str | None:
    """The branch that is read for a state: a branch, that of a commit, or main for a moment."""
    if name in branches:
        return name
    return MAIN if parse_moment(name) is not None else find_commit_branch(call, name)


def _ask_unknown_state(
    call: Call, name: str, author: str | None, branches: tuple[str, ...]
) -> Iterator[Ask]:
    """A state that is not there, or that may not be read: both are decided by the name, then they are unknown."""
    yield from ask_rights(CallKind.READ, branch=name)
    readable = [one for one in branches if call.may_read(one)]
    yield from ask_rights(
        CallKind.READ,
        lambda: NotFound("branch or commit", name, known=readable, hint=SPELL_COMMIT),
        branch=author,
    )


# ---- branches


def _normal(name: str | None) -> str:
    """A branch as the engine will read it, so that blanks around a name change no decision."""
    return branch_name(MAIN if name is None else name, "policy")


def _ask_point(call: Call, verb: CallKind) -> Iterator[Ask]:
    """The branch of a read; of a point in its history the branch that made it, and a hidden one is unknown."""
    branch, snapshot, at = _normal(call.given("branch")), call.given("snapshot"), call.given("at")
    named = at if snapshot is None else snapshot
    point = read_point(named)
    author = None if point is None else _find_author(call, branch, point)
    if author is None or not call.may(PolicyAction(list_actions(verb)[0]), author):
        yield from ask_rights(verb, branch=branch)
    yield from ask_rights(verb, lambda: commit_not_found(named or ""), branch=author)


def _find_author(call: Call, branch: str, point: str | int) -> str | None:
    """The branch that made a point in history; None for what is none, which the handler refuses."""
    if isinstance(point, str) and parse_moment(point) is None:
        return find_commit_branch(call, point)
    if branch == MAIN:
        # Every point in the history of main was made by main.
        return MAIN
    try:
        commit = call.place.graph.snapshot(branch=branch, at=point).commit
    except (NotFoundError, UserInputError):
        return None
    return branch if commit is None else find_commit_branch(call, commit) or branch


def find_commit_branch(call: Call, commit: str) -> str | None:
    """The branch that made a commit; None for what is no commit, which the handler refuses."""
    try:
        return call.place.graph.commit(commit).branch
    except (NotFoundError, UserInputError):
        return None
