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
        "active": "truth",
    },
    "Port": {"code": "id", "name": "text", "lat": "number", "depth": "number"},
    "Company": {"name": "id", "country": "text"},
    "Named": {"name": "text"},
    "Mixed": {"name": "text"},
}
"""The properties of each type, by what may be done with them; `Named` is the interface, `Mixed` any end of `--`."""
MIXED = ("Mixed", "Named")
EDGES: dict[str, tuple[str, str, dict[str, str]]] = {
    "callsAt": ("Vessel", "Port", {"berth": "text"}),
    "feeds": ("Port", "Port", {"weight": "number"}),
    "ships": ("Port", "Port", {"weight": "number"}),
    "ownedBy": ("Vessel", "Company", {}),
}
NO_EDGE: tuple[str, str, dict[str, str]] = ("", "", {})
"""An edge of any type, which has no property for certain."""
ODD = ("-1", "0", "1", "3", "9223372036854775807")
"""Places and lengths in a text."""
LITERALS = {
    "id": ['"NLRTM"', '"BEANR"', '"A"', '"9100001"', '"North"', '"nobody"'],
    "text": ['"aster"', '"Aster II"', '"NL"', '""', '"A1"', '"tanker"', '"bulk"'],
    "date": ['date("2010-05-01")', 'date("2015-01-01")'],
    "instant": ['datetime("2026-02-01T00:00:00Z")', "now()"],
    "number": ["0", "1", "2", "5", "2.0", "0.5", "2.7", "3000000000", "-1", "51.5"],
    "texts": ['"ice"', '"lng"'],
    "numbers": ["0", "0.5", "2"],
    "truth": ["true", "false"],
}
DECLARED = (
    "$none: String?, $number: F64?, $texts: [String]?, $numbers: [I64]?, $nothing: [String]?,"
    " $few: I64, $truth: Bool?, $vector: Vector(2), $maybe: Vector(2)?"
)
"""What every text declares; where nothing is given a parameter is NULL."""
PARAMETERS = {"text": ["$none"], "id": ["$none"], "number": ["$number"], "truth": ["$truth"]}
LISTS = {"text": ["$texts", "$nothing"], "id": ["$texts", "$nothing"], "number": ["$numbers"]}
"""Lists that are given, by what they hold."""
arguments = st.fixed_dictionaries(
    {
        "none": st.sampled_from([None, "NLRTM", ""]),
        "number": st.sampled_from([None, 2.0, 0.5, -0.0]),
        "texts": st.sampled_from([None, (), ("NLRTM", "ice", "tanker"), ("",)]),
        "numbers": st.sampled_from([None, (), (0, 2, 5), (3_000_000_000,)]),
        "nothing": st.sampled_from([None, ()]),
        "few": st.integers(1, 3),
        "truth": st.sampled_from([None, True, False]),
        "vector": st.sampled_from([(0.0, 0.0), (0.5, 2.0)]),
        "maybe": st.sampled_from([None, (1.0, 1.0)]),
    }
)
REQUIRED = {"few": 2, "vector": (0.5, 2.0)}
"""Arguments of the parameters that cannot be left out."""
COMPARED = ["=", "!=", "<", "<=", ">", ">="]


