"""Read queries nobody chose, as text, over the harbour schema of the plan fixtures."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

NODES: dict[str, dict[str, str]] = {
    "Vessel": {
        "imo": "id",
        "name": "text",
        "kind": "text",
        "built": "date",
        "dwt": "number",
        "crew": "number",
        "draft": "number",
        "tags": "texts",
        "marks": "numbers",
        "seen": "instant",
        "log": "text",
    },
    "Port": {"code": "id", "name": "text", "lat": "number", "depth": "number"},
    "Company": {"name": "id", "country": "text"},
    "Mixed": {"name": "text"},
}
EDGES: dict[str, tuple[str, str, dict[str, str]]] = {
    "callsAt": ("Vessel", "Port", {"berth": "text"}),
    "feeds": ("Port", "Port", {"weight": "number"}),
    "ownedBy": ("Vessel", "Company", {}),
}
LITERALS = {
    "id": ['"NLRTM"', '"BEANR"', '"A"', '"9100001"', '"North"', '"nobody"'],
    "text": ['"aster"', '"Aster II"', '"NL"', '""', '"A1"', '"tanker"', '"bulk"'],
    "date": ['date("2010-05-01")', 'date("2015-01-01")'],
    "instant": ['datetime("2026-02-01T00:00:00Z")', "now()"],
    "number": ["0", "1", "2", "5", "2.0", "0.5", "2.7", "3000000000", "-1", "51.5"],
    "texts": ['"ice"', '"lng"'],
    "numbers": ["0", "0.5", "2"],
}
COMPARED = ["=", "!=", "<", "<=", ">", ">="]


@dataclass
class Scope:
    """Variables so far: nodes by type, edges by word; names are taken from one sequence."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    taken: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """The values that stages before left, by name."""

    def fresh(self) -> str:
        name = f"{'abcdefghijklm'[len(self.taken)]}"
        self.taken.append(name)
        return name

    def inner(self) -> "Scope":
        return Scope(dict(self.nodes), dict(self.edges), set(self.maybe), self.taken, [])

    def properties(self) -> list[tuple[str, str]]:
        found = [
            (f"${variable}.{name}", kind)
            for variable, type_name in self.nodes.items()
            for name, kind in NODES[type_name].items()
        ]
        return found + [
            (f"${variable}.{name}", kind)
            for variable, word in self.edges.items()
            for name, kind in EDGES[word][2].items()
        ]


@st.composite
def read_texts(draw: st.DrawFn) -> str:
    """One read query, with everything the language offers but ranking."""
    scope = Scope()
    clauses = [draw(_binding(scope))]
    for _ in range(draw(st.integers(0, 3))):
        clauses.append(draw(_clause(scope, 1)))
    result = draw(st.one_of(_plain(scope), _grouped(scope)))
    body = "\n  ".join(clauses)
    return f"query q() {{\n match {{\n  {body}\n }}\n {result}\n}}"


@st.composite
def _binding(draw: st.DrawFn, scope: Scope) -> str:
    type_name = draw(st.sampled_from(sorted(NODES.keys() - {"Mixed"})))
    variable = scope.fresh()
    scope.nodes[variable] = type_name
    # A test in every binding would leave hardly a row to compare.
    matched = draw(st.lists(st.sampled_from(sorted(NODES[type_name])), max_size=1))
    matched = matched if draw(st.integers(0, 3)) == 0 else []
    tests = [f"{name}: {draw(_literal(NODES[type_name][name]))}" for name in matched]
    allowed = [test for test in tests if "kind" not in test or "tanker" in test or "bulk" in test]
    return f"${variable}: {type_name} {{ {', '.join(allowed)} }}"


def _literal(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from(LITERALS[kind])


@st.composite
def _clause(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    kinds = ["hop", "hop", "hop", "filter", "filter", "binding"]
    kinds += ["not", "optional", "exists", "asked"] if depth else []
    match draw(st.sampled_from(kinds)):
        case "hop":
            return draw(_hop(scope))
        case "filter":
            return draw(_condition(scope))
        case "binding":
            return draw(_binding(scope))
        case "not" | "exists" as word:
            return draw(_block(scope.inner(), word, depth))
        case "asked":
            return draw(_asked(scope, depth))
        case _:
            inner = scope.inner()
            text = draw(_block(inner, "optional", depth))
            scope.maybe |= (inner.nodes.keys() | inner.edges.keys()) - scope.nodes.keys()
            scope.nodes |= inner.nodes
            scope.edges |= inner.edges
            return text


@st.composite
def _block(draw: st.DrawFn, scope: Scope, word: str, depth: int) -> str:
    first = draw(st.one_of(_hop(scope), _condition(scope)))
    more = [draw(_clause(scope, depth - 1)) for _ in range(draw(st.integers(0, 1)))]
    return f"{word} {{ {'  '.join([first, *more])} }}"


@st.composite
def _asked(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """A condition on what a block comes to."""
    value = draw(_block_value(scope, depth))
    other = draw(_condition(scope))
    forms = [f"{value} > 0", f"({value} = 1 or {other})", f"({value} <= 2 and {other})"]
    inner = draw(_block(scope.inner(), draw(st.sampled_from(["exists", "not"])), depth))
    return draw(st.sampled_from([*forms, f"({inner} or {other})"]))


@st.composite
def _block_value(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    inner = scope.inner()
    block = draw(_block(inner, "", depth)).strip()
    fresh = sorted(inner.nodes.keys() - scope.nodes.keys())
    numbers = [name for name, kind in inner.properties() if kind == "number"]
    forms = [f"count {block}", *(f"count(distinct ${name}) {block}" for name in fresh)]
    forms += [f"{word}({name}) {block}" for name in numbers for word in ("sum", "min")][:4]
    return draw(st.sampled_from(forms))


@st.composite
def _value(draw: st.DrawFn, scope: Scope) -> str:
    """An expression that no row refuses."""
    name, kind = draw(st.sampled_from(scope.properties()))
    small = draw(st.sampled_from(["1", "2", "-3", "0.5"]))
    match kind:
        case "number":
            forms = [f"{name} + {small}", f"-{name}", f"{name} / 4", f"{name} % 7", f"abs({name})"]
            forms += [
                f"case when {name} > 2 then {small} else {name} end",
                f"round({name} / 3.0, 2)",
            ]
            forms += [f"coalesce({name}, {small}) * 2 - 1", f"floor({name})"]
        case "text" | "id":
            forms = [f"lower({name})", f"length({name}) + 1", f"substring({name}, 2, 3)"]
            forms += [f'concat({name}, "-", upper({name}))', f'replace({name}, "A", "bb")']
            forms += [
                f'coalesce({name}, "none")',
                f'{name} ends_with "r"',
                f'{name} matches "^[A-M]"',
            ]
        case "date":
            forms = [f"year({name})", f'{name} + duration("P1M2D")', f'date_trunc("month", {name})']
            forms += [f"case when {name} is null then 0 else month({name}) end"]
        case "instant":
            forms = [f"year({name})", f'{name} - duration("PT36H")', f"{name} is null"]
        case _:
            forms = [f"size({name})", f"first({name})", f"last({name})"]
    return draw(st.sampled_from(forms))


@st.composite
def _hop(draw: st.DrawFn, scope: Scope) -> str:
    near = draw(st.sampled_from(sorted(n for n, t in scope.nodes.items() if t != "Mixed")))
    fitting = [word for word, ends in EDGES.items() if scope.nodes[near] in ends[:2]]
    word = draw(st.sampled_from(fitting))
    source, target, _ = EDGES[word]
    far_type = target if scope.nodes[near] == source else source
    known = [name for name, kind in scope.nodes.items() if kind == far_type]
    far = draw(st.sampled_from([None, None, "$_", *known]))
    if far is None:
        far = scope.fresh()
        scope.nodes[far] = far_type
    ends = [f"${near}", far if far == "$_" else f"${far}"]
    if draw(st.booleans()):
        ends.reverse()
    edge, bounds = word, ""
    if source == target:
        edge = f"<{word}>" if draw(st.booleans()) else word
        low, more = draw(st.integers(1, 2)), draw(st.integers(0, 2))
        bounds = draw(st.sampled_from(["", f"{{{low},{low + more}}}"]))
    if not bounds and draw(st.booleans()):
        variable = scope.fresh()
        scope.edges[variable] = word
        edge = f"${variable}:{edge}"
    return f"{ends[0]} {edge}{bounds} {ends[1]}"


@st.composite
def _condition(draw: st.DrawFn, scope: Scope) -> str:
    name, kind = draw(st.sampled_from(scope.properties()))
    others = [other for other, its in scope.properties() if its == kind and other != name]
    right = draw(st.sampled_from([*LITERALS[kind], *others]))
    if kind in ("texts", "numbers"):
        item = draw(_literal(kind))
        return f"{name} contains {item}"
    forms = [f"{name} {draw(st.sampled_from(COMPARED))} {right}", f"{name} is null"]
    forms += [f"{name} is not null", f"not ({name} {draw(st.sampled_from(COMPARED))} {right})"]
    if kind in ("id", "text"):
        forms += [f"{name} contains {right}", f"{name} starts_with {right}"]
    if kind != "instant":
        choices = ", ".join(draw(st.lists(_literal(kind), min_size=1, max_size=3)))
        forms += [f"{name} in [{choices}]", f"[{choices}] contains {name}"]
    first = draw(st.sampled_from(forms))
    return first if draw(st.booleans()) else f"({first} or {draw(st.sampled_from(forms))})"


@st.composite
def _plain(draw: st.DrawFn, scope: Scope) -> str:
    shown = [f"${name}" for name in sorted(scope.nodes)]
    shown += [name for name, _ in draw(st.lists(st.sampled_from(scope.properties()), max_size=2))]
    shown += draw(st.lists(_value(scope), max_size=2))
    if draw(st.integers(0, 4)) == 0:
        shown.append(draw(_block_value(scope, 0)))
    items = ", ".join(f"{item} as c{place}" for place, item in enumerate(shown))
    if draw(st.integers(0, 4)) == 0:
        return f"return distinct {{ {items} }} {draw(st.sampled_from(['', 'order { c0 desc }']))}"
    return f"return {{ {items} }} {draw(_order(scope))}"


@st.composite
def _order(draw: st.DrawFn, scope: Scope) -> str:
    sortable = [name for name, kind in scope.properties() if kind not in ("texts", "numbers")]
    keys = draw(st.lists(st.sampled_from(sortable), max_size=2, unique=True))
    ways = [f"{key} {draw(st.sampled_from(['asc', 'desc']))}" for key in keys]
    order = f"order {{ {', '.join(ways)} }}" if ways else ""
    limit = draw(st.sampled_from(["", "limit 0", "limit 2", "limit 3 offset 1"]))
    return f"{order} {limit}"


@st.composite
def _grouped(draw: st.DrawFn, scope: Scope) -> str:
    usable = [name for name, kind in scope.properties() if kind not in ("texts", "numbers")]
    lists = [name for name, kind in scope.properties() if kind in ("texts", "numbers")]
    names = [f"${name}" for name in sorted(scope.nodes)]
    keys = draw(st.lists(st.sampled_from([*usable, *lists, *names]), max_size=2, unique=True))
    tallies = [f"count({draw(st.sampled_from([*usable, *names]))})"]
    numbers = [name for name, kind in scope.properties() if kind == "number"]
    texts = [name for name, kind in scope.properties() if kind in ("text", "id")]
    if draw(st.booleans()) and numbers:
        function = draw(st.sampled_from(["sum", "avg", "min", "max"]))
        tallies.append(f"{function}({draw(st.sampled_from(numbers))})")
    if draw(st.booleans()) and texts:
        tallies.append(f"max({draw(st.sampled_from(texts))})")
    keys += draw(st.lists(_value(scope), max_size=1))
    whole = [name for name in numbers if name.endswith((".dwt", ".crew", ".weight"))]
    if draw(st.booleans()) and whole:
        tallies.append(f"sum({draw(st.sampled_from(whole))} % 100) + count({names[0]})")
    tallies.append(f"count(distinct {draw(st.sampled_from(usable))})")
    items = [*(f"{key} as k{place}" for place, key in enumerate(keys))]
    items += [f"{tally} as t{place}" for place, tally in enumerate(tallies)]
    having = draw(st.sampled_from(["", "", "having { t0 > 1 }"]))
    order = draw(st.sampled_from(["", "order { t0 desc }", "order { t0 desc } limit 2"]))
    return f"return {{ {', '.join(items)} }} {having} {order}"


# ---- stages, unions, any edge


@st.composite
def staged_texts(draw: st.DrawFn) -> str:
    """A read of several stages, or a union of reads."""
    if draw(st.integers(0, 3)) == 0:
        joins = draw(st.lists(st.sampled_from(["union", "union all"]), min_size=1, max_size=2))
        parts = [draw(_joined_part())]
        for word in joins:
            parts += [word, draw(_joined_part())]
        rest = draw(st.sampled_from(["", "order { n desc, t } limit 4", "order { t, n }"]))
        return f"query q() {{\n {' '.join(parts)} {rest}\n}}"
    scope = Scope()
    stages = [draw(_stage(scope, number)) for number in range(draw(st.integers(1, 2)))]
    clauses = [draw(_further(scope)) for _ in range(draw(st.integers(0, 1)))]
    match = f"match {{ {',  '.join(clauses)} }} " if clauses else ""
    result = draw(_grouped(scope)) if draw(st.booleans()) else _left(scope)
    return f"query q() {{\n {' '.join(stages)} {match}{result}\n}}"


@st.composite
def _joined_part(draw: st.DrawFn) -> str:
    """A read with the columns of every other."""
    scope = Scope()
    clauses = [
        draw(_binding(scope)),
        *(draw(_further(scope)) for _ in range(draw(st.integers(0, 1)))),
    ]
    first = next(iter(scope.nodes))
    number = draw(
        st.sampled_from([f"length(${first}.name)", f"count {{ ${first} -- $_ }}", "abs(3)"])
    )
    distinct = draw(st.sampled_from(["", "distinct "]))
    return (
        f"match {{ {',  '.join(clauses)} }} "
        f"return {distinct}{{ {number} as n, lower(${first}.name) as t }}"
    )


@st.composite
def _further(draw: st.DrawFn, scope: Scope) -> str:
    kinds = [_hop(scope), _any_hop(scope), _condition(scope)]
    return draw(st.one_of(*kinds) if _can_hop(scope) else _condition(scope))


def _can_hop(scope: Scope) -> bool:
    return any(kind != "Mixed" for kind in scope.nodes.values()) and len(scope.taken) < 9


@st.composite
def _any_hop(draw: st.DrawFn, scope: Scope) -> str:
    near = draw(st.sampled_from(sorted(scope.nodes)))
    far = draw(st.sampled_from([None, None, None, "_"]))
    if far is None:
        far = scope.fresh()
        scope.nodes[far] = "Mixed"
    edge = draw(st.sampled_from(["--", "$_:--"]))
    return f"${near} {edge} ${far}"


@st.composite
def _stage(draw: st.DrawFn, scope: Scope, number: int) -> str:
    clauses = [draw(_binding(scope))] if not scope.nodes else []
    clauses += [draw(_further(scope)) for _ in range(draw(st.integers(0, 2)))]
    kept = draw(st.lists(st.sampled_from(sorted(scope.nodes)), min_size=1, max_size=2, unique=True))
    items = [f"${name}" for name in kept]
    keys = [f"id(${name})" for name in kept]
    names = []
    for place in range(draw(st.integers(0, 2))):
        names.append(f"n{number}{place}")
        items.append(f"{draw(_value(scope))} as {names[-1]}")
    mixed = [name for name in kept if scope.nodes[name] == "Mixed"]
    if mixed:
        names.append(f"n{number}t")
        items.append(f"type(${mixed[0]}) as {names[-1]}")
    if draw(st.booleans()):
        names.append(f"n{number}c")
        counted = draw(st.sampled_from(sorted(scope.nodes)))
        items.append(f"count({draw(st.sampled_from(['', 'distinct ']))}${counted}) as {names[-1]}")
    text = f"match {{ {',  '.join(clauses)} }} " if clauses else ""
    text += f"with {{ {', '.join(items)} }}"
    if draw(st.booleans()):
        ways = [f"{key} {draw(st.sampled_from(['asc', 'desc']))}" for key in (*names, *keys)]
        text += f" order {{ {', '.join(ways)} }}"
        limit = draw(st.sampled_from(["", "limit 3", "limit 1", "limit 2 offset 1"]))
        per = draw(st.sampled_from(["", "", f" per ${kept[0]}", *(f" per {n}" for n in names)]))
        text += f" {limit}{per if limit else ''}"
    scope.nodes = {name: scope.nodes[name] for name in kept}
    scope.edges, scope.maybe = {}, set()
    scope.left = names
    return text


def _left(scope: Scope) -> str:
    shown = [*(f"${name}" for name in sorted(scope.nodes)), *scope.left[-3:]]
    items = ", ".join(f"{item} as c{place}" for place, item in enumerate(shown))
    return f"return {{ {items} }}"
