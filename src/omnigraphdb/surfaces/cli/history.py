"""Commands about branches and commits."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.display import count_of, format_time
from omnigraphdb.errors import ChangeDiffRefused, HistoryReclaimed, did_you_mean, suggestion
from omnigraphdb.ids import RECOVERY_ACTOR, TableKey, type_name
from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Key,
    Store,
    Uri,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    complete_branch,
    open_store,
)
from omnigraphdb.surfaces.cli.differences import Counts, count_types, spell_types, wire_counts
from omnigraphdb.surfaces.cli.moments import shorten_ids, show_moment, spell_age
from omnigraphdb.surfaces.cli.output import print_columns, print_facts, say, say_json
from omnigraphdb.surfaces.cli.terminal import Style, is_terminal, paint

if TYPE_CHECKING:
    from omnigraphdb.api.branches import Branch as BranchResult
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.api.results import Commit, RecoveryAudit

Name = Annotated[str, typer.Argument(help="The branch.", autocompletion=complete_branch)]


def name_types(tables: Iterable[str]) -> str:
    """The types of tables on one line."""
    return ", ".join(type_name(TableKey(one)) for one in tables)


def branch_create(
    name: Annotated[str, typer.Argument(help="The branch.")],
    base: Annotated[
        str,
        typer.Option("--from", help="The branch to start from.", autocompletion=complete_branch),
    ] = "main",
    at: Annotated[str | None, typer.Option("--at", help="A commit of that branch.")] = None,
    key: Key = None,
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Create a branch; nothing is copied.

    Example: omnigraphdb branch create review --store people.omni
    """
    with open_store(choose_graph(store), read_only=False, actor=actor) as graph:
        announce("branch create", graph)
        from omnigraphdb.api.verbs.branch import CREATE_BRANCH, BranchCreate
        from omnigraphdb.api.verbs.call import Call
        from omnigraphdb.api.verbs.verb import run_verb

        asked = BranchCreate(name=name, source=base, at=at)
        answer = run_verb(graph, CREATE_BRANCH, asked, Call(key=key))
        if json:
            say_json(answer.to_dict())
        else:
            say(f"created branch {answer.name} from {base}")


