"""What every part of a graph's handle needs: the engine, who asks, on which branch, and whether they may."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self, TypeVar

from omnigraphdb.api.arguments import Reference, key_of, listener_of, point_of
from omnigraphdb.api.guard import Guard, Permission
from omnigraphdb.api.results import Commit
from omnigraphdb.api.rights import CallKind, required_rights
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.api.verbs.argument import check_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Verb
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.commit.plan import WriteOptions
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import HistoryReclaimed, NotFoundError
from omnigraphdb.ids import MAIN, BranchName, CommitId
from omnigraphdb.limits import HEAD_READS_MAX
from omnigraphdb.manifest.names import actor_name, branch_name, commit_message
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.pipeline.location import StoreLocation
    from omnigraphdb.pipeline.progress import OnProgress
    from omnigraphdb.policy import PolicyChecker

_Found = TypeVar("_Found")
_Arguments = TypeVar("_Arguments")


class Handle(Calls):
    """The engine of a graph, the actor and the branch of its handle, and the guard that decides about its calls."""

    def __init__(
        self,
        engine: Engine,
        *,
        actor: str | None = None,
        branch: str = MAIN,
        guard: "Guard | PolicyChecker | None" = None,
    ) -> None:
        self._opened = engine
        self._actor = actor
        self._guard = guard if isinstance(guard, Guard) else Guard(engine, guard)
        self._branch = branch

    @property
    def _engine(self) -> Engine:
        return self._opened.require_open()

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._opened.uri

    @property
    def location(self) -> "StoreLocation":
        """The uri and storage options, as a value with which another process opens the graph."""
        return self._opened.location

    @property
    def catalog(self) -> Catalog:
        """The types of the schema."""
        return self._engine.contracts.current().catalog

    @property
    def read_only(self) -> bool:
        """Whether writers are refused."""
        return self._opened.read_only

    def close(self) -> None:
        """Release all resources; later calls are refused, calls that have begun finish.

        Example:
            >>> handle = omnigraphdb.open("friends.omni", read_only=True)
            >>> handle.close()
        """
        self._opened.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = ", read-only" if self.read_only else ""
        return f"<Graph {self.uri} on {self._branch}{mode}>"

    def _job(
        self, kind: JobKind, branch: str, actor: str | None, progress: "OnProgress | None"
    ) -> AbstractContextManager["OnProgress"]:
        return self._engine.jobs.keep(kind, branch, actor, listener_of("progress", progress))

    def _target(self, branch: str | None, operation: str) -> BranchName:
        """The branch that a call is about: the one it names, else that of the handle."""
        return branch_name(self._branch if branch is None else branch, operation)

    def _commit_id(self, name: str | Commit) -> CommitId:
        """The commit that a tag names; any other text as it is."""
        from omnigraphdb.manifest.tags import find_tag

        tag = find_tag(self._engine.manifest.current(MAIN), str(name))
        return CommitId(str(name) if tag is None else str(tag.commit))

    def _call(
        self, verb: Verb[_Arguments, _Found], asked: _Arguments, call: Call | None = None
    ) -> _Found:
        """Run a verb, once its arguments are of their kinds and the actor has its rights."""
        asked, call = check_arguments(asked), call or Call()
        actor = actor_name(call.actor) or self._actor
        permission = Permission(actor)
        if verb.writes:
            rights = verb.required_rights(self, asked, served=False)
            permission = self._guard.require(rights, actor)
        allowed = replace(call, actor=permission.actor, allowed_by=permission.policy)
        return verb.run(self, asked, allowed)

    def _find_author(self, branch: BranchName, at: Reference) -> str:
        """Name the branch that made a point in the history of a branch."""
        try:
            head = self._engine.view(branch, point_of(at)).state.head
        except NotFoundError:
            # The verb says what is not there, to whoever may read the branch.
            return branch
        return branch if head is None else head.branch

    def _authorize(self, verb: CallKind, actor: str | None, **arguments: str | None) -> Permission:
        """Ask the policies, if there are any, whether the actor may."""
        author = actor_name(actor) or self._actor
        return self._guard.require(required_rights(verb, served=False, **arguments), author)

    def _options(
        self,
        by: Permission,
        *,
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | Commit | None = None,
    ) -> WriteOptions:
        return WriteOptions(
            actor=by.actor,
            allowed_by=by.policy,
            if_commit=None if if_commit is None else CommitId(str(if_commit)),
            message=commit_message(message),
            key=key_of(idempotency_key),
        )

    def snapshot(self, *, branch: str | None = None, at: Reference | None = None) -> Snapshot:
        """Pin the visible state, now or at a point in history.

        Example:
            >>> snapshot = graph.snapshot(branch="review")
            >>> snapshot.tables()["edge:Knows"]
            1
        """
        engine, target = self._engine, self._target(branch, "read")
        if at is None:
            return Snapshot(engine, engine.view(target))
        view = engine.view(target, point_of(at))
        return Snapshot(engine, view, view.commit)

    def _read(
        self, branch: str | None, at: Reference | None, read: Callable[[Snapshot], _Found]
    ) -> _Found:
        """Read the head; read the new head if a writer replaced it and cleanup removed it meanwhile."""
        for _ in range(HEAD_READS_MAX - 1):
            try:
                return read(self.snapshot(branch=branch, at=at))
            except HistoryReclaimed:
                if at is not None:
                    raise
        return read(self.snapshot(branch=branch, at=at))
