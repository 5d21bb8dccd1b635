"""Commands that look at a whole graph: describe, status, jobs, graphs."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from omnigraphdb.display import count_of, format_bytes
from omnigraphdb.surfaces.cli.address import (
    Branch,
    Json,
    Store,
    Uri,
    choose_graph,
    open_store,
    read_point,
)
from omnigraphdb.surfaces.cli.data import At
from omnigraphdb.surfaces.cli.moments import show_moment
from omnigraphdb.surfaces.cli.output import say, say_json
from omnigraphdb.surfaces.cli.terminal import Style, paint

if TYPE_CHECKING:
    from omnigraphdb.api.description import Description
    from omnigraphdb.api.results import Job
    from omnigraphdb.pipeline.progress import Progress


def describe(
    uri: Uri = None, branch: Branch = "main", at: At = None, store: Store = None, json: Json = False
) -> None:
    """Show what a graph holds: types, rows, sizes, indexes, branches.

    Every table is opened once; no row is read.

    Example: omnigraphdb describe people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.describe(branch=branch, at=read_point(at))
    if json:
        say_json(found.to_dict())
    else:
        say(str(found))


def status(
    uri: Uri = None, branch: Branch = "main", store: Store = None, json: Json = False
) -> None:
    """Show whether a graph needs attention, and what to do about it.

    Interrupted writes and indexes that are not ready are named with their remedies.

    Example: omnigraphdb status people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.describe(branch=branch)
    wanted = list(_list_remedies(found))
    if json:
        say_json(_wire(found, wanted))
        return
    newest = found.commits[0] if found.commits else None
    when = "" if newest is None else f", {newest.kind} {show_moment(newest.created_at)}"
    say(f"{found.uri} on {found.branch}")
    say(f"commit {found.commit}{when}")
    say(
        f"{count_of(found.rows, 'row')} in {count_of(len(found.types), 'type')}, "
        f"{format_bytes(found.bytes)}, {count_of(len(found.branches), 'branch', 'branches')}"
    )
    for what, remedy in wanted:
        say(f"{paint(what, Style.WARNING)} → {remedy}")
    if not wanted:
        say(paint("nothing to do", Style.GOOD))


def jobs(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List long work: what runs, how far it is, what died.

    Loads, merges, exports and maintenance show themselves when they last longer than two seconds.

    Example: omnigraphdb jobs people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        from omnigraphdb.api.verbs.maintenance import LIST_JOBS, JobsList
        from omnigraphdb.api.verbs.verb import run_verb

        answer = run_verb(graph, LIST_JOBS, JobsList())
    if json:
        say_json(answer.to_dict())
        return
    for job in answer.jobs:
        say(_describe_job(job))
    dead = sum(job.state == "dead" for job in answer.jobs)
    say(f"{len(answer.jobs) - dead} running, {dead} dead")


def graphs_list(json: Json = False) -> None:
    """List the graphs of a server.

    The server's policy must allow it.

    Example: omnigraphdb graphs list --server https://graph.example.com
    """
    from omnigraphdb.remote.transport import Transport
    from omnigraphdb.surfaces.cli.credentials import find_token

    url = choose_graph()
    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter("graphs are listed by a server: name it with --server")
    server = Transport(url, find_token(url, os.environ), None)
    try:
        found = server.list_graphs()
    finally:
        server.close()
    if json:
        say_json(found)
        return
    for one in found["graphs"]:
        say(f"{one['graph_id']}  {one['uri']}")


def _describe_job(job: "Job") -> str:
    ink = Style.GOOD if job.state == "running" else Style.BAD
    who = f" by {job.actor}" if job.actor else ""
    far = "" if job.progress is None else f": {_describe_progress(job.progress)}"
    return (
        f"{paint(str(job.state), ink)} {job.id} {job.kind}{who} on {job.branch} "
        f"{show_moment(job.started_at)}, process {job.process} on host '{job.host}'{far}"
    )


def _describe_progress(progress: "Progress") -> str:
    of = "" if progress.total is None else f" of {progress.total}"
    return f"{progress.phase}, {progress.done}{of} {progress.unit}"


def _list_remedies(found: "Description") -> Iterator[tuple[str, str]]:
    """What is not as it should be, and the command that mends it."""
    live = sum(one.live for one in found.pending)
    if live:
        yield f"{count_of(live, 'write')} going on", f"omnigraphdb recovery list {found.uri}"
    if len(found.pending) > live:
        left = count_of(len(found.pending) - live, "interrupted write")
        yield left, f"omnigraphdb recovery run {found.uri}"
    indexes = [index for type_ in found.types for index in type_.indexes if index.rows]
    unready = sum(index.state != "ready" for index in indexes)
    if unready:
        what = f"{unready} of {count_of(len(indexes), 'index', 'indexes')} not ready"
        yield what, f"omnigraphdb optimize {found.uri}"


def _wire(found: "Description", wanted: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "uri": found.uri,
        "branch": found.branch,
        "graph_commit_id": found.commit,
        "rows": found.rows,
        "bytes": found.bytes,
        "branches": len(found.branches),
        "pending": len(found.pending),
        "attention": [{"what": what, "remedy": remedy} for what, remedy in wanted],
    }