def branch_list(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List branches: head, age, and commits ahead of and behind the parent.

    Example: omnigraphdb branch list people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        from omnigraphdb.api.verbs.branch import LIST_BRANCHES, BranchesList
        from omnigraphdb.api.verbs.verb import run_verb

        answer = run_verb(graph, LIST_BRANCHES, BranchesList(compare=True))
    if json:
        say_json(answer.to_dict())
        return
    length = shorten_ids(branch.head for branch in answer.details if branch.head)
    print_columns(_branch_row(branch, length) for branch in answer.details)


def _branch_row(branch: "BranchResult", length: int) -> list[str]:
    apart = "" if branch.ahead is None else f"{branch.ahead} ahead, {branch.behind} behind"
    when = "" if branch.head_at is None else show_moment(branch.head_at)
    name = paint(branch.name, Style.GOOD if branch.parent is None else Style.NAME)
    made = "" if branch.parent is None else f"{apart} {branch.parent}".strip()
    return [name, (branch.head or "")[:length], when, made]


def branch_show(name: Name, store: Store = None, json: Json = False) -> None:
    """Show one branch: its head, where it was made, and what it has of its own.

    Example: omnigraphdb branch show review --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = graph.branch(name)
        own = graph.commits(branch=name, limit=found.ahead) if found.ahead else []
        tables = sorted({table for commit in own for table in commit.tables})
    if json:
        say_json(found.to_dict() | {"tables": tables})
        return
    facts = {"branch": found.name, "head": found.head}
    if found.head_at is not None:
        facts["committed"] = _spell_moment_and_age(found.head_at)
    if found.parent is not None:
        facts["made from"] = found.parent
        facts["made"] = (
            None if found.created_at is None else _spell_moment_and_age(found.created_at)
        )
        facts["apart"] = f"{count_of(found.ahead or 0, 'commit')} ahead, {found.behind or 0} behind"
        facts["changed"] = name_types(tables)
    print_facts(facts)


def branch_delete(
    name: Name,
    key: Key = None,
    actor: Actor = None,
    store: Store = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a branch nothing depends on.

    Example: omnigraphdb branch delete review --store people.omni
    """
    uri = choose_graph(store)
    ask_consent("branch delete", uri, yes=yes, json=json)
    with open_store(uri, read_only=False, actor=actor) as graph:
        announce("branch delete", graph)
        from omnigraphdb.api.verbs.branch import DELETE_BRANCH, BranchDelete
        from omnigraphdb.api.verbs.call import Call
        from omnigraphdb.api.verbs.verb import run_verb

        answer = run_verb(graph, DELETE_BRANCH, BranchDelete(name=name), Call(key=key))
        if json:
            say_json(answer.to_dict())
        else:
            say(f"deleted branch {name}")


def commit_list(
    uri: Uri = None,
    branch: Branch = "main",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="actor=…, since=…, until=…, kind=linear|merge|recovery; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most this many.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Oldest first.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Also list commits of other branches that were merged.")
    ] = False,
    stat: Annotated[
        bool, typer.Option("--stat", help="Count what each commit changed, by type.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """List commits, newest first.

    Example: omnigraphdb commit list people.omni --limit 10 --stat

    Example: omnigraphdb commit list people.omni --filter actor=omnigraph:recovery
    """
    wanted = _filters(filters)
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.commits(
            branch=branch, actor=wanted.get("actor"), since=wanted.get("since"), all=all_
        )
        found = [commit for commit in found if _passes(commit, wanted)][:limit]
        shown = list(reversed(found)) if reverse else found
        counts = {one.id: _count_changes(graph, one) for one in shown} if stat else {}
    if json:
        bodies = [one.to_dict() | _wire(counts.get(one.id)) for one in shown]
        say_json({"commits": bodies, "next_page_token": None})
        return
    length = shorten_ids(one.id for one in shown)
    print_columns(_commit_row(one, length, counts.get(one.id)) for one in shown)


def _count_changes(graph: "Graph", commit: "Commit") -> Counts | None:
    """Inserted, updated and deleted entities of a commit by type; None where a commit cannot be compared."""
    try:
        return count_types(graph.commit_changes(commit.id).changes)
    except (ChangeDiffRefused, HistoryReclaimed):
        return None


def _wire(counts: Counts | None) -> dict[str, Any]:
    return {} if counts is None else {"counts": wire_counts(counts)}


def _commit_row(commit: "Commit", length: int, counts: Counts | None) -> list[str]:
    what = spell_types(counts) if counts else name_types(commit.tables)
    return [
        paint(commit.id[:length], Style.WARNING),
        paint(show_moment(commit.created_at), Style.FAINT),
        str(commit.kind),
        commit.actor or "-",
        " ".join(one for one in (what, commit.message) if one),
    ]


def commit_show(
    commit: Annotated[str, typer.Argument(help="The commit, the beginning of its id, or a tag.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Show one commit: who wrote it, when, and what it changed.

    Example: omnigraphdb commit show 01M7EQ3P4VK0 --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = graph.commit(commit)
        counts = _count_changes(graph, found)
    if json:
        say_json(found.to_dict() | _wire(counts))
        return
    print_facts(
        {
            "commit": paint(found.id, Style.WARNING),
            "kind": str(found.kind),
            "created": _spell_moment_and_age(found.created_at),
            "actor": found.actor,
            "branch": found.branch,
            "parent": found.parent,
            "merged": found.merged_parent,
            "manifest version": str(found.manifest_version),
            "tables": name_types(found.tables),
            "batch": found.batch_id,
            "message": found.message,
            "changes": None if counts is None else spell_types(counts) or "none",
            "recovery": None if found.recovery is None else _spell_recovery(found.recovery),
        }
    )


def _spell_moment_and_age(moment: datetime) -> str:
    return (
        f"{format_time(moment)} ({spell_age(moment)})"
        if is_terminal(sys.stdout)
        else format_time(moment)
    )


def _spell_recovery(row: "RecoveryAudit") -> str:
    moved = ", ".join(
        f"{type_name(one.table_key)} {one.from_version} → {one.to_version}" for one in row.tables
    )
    who = f" of {row.for_actor}" if row.for_actor else ""
    return f"{row.recovery_kind} {row.writer_kind}{who}, operation {row.operation_id}: {moved}"


_FILTERS = ("actor", "since", "until", "kind")


def _passes(commit: "Commit", wanted: Mapping[str, Any]) -> bool:
    until, kind = wanted.get("until"), wanted.get("kind")
    if until is not None and commit.created_at > until:
        return False
    match kind:
        case None:
            return True
        case "merge":
            return commit.merged_parent is not None
        case "recovery":
            return commit.actor == RECOVERY_ACTOR
        case "linear":
            return commit.merged_parent is None and commit.actor != RECOVERY_ACTOR
        case _:
            return bool(str(commit.kind) == kind)


def _filters(given: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or key not in _FILTERS:
            raise typer.BadParameter(
                f"'{pair}' is not one of {', '.join(f'{k}=…' for k in _FILTERS)}"
            )
        found[key] = _parse_moment(value) if key in ("since", "until") else value
    if "kind" in found:
        _require_kind(found["kind"])
    if isinstance(found.get("until"), str):
        raise typer.BadParameter(f"until={found['until']} is no moment, as in 2026-01-31T10:00:00")
    return found


def _require_kind(kind: str) -> None:
    from omnigraphdb.manifest.records import CommitKind

    known = dict.fromkeys(["linear", "merge", "recovery", *map(str, CommitKind)])
    if kind not in known:
        near = suggestion(did_you_mean(kind, known))
        raise typer.BadParameter(f"kind= takes {', '.join(known)}, not '{kind}'{near}")


def _parse_moment(text: str) -> str | datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
