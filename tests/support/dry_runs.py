"""Random writes, each as a dry run and as the write that it stands for, and what both say."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import event
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import LoadResult, MutationResult
from omnigraphdb.errors import MergeConflicts, OmniError
from tests.support.settled import digest
from tests.support.write_model import SCHEMA

WRITES_PER_GRAPH = 12
MADE_UP = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
"""The ids of edges and notes, and of commits."""
STALE = "01M7S6X4ADXJ6NNX1V0BH35N9P"
"""A commit that is the head of no branch."""

DATA: list[dict[str, Any]] = [
    {"type": "Person", "data": {"k": "p", "n": 1, "mail": "x", "kind": "a"}},
    {"type": "Person", "data": {"k": "q", "n": 9}},
    {"type": "Person", "data": {"k": "r", "mail": "y", "kind": "b"}},
    {"type": "Note", "data": {"id": "1", "text": "x"}},
    {"edge": "Knows", "from": "p", "to": "q", "data": {"id": "1", "w": 1}},
    {"edge": "Knows", "from": "q", "to": "r", "data": {"id": "2"}},
    {"edge": "Knows", "from": "r", "to": "p", "data": {"id": "3", "w": 3}},
    {"edge": "Wrote", "from": "p", "to": "1", "data": {"id": "1"}},
]

keys = st.sampled_from(["p", "q", "r", "s"])
ends = st.sampled_from(['"p"', '"q"', '"s"', '"nobody"', '""'])
numbers = st.one_of(
    st.sampled_from(["0", "3", "9", "null"]),
    st.sampled_from(["0", "3", "9", "10", "-1", "3000000000", "2.5", '"x"', "true"]),
)
texts = st.sampled_from(['"x"', '"y"', '"z"', "null", '""', "null", '"v"', "3"])
kinds = st.sampled_from(['"a"', '"b"', '"c"', "null"])
own_numbers = st.sampled_from(["$.n + 1", "coalesce($.n, 0) + 1", "$.n / 0", "length($.k)"])
wheres = st.sampled_from(
    [
        *('k = "p"', 'k = "nobody"', "n > 0", "n is null", 'mail != "x" or n = 9', "n / 0 = 1"),
        *('kind = "c"', "true = true", 'k in ["p", "q"]', "unknown = 1", "n = $.n"),
    ]
)
edge_wheres = st.sampled_from(
    ['from = "p"', "w > 0", "w is null", 'to in ["p", "r"]', "true = true", "k = 1"]
)
returnings = st.sampled_from(["", "", "returning { id }", "returning { id, created }"])

PLAIN = ("$p.n + 1", "coalesce($p.n, 0)", "length(id($p))", "7", "count { $p knows $_ }", "12")
PATTERNS: dict[str, tuple[str, ...]] = {
    "$p: Person": PLAIN,
    "$p: Person { k: $k }": PLAIN,
    "$p: Person  not { $p wrote $_ }": PLAIN,
    "$p: Person  count { $p -- $_ } > 1": PLAIN,
    "$p: Person  exists { $a: Person  $a $w:knows{2,2} $p }": PLAIN,
    "$a: Person { k: $k }  $a $e:knows $p": ("$a.n", "$e.w", "type($e)", *PLAIN),
    "$a: Person { k: $k }  optional { $a $e:knows $p }": ("$e.w", "from($e)", *PLAIN),
    "$a: Person { k: $k }  $a $e:-- $p": ("7", "length(id($p))"),
    "$a $e:wrote $p": ("$a.n", "$e.w", "7"),
    "$a: Person { k: $k }  $a $w:knows{1,3} $p": ("hops($w)", "sum($w.w)", *PLAIN),
    "$a: Person  $a $w:knows{2,2} $p": ("hops($w)", "size(nodes($w))", "$a.n", *PLAIN),
    "$a: Person { k: $k }  $a $w:knows{1,3 by w} $p": ("hops($w)", "size(edges($w))", *PLAIN),
    "$a: Person { k: $k }  $a $w:knows{1,3 best 2} $p": ("hops($w)", "count($w.w)", *PLAIN),
    "$a: Person { k: $k }  $a $w:<knows>{1,2} $p": ("hops($w)", "max($w.w)", *PLAIN),
}
"""What finds the rows that a statement writes, and the values that it may give them."""
STAGES = ("", "", "", "with { $p, count($p) as many }", "with distinct { $p }")
MATCHED = (
    "update $p set { n: VALUE }",
    "update $p set { n: VALUE, mail: lower(id($p)) }",
    "update $e set { w: VALUE }",
    "delete $p",
    "delete $e",
    "insert Note { text: id($p) }",
    "insert Knows { from: $p, to: $p, w: VALUE }",
    'insert Wrote { from: id($p), to: "1" }',
    "upsert Person { k: id($p) } set { n: VALUE }",
    'insert Person { k: concat(id($p), "2") } if absent',
)
LISTED = (
    "insert Person { k: $r.k, n: $r.n }",
    "insert Person { k: $r.k, n: $r.n } if absent",
    "upsert Person { k: $r.k } set { n: $r.n }",
    "insert Knows { from: $r.k, to: $r.t, w: $r.n }",
    "insert Note { text: $r.t }",
)


@dataclass(frozen=True)
class Write:
    """One write: its form, what it says, and the call that carries it out."""

    form: str
    told: object
    call: Callable[[Graph, bool], Any]


# ---- mutations


@st.composite
def inserts(draw: st.DrawFn) -> str:
    note = draw(st.sampled_from(["1", "9"]))
    forms = [
        f'insert Person {{ k: "{draw(keys)}", n: {draw(numbers)}, mail: {draw(texts)} }}',
        f"insert Knows {{ from: {draw(ends)}, to: {draw(ends)}, w: {draw(numbers)} }}",
        f'insert Wrote {{ from: {draw(ends)}, to: "{note}" }}',
        f"insert Note {{ text: {draw(texts)} }}",
        f'insert Person {{ k: "t", kind: {draw(kinds)} }}',
        f'upsert Person {{ k: "{draw(keys)}" }} set {{ n: {draw(st.one_of(numbers, own_numbers))} }}',
    ]
    absent = draw(st.sampled_from(["", "", "if absent"]))
    text = draw(st.sampled_from(forms))
    absent = "" if text.startswith("upsert") else absent
    return f"{text} {absent} {draw(returnings)}"


@st.composite
def updates(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        value = draw(st.one_of(numbers, own_numbers))
        return f"update Person set {{ n: {value}, mail: {draw(texts)} }} where {draw(wheres)}"
    edge = draw(st.sampled_from(["Knows", "Wrote"]))
    return f"update {edge} set {{ w: {draw(numbers)} }} where {draw(edge_wheres)}"


@st.composite
def deletes(draw: st.DrawFn) -> str:
    name, where = draw(
        st.one_of(
            st.tuples(st.just("Person"), wheres),
            st.tuples(st.sampled_from(["Knows", "Wrote"]), edge_wheres),
        )
    )
    return f"delete {name} where {where} {draw(st.sampled_from(['', 'returning { id }']))}"


@st.composite
def matched(draw: st.DrawFn) -> str:
    pattern, stage = draw(st.sampled_from(sorted(PATTERNS))), draw(st.sampled_from(STAGES))
    known = PATTERNS[pattern] if not stage else ("7", "many", "$p.n")
    write = draw(st.sampled_from(MATCHED)).replace("VALUE", draw(st.sampled_from(known)))
    return f"match {{ {pattern} }} {stage} {write} {draw(returnings)}"


unnested = st.sampled_from(LISTED).map(lambda text: f"unnest $rows as $r {text}")
listed = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["p", "u", "v"]), "n": st.sampled_from([None, 0, 9, 10, -1])},
        optional={"t": st.sampled_from(["q", "nobody", "", None])},
    ),
    max_size=3,
)


@st.composite
def mutations(draw: st.DrawFn) -> Write:
    form = draw(
        st.sampled_from(["insert", "update", "delete", "match", "match", "unnest", "several"])
    )
    by_form = {
        "insert": inserts(),
        "update": updates(),
        "delete": deletes(),
        "match": matched(),
        "unnest": unnested,
    }
    every = st.lists(st.one_of(*by_form.values()), min_size=2, max_size=3).map(" ".join)
    text = draw(by_form.get(form, every))
    declared = ["$k: String"] if "$k" in text else []
    declared += ["$rows: [{ k: String, n: I32?, t: String? }]"] if "$rows" in text else []
    params: dict[str, Any] = {"k": draw(keys)} if "$k" in text else {}
    params |= {"rows": draw(listed)} if "$rows" in text else {}
    source = f"query q({', '.join(declared)}) {{ {text} }}"
    stale = draw(st.integers(0, 9)) == 0
    if_commit = STALE if stale else None

    def call(graph: Graph, dry_run: bool) -> MutationResult:
        return graph.mutate(source, None, params, dry_run=dry_run, if_commit=if_commit)

    return Write(form, (source, params, if_commit), call)


# ---- loads and merges


people = st.fixed_dictionaries(
    {"k": keys},
    optional={
        "n": st.sampled_from([None, 0, 3, 9]),
        "mail": st.sampled_from(["v", "z", None]),
        "kind": st.sampled_from(["a", "b"]),
    },
)
wrong_people = st.sampled_from([{}, {"k": 3}, {"k": "s", "n": 10}, {"k": "s", "more": 1}])
ties = st.fixed_dictionaries(
    {
        "edge": st.sampled_from(["Knows", "knows"]),
        "from": st.sampled_from(["p", "q", "r"]),
        "to": st.sampled_from(["p", "q", "s"]),
    },
    optional={"data": st.fixed_dictionaries({"id": st.sampled_from(["1", "7", "8"])})},
)
wrong_ties = st.sampled_from(
    [
        {"edge": "Knows", "from": 3, "to": "q"},
        {"edge": "Knows", "from": "p", "to": "nobody"},
        {"edge": "Wrote", "from": "p", "to": "9"},
        {"edge": "Knows", "from": "p", "to": "q", "data": {"id": 8}},
        {"edge": "Missing", "from": "p", "to": "q"},
    ]
)
right = st.one_of(people.map(lambda data: {"type": "Person", "data": data}), ties)
wrong = st.one_of(wrong_people.map(lambda data: {"type": "Person", "data": data}), wrong_ties)
records = st.lists(st.one_of(right, right, right, wrong), max_size=4)


@st.composite
def load_options(draw: st.DrawFn) -> dict[str, Any]:
    options: dict[str, Any] = {"mode": draw(st.sampled_from(["append", "merge", "overwrite"]))}
    if draw(st.integers(0, 9)) == 0:
        options["if_commit"] = STALE
    return options | draw(
        st.fixed_dictionaries(
            {},
            optional={
                "create_missing": st.sampled_from(["Person", "Note"]),
                "append_only": st.just(["Person"]),
                "allow_empty": st.booleans(),
                "branch": st.sampled_from(["main", "side", "main", "missing"]),
                "from_branch": st.sampled_from(["main", "missing"]),
            },
        )
    )


@st.composite
def loads(draw: st.DrawFn) -> Write:
    rows, options = draw(records), draw(load_options())

    def call(graph: Graph, dry_run: bool) -> LoadResult:
        return graph.load(rows, dry_run=dry_run, **options)

    return Write(f"load {options['mode']}", (rows, options), call)


@st.composite
def merges(draw: st.DrawFn) -> Write:
    pair = draw(st.permutations(["main", "side", "missing"])) if draw(st.booleans()) else []
    source, into, *_ = [*pair, "side", "main"]
    granularity: Any = draw(st.sampled_from(["row", "property", "cell"]))

    def call(graph: Graph, dry_run: bool) -> Any:
        done = graph.merge(source, into=into, granularity=granularity, dry_run=dry_run)
        if dry_run and done.conflicts:
            # A dry run lists what the merge refuses with.
            raise MergeConflicts(done.conflicts)
        return done

    return Write("merge", (source, into, granularity), call)


writes = st.one_of(mutations(), mutations(), mutations(), loads(), merges())


# ---- outcomes


def run(write: Write, graph: Graph, *, dry_run: bool) -> tuple[object, ...]:
    """Say what a write did, or how it was refused; ids that are made up for each write are left out."""
    try:
        done = write.call(graph, dry_run)
    except OmniError as error:
        details = getattr(error, "code", None) or getattr(error, "rule", None)
        return ("refused", type(error).__name__, details)
    if isinstance(done, MutationResult):
        rows = MADE_UP.sub("*", str(list(done.rows)))
        return ("accepted", done.affected_nodes, done.affected_edges, rows)
    if isinstance(done, LoadResult):
        return ("accepted", dict(done.tables), dict(done.created))
    return ("accepted", done.outcome, dict(done.tables))


@contextmanager
def open_graph(config: Mapping[str, Any] | None = None) -> Iterator[Graph]:
    """A graph with some data and a second branch; `config` holds for the writes that follow."""
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "g"
        graph = omnigraphdb.init(place, SCHEMA)
        graph.load(DATA, mode="append")
        graph.branch_create("side")
        graph.on("side").mutate('query q() { update Person set { n: 5 } where k = "p" }')
        graph.close()
        with omnigraphdb.open(place, config=config) as graph:
            yield graph


def check_writes(
    data: st.DataObject,
    writes: st.SearchStrategy[Write],
    config: Mapping[str, Any] | None = None,
    count: int = WRITES_PER_GRAPH,
) -> None:
    """Carry out random writes on one graph, each as a dry run before; both say the same."""
    with open_graph(config) as graph:
        for _ in range(count):
            write = data.draw(writes)
            before, files = graph.snapshot().commit, digest(Path(graph.uri))
            dry = run(write, graph, dry_run=True)
            assert graph.snapshot().commit == before, "a dry run wrote"
            assert digest(Path(graph.uri)) == files, "a dry run changed files"
            real = run(write, graph, dry_run=False)
            event(f"{write.form}: {real[0]}")
            assert dry == real, write.told
