"""What a request asks the gate: the branches that it names, and for a commit or snapshot the branch that made it."""

from collections.abc import Callable, Iterator

from omnigraph.engine.history.pages import read_compared
from omnigraph.errors import NotFound, NotFoundError, UserInputError
from omnigraph.ids import MAIN
from omnigraph.manifest.lineage import SPELL_COMMIT, commit_not_found, parse_moment
from omnigraph.manifest.names import branch_name
from omnigraph.policy import PolicyAction, ResourceScope
from omnigraph.surfaces.http.calls import Call
from omnigraph.surfaces.http.gate import Ask, unknown_query
from omnigraph.surfaces.http.reads import find_author, read_point

Asks = Callable[[Call], Iterator[Ask]]


def ask_read(call: Call) -> Iterator[Ask]:
    """A read of a branch, or of a point in its history."""
    yield from _ask_target(call, PolicyAction.READ)


def ask_export(call: Call) -> Iterator[Ask]:
    """An export of a branch, or of a point in its history."""
    yield from _ask_target(call, PolicyAction.EXPORT)


def ask_change(call: Call) -> Iterator[Ask]:
    """A write to a branch."""
    yield Ask(PolicyAction.CHANGE, ResourceScope.branch(_normal(call.given("branch"))))


def ask_load(call: Call) -> Iterator[Ask]:
    """A load, and the branch that it makes."""
    target, base = _normal(call.given("branch")), call.given("from")
    yield from _ask_load(call, target, None if base is None else _normal(base))


def ask_ingest(call: Call) -> Iterator[Ask]:
    """A load whose branch is made from main unless something else is said."""
    yield from _ask_load(call, _normal(call.given("branch")), _normal(call.given("from")))


def _ask_load(call: Call, target: str, base: str | None) -> Iterator[Ask]:
    if base is not None and call.place.graph.guard.makes_branch(target, base):
        yield Ask(PolicyAction.BRANCH_CREATE, ResourceScope.transition(base, target))
    yield Ask(PolicyAction.CHANGE, ResourceScope.branch(target))


def ask_create(call: Call) -> Iterator[Ask]:
    """A new branch."""
    scope = ResourceScope.transition(_normal(call.given("from")), _normal(call.given("name")))
    yield Ask(PolicyAction.BRANCH_CREATE, scope)


def ask_delete(call: Call) -> Iterator[Ask]:
    """The end of a branch; whoever asks whether it is merged reads the other branch."""
    scope = ResourceScope.target_branch(_normal(call.path["branch"]))
    yield Ask(PolicyAction.BRANCH_DELETE, scope)
    if call.text("merged_into") is not None:
        yield Ask(PolicyAction.READ, ResourceScope.branch(_normal(call.text("merged_into"))))


def ask_merge(call: Call) -> Iterator[Ask]:
    """A merge of one branch into another."""
    source, target = _normal(call.given("source")), _normal(call.given("target"))
    yield Ask(PolicyAction.BRANCH_MERGE, ResourceScope.transition(source, target))


def ask_preview(call: Call) -> Iterator[Ask]:
    """A look at a merge: both of its branches are read."""
    for name in ("source", "target"):
        yield Ask(PolicyAction.READ, ResourceScope.branch(_normal(call.given(name))))


def ask_schema(_call: Call) -> Iterator[Ask]:
    """A change of the schema."""
    yield Ask(PolicyAction.SCHEMA_APPLY, ResourceScope.target_branch(MAIN))


def ask_graphs(_call: Call) -> Iterator[Ask]:
    """The list of graphs."""
    yield Ask(PolicyAction.GRAPH_LIST, ResourceScope.graph())


def ask_query(call: Call) -> Iterator[Ask]:
    """A stored query: the right to run it, then the right to what it does."""
    name = call.path["name"]
    yield Ask(PolicyAction.INVOKE_QUERY, ResourceScope.query(name), unknown_query)
    stored = call.place.queries
    if stored is None or name not in stored.by_name:
        raise unknown_query()
    yield from ask_change(call) if stored[name].mutation else ask_read(call)


def ask_commit(call: Call) -> Iterator[Ask]:
    """A commit, which is read on the branch that made it; one of a branch that may not be read is unknown."""
    name = call.path["commit"]
    branch = find_commit_branch(call, name)
    if branch is not None:
        scope = ResourceScope.branch(branch)
        yield Ask(PolicyAction.READ, scope, lambda: commit_not_found(name))


def ask_diff(call: Call) -> Iterator[Ask]:
    """Two branches or commits, and what an earlier page says was compared."""
    token = call.text("page_token")
    ends = [call.needed("from"), call.needed("to")]
    branches = _list_branches(call)
    for name in ends:
        yield from _ask_state(call, name, branches)
    for end, commit in () if token is None else zip(ends, read_compared(token), strict=True):
        if end not in branches or not _has_commit(call, end, commit):
            yield from _ask_state(call, commit, branches)


def ask_drawn_diff(call: Call) -> Iterator[Ask]:
    """Two branches or commits."""
    branches = _list_branches(call)
    for name in (call.needed("base"), call.needed("head")):
        yield from _ask_state(call, name, branches)


def ask_log(call: Call) -> Iterator[Ask]:
    """Every branch that is named; without one those that may be read are shown."""
    for name in call.texts("branch") or ():
        yield Ask(PolicyAction.READ, ResourceScope.branch(_normal(name)))


def _list_branches(call: Call) -> tuple[str, ...]:
    return (MAIN, *sorted(one.name for one in call.place.graph.branches() if one.name != MAIN))


def _has_commit(call: Call, branch: str, commit: str) -> bool:
    return any(one.id == commit for one in call.place.graph.commits(branch=branch))


def _ask_state(call: Call, name: str, branches: tuple[str, ...]) -> Iterator[Ask]:
    if name in branches:
        yield Ask(PolicyAction.READ, ResourceScope.branch(name))
    elif parse_moment(name) is not None:
        yield Ask(PolicyAction.READ, ResourceScope.branch(MAIN))
    else:
        branch = find_commit_branch(call, name)
        if branch is not None:
            yield Ask(
                PolicyAction.READ,
                ResourceScope.branch(branch),
                lambda: NotFound("branch or commit", name, known=branches, hint=SPELL_COMMIT),
            )


# ---- branches


def _normal(name: str | None) -> str:
    """A branch as the engine will read it, so that blanks around a name change no decision."""
    return branch_name(MAIN if name is None else name, "policy")


def _ask_target(call: Call, action: PolicyAction) -> Iterator[Ask]:
    """The branch of a read; of a snapshot the branch that made it, and one that may not be read is unknown."""
    snapshot = call.given("snapshot")
    author = None if snapshot is None else find_author(call.place.graph, read_point(snapshot) or "")
    if snapshot is None or author is None:
        yield Ask(action, ResourceScope.branch(_find_read(call)))
    else:
        yield Ask(action, ResourceScope.branch(author), lambda: commit_not_found(snapshot))


def _find_read(call: Call) -> str:
    """The branch of a read: of a point in its history, the branch that made it."""
    branch, point = _normal(call.given("branch")), call.given("at")
    if point is None or branch == MAIN:
        # Every point in the history of main was made by main.
        return branch
    seen = call.place.graph.snapshot(branch=branch, at=read_point(point))
    return (None if seen.commit is None else find_commit_branch(call, seen.commit)) or branch


def find_commit_branch(call: Call, commit: str) -> str | None:
    """The branch that made a commit; None for what is no commit, which the handler refuses."""
    try:
        return call.place.graph.commit(commit).branch
    except (NotFoundError, UserInputError):
        return None
