"""The branches of a graph, and their merges."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraphdb import ids
from omnigraphdb.api.arguments import Reference, path_of, point_of
from omnigraphdb.api.results import Commit
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import BranchName, Flag, Point, Text, arg, arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Tool, Verb, run_verb
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, Granularity
from omnigraphdb.manifest.names import branch_name, new_branch_name
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.api.branches import Branch, BranchCreated, BranchDeleted, Branches, BranchList
    from omnigraphdb.api.comparisons import MergeResult
    from omnigraphdb.api.types import MergeGranularity, SparkChoice
    from omnigraphdb.api.verbs.handle import Handle
    from omnigraphdb.pipeline.progress import OnProgress

Scope = Mapping[str, str | None]


# ---- list


@arguments
class BranchesList:
    """The branches to list."""

    compare: Flag = arg(
        "Count the commits that each branch and its parent lack of the other.",
        default=False,
        local=True,
    )


def _run_list(graph: "Handle", asked: BranchesList, call: Call) -> "BranchList":
    from omnigraphdb.api.branches import BranchList, list_shown

    branches = list_shown(graph._engine.manifest, call.may_show, compare=asked.compare)
    return BranchList(details=tuple(branches))


LIST_BRANCHES = Verb(
    arguments=BranchesList,
    result="omnigraphdb.api.branches:BranchList",
    run=_run_list,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="List the branches",
    endpoint=Endpoint(
        method=Method.GET, path="/branches", operation="listBranches", fixed={"compare": True}
    ),
    tool=Tool(
        name="branches_list",
        description="List the branches, and how far each is from its parent.",
        pages="branches",
        facts="details",
    ),
)


# ---- show


@arguments
class BranchShow:
    """A branch to show."""

    name: BranchName = arg("The branch.")


def _run_show(graph: "Handle", asked: BranchShow, _call: Call) -> "Branch":
    from omnigraphdb.api.branches import find_shown

    return find_shown(graph._engine.manifest, branch_name(asked.name, "branch"))


SHOW_BRANCH = Verb(
    arguments=BranchShow,
    result="omnigraphdb.api.branches:Branch",
    run=_run_show,
    kind=CallKind.READ,
    scope=lambda _graph, asked: {"branch": branch_name(asked.name, "branch")},
    summary="Show one branch, compared with its parent",
    endpoint=Endpoint(
        method=Method.GET,
        path="/branches/{branch}",
        operation="getBranch",
        names={"branch": "name"},
    ),
)


# ---- create


@arguments
class BranchCreate:
    """A branch to create."""

    name: Text = arg("The branch.")
    source: BranchName = arg("The branch to start from.", wire="from", default=MAIN)
    at: Point = arg("A commit of that branch.", default=None)


def _scope_create(graph: "Handle", asked: BranchCreate) -> Scope:
    source = branch_name(asked.source, "branch create")
    return {
        "source": source,
        "target": branch_name(asked.name, "branch create"),
        "author": source if asked.at is None else graph._find_author(source, asked.at),
    }


def _run_create(graph: "Handle", asked: BranchCreate, call: Call) -> "BranchCreated":
    from omnigraphdb.api.branches import show_made, show_new
    from omnigraphdb.engine import branching

    engine, options, at = graph._engine, call.options, point_of(asked.at)
    name = new_branch_name(asked.name, "branch create")
    if options.key is not None:
        done = branching.create_once(engine, name, asked.source, at, options.actor, options.key)
        return show_made(done.receipt, graph.uri, options.actor, replayed=done.replayed)
    # The branch is made from exactly this state, so its head is known without reading it.
    made = branching.create(engine, name, asked.source, at, actor=options.actor)
    return show_new(*made, graph.uri, options.actor)


CREATE_BRANCH = Verb(
    arguments=BranchCreate,
    result="omnigraphdb.api.branches:BranchCreated",
    run=_run_create,
    kind=CallKind.CREATE_BRANCH,
    scope=_scope_create,
    summary="Create a branch",
    endpoint=Endpoint(
        method=Method.POST,
        path="/branches",
        operation="createBranch",
        input="BranchCreateInput",
    ),
    writes=True,
    keyed=True,
    tool=Tool(
        name="branches_create",
        description="Create a branch: a copy of another to work on, which costs nothing.",
    ),
)


# ---- delete


@arguments
class BranchDelete:
    """A branch to delete."""

    name: BranchName = arg("The branch.")
    merged_into: BranchName | None = arg(
        "Delete only if every commit of the branch is merged into this one.", default=None
    )


def _scope_delete(_graph: "Handle", asked: BranchDelete) -> Scope:
    target = branch_name(asked.name, "branch delete")
    into = asked.merged_into
    merged_into = None if into is None else branch_name(into, "branch delete")
    return {"target": target, "merged_into": merged_into}


def _run_delete(graph: "Handle", asked: BranchDelete, call: Call) -> "BranchDeleted":
    from omnigraphdb.api.branches import BranchDeleted
    from omnigraphdb.engine import branching

    options, bound_to = call.options, ids.BranchName(graph._branch)
    into = asked.merged_into
    merged_into = None if into is None else branch_name(into, "branch delete")
    if options.key is None:
        branching.delete(
            graph._engine, asked.name, bound_to, actor=options.actor, merged_into=merged_into
        )
    else:
        branching.delete_once(
            graph._engine, asked.name, bound_to, options.actor, options.key, merged_into
        )
    return BranchDeleted(uri=graph.uri, name=asked.name, actor=options.actor)


DELETE_BRANCH = Verb(
    arguments=BranchDelete,
    result="omnigraphdb.api.branches:BranchDeleted",
    run=_run_delete,
    kind=CallKind.DELETE_BRANCH,
    scope=_scope_delete,
    summary="Delete a branch that no other depends on",
    endpoint=Endpoint(
        method=Method.DELETE,
        path="/branches/{branch}",
        operation="deleteBranch",
        names={"branch": "name"},
    ),
    writes=True,
    keyed=True,
    tool=Tool(
        name="branches_delete",
        description="Delete a branch and what only it has.",
        destructive=True,
        idempotent=True,
    ),
)


# ---- merge


@arguments
class BranchMerge:
    """A merge."""

    source: BranchName = arg("The branch to merge.")
    into: BranchName = arg("The branch to merge into.", wire="target", default=MAIN)
    granularity: Granularity = arg(
        "What both sides may not both change: a row or a property.", default=Granularity.ROW
    )
    allow_older_base: Flag = arg(
        "Merge over an older commit if the common history cannot be read.", default=False
    )
    delete_branch: Flag = arg("Delete the source afterwards.", default=False)
    dry_run: Flag = arg("Show what would change; write nothing.", default=False, local=True)
    rejects: str | os.PathLike[str] | None = arg(
        "Write every conflict to a .jsonl file.", default=None, local=True
    )


def _scope_merge(_graph: "Handle", asked: BranchMerge) -> Scope:
    return {
        "source": branch_name(asked.source, "merge"),
        "target": branch_name(asked.into, "merge"),
    }


def _run_merge(graph: "Handle", asked: BranchMerge, call: Call) -> "MergeResult":
    from omnigraphdb.api.loading import make_runner_choice
    from omnigraphdb.engine.merge.conflicts import parse_conflict_file, raise_with_table
    from omnigraphdb.engine.merge.merge import merge

    path = None if asked.rejects is None else path_of("rejects", asked.rejects)
    sink = parse_conflict_file(path)
    job = graph._job(JobKind.MERGE, asked.into, call.actor, call.progress)
    with raise_with_table(sink), job as on_progress:
        result = merge(
            graph._engine,
            asked.source,
            asked.into,
            granularity=asked.granularity,
            options=call.options,
            dry_run=asked.dry_run,
            allow_older_base=asked.allow_older_base,
            choose_runner=make_runner_choice(graph._engine, call.spark, on_progress),
            rejects=sink,
            on_progress=on_progress,
        )
    if not asked.delete_branch or asked.dry_run:
        return result
    refusal = _delete_merged(graph, asked.source, result.target, call)
    return replace(result, branch_deleted=refusal is None, branch_delete_error=refusal)


def _delete_merged(graph: "Handle", source: str, target: str, call: Call) -> str | None:
    """Delete the merged branch unless it was written since; a refusal is told beside the merge, which is done."""
    asked = BranchDelete(name=source.strip(), merged_into=target)
    if call.attempt is not None:
        return call.attempt(DELETE_BRANCH, asked, asked.name)
    try:
        run_verb(graph, DELETE_BRANCH, asked, Call(actor=call.actor))
    except OmniError as error:
        return str(error)
    return None


MERGE = Verb(
    arguments=BranchMerge,
    result="omnigraphdb.engine.merge.merge:MergeResult",
    run=_run_merge,
    kind=CallKind.MERGE,
    scope=_scope_merge,
    summary="Merge a branch into another in one commit, or not at all",
    endpoint=Endpoint(
        method=Method.POST,
        path="/branches/merge",
        operation="mergeBranches",
        fixed={"dry_run": False},
        input="BranchMergeInput",
    ),
    writes=True,
    keyed=True,
    conditional=True,
    tool=Tool(
        name="branches_merge",
        description="Merge a branch into another in one commit; conflicts are listed and nothing is merged.",
        destructive=True,
        has_message=True,
    ),
)
PREVIEW_MERGE = MERGE.preset(
    kind=CallKind.PREVIEW_MERGE,
    summary="Show what a merge would do, and its conflicts",
    endpoint=Endpoint(
        method=Method.POST,
        path="/branches/merge/preview",
        operation="previewMerge",
        fixed={"dry_run": True, "delete_branch": False},
        input="MergePreviewInput",
        statuses=(409,),
    ),
)

BRANCH_VERBS: tuple[Verb[Any, Any], ...] = (
    LIST_BRANCHES,
    SHOW_BRANCH,
    CREATE_BRANCH,
    DELETE_BRANCH,
    MERGE,
    PREVIEW_MERGE,
)


# ---- methods


class BranchVerbs(Calls):
    """The branches of a graph, and their merges."""

    def branches(
        self, *, compare: bool = False, shows: Callable[[str], bool] | None = None
    ) -> "Branches":
        """Main, then the others by name; with `compare`, counts of commits `ahead` and `behind` the parent.

        Without `compare` only heads are read, not histories. `shows` says which branches are shown, all by default.

        Example:
            >>> [(branch.name, branch.parent) for branch in graph.branches()]
            [('main', None), ('review', 'main')]
        """
        from omnigraphdb.api.branches import Branches

        answer = self._call(LIST_BRANCHES, BranchesList(compare=compare), Call(shows=shows))
        return Branches(answer.details)

    def branch(self, name: str) -> "Branch":
        """One branch, with counts of commits `ahead` and `behind` its parent.

        Example:
            >>> graph.branch("review").parent
            'main'
        """
        return self._call(SHOW_BRANCH, BranchShow(name=name))

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
        asked = BranchCreate(name=name, source=from_branch, at=at)
        return self._call(CREATE_BRANCH, asked, Call(actor=actor, key=idempotency_key)).branch

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
        asked = BranchDelete(name=name, merged_into=merged_into)
        self._call(DELETE_BRANCH, asked, Call(actor=actor, key=idempotency_key))

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
        progress: "OnProgress | None" = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: str | os.PathLike[str] | None = None,
        if_commit: str | Commit | None = None,
        delete_branch: bool = False,
    ) -> "MergeResult":
        """Apply the changes of one branch to another, in one commit; on conflicts nothing is written and all of them are raised together.

        With `if_commit` the merge is refused unless that commit is the head of the target. When the common history cannot be read any more, the merge is refused unless `allow_older_base`.
        A large merge is done in steps: workers compare, check and write rows. `spark` is a session, True, or False; `auto`
        asks for Spark past the small-work bound. Such a merge raises the first 1000 conflicts and the total; `rejects`
        names a file (`.jsonl`) that gets all conflicts, or is `"frame"`: the error then has them as the Arrow table `rejects`.
        With `delete_branch` the source is deleted afterwards, unless it was written since; `branch_delete_error` then says why not.

        Example:
            >>> done = graph.mutate('query q() { insert Person { name: "Gus" } }', branch="review")
            >>> merged = graph.merge("review")
            >>> str(merged.outcome), merged.tables["node:Person"]
            ('merged', (1, 0, 0))
        """
        asked = BranchMerge(
            source=source,  # type: ignore[arg-type]
            into=into,
            granularity=granularity,  # type: ignore[arg-type]
            allow_older_base=allow_older_base,
            delete_branch=delete_branch,
            dry_run=dry_run,
            rejects=rejects,
        )
        call = Call(
            actor=actor,
            message=message,
            key=idempotency_key,
            if_commit=if_commit,
            progress=progress,
            spark=spark,
        )
        return self._call(PREVIEW_MERGE if dry_run else MERGE, asked, call)
