"""One session over the verbs of a graph, for a graph at hand and for a served one; the name of an entry begins with the verb."""

from collections.abc import Iterator
from pathlib import Path

from tests.golden import session_comparisons as comparisons
from tests.golden import session_reads as reads
from tests.golden import session_writes as writes
from tests.golden.forms import Notes
from tests.golden.world import Handle


def run_session(notes: Notes, graph: Handle, folder: Path) -> None:
    """Use every verb, with good and with bad arguments."""
    reads.read_queries(notes, graph)
    reads.read_frames(notes, graph)
    reads.read_rows(notes, graph, folder)
    reads.read_entities(notes, graph)
    reads.read_snapshot(notes, graph)
    reads.read_history(notes, graph)
    comparisons.read_commit_changes(notes, graph)
    comparisons.read_changes(notes, graph, folder)
    comparisons.read_differences(notes, graph, folder)
    writes.write_rows(notes, graph)
    writes.refuse_rows(notes, graph)
    writes.load_rows(notes, graph)
    writes.refuse_loads(notes, graph, folder)
    writes.repeat_writes(notes, graph)
    writes.use_branches(notes, graph)
    writes.merge_branches(notes, graph)
    writes.merge_conflicts(notes, graph, folder)
    writes.change_schema(notes, graph)
    writes.maintain(notes, graph)


def list_verbs(notes: Notes) -> Iterator[str]:
    """The verbs that have an entry."""
    for name in notes.entries:
        yield name.removeprefix(notes.prefix).partition(",")[0]
