"""The change feed of a graph: what its commits changed, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import count_of, shows_of, text_of, wanted_of
from omnigraphdb.api.results import Commit
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import BranchName

if TYPE_CHECKING:
    from omnigraphdb.api.comparisons import ChangeBlock, ChangePage, ChangeStream, FeedPage
    from omnigraphdb.api.types import AnyFrame, FrameLibrary, Kinds, Ops, Spark, SparkChoice
    from omnigraphdb.engine.history.feed import FeedWorker


class Changes(Handle):
    """The change feed of a graph: what its commits changed, one after the other."""

    def changes(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
    ) -> "ChangePage":
        """Read the change feed: whole commits, oldest first, after a cursor or commit; `limit` counts changes.

        Commits that changed much are compared in steps; `spark` is a session, True, or False; `auto` asks for Spark past the
        small-work bound.

        Example:
            >>> page = graph.changes(limit=1)
            >>> page.caught_up
            False
            >>> graph.changes(since=page.cursor).caught_up
            True
        """
        from omnigraphdb.engine.history.feed import page

        target = self._target(branch, "changes")
        start = None if since is None else self._commit_id(since)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        bound = count_of("limit", limit, least=1)
        return page(self._engine, target, start, bound, wanted, self._feed_worker(target, spark))

    def _feed_worker(self, branch: BranchName, spark: "SparkChoice") -> "FeedWorker | str":
        """Who compares the commits of a feed, or why this process does: tables of one that is small are not measured."""
        from omnigraphdb.engine.history.compare import explain_local

        engine, bound = self._engine, self._engine.settings.small_work_rows
        rows = engine.manifest.current(branch).snapshot.row_count
        if spark in (None, False, "auto") and rows <= bound:
            return explain_local(rows, bound)

        from omnigraphdb.api.loading import make_runner_choice
        from omnigraphdb.engine.history.feed_steps import compare_commits

        return partial(compare_commits, make_runner_choice(engine, spark))

    def changes_stream(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
    ) -> "Iterator[ChangeStream]":
        """The change feed up to now, commit by commit; the changes of each commit come one after the other, however many there are.

        With `spark`, as for `changes`, the changes of a commit are read before the next commit is asked for.

        Example:
            >>> for block in graph.changes_stream(since=graph.commits()[0].parent):
            ...     [change.id for change in block.changes]
            ['Gus']
        """
        from omnigraphdb.engine.history.feed import stream

        target = self._target(branch, "changes")
        start = None if since is None else self._commit_id(since)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        return stream(self._engine, target, start, wanted, self._feed_worker(target, spark))

    def changes_frame(
        self,
        since: str | Commit | None = None,
        until: str | Commit | None = None,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """The change feed after one commit, up to another, as a frame: a change and its commit in each row, oldest first.

        Example:
            >>> graph.changes_frame(graph.commits()[0].parent, engine="polars").select("op", "id").rows()
            [('insert', 'Gus')]
        """
        from omnigraphdb.api.frames import make_feed_frame, require_engine

        chosen = require_engine(engine, spark)
        start, end = (None if one is None else self._commit_id(one) for one in (since, until))
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        target = self._target(branch, "changes")
        return make_feed_frame(self._engine, target, start, end, wanted, chosen, spark)

    def commit_changes(
        self,
        id: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        limit: int | None = None,
        page_token: str | None = None,
        nodes_first: bool = False,
    ) -> "ChangeBlock":
        """What one commit changed against its first parent; with `limit` one page, and `next_page_token` names the next.

        `nodes_first` puts nodes before edges, as one who applies the changes needs them.

        Example:
            >>> [change.id for change in graph.commit_changes(graph.commits()[0]).changes]
            ['Gus']
        """
        from omnigraphdb.engine.history.feed import commit_changes

        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        bound = count_of("limit", limit)
        return commit_changes(
            self._engine,
            str(id),
            wanted,
            limit=bound,
            token=None if page_token is None else text_of("page_token", page_token),
            nodes_first=nodes_first,
        )

    def change_page(
        self,
        *,
        branch: str | None = None,
        cursor: str | None = None,
        start: str = "now",
        page_token: str | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        shows: Callable[[str], bool] | None = None,
    ) -> "FeedPage":
        """Read the feed in pages that may end inside a commit, with the rows before and after, nodes before edges.

        `start` is `now`, `beginning` or `after:COMMIT`; a `cursor` replaces it. A page that ends before the head of its first
        page has a token for the next one, the last page a cursor. `shows` says the commits of which branches are shown, all by
        default; another commit is a gap of the feed.

        Example:
            >>> first = graph.change_page(start="beginning", limit=1)
            >>> [change.id for block in first.blocks for change in block.changes]
            ['Ada']
            >>> first.cursor is None, graph.change_page(page_token=first.next_page_token).caught_up
            (True, True)
        """
        from omnigraphdb.engine.history.pages import continue_feed, start_feed

        target = self._target(branch, "changes")
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        bound, shown = count_of("limit", limit, least=1), shows_of("shows", shows)
        if page_token is not None:
            token = text_of("page_token", page_token)
            return continue_feed(self._engine, target, token, bound, wanted, shown)
        since = self._start_of(target, start) if cursor is None else text_of("cursor", cursor)
        return start_feed(self._engine, target, since, bound, wanted, shown)

    def _start_of(self, branch: BranchName, start: str) -> str | None:
        match text_of("start", start).partition(":"):
            case ("beginning", "", _):
                return None
            case ("now", "", _):
                head = self._engine.manifest.current(branch).head
                return None if head is None else head.id
            case ("after", ":", commit) if commit:
                return commit
            case _:
                raise UserInputError(f"start '{start}' is not one of now, beginning, after:COMMIT")
