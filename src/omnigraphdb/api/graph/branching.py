"""The branches of a graph, and their merges."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import (
    Reference,
    flag_of,
    key_of,
    name_of,
    path_of,
    point_of,
    shows_of,
    text_of,
)
from omnigraphdb.api.graph.handle import Handle
from omnigraphdb.api.guard import Permission
from omnigraphdb.api.results import Commit
from omnigraphdb.api.rights import Verb
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.errors import NotFoundError
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.manifest.names import actor_name, branch_name, new_branch_name

if TYPE_CHECKING:
    from omnigraphdb.api.branches import Branch
    from omnigraphdb.api.comparisons import MergeResult
    from omnigraphdb.api.types import MergeGranularity, SparkChoice
    from omnigraphdb.pipeline.progress import Tell


class Branching(Handle):
    """The branches of a graph, and their merges."""

    def branches(
        self, *, compare: bool = False, shows: Callable[[str], bool] | None = None
    ) -> "list[Branch]":
        """Main, then the others by name; with `compare`, counts of commits `ahead` and `behind` the parent.

        Without `compare` only heads are read, not histories. `shows` says which branches are shown, all by default.

        Example:
            >>> [(branch.name, branch.parent) for branch in graph.branches()]
            [('main', None), ('review', 'main')]
        """
        from omnigraphdb.api.branches import list_shown

        return list_shown(
            self._engine.manifest, shows_of("shows", shows), compare=flag_of("compare", compare)
        )

    def branch(self, name: str) -> "Branch":
        """One branch, with counts of commits `ahead` and `behind` its parent.

        Example:
            >>> graph.branch("review").parent
            'main'
        """
        from omnigraphdb.api.branches import find_shown

        return find_shown(self._engine.manifest, branch_name(name, "branch"))

    def branch_create(
        self,
        name: str,
        *,
        from_branch: str = MAIN,
        at: Reference | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> "Branch":
        """Create a branch at the head of another one; nothing is copied.

        Example:
            >>> graph.branch_create("trial").name
            'trial'
        """
        from omnigraphdb.api.branches import show_made, show_new
        from omnigraphdb.engine import branching

        target = new_branch_name(name, "branch create")
        source = branch_name(from_branch, "branch create")
        author = source if at is None else self._find_author(source, at)
        by = self._authorize(
            Verb.CREATE_BRANCH, actor, source=source, target=target, author=author
        ).actor
        key = key_of(idempotency_key)
        if key is not None:
            done = branching.create_once(self._engine, name, from_branch, point_of(at), by, key)
            return show_made(done.receipt, replayed=done.replayed)
        # The branch is made from exactly this state, so its head is known without reading it.
        made = branching.create(self._engine, name, from_branch, point_of(at), actor=by)
        return show_new(*made)

    def _find_author(self, branch: BranchName, at: Reference) -> str:
        """Name the branch that made a point in the history of a branch."""
        try:
            head = self._engine.view(branch, point_of(at)).state.head
        except NotFoundError:
            # The verb says what is not there, to whoever may read the branch.
            return branch
        return branch if head is None else head.branch

    def branch_delete(
        self,
        name: str,
        *,
        merged_into: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Delete a branch that no other branch depends on.

        With `merged_into`, a branch that has commits which that branch has not is refused, and nothing is deleted.

        Example:
            >>> graph.branch_delete("trial")
        """
        from omnigraphdb.engine import branching

        target = branch_name(name, "branch delete")
        by = self._authorize(Verb.DELETE_BRANCH, actor, target=target).actor
        bound_to = BranchName(self._branch)
        key = key_of(idempotency_key)
        kept = None if merged_into is None else branch_name(merged_into, "branch delete")
        if key is None:
            branching.delete(self._engine, name, bound_to, actor=by, merged_into=kept)
        else:
            branching.delete_once(self._engine, name, bound_to, by, key, kept)

    def merge(
        self,
        source: "str | Branch",
        *,
        into: str = MAIN,
        granularity: "MergeGranularity" = "row",
        actor: str | None = None,
        dry_run: bool = False,
        allow_older_base: bool = False,
        spark: "SparkChoice" = "auto",
        progress: "Tell | None" = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: str | os.PathLike[str] | None = None,
        if_commit: str | Commit | None = None,
    ) -> "MergeResult":
        """Apply the changes of one branch to another, in one commit; on conflicts nothing is written and all of them are raised together.

        With `if_commit` the merge is refused unless that commit is the head of the target. When the common history cannot be read any more, the merge is refused unless `allow_older_base`.
        A large merge is done in steps: workers compare, check and write rows. `spark` is a session, True, or False; `auto`
        asks for Spark past the small-work bound. Such a merge raises the first 1000 conflicts and the total; `rejects`
        names a file (`.jsonl`) that gets all conflicts, or is `"frame"`: the error then has them as the Arrow table `rejects`.

        Example:
            >>> done = graph.mutate('query q() { insert Person { name: "Gus" } }', branch="review")
            >>> merged = graph.merge("review")
            >>> str(merged.outcome), merged.tables["node:Person"]
            ('merged', (1, 0, 0))
        """
        from omnigraphdb.api.loading import chooser
        from omnigraphdb.engine.merge.conflicts import parse_conflict_file, raise_with_table
        from omnigraphdb.engine.merge.merge import merge

        name = text_of("source", name_of(source))
        by = self._authorize_merge(actor, name, into, dry_run=dry_run)
        keeper = parse_conflict_file(None if rejects is None else path_of("rejects", rejects))
        job = self._job(JobKind.MERGE, into, by.actor, progress)
        with raise_with_table(keeper), job as tell:
            return merge(
                self._engine,
                name,
                into,
                granularity=granularity,
                options=self._options(
                    by, message=message, idempotency_key=idempotency_key, if_commit=if_commit
                ),
                dry_run=flag_of("dry_run", dry_run),
                allow_older_base=flag_of("allow_older_base", allow_older_base),
                choose=chooser(self._engine, spark, tell),
                rejects=keeper,
                tell=tell,
            )

    def _authorize_merge(
        self, actor: str | None, source: str, into: str, *, dry_run: bool
    ) -> Permission:
        """A merge needs its right; one that only looks writes nothing and needs none."""
        if dry_run:
            return Permission(actor_name(actor) or self._actor)
        pair = {"source": branch_name(source, "merge"), "target": branch_name(into, "merge")}
        return self._authorize(Verb.MERGE, actor, **pair)