@dataclass
class Scope:
    """Variables so far: nodes by type, edges by word; names are taken from one sequence."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    paths: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """The values that stages before left, by name."""
    has_ties: bool = False
    """Whether a stage keeps rows with the same entities apart by its values: no order is promised among them."""

    def fresh(self) -> str:
        name = f"{'abcdefghijklmnopqrstuvwxyz'[len(self.taken)]}"
        self.taken.append(name)
        return name

    def inner(self) -> "Scope":
        return Scope(dict(self.nodes), dict(self.edges), set(self.maybe), {}, self.taken, [])

    def properties(self) -> list[tuple[str, str]]:
        found = [
            (f"${variable}.{name}", kind)
            for variable, type_name in self.nodes.items()
            for name, kind in NODES[type_name].items()
        ]
        return found + [
            (f"${variable}.{name}", kind)
            for variable, word in self.edges.items()
            for name, kind in EDGES.get(word, NO_EDGE)[2].items()
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
    return draw(_query(f"match {{\n  {body}\n }}\n {result}"))


NOTES = (
    ' @description("a query") @instruction("ask") @mcp(expose: true, tool_name: "asks")',
    " @mcp(expose: false)",
)


@st.composite
def _query(draw: st.DrawFn, body: str) -> str:
    """A body with what stands before it."""
    header, notes = "", ""
    if draw(st.integers(0, 9)) == 0:
        header = draw(st.sampled_from(["", "use extensions\n"]))
        notes = draw(st.sampled_from(["", *NOTES]))
    return f"{header}query q({DECLARED}){notes} {{\n {body}\n}}"


@st.composite
def _binding(draw: st.DrawFn, scope: Scope, of_type: str | None = None) -> str:
    known = ["Vessel", "Vessel", "Port", "Port", "Company", "Named"]
    type_name = of_type or draw(st.sampled_from(known))
    variable = scope.fresh()
    scope.nodes[variable] = type_name
    # A test in every binding would leave hardly a row to compare.
    matched = draw(st.lists(st.sampled_from(sorted(NODES[type_name])), max_size=3, unique=True))
    matched = matched if draw(st.integers(0, 3)) == 0 else []
    tests = [f"{name}: {draw(_literal(NODES[type_name][name]))}" for name in matched]
    allowed = [test for test in tests if "kind" not in test or "tanker" in test or "bulk" in test]
    if not allowed:
        return f"${variable}: {type_name}{draw(st.sampled_from(['', ' { }']))}"
    return f"${variable}: {type_name} {{ {', '.join(allowed)} }}"


def _literal(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from(LITERALS[kind])


@st.composite
def _clause(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    kinds = ["hop", "hop", "hop", "filter", "filter", "binding"]
    kinds += ["any", "search"] if draw(st.booleans()) else []
    kinds += ["not", "optional", "exists", "asked"] if depth else []
    match draw(st.sampled_from(kinds)):
        case "hop" if _can_hop(scope):
            return draw(_hop(scope))
        case "any" if len(scope.taken) < 9:
            return draw(_any_hop(scope))
        case "search" if searches := _list_searches(scope):
            return draw(st.sampled_from(searches))
        case "filter" | "hop" | "any" | "search":
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
            scope.paths |= inner.paths
            return text


def _list_searches(scope: Scope) -> list[str]:
    """Text tests on the variables of one type; the words are their own stems."""
    found = [f"${name}.log" for name, kind in scope.nodes.items() if kind == "Vessel"]
    found += [f"${name}.name" for name, kind in scope.nodes.items() if kind == "Port"]
    tests = ('search({}, "storm")', 'match_text({}, "aster hamburg")', 'search({}, "nothing")')
    return [test.format(name) for name in found for test in tests]


@st.composite
def _block(draw: st.DrawFn, scope: Scope, word: str, depth: int) -> str:
    hops: bool = _can_hop(scope) and draw(st.booleans())
    first: str = draw(_hop(scope) if hops else _condition(scope))
    more = [draw(_clause(scope, depth - 1)) for _ in range(draw(st.integers(0, 1)))]
    return f"{word} {{ {',  '.join([first, *more])} }}"


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
    if numbers:
        number = draw(st.sampled_from(numbers))
        forms += [f"{word}({number}) {block}" for word in ("sum", "min", "max", "avg", "stddev")]
        forms += [f"percentile({number}, 0.25) {block}", f"sum(distinct {number}) {block}"]
    return draw(st.sampled_from(forms))


@st.composite
def _collected(draw: st.DrawFn, scope: Scope) -> str:
    """A block that gives a list or a text."""
    inner = scope.inner()
    block = draw(_block(inner, "", 0)).strip()
    texts = [name for name, kind in inner.properties() if kind in ("text", "id")]
    text = draw(st.sampled_from(texts))
    words = ["collect({})", "collect(distinct {})", "max({})", "count(distinct {})"]
    return f"{draw(st.sampled_from(words)).format(text)} {block}"


@st.composite
def _value(draw: st.DrawFn, scope: Scope) -> str:
    """An expression that no row refuses."""
    if draw(st.integers(0, 3)) == 0:
        return draw(_id_value(scope))
    name, kind = draw(st.sampled_from(scope.properties()))
    small = draw(st.sampled_from(["1", "2", "-3", "0.5"]))
    match kind:
        case "number":
            forms = [f"{name} + {small}", f"-{name}", f"{name} / 4", f"{name} % 7", f"abs({name})"]
            forms += [
                f"case when {name} > 2 then {small} else {name} end",
                f"round({name} / 3.0, 2)",
            ]
            forms += [f"coalesce({name}, {small}) * 2 - 1", f"floor({name})", f"ceil({name})"]
            forms += [f"round({name})", f"{name} + 1 - {small} + 2", f"{name} * 2 / 4 * {small}"]
            forms += [f"coalesce(null, {name}, $number, 1)", f"$few + {name}", f"- -{name}"]
            forms += [f"case when {name} > 1 then 1 when {name} is null then null else {name} end"]
            forms += [f"{name} between {small} and 5", f"{small} < {name}", f"{name} in $numbers"]
        case "text" | "id":
            forms = [f"lower({name})", f"length({name}) + 1", f"substring({name}, 2, 3)"]
            forms += [f'concat({name}, "-", upper({name}))', f'replace({name}, "A", "bb")']
            forms += [
                f'coalesce({name}, "none")',
                f'{name} ends_with "r"',
                f'{name} matches "^[A-M]"',
                f'trim(concat(" ", {name}, " "))',
                f'replace({name}, "", "x")',
                f'concat("a", lower({name}))',
                f"coalesce($none, {name})",
                f"{name} in $texts",
                f"{name} in [$none, lower({name})]",
                f"case when {name} = $none then {name} end",
            ]
            forms += [f"substring({name}, {low}, {count})" for low in ODD for count in ODD]
            forms += [f"substring({name}, {low})" for low in ODD]
        case "date":
            forms = [f"year({name})", f'{name} + duration("P1M2D")', f'date_trunc("month", {name})']
            forms += [f"case when {name} is null then 0 else month({name}) end", f"day({name})"]
            forms += [f'date_trunc("{unit}", {name})' for unit in ("year", "quarter", "week")]
            forms += [f'duration("P1Y2W") + {name}', f'coalesce({name}, date("2020-02-29"))']
        case "instant":
            forms = [f"year({name})", f'{name} - duration("PT36H")', f"{name} is null"]
            forms += [f'date_trunc("{unit}", {name})' for unit in ("week", "day", "hour", "second")]
        case "truth":
            forms = [name, f"not {name}", f"{name} = $truth", f"coalesce({name}, false)"]
            forms += [f"case when {name} then 1 else 0 end", f"true = {name}", f"{name} is null"]
        case _:
            forms = [f"size({name})", f"first({name})", f"last({name})", f"first({name}) is null"]
            forms += [f"coalesce(last({name}), first({name}))"]
            if kind == "texts":
                forms += [
                    f'concat(first({name}), "!")',
                    f"$none in {name}",
                    f"{name} contains $none",
                ]
    return draw(st.sampled_from(forms))


@st.composite
def _id_value(draw: st.DrawFn, scope: Scope) -> str:
    """An expression over the id of an entity, which is a text."""
    entity = f"id(${draw(st.sampled_from(sorted({*scope.nodes, *scope.edges})))})"
    if draw(st.booleans()) and scope.edges:
        word = draw(st.sampled_from(["from", "to"]))
        entity = f"{word}(${draw(st.sampled_from(sorted(scope.edges)))})"
    forms = [entity, f'concat({entity}, "!")', f"lower({entity})", f'coalesce({entity}, "none")']
    forms += [f"length({entity}) + 1", f'case when {entity} = "A" then {entity} else "b" end']
    forms += [f"substring({entity}, 2, 9223372036854775807)", f'{entity} in ["A", "9100001"]']
    forms += [f'replace({entity}, "9", {entity})', f"upper({entity})", f"trim({entity})"]
    forms += [f"{entity} in $texts", f"$texts contains {entity}", f"coalesce($none, {entity})"]
    forms += [f'{entity} starts_with "9"', f'{entity} matches "A"', f'"A" = {entity}']
    forms += [f'"NLRTM" < {entity}', f'{entity} between "A" and "N"', f"$none != {entity}"]
    return draw(st.sampled_from(forms))


@st.composite
def _whole_value(draw: st.DrawFn, scope: Scope) -> str:
    """A value of several parts: an entity, or what a path leads through."""
    forms = [f"entity(${name})" for name in sorted({*scope.nodes, *scope.edges})]
    forms += [f"type(${name})" for name in sorted({*scope.nodes, *scope.edges})]
    for name in sorted(scope.paths):
        forms += [f"{word}(${name})" for word in ("nodes", "edges", "hops")]
        forms += [f"sum(${name}.weight)", f"count(distinct ${name}.weight)"]
        forms += [f"collect(${name}.weight)", f"size(edges(${name}))", f"last(nodes(${name}))"]
        forms += [f"first(edges(${name}))", f"max(${name}.weight + 1)", f"hops(${name}) * 2 > 3"]
        forms += [f"avg(${name}.weight)", f"percentile(${name}.weight, 0.5)"]
    return draw(st.sampled_from(forms))


@st.composite
def _truth(draw: st.DrawFn, scope: Scope) -> str:
    """A condition as a value."""
    forms = [f"({draw(_condition(scope))})"]
    forms += [f"${name}.active" for name, kind in scope.nodes.items() if kind == "Vessel"]
    if _can_hop(scope):
        word = draw(st.sampled_from(["exists", "not"]))
        forms.append(f"{word} {draw(_block(scope.inner(), '', 0)).strip()}")
    return draw(st.sampled_from(forms))


BOUNDS = ("1,2", "2,3", "0,1", "0,*", "1,*", "2,*", "1,$few", "0,$few", "$few,3", "1,1")
PATHS = (
    "1,2", "2,2", "0,2", "1,$few", "1,3 by weight", "0,3 by weight", "1,3 best 2", "1,3 all",
    "0,2 best $few", "1,3 by weight best 2", "2,3 all", "$few,3 best 1",
)  # fmt: skip
WALKED = (
    " where weight > 2",
    " where weight is null or weight < $few",
    " where not weight in $numbers",
)


@st.composite
def _hop(draw: st.DrawFn, scope: Scope) -> str:
    near = draw(st.sampled_from(sorted(n for n, t in scope.nodes.items() if t not in MIXED)))
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
    if source != target:
        bounds = draw(st.sampled_from(["", "", "", "{1,1}", "{1,*}"]))
        if bounds == "" and draw(st.booleans()):
            variable = scope.fresh()
            scope.edges[variable] = word
            return f"{ends[0]} ${variable}:{word} {ends[1]}"
        return f"{ends[0]} {word}{bounds} {ends[1]}"
    words = draw(st.sampled_from([word, word, word, "feeds|ships", "ships|feeds|ships"]))
    edge = f"<{words}>" if draw(st.booleans()) else words
    way = draw(st.sampled_from(["", "edge", "walk", "path"]))
    where = draw(st.sampled_from(["", "", *WALKED]))
    if way == "walk":
        bounds = draw(st.sampled_from(BOUNDS))
        return f"{ends[0]} {edge}{{{bounds}{where}}} {ends[1]}"
    bounds = ""
    if way == "edge":
        bounds = draw(st.sampled_from(["", f"{{1,1{where}}}"]))
    elif way == "path":
        bounds = draw(st.sampled_from(PATHS))
        if " by " in bounds:
            where = draw(st.sampled_from([" where weight >= 0", " where weight > 2"]))
        bounds = f"{{{bounds}{where}}}"
    if way:
        variable = scope.fresh()
        (scope.edges if way == "edge" else scope.paths)[variable] = word
        edge = f"${variable}:{edge}"
    return f"{ends[0]} {edge}{bounds} {ends[1]}"


@st.composite
def _condition(draw: st.DrawFn, scope: Scope) -> str:
    name, kind = draw(st.sampled_from(scope.properties()))
    others = [other for other, its in scope.properties() if its == kind and other != name]
    right = draw(st.sampled_from([*LITERALS[kind], *others, *PARAMETERS.get(kind, [])]))
    if kind in ("texts", "numbers"):
        return draw(_membership(scope, name, kind))
    if draw(st.integers(0, 9)) == 0:
        return draw(_fixed_condition(scope))
    forms = [f"{name} {draw(st.sampled_from(COMPARED))} {right}", f"{name} is null"]
    forms += [f"{name} is not null", f"not ({name} {draw(st.sampled_from(COMPARED))} {right})"]
    if kind in ("id", "text"):
        forms += [f"{name} contains {right}", f"{name} starts_with {right}"]
    if kind != "instant":
        choices = ", ".join(draw(st.lists(_literal(kind), min_size=1, max_size=3)))
        forms += [f"{name} in [{choices}]", f"[{choices}] contains {name}"]
        forms += [f"{name} in []", f"not ([] contains {name})"]
    forms += [f"{form} contains {name}" for form in LISTS.get(kind, [])]
    forms += [f"not ({name} in {form})" for form in LISTS.get(kind, [])]
    op = draw(st.sampled_from(COMPARED))
    literal = draw(_literal(kind))
    forms += [f"{literal} {op} {name}", f"true = ({name} {op} {literal})"]
    forms += [f"{name} between {literal} and {right}", f"{literal} between {name} and {right}"]
    forms += [f"not {name} {op} {right} and {literal} != {name}", f"({name} is null) = false"]
    forms += [f"({name} {op} {literal}) != false", f"false = ({name} is null)"]
    if kind == "truth":
        forms = [
            f for f in forms if not any(f" {op} " in f for op in ("<", "<=", ">", ">=", "between"))
        ]
        forms += [f"({name})", f"not {name}", f"true = {name}", f"{name} != false"]
        forms += [f"$truth = {name}", f"(true or {name})", f"(false or {name} and $truth)"]
    if kind in ("id", "text"):
        forms += [
            f'{name} ends_with "M"',
            f'"NLRTM" contains {name}',
            f"{name} in [$none, {literal}]",
        ]
        forms += [f"{name} matches $none", f"{literal} starts_with {name}"]
    first = draw(st.sampled_from(forms))
    if draw(st.booleans()):
        return first
    second, third = draw(st.sampled_from(forms)), draw(st.sampled_from(forms))
    ways = [f"({first} or {second})", f"({first} or {second} or {third})"]
    return draw(st.sampled_from([*ways, f"({first} and {second} and {third})"]))


FIXED = (
    "$none in $texts", "not ($none in $nothing)", "$numbers contains $number", "1 < 2", "true = true", "not 2 = 2.0",
    '"a" in ["a", "b"]', '$none in ["b", "NLRTM"]', "2 in $numbers", '$nothing contains "A"', "$truth", "false",
    '"NLRTM" starts_with $none', "$number between 0 and $few", "1.5 in []", "not [] contains 2", "true != ($number > 1)",
    "$number in $numbers", "$number is null", 'datetime("2020-01-01T00:00:00Z") < now()', "$few in [1, 3]", "null is null", "$none != $none",
)  # fmt: skip
"""Conditions of literals and parameters, on both sides."""


@st.composite
def _fixed_condition(draw: st.DrawFn, scope: Scope) -> str:
    """A condition that is the same for all rows, or one about entities as such."""
    forms = list(FIXED)
    names = sorted(scope.nodes)
    for kind in ("Vessel", "Port"):
        alike = [f"${name}" for name in names if scope.nodes[name] == kind]
        if len(alike) > 1:
            op = draw(st.sampled_from(["=", "!="]))
            forms += [f"{alike[0]} {op} {alike[1]}", f"id({alike[0]}) < id({alike[1]})"] * 6
    entity = f"${draw(st.sampled_from(names))}"
    forms += [f"{entity} is null", f"{entity} is not null", f"not id({entity}) in $texts"]
    forms += [f'id({entity}) = "A"', f'"A" <= id({entity})', f"$texts contains id({entity})"]
    return draw(st.sampled_from(forms))


@st.composite
def _membership(draw: st.DrawFn, scope: Scope, name: str, kind: str) -> str:
    """Whether a stored list contains something: a literal, a parameter, or another property."""
    item_kinds = ("text", "id") if kind == "texts" else ("number",)
    items = [other for other, its in scope.properties() if its in item_kinds]
    item = draw(st.sampled_from([*LITERALS[kind], *PARAMETERS[item_kinds[0]], *items]))
    forms = [f"{name} contains {item}", f"{item} in {name}", f"not ({item} in {name})"]
    return draw(st.sampled_from([*forms, f"not ({name} contains {item})"]))


@st.composite
def _plain(draw: st.DrawFn, scope: Scope) -> str:
    shown = [f"${name}" for name in sorted(scope.nodes)]
    shown += [name for name, _ in draw(st.lists(st.sampled_from(scope.properties()), max_size=2))]
    shown += draw(st.lists(_value(scope), max_size=2))
    if draw(st.integers(0, 4)) == 0 and _can_hop(scope):
        shown.append(draw(st.one_of(_block_value(scope, 0), _collected(scope))))
    if draw(st.integers(0, 4)) == 0:
        shown.append(draw(st.sampled_from(["$none", "$number", "$truth", '"x"', "2.5", "true"])))
    if searches := _list_searches(scope):
        shown += draw(st.lists(st.sampled_from(searches), max_size=1))
    if draw(st.integers(0, 1)) == 0:
        shown.append(draw(_whole_value(scope)))
    having = ""
    if draw(st.integers(0, 2)) == 0:
        shown.append(draw(_truth(scope)))
        truth = f"c{len(shown) - 1}"
        having = draw(st.sampled_from(["", f"having {{ {truth} }}", f"having {{ not {truth} }}"]))
    items = ", ".join(f"{item} as c{place}" for place, item in enumerate(shown))
    if draw(st.integers(0, 2)) == 0:
        order = draw(st.sampled_from(["", "order { c0 desc }", "order { c0 } limit 3"]))
        return f"return distinct {{ {items} }} {having} {order}"
    vessels = [f"${name}" for name in sorted(scope.nodes) if scope.nodes[name] == "Vessel"]
    if vessels and draw(st.integers(0, 7)) == 0:
        by = f"nearest({vessels[0]}.sig, $vector)"
        return (
            f"return {{ {items}, {by} as near }} order {{ {by} }} limit {draw(st.integers(1, 3))}"
        )
    if draw(st.integers(0, 5)) == 0:
        items += f", ${sorted(scope.nodes)[0]}.*"
    if draw(st.integers(0, 5)) == 0 and scope.properties()[0][1] == "number":
        items += ", c1 as again"
    if draw(st.integers(0, 5)) == 0:
        items += f", {draw(_condition(scope))} as said, not said as unsaid"
        having = having.replace("}", ", said is not null }")
    return f"return {{ {items} }} {having} {draw(_order(scope))}"


@st.composite
def _order(draw: st.DrawFn, scope: Scope) -> str:
    sortable = [name for name, kind in scope.properties() if kind not in ("texts", "numbers")]
    keys = draw(st.lists(st.sampled_from(sortable), max_size=2, unique=True))
    ways = [f"{key} {draw(st.sampled_from(['asc', 'desc']))}" for key in keys]
    order = f"order {{ {', '.join(ways)} }}" if ways else ""
    limit = draw(st.sampled_from(["", "", "limit 0", "limit 2", *PAGES]))
    return f"{order} {limit}"


PAGES = ("limit 3 offset 1", "limit $few", "offset $few", "offset 1 limit $few", "offset 1")


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
        function = draw(st.sampled_from(["sum", "avg", "min", "max", "stddev", "sum(distinct"]))
        function = function if "(" in function else f"{function}("
        tallies.append(f"{function.replace('(', '( ')} {draw(st.sampled_from(numbers))})")
        tallies.append(f"percentile({draw(st.sampled_from(numbers))}, 0.75)")
    moments = [name for name, kind in scope.properties() if kind in ("date", "instant")]
    if draw(st.booleans()) and moments:
        function = draw(st.sampled_from(["min", "max", "count", "collect"]))
        tallies.append(f"{function}({draw(st.sampled_from(moments))})")
    if draw(st.integers(0, 3)) == 0:
        tallies.append(f"count({draw(_whole_value(scope))})")
        tallies.append(f"count(distinct {draw(_whole_value(scope))})")
        tallies.append(f"collect(distinct {draw(_id_value(scope))})")
    if draw(st.booleans()) and texts:
        tallies.append(f"max({draw(st.sampled_from(texts))})")
    keys += draw(st.lists(_value(scope), max_size=1))
    if draw(st.booleans()):
        keys.append(draw(_whole_value(scope)))
    truths = draw(st.lists(_truth(scope), max_size=1))
    keys += truths
    entities = [f"${name}" for name in sorted({*scope.nodes, *scope.edges})]
    if draw(st.integers(0, 2)) == 0:
        entity = draw(st.sampled_from(entities))
        tallies.append(f"count(distinct entity({entity}))")
        tallies.append(
            draw(st.sampled_from(["max", "min", "collect", "count"])) + f"(id({entity}))"
        )
    whole = [name for name in numbers if name.endswith((".dwt", ".crew", ".weight"))]
    if draw(st.booleans()) and whole:
        tallies.append(f"sum({draw(st.sampled_from(whole))} % 100) + count({names[0]})")
    tallies.append(f"count(distinct {draw(st.sampled_from(usable))})")
    items = [*(f"{key} as k{place}" for place, key in enumerate(keys))]
    items += [f"{tally} as t{place}" for place, tally in enumerate(tallies)]
    havings = ["", "", "having { t0 > 1 }", "having { t0 >= 1, count(distinct $few) < 5 }"]
    if truths:
        truth = f"k{len(keys) - 1}"
        havings += [f"having {{ {truth} }}", f"having {{ not {truth} or t0 > 1 }}"]
        havings += [f"having {{ {truths[0]} }}", f"having {{ {truth} is null }}"]
    having = draw(st.sampled_from(havings))
    order = draw(
        st.sampled_from(["", "order { t0 desc }", "order { t0 desc } limit 2", "limit $few"])
    )
    return f"return {{ {', '.join(items)} }} {having} {'' if scope.has_ties else order}"


# ---- stages, unions, any edge


@st.composite
def staged_texts(draw: st.DrawFn) -> str:
    """A read of several stages, or a union of reads."""
    if draw(st.integers(0, 3)) == 0:
        joins = draw(st.lists(st.sampled_from(["union", "union all"]), min_size=1, max_size=2))
        whole = draw(st.sampled_from([None, None, "Vessel", "Port", "edges"]))
        parts = [draw(_joined_part(whole))]
        for word in joins:
            parts += [word, draw(_joined_part(whole))]
        orders = ["order { n desc, t } limit 4", "order { t, n }"]
        rest = draw(st.sampled_from(["", *(orders if whole is None else ["order { t } limit 3"])]))
        return draw(_query(f"{' '.join(parts)} {rest}"))
    scope = Scope()
    stages = [draw(_stage(scope, number)) for number in range(draw(st.integers(1, 2)))]
    clauses = [draw(_further(scope)) for _ in range(draw(st.integers(0, 1)))]
    match = f"match {{ {',  '.join(clauses)} }} " if clauses else ""
    result = draw(_grouped(scope)) if draw(st.booleans()) else draw(_left(scope))
    return draw(_query(f"{' '.join(stages)} {match}{result}"))


@st.composite
def _joined_part(draw: st.DrawFn, whole: str | None) -> str:
    """A read with the columns of every other: of any type, or whole entities of one."""
    scope = Scope()
    clauses = [
        draw(_binding(scope, None if whole == "edges" else whole)),
        *(draw(_further(scope)) for _ in range(draw(st.integers(0, 1)))),
    ]
    first = next(iter(scope.nodes))
    number = draw(
        st.sampled_from([f"length(${first}.name)", f"count {{ ${first} -- $_ }}", "abs(3)"])
    )
    distinct = draw(st.sampled_from(["", "distinct "]))
    match = f"match {{ {',  '.join(clauses)} }}"
    if whole == "edges":
        edge = draw(st.sampled_from(["feeds", "<feeds>"]))
        walk = f"match {{ $x: Port  $x $w:{edge}{{1,{draw(st.integers(2, 3))}}} $y }}"
        return f"{walk} return {distinct}{{ edges($w) as n, $x.depth > hops($w) as t, nodes($w) as l }}"
    if whole is not None:
        return f"{match} return {distinct}{{ entity(${first}) as n, id(${first}) as t }}"
    return f"{match} return {distinct}{{ {number} as n, lower(${first}.name) as t }}"


@st.composite
def _further(draw: st.DrawFn, scope: Scope) -> str:
    kinds = [_hop(scope), _any_hop(scope), _condition(scope)]
    return draw(st.one_of(*kinds) if _can_hop(scope) else _condition(scope))


def _can_hop(scope: Scope) -> bool:
    return any(kind not in MIXED for kind in scope.nodes.values()) and len(scope.taken) < 9


@st.composite
def _any_hop(draw: st.DrawFn, scope: Scope) -> str:
    near = draw(st.sampled_from(sorted(scope.nodes)))
    far = draw(st.sampled_from([None, None, None, "_"]))
    if far is None:
        far = scope.fresh()
        scope.nodes[far] = "Mixed"
    edge = draw(st.sampled_from(["--", "$_:--", "named"]))
    if edge == "named":
        variable = scope.fresh()
        scope.edges[variable] = "--"
        edge = f"${variable}:--"
    return f"${near} {edge} ${far}"


@st.composite
def _stage(draw: st.DrawFn, scope: Scope, number: int) -> str:
    clauses = [draw(_binding(scope))] if not scope.nodes else []
    clauses += [draw(_further(scope)) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()) and scope.left:
        word = draw(st.sampled_from(scope.left))
        clauses.append(draw(st.sampled_from([f"{word} is null", f"not {word} is null"])))
    kept = draw(st.lists(st.sampled_from(sorted(scope.nodes)), min_size=1, max_size=2, unique=True))
    items = [f"${name}" for name in kept]
    keys = [f"id(${name})" for name in kept]
    edges = sorted(scope.edges)[: draw(st.integers(0, 1))]
    items += [f"${name}" for name in edges]
    keys += [f"id(${name})" for name in edges]
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
    whole = [f"n{number}w"] if draw(st.booleans()) else []
    items += [f"{draw(_whole_value(scope))} as {name}" for name in whole]
    distinct = draw(st.sampled_from(["", "", "distinct "]))
    text = f"match {{ {',  '.join(clauses)} }} " if clauses else ""
    text += f"with {distinct}{{ {', '.join(items)} }}"
    if draw(st.integers(0, 3)) == 0:
        tested = draw(st.sampled_from([*names, *whole, keys[0]]))
        text += f" having {{ {tested} is not null }}"
    is_ordered = draw(st.booleans()) and not scope.has_ties
    scope.has_ties |= bool(names or whole)
    if is_ordered:
        ways = [f"{key} {draw(st.sampled_from(['asc', 'desc']))}" for key in (*names, *keys)]
        text += f" order {{ {', '.join(ways)} }}"
        limit = draw(st.sampled_from(["", "limit 3", "limit 1", "limit 2 offset 1"]))
        bare = [*names, *whole]
        ways = [f" per ${kept[0]}", *(f" per {n}" for n in bare)]
        ways += [f" per {n}, ${kept[-1]}" for n in bare]
        per = draw(st.sampled_from(["", "", *ways]))
        text += f" {limit}{per if limit else ''}"
    scope.nodes = {name: scope.nodes[name] for name in kept}
    scope.edges = {name: scope.edges[name] for name in edges}
    scope.maybe, scope.paths = set(), {}
    scope.left = [*names, *whole]
    return text


@st.composite
def _left(draw: st.DrawFn, scope: Scope) -> str:
    shown = [*(f"${name}" for name in sorted(scope.nodes)), *scope.left[-3:]]
    shown += draw(st.lists(st.one_of(_value(scope), _whole_value(scope)), max_size=2))
    if scope.left:
        word = scope.left[0]
        shown += [f"case when {word} is null then 0 else 1 end", f"coalesce({word}, {word})"]
    items = ", ".join(f"{item} as c{place}" for place, item in enumerate(shown))
    order = draw(st.sampled_from(["", "", "order { c0 desc }", "order { c0 } limit 2"]))
    order = "" if scope.has_ties else order
    return f"return {draw(st.sampled_from(['', 'distinct ']))}{{ {items} }} {order}"
