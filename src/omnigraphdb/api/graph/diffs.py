"""What differs between two states of a graph."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import (
    Reference,
    count_of,
    path_of,
    reference_of,
    shows_of,
    text_of,
    wanted_of,
)
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.view import View

if TYPE_CHECKING:
    from omnigraphdb.api.comparisons import Change, Diff, DiffPage
    from omnigraphdb.api.drawings import DiffDrawing
    from omnigraphdb.api.types import AnyFrame, FrameLibrary, Kinds, Ops, Spark, SparkChoice


class Diffs(Handle):
    """What differs between two states of a graph."""

    def diff(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
        out: str | os.PathLike[str] | None = None,
    ) -> "Diff":
        """Entities that differ between two branches, commits or manifest versions, by table key, then id.

        Large tables are compared in steps; `spark` is a session, True, or False; `auto` asks for Spark past the small-work
        bound. With `out` the changes go to a file, one JSON object a line, however many there are.

        Example:
            >>> newest = graph.commits()[0]
            >>> [(str(change.op), change.id) for change in graph.diff(newest.parent, newest).changes]
            [('insert', 'Gus')]
        """
        from omnigraphdb.engine.history.change_files import collect_diff, parse_change_file
        from omnigraphdb.engine.history.compare import (
            compare_pair,
            explain_local,
            list_differing_pairs,
        )

        file = parse_change_file(None if out is None else path_of("out", out))
        before, after = self._states(base, head)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        pairs = list_differing_pairs(before, after, wanted)
        named = [None if one.head is None else one.head.id for one in (before, after)]
        engine, rows = self._engine, sum(pair.row_count for pair in pairs)
        if spark in (None, False, "auto") and rows <= engine.settings.small_work_rows:
            # Comparing in steps needs modules that most diffs never load.
            here = (c for pair in pairs for c in compare_pair(engine.store.tables, pair, wanted))
            reason = explain_local(rows, engine.settings.small_work_rows)
            return collect_diff(here, named[0], named[1], file, reason=reason)

        from omnigraphdb.api.loading import make_runner_choice
        from omnigraphdb.engine.history.diff_steps import open_diff

        with open_diff(engine, pairs, wanted, make_runner_choice(engine, spark)) as (found, choice):
            return collect_diff(
                found, named[0], named[1], file, engine=choice.engine, reason=choice.reason
            )

    def diff_stream(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> "Iterator[Change]":
        """The changes of a `diff` one after the other, however many there are; both states are captured now.

        Example:
            >>> sorted(change.id for change in graph.diff_stream("review", "main"))
            ['Bo', 'Ed', 'Flo']
        """
        from omnigraphdb.engine.history.compare import list_changes

        before, after = self._states(base, head)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        return list_changes(self._engine.store.tables, before, after, wanted)

    def diff_drawing(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        nodes_max: int = 2_000,
        edges_max: int = 10_000,
        shows: Callable[[str], bool] | None = None,
    ) -> "DiffDrawing":
        """A `diff` to be drawn: its counts, and the first changed nodes and edges with the nodes these hang on.

        `properties` keeps updates of one of them, `actors` what commits of theirs changed; `shows` says of which branches
        commits are looked at, all by default.

        Example:
            >>> newest = graph.commits()[0]
            >>> graph.diff_drawing(newest.parent, newest).counts["Person"]
            {'inserted': 1, 'updated': 0, 'deleted': 0}
        """
        from omnigraphdb.api.drawings import draw_diff

        before, after = self._states(base, head)
        accepted = self._engine.view(MAIN).accepted
        return draw_diff(
            self._engine,
            View(branch=before.branch, accepted=accepted, state=before),
            View(branch=after.branch, accepted=accepted, state=after),
            wanted_of(
                self.catalog, types, None, ops, images=True, properties=properties, actors=actors
            ),
            shows_of("shows", shows),
            nodes_max=count_of("nodes_max", nodes_max) or 0,
            edges_max=count_of("edges_max", edges_max) or 0,
        )

    def diff_frame(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """The changes of a `diff` as a frame, with the rows before and after as JSON; on Spark its tasks compare the tables.

        Example:
            >>> graph.diff_frame("review", "main")["op"].to_pylist()
            ['update', 'insert', 'insert']
        """
        from omnigraphdb.api.frames import make_diff_frame, require_engine

        chosen = require_engine(engine, spark)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        return make_diff_frame(self._engine, self._states(base, head), wanted, chosen, spark)

    def diff_page(
        self,
        base: str,
        head: str,
        *,
        limit: int | None = None,
        page_token: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        shows: Callable[[str], bool] | None = None,
    ) -> "DiffPage":
        """One page of a `diff`, with the rows before and after, nodes before edges.

        `properties`, `actors` and `shows` are those of `diff_drawing`.

        Example:
            >>> graph.diff_page("main", "main").stats.inserts
            0
        """
        from omnigraphdb.engine.history.pages import page_diff

        wanted = wanted_of(
            self.catalog, types, kinds, ops, images=True, properties=properties, actors=actors
        )
        return page_diff(
            self._engine,
            branch_name(self._branch, "diff"),
            (text_of("base", base), text_of("head", head)),
            count_of("limit", limit, least=1),
            wanted,
            None if page_token is None else text_of("page_token", page_token),
            shows_of("shows", shows),
        )

    def _states(self, base: Reference, head: Reference) -> tuple[BranchState, BranchState]:
        from omnigraphdb.engine.history.compare import resolve_state

        branch = branch_name(self._branch, "diff")
        before = resolve_state(self._engine, reference_of(base), branch)
        return before, resolve_state(self._engine, reference_of(head), branch)
