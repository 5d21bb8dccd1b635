"""Commands that look after a graph: doctor, recovery."""

import typer

from omnigraph.surfaces.cli.address import Json, Store, Uri, opened, place
from omnigraph.surfaces.cli.output import EXIT_FAILURE, say, say_json


def doctor(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """Check every invariant that must hold between writes; changes nothing.

    Example: omnigraph doctor people.omni
    """
    with opened(place(uri, store)) as graph:
        found = graph.doctor()
        if json:
            say_json({"settled": not found, "findings": [one.to_dict() for one in found]})
        else:
            for one in found:
                say(str(one))
            say(f"{graph.uri}: {'settled' if not found else f'{len(found)} findings'}")
    if found:
        raise typer.Exit(EXIT_FAILURE)


def recovery_list(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List interrupted writes and how earlier ones were settled.

    Example: omnigraph recovery list people.omni
    """
    with opened(place(uri, store)) as graph:
        pending, settled = graph.pending_recoveries(), graph.recoveries()
        if json:
            say_json(
                {
                    "pending": [one.to_dict() for one in pending],
                    "settled": [one.to_dict() for one in settled],
                }
            )
            return
        for one in pending:
            tables = ", ".join(one.tables)
            say(
                f"pending {one.operation_id} {one.writer_kind} on {one.branch} since {one.started_at}: {tables}"
            )
        for row in settled:
            say(f"{row.recovery_kind} {row.operation_id} {row.writer_kind} in commit {row.commit}")
        say(f"{len(pending)} pending, {len(settled)} settled")


def recovery_run(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """Settle every interrupted write whose owner is dead.

    Example: omnigraph recovery run people.omni
    """
    with opened(place(uri, store), read_only=False) as graph:
        graph.refresh(settle=True)
        left = graph.pending_recoveries()
        if json:
            say_json({"pending": [one.to_dict() for one in left]})
        else:
            say(f"{len(left)} operations are left" if left else "nothing is pending")
