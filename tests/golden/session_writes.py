"""The writes of the session: mutations, loads, branches, merges, schema changes and maintenance."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.golden.forms import Notes, read_file
from tests.golden.world import ADD, AGE, DROP, GROWN, KNOWN, NAMES, NOWHERE, PERSON, SCHEMA, Handle


def write_rows(notes: Notes, graph: Handle) -> None:
    note = notes.note
    head = graph.commits(limit=1)[0].id
    note("mutate, dry run", lambda: graph.mutate(ADD, {"n": "Eve"}, dry_run=True))
    note("mutate", lambda: graph.mutate(ADD, {"n": "Eve", "a": 9}, message="one more"))
    note("mutate, actor", lambda: graph.mutate(AGE, {"n": "Eve", "a": 10}, actor="eve"))
    note(
        "mutate, if_commit",
        lambda: graph.mutate(AGE, {"n": "Eve", "a": 11}, if_commit=graph.commits(limit=1)[0]),
    )
    note(
        "mutate, wrong if_commit", lambda: graph.mutate(AGE, {"n": "Eve", "a": 12}, if_commit=head)
    )
    note("mutate, nothing", lambda: graph.mutate(AGE, {"n": "Nobody", "a": 1}))
    note(
        "mutate, several",
        lambda: graph.mutate(
            'query q() { insert Note { text: "second" } update Person set { mood: "glad" } where name = "Ada" }'
        ),
    )
    note("mutate, there already", lambda: graph.mutate(ADD, {"n": "Eve", "a": 5}))
    note("mutate, delete", lambda: graph.mutate(DROP, {"n": "Eve"}))


def refuse_rows(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("mutate, out of range", lambda: graph.mutate(AGE, {"n": "Ada", "a": 151}))
    note(
        "mutate, not unique",
        lambda: graph.mutate(
            'query q() { update Person set { mail: "ada@example.org" } where name = "Bo" }'
        ),
    )
    note(
        "mutate, no end",
        lambda: graph.mutate('query q() { insert Knows { from: "Ada", to: "Nobody" } }'),
    )
    note(
        "mutate, a key",
        lambda: graph.mutate('query q() { update Person set { name: "Ad" } where name = "Ada" }'),
    )
    note("mutate, a read", lambda: graph.mutate(NAMES))
    note("mutate, broken", lambda: graph.mutate("query q() { insert Person }"))
    note("mutate, no branch", lambda: graph.mutate(ADD, {"n": "X"}, branch="nowhere"))
    note("mutate, no actor", lambda: graph.mutate(ADD, {"n": "X"}, actor=" "))
    note("mutate, no message", lambda: graph.mutate(ADD, {"n": "X"}, message="x" * 20_000))
    note("assign", lambda: graph.assign("Person.score", ["Ada"], [0.5], message="scores"))
    note("assign, nobody", lambda: graph.assign("Person.score", ["Nobody"], [0.5]))
    note("assign, no property", lambda: graph.assign("Person.scores", ["Ada"], [0.5]))


def load_rows(notes: Notes, graph: Handle) -> None:
    note = notes.note
    row, other = _make_row("Flo"), _make_row("Gus")
    note("load, dry run", lambda: graph.load([row], mode="append", dry_run=True))
    note("load", lambda: graph.load([row], mode="append", message="loaded"))
    note("load, merge", lambda: graph.load([_make_row("Flo", age=3), other], mode="merge"))
    note(
        "load, overwrite",
        lambda: graph.load(
            [{"type": "Note", "data": {"id": "n9", "text": "only"}}], mode="overwrite"
        ),
    )
    note(
        "load, text",
        lambda: graph.load('{"type": "Person", "data": {"name": "Hal"}}\n', mode="merge"),
    )
    note(
        "load, a branch of its own",
        lambda: graph.load([row], mode="merge", branch="loaded", from_branch="main"),
    )
    note(
        "load, create_missing",
        lambda: graph.load(
            [{"edge": "Knows", "from": "Ada", "to": "Ivy", "data": {"id": "k8"}}],
            mode="merge",
            create_missing="Person",
        ),
    )
    for again in ("", ", again"):
        note(
            f"load, append_only{again}",
            lambda: graph.load([_make_row("Jon")], mode="merge", append_only=["Person"]),
        )
    note("load, batch_id", lambda: graph.load([_make_row("Kim")], mode="merge", batch_id="batch-1"))
    note(
        "load, batch_id again",
        lambda: graph.load([_make_row("Kim")], mode="merge", batch_id="batch-1"),
    )
    note(
        "load, of one type",
        lambda: graph.load([{"name": "Lou", "age": 4}], mode="merge", type="Person"),
    )
    note("load, nothing", lambda: graph.load([], mode="append"))
    note("load, nothing allowed", lambda: graph.load([], mode="append", allow_empty=True))


def refuse_loads(notes: Notes, graph: Handle, folder: Path) -> None:
    note = notes.note
    row = _make_row("Flo")
    note("load, there already", lambda: graph.load([row], mode="append"))
    bad = [
        _make_row("Mia", age=200),
        {"type": "Persn", "data": {}},
        _make_row("Mia", colour="red"),
        {"edge": "Knows", "from": "Mia", "to": "Nobody"},
    ]
    note("load, bad rows", lambda: graph.load(bad, mode="append"))
    note("load, rejects", lambda: graph.load(bad, mode="append", rejects=folder / "rejects.jsonl"))
    note("load, the rejects", lambda: read_file(folder / "rejects.jsonl"))
    note("load, no mode", lambda: graph.load([row], mode="replace"))
    note("load, no branch", lambda: graph.load([row], mode="merge", branch="nowhere"))
    note("load, no file", lambda: graph.load(folder / "missing.jsonl", mode="merge"))
    note("load, broken lines", lambda: graph.load('{"type": "Person"', mode="merge"))
    note("load, wrong if_commit", lambda: graph.load([row], mode="merge", if_commit=NOWHERE))


def _make_row(name: str, **values: Any) -> dict[str, Any]:
    return PERSON | {"data": {"name": name, **values}}


def repeat_writes(notes: Notes, graph: Handle) -> None:
    note = notes.note
    row = _make_row("Ned")
    for again in ("", ", again"):
        note(
            f"mutate, key{again}",
            lambda: graph.mutate(ADD, {"n": "Oda"}, idempotency_key="m", message="why"),
        )
        note(f"load, key{again}", lambda: graph.load([row], mode="append", idempotency_key="l"))
        note(
            f"branch_create, key{again}", lambda: graph.branch_create("keyed", idempotency_key="c")
        )
        note(
            f"branch_delete, key{again}", lambda: graph.branch_delete("keyed", idempotency_key="d")
        )
    note(
        "mutate, key of another request",
        lambda: graph.mutate(ADD, {"n": "Pia"}, idempotency_key="m"),
    )
    note("mutate, no key", lambda: graph.mutate(ADD, {"n": "Pia"}, idempotency_key=""))
    note("operation", lambda: graph.operation("m"))
    note("operation, nothing", lambda: graph.operation("nothing"))


def use_branches(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("branch_create", lambda: graph.branch_create("draft"))
    note("branch_create, of a branch", lambda: graph.branch_create("inner", from_branch="side"))
    note("branch_create, at", lambda: graph.branch_create("old", at=2))
    note("branch_create, there already", lambda: graph.branch_create("draft"))
    note("branch_create, no name", lambda: graph.branch_create("a..b"))
    note("branch_create, no source", lambda: graph.branch_create("x", from_branch="nowhere"))
    note("branch", lambda: graph.branch("side"))
    note("branch, nothing", lambda: graph.branch("sidee"))
    note("branches", lambda: graph.branches())
    note("branches, compared", lambda: graph.branches(compare=True))
    note("branch_delete, not merged", lambda: graph.branch_delete("side", merged_into="main"))
    note("branch_delete, has children", lambda: graph.branch_delete("side"))
    note("branch_delete", lambda: graph.branch_delete("inner"))
    note("branch_delete, main", lambda: graph.branch_delete("main"))
    note("branch_delete, nothing", lambda: graph.branch_delete("nowhere"))


def merge_branches(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("merge, dry run", lambda: graph.merge("side", dry_run=True))
    note("merge", lambda: graph.merge("side", message="side is done"))
    note("merge, again", lambda: graph.merge("side"))
    note("merge, fast forward", lambda: graph.merge("main", into="draft"))
    note("merge, wrong if_commit", lambda: graph.merge("draft", if_commit=NOWHERE))


def merge_conflicts(notes: Notes, graph: Handle, folder: Path) -> None:
    note = notes.note
    for branch, age, mood in (("left", 30, "calm"), ("right", 31, "glad")):
        graph.branch_create(branch)
        text = (
            f'query q() {{ update Person set {{ age: {age}, mood: "{mood}" }} where name = "Bo" }}'
        )
        graph.mutate(text, branch=branch)
    graph.mutate(DROP, {"n": "Flo"}, branch="left")
    graph.mutate(AGE, {"n": "Flo", "a": 44}, branch="right")
    note("merge, the first", lambda: graph.merge("left", idempotency_key="k"))
    note("merge, key, again", lambda: graph.merge("left", idempotency_key="k"))
    note("merge, conflicts of a dry run", lambda: graph.merge("right", dry_run=True))
    note("merge, conflicts", lambda: graph.merge("right"))
    note("merge, conflicts by property", lambda: graph.merge("right", granularity="property"))
    note("merge, rejects", lambda: graph.merge("right", rejects=folder / "conflicts.jsonl"))
    note("merge, the rejects", lambda: read_file(folder / "conflicts.jsonl"))
    note("merge, into itself", lambda: graph.merge("left", into="left"))
    note("merge, no branch", lambda: graph.merge("nowhere"))
    note("merge, no granularity", lambda: graph.merge("right", granularity="cell"))
    note("merge, older base", lambda: graph.merge("right", allow_older_base=True))
    note("branch_delete, merged", lambda: graph.branch_delete("left", merged_into="main"))


def change_schema(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("schema_plan", lambda: graph.schema_plan(GROWN))
    note("schema_plan, nothing", lambda: graph.schema_plan(SCHEMA))
    note(
        "schema_plan, refused", lambda: graph.schema_plan(SCHEMA.replace("age: I32?", "age: I64?"))
    )
    note(
        "schema_plan, loss",
        lambda: graph.schema_plan(SCHEMA.replace("big: I64?", ""), allow_data_loss=True),
    )
    note("schema_plan, broken", lambda: graph.schema_plan("node Person {"))
    note("schema_apply, branches", lambda: graph.schema_apply(GROWN))
    for branch in [one.name for one in graph.branches() if one.name != "main"]:
        graph.branch_delete(branch)
    note("schema_apply, wrong if_commit", lambda: graph.schema_apply(GROWN, if_commit=NOWHERE))
    note("schema_apply", lambda: graph.schema_apply(GROWN, message="ports"))
    note("schema_apply, nothing", lambda: graph.schema_apply(GROWN))
    note(
        "schema_apply, refused", lambda: graph.schema_apply(GROWN.replace("age: I32?", "age: I64?"))
    )
    note("schema_apply, key", lambda: graph.schema_apply(SCHEMA, idempotency_key="s"))
    note("schema_apply, key, again", lambda: graph.schema_apply(SCHEMA, idempotency_key="s"))
    note(
        "schema_apply, loss",
        lambda: graph.schema_apply(SCHEMA.replace("big: I64?", ""), allow_data_loss=True),
    )


def maintain(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("jobs", lambda: graph.jobs())
    note("index_status", lambda: graph.index_status())
    note("ensure_indices", lambda: graph.ensure_indices())
    note("optimize", lambda: graph.optimize())
    note("doctor", lambda: graph.doctor())
    note("doctor, deep", lambda: graph.doctor(deep=True))
    note("cleanup_preview", lambda: graph.cleanup_preview(keep=2))
    note("cleanup, nothing said", lambda: graph.cleanup())
    note("cleanup, not confirmed", lambda: graph.cleanup(keep=2))
    note("cleanup", lambda: graph.cleanup(keep=2, confirm=True))
    note("query, reclaimed", lambda: graph.query(KNOWN, at=3))
    note("cleanup_preview, age", lambda: graph.cleanup_preview(older_than=timedelta(days=1)))
    note("repair", lambda: graph.repair())
    note("repair, confirmed", lambda: graph.repair(confirm=True))
    note("recoveries", lambda: graph.recoveries())
    note("pending_recoveries", lambda: graph.pending_recoveries())
    note("discard_recovery, nothing", lambda: graph.discard_recovery(NOWHERE))
    note("refresh", lambda: graph.refresh())
    note("relocate", lambda: graph.relocate())
