"""Commands that examine and recover a graph: doctor, relocate, recovery."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.display import count_of
from omnigraphdb.surfaces.cli.address import Json, Store, Uri, choose_graph, open_store
from omnigraphdb.surfaces.cli.output import EXIT_FAILURE, say, say_json
from omnigraphdb.surfaces.cli.terminal import Style, paint

if TYPE_CHECKING:
    from omnigraphdb.api.results import RecoveryAudit, RecoverySidecar
    from omnigraphdb.engine.maintenance.issues import Examination, Issue

OperationArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The operation, as `recovery list` shows it.")
]
Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Read every file and compare it with the digest that was recorded when it was written.",
    ),
]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Discard it; without this flag, nothing is done.")
]


def doctor(uri: Uri = None, store: Store = None, deep: Deep = False, json: Json = False) -> None:
    """Check that a graph is whole; changes nothing.

    Every invariant that must hold between writes is checked; each issue comes with its remedy.

    Example: omnigraphdb doctor people.omni --deep
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.doctor(deep=deep)
        if json:
            say_json(found.to_dict())
        else:
            for one in found:
                _print_issue(one)
            if deep:
                say(_describe_files(found))
            state = (
                paint(count_of(len(found), "finding"), Style.BAD)
                if found
                else paint("settled", Style.GOOD)
            )
            say(f"{graph.uri}: {state}")
    if found:
        raise typer.Exit(EXIT_FAILURE)


def _print_issue(issue: "Issue") -> None:
    where = "".join(f" [{one}]" for one in (issue.branch, issue.table_key) if one)
    say(f"{paint(issue.check, Style.BAD)}{where}: {issue.message}")
    say(f"  {paint('remedy:', Style.NAME)} {issue.remedy}")


def relocate(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """Correct the address in a graph that was moved or copied.

    Writes only inside the graph it is given. Repeat it when it was interrupted.

    Example: omnigraphdb relocate copy.omni
    """
    from omnigraphdb.api.opening import relocate as relocate_graph

    done = relocate_graph(choose_graph(uri, store))
    if json:
        say_json(done.to_dict())
        return
    for branch, old in done.branches.items():
        say(f"{branch}: was looked for in '{old}'")
    say(
        f"{done.uri}: {len(done.branches)} branches relocated, {done.files_rewritten} files rewritten"
    )


def _describe_files(found: "Examination") -> str:
    compared, without = found.files_compared or 0, found.files_without_digest or 0
    summary = f"{compared} {'file' if compared == 1 else 'files'} compared with what was written"
    if not without:
        return summary
    spoken = "1 file was" if without == 1 else f"{without} files were"
    return f"{summary}; {spoken} written before digests were kept, or on an object store"


def recovery_list(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List interrupted writes, and what recovery does with each.

    Example: omnigraphdb recovery list people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        from omnigraphdb.api.verbs.maintenance import LIST_RECOVERIES, RecoveriesList
        from omnigraphdb.api.verbs.verb import run_verb

        answer = run_verb(graph, LIST_RECOVERIES, RecoveriesList(pending=True, settled=True))
    if json:
        say_json(answer.to_dict())
        return
    for operation in answer.pending:
        say(_pending(operation))
    for row in answer.settled:
        say(_render_audit(row))
    say(f"{len(answer.pending)} pending, {len(answer.settled)} settled")


def recovery_run(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """Recover every interrupted write whose writer is dead.

    Example: omnigraphdb recovery run people.omni
    """
    where = choose_graph(uri, store)
    with open_store(where) as graph:
        known = {row.operation_id for row in graph.recoveries()}
    with open_store(where, read_only=False) as graph:
        left = graph.pending_recoveries()
        done = [row for row in graph.recoveries() if row.operation_id not in known]
    if json:
        from omnigraphdb.api.results import RecoveryList

        say_json(RecoveryList(pending=tuple(left), settled=tuple(done)).to_dict())
    else:
        for row in done:
            say(_render_audit(row))
        for one in left:
            say(_pending(one))
        say(f"{len(done)} settled, {len(left)} left")
    if left:
        raise typer.Exit(EXIT_FAILURE)


def recovery_discard(
    operation_id: OperationArgument,
    uri: Uri = None,
    store: Store = None,
    confirm: Confirm = False,
    json: Json = False,
) -> None:
    """Discard one interrupted write that recovery cannot handle.

    It is neither completed nor rolled back. Works even if the record cannot be read. Rows that the write left in its tables stay there; the command lists them.

    Example: omnigraphdb recovery discard 01J9ZQ4T7M2V6X8Y0A1B2C3D4E people.omni --confirm
    """
    from omnigraphdb.api.opening import discard_recovery

    where = choose_graph(uri, store)
    if not confirm:
        raise typer.BadParameter(
            "a discarded write can neither be completed nor rolled back any more; add --confirm"
        )
    done = discard_recovery(where, operation_id)
    if json:
        say_json(done.to_dict())
        return
    say(f"discarded {done.operation_id} {done.writer_kind} in commit {done.commit}")
    for one in done.leaves:
        say(f"it leaves {one}")


def _pending(one: "RecoverySidecar") -> str:
    if one.started_at is None:
        return f"pending {one.operation_id}: it cannot be read ({one.problem})"
    tables = ", ".join(one.tables)
    if one.holder is not None:
        return (
            f"live {one.operation_id} {one.writer_kind} by {one.actor or 'nobody'} on {one.branch} since "
            f"{one.started_at}: {tables}; process {one.holder['process']} on host '{one.holder['host']}' works on it"
        )
    ahead = one.problem if one.forecast is None else f"recovery would {one.forecast}"
    return (
        f"pending {one.operation_id} {one.writer_kind} by {one.actor or 'nobody'} on {one.branch} "
        f"since {one.started_at}: {tables}; {ahead}"
    )


def _render_audit(row: "RecoveryAudit") -> str:
    moved = ", ".join(f"{o.table_key} {o.from_version}→{o.to_version}" for o in row.tables)
    tables = f": {moved}" if moved else ""
    return (
        f"{row.recovery_kind} {row.operation_id} {row.writer_kind} in commit {row.commit}{tables}"
    )
