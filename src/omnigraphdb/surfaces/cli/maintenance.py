"""Commands that keep a graph fast and small: index, optimize, cleanup, repair."""

import re
from datetime import timedelta
from typing import Annotated

import typer

from omnigraphdb.limits import CLEANUP_KEEP_WARN
from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Store,
    Uri,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    open_store,
)
from omnigraphdb.surfaces.cli.output import EXIT_FAILURE, say, say_json, warn
from omnigraphdb.surfaces.cli.progress import watch

Confirm = Annotated[
    bool, typer.Option("--confirm", help="Do it; without this flag, only list what would be done.")
]
_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def index_status(
    uri: Uri = None, store: Store = None, branch: Branch = "main", json: Json = False
) -> None:
    """Show how many rows every index covers.

    Example: omnigraphdb index status people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        report = graph.index_status(branch=branch)
    if json:
        say_json(report.to_dict())
        return
    for one in report.indexes:
        reason = f" ({one.reason})" if one.reason else ""
        rows = f"{one.rows_indexed} of {one.rows} rows"
        say(f"{one.table_key}.{one.column} {one.kind} {one.state}: {rows}{reason}")


def index_build(
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    actor: Actor = None,
    json: Json = False,
) -> None:
    """Build the indexes the schema asks for and that are missing or damaged.

    Example: omnigraphdb index build people.omni
    """
    with open_store(choose_graph(uri, store), read_only=False, actor=actor) as graph:
        announce("index build", graph)
        with watch("index build") as on_progress:
            report = graph.ensure_indices(branch=branch, progress=on_progress)
    if json:
        say_json(report.to_dict())
        return
    left = [one for one in report.indexes if one.state == "pending" and one.rows]
    for one in left:
        say(f"{one.table_key}.{one.column} pending: {one.reason}")
    say(f"{report.built} built, {len(left)} pending")


def optimize(
    uri: Uri = None,
    store: Store = None,
    actor: Actor = None,
    json: Json = False,
) -> None:
    """Compact tables and bring indexes up to date; no row changes.

    Example: omnigraphdb optimize people.omni
    """
    with open_store(choose_graph(uri, store), read_only=False, actor=actor) as graph:
        announce("optimize", graph)
        with watch("optimize") as on_progress:
            report = graph.optimize(progress=on_progress)
    if json:
        say_json(report.to_dict())
        return
    for one in report.tables:
        if one.skipped is not None:
            say(f"{one.table_key} skipped: {one.skipped}, see `omnigraphdb repair`")
        elif one.committed:
            say(f"{one.table_key}: {one.fragments_removed} fragments became {one.fragments_added}")
    done = sum(one.committed for one in report.tables)
    say(f"{done} of {len(report.tables)} tables changed")


def cleanup(
    uri: Uri = None,
    store: Store = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Versions to keep of every table.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", help="Keep versions that are younger: 30d, 12h, 90m, 45s, 2w."
        ),
    ] = None,
    confirm: Confirm = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove old table versions that no branch shows.

    Without --confirm, only list what would be removed.

    Example: omnigraphdb cleanup people.omni --keep 10 --older-than 30d --confirm
    """
    age = None if older_than is None else _age(older_than)
    if keep is None and age is None:
        raise typer.BadParameter("say what to keep: --keep, --older-than, or both")
    if keep is not None and keep < CLEANUP_KEEP_WARN:
        warn(f"--keep {keep} leaves recovery fewer than {CLEANUP_KEEP_WARN} versions")
    where = choose_graph(uri, store)
    if confirm:
        ask_consent("cleanup", where, yes=yes, json=json)
    with open_store(where, read_only=False) as graph:
        if confirm:
            announce("cleanup", graph)
        with watch("cleanup") as on_progress:
            report = graph.cleanup(keep=keep, older_than=age, confirm=confirm, progress=on_progress)
    if json:
        say_json(report.to_dict())
    else:
        verb = "removed" if confirm else "would remove"
        for one in report.tables:
            forks = f", {len(one.forks_removed)} forks" if one.forks_removed else ""
            forks += ", all that was left of it" if one.dropped else ""
            error = f"; error: {one.error}" if one.error else ""
            say(
                f"{one.table_key}: {verb} {one.versions_removed} versions, "
                f"{one.bytes_removed} bytes{forks}{error}"
            )
        if report.scratch_removed:
            say(f"{verb} scratch files of {len(report.scratch_removed)} loads that never ended")
        if report.jobs_removed:
            say(f"{verb} the records of {len(report.jobs_removed)} dead jobs")
    if any(one.error for one in report.tables):
        raise typer.Exit(EXIT_FAILURE)


def repair(
    uri: Uri = None,
    store: Store = None,
    confirm: Confirm = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="With --confirm: also adopt commits that may have changed rows."
        ),
    ] = False,
    actor: Actor = None,
    json: Json = False,
) -> None:
    """Adopt foreign commits of tables; restore unreadable tables.

    Foreign are commits that no write of the graph explains. Without --confirm, only list them. With it, adopt those that changed no row, and restore the last readable version of a
    table of which a file is cut or missing; with --force, adopt the other commits too.

    Example: omnigraphdb repair people.omni --confirm
    """
    with open_store(choose_graph(uri, store), read_only=False, actor=actor) as graph:
        if confirm:
            announce("repair", graph)
        report = graph.repair(confirm=confirm, force=force)
    if json:
        say_json(report.to_dict())
    else:
        for one in report.tables:
            versions = f"pin {one.manifest_version}, HEAD {one.head_version}"
            operations = f", {' '.join(one.operations)}" if one.operations else ""
            error = f"; error: {one.error}" if one.error else ""
            last = one.last_readable
            if last is not None:
                error += (
                    f"; version {last.version} of commit {last.commit} can be read: {last.rows} rows, "
                    f"{last.rows_lost} fewer"
                )
            say(
                f"{one.table_key}: {one.classification}, {one.action} "
                f"({versions}{operations}){error}"
            )
    if any(one.action == "refused" for one in report.tables):
        raise typer.Exit(EXIT_FAILURE)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([smhdw]?)", text.strip())
    if found is None:
        raise typer.BadParameter(f"'{text}' is no age; write 45s, 90m, 12h, 30d or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
