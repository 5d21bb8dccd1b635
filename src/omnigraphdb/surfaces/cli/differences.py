"""Commands that show what differs: diff, and the changes of a commit."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.display import count_of, format_cell
from omnigraphdb.errors.wording import shorten
from omnigraphdb.ids import EntityKind, Op, TableKey, type_name
from omnigraphdb.surfaces.cli.address import Json, Store, choose_graph, complete_branch, open_store
from omnigraphdb.surfaces.cli.output import note, print_columns, remark, say, say_json
from omnigraphdb.surfaces.cli.terminal import Style, paint

if TYPE_CHECKING:
    from omnigraphdb.api.comparisons import Change, Diff

Types = Annotated[list[str] | None, typer.Option("--type", help="Only this type; repeatable.")]
Kinds = Annotated[
    list[EntityKind] | None, typer.Option("--kind", help="Only nodes, or only edges; repeatable.")
]
Ops = Annotated[list[Op] | None, typer.Option("--op", help="Only these changes; repeatable.")]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="At most this many changes.")
]
Images = Annotated[
    bool, typer.Option("--images", help="With --json: whole rows, before and after.")
]

Counts = Mapping[str, tuple[int, int, int]]
"""Inserted, updated and deleted entities by type."""

_SIGNS = {"insert": ("+", Style.GOOD), "update": ("~", Style.WARNING), "delete": ("-", Style.BAD)}


def diff(
    base: Annotated[
        str, typer.Argument(help="A branch or commit, or A..B.", autocompletion=complete_branch)
    ],
    head: Annotated[
        str | None, typer.Argument(help="A branch or commit.", autocompletion=complete_branch)
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Counts by type only.")] = False,
    types: Types = None,
    kinds: Kinds = None,
    ops: Ops = None,
    images: Images = False,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write every change to a .jsonl file."),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show what differs between two branches or commits.

    Updates are shown with old and new values.

    Example: omnigraphdb diff main review --store people.omni

    Example: omnigraphdb diff main..review --stat --store people.omni
    """
    one, other = _ends(base, head)
    with open_store(choose_graph(store)) as graph:
        with_rows = images if json or out else not stat
        given: Any = {} if out is None else {"out": out}
        found = graph.diff(one, other, types=types, kinds=kinds, ops=ops, images=with_rows, **given)
    if out is not None:
        _print_written(found, out, json=json)
        return
    counts = count_types(found.changes)
    if json:
        body = found.to_dict()
        body["stats"] |= {"types": wire_counts(counts)}
        say_json({key: value for key, value in body.items() if key != "changes" or not stat})
        return
    say(f"{one}..{other}: {_spell_total(counts)}")
    _print_engine(found)
    if stat:
        print_columns([f"  {name}", _spell_signs(found)] for name, found in counts.items())
    else:
        print_changes(found.changes)


def _print_written(found: "Diff", out: str, *, json: bool) -> None:
    stats = found.stats
    if json:
        say_json({key: value for key, value in found.to_dict().items() if key != "changes"})
        return
    say(f"+{stats.inserts} ~{stats.updates} -{stats.deletes} written to {out}")
    _print_engine(found)


def _print_engine(found: "Diff") -> None:
    if found.engine != "local":
        remark(f"compared by {found.engine}: {found.reason}")


def _ends(base: str, head: str | None) -> tuple[str, str]:
    one, dots, other = base.partition("..")
    if head is None and dots and one and other:
        return one, other
    if head is None or dots:
        raise typer.BadParameter("name two branches or commits: A B, or A..B")
    return base, head


def commit_changes(
    commit: Annotated[str, typer.Argument(help="The commit, or the beginning of its id.")],
    types: Types = None,
    kinds: Kinds = None,
    ops: Ops = None,
    limit: Limit = None,
    page_token: Annotated[
        str | None,
        typer.Option("--page-token", metavar="TOKEN", help="Continue after an earlier page."),
    ] = None,
    images: Images = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show what a commit changed; a page at a time with --limit.

    Example: omnigraphdb commit changes 01M7EQ3P4VK0 --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        block = graph.commit_changes(
            commit,
            types=types,
            kinds=kinds,
            ops=ops,
            limit=limit,
            page_token=page_token,
            images=images if json else True,
        )
    if json:
        say_json(block.to_dict())
        return
    more = " on this page" if limit is not None else ""
    say(f"commit {block.commit.id}: {_spell_total(count_types(block.changes))}{more}")
    print_changes(block.changes)
    if block.next_page_token is not None:
        note("there is more: pass the last line to --page-token")
        say(block.next_page_token)


# ---- changes as text


def count_types(changes: "Iterable[Change]") -> Counts:
    """Count changes by type, in the order of their table keys."""
    found: dict[TableKey, Counter[str]] = {}
    for change in changes:
        found.setdefault(change.table_key, Counter())[str(change.op)] += 1
    return {
        type_name(key): (n["insert"], n["update"], n["delete"]) for key, n in sorted(found.items())
    }


def wire_counts(counts: Counts) -> dict[str, dict[str, int]]:
    """Counts by type as JSON has them."""
    names = ("inserts", "updates", "deletes")
    return {name: dict(zip(names, found, strict=True)) for name, found in counts.items()}


def spell_types(counts: Counts) -> str:
    """Counts by type on one line: `Person +2 ~1, Knows +1`."""
    return ", ".join(f"{name} {_spell_signs(found)}" for name, found in counts.items())


def _spell_signs(found: tuple[int, int, int]) -> str:
    signs = zip(_SIGNS.values(), found, strict=True)
    return " ".join(paint(f"{sign}{count}", ink) for (sign, ink), count in signs if count)


def _spell_total(counts: Counts) -> str:
    if not counts:
        return "no differences"
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    verbs = zip(sums, ("inserted", "updated", "deleted"), strict=True)
    return f"{', '.join(f'{count:,} {verb}' for count, verb in verbs)} in {count_of(len(counts), 'type')}"


def print_changes(changes: "Iterable[Change]") -> None:
    """Print changes below their types; an update with old and new values, where it has them."""
    for key, group in groupby(changes, key=lambda change: change.table_key):
        say(paint(type_name(key), Style.STRONG))
        for change in group:
            say(f"  {_spell_change(change)}")


def _spell_change(change: "Change") -> str:
    sign, ink = _SIGNS[str(change.op)]
    ends = f" {change.endpoints.src} → {change.endpoints.dst}" if change.endpoints else ""
    values = change.values
    pairs = (f"{name}: {_spell(was)} → {_spell(now)}" for name, (was, now) in values.items())
    what = ", ".join(pairs if values else change.properties)
    return paint(f"{sign} {change.id}{ends}", ink) + (f"  {what}" if what else "")


def _spell(value: Any) -> str:
    return shorten(format_cell(value))
