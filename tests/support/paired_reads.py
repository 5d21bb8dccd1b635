"""Queries that are written twice: in the query language, and in SQL over the same rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import count
from typing import Any

NODES: Mapping[str, Mapping[str, str]] = {
    "P": {
        "k": "text", "s": "text", "e": "enum", "i": "i32", "j": "i64", "u": "u64", "f": "f64", "g": "f32",
        "b": "bool", "d": "date", "t": "instant", "l": "texts", "n": "ints", "r": "i32",
    },
    "Q": {"k": "text", "s": "text", "i": "i32", "f": "f64", "d": "date", "t": "instant"},
    "R": {"n": "i32", "s": "text", "d": "date"},
}  # fmt: skip
EDGES: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "Knows": ("P", "P", {"w": "i32", "s": "text", "d": "date"}),
    "Likes": ("P", "Q", {"w": "i32", "t": "instant"}),
    "Has": ("Q", "R", {}),
    "Next": ("R", "R", {"w": "f64"}),
}
KEYS = {"P": "k", "Q": "k", "R": "n"}
REQUIRED = {("P", "k"), ("P", "r"), ("Q", "k"), ("R", "n")}
SCHEMA = """
node P {
  k: String @key  s: String? @index  e: enum(x, y, z)?  i: I32? @index  j: I64?  u: U64?  f: F64? @index  g: F32?
  b: Bool?  d: Date? @index  t: DateTime? @index  l: [String]?  n: [I32]?  r: I32  v: Vector(2)?  x: Blob?
}
node Q { k: String @key  s: String?  i: I32? @index  f: F64?  d: Date?  t: DateTime? }
node R { n: I32 @key  s: String?  d: Date? }
edge Knows: P -> P { w: I32?  s: String?  d: Date? }
edge Likes: P -> Q { w: I32?  t: DateTime? }
edge Has: Q -> R
edge Next: R -> R { w: F64? }
"""
SQL_TYPES = {
    "text": "VARCHAR", "enum": "VARCHAR", "i32": "INTEGER", "i64": "BIGINT", "u64": "UBIGINT", "f64": "DOUBLE",
    "f32": "FLOAT", "bool": "BOOLEAN", "date": "DATE", "instant": "TIMESTAMP", "texts": "VARCHAR[]",
    "ints": "INTEGER[]",
}  # fmt: skip
TYPES = {
    "text": "String", "enum": "String", "i32": "I32", "i64": "I64", "u64": "U64", "f64": "F64", "f32": "F32",
    "bool": "Bool", "date": "Date", "instant": "DateTime",
}  # fmt: skip
FLOATS = ("f64", "f32")
NUMBERS = ("i32", "i64", "u64", *FLOATS)
TEXTS = ("text", "enum")
ITEMS = {"texts": "text", "ints": "i32"}
REACH_MAX = 3
"""How far the walks of the SQL side are laid out."""


def properties(type_name: str) -> Mapping[str, str]:
    """The properties of a node or edge type, with their kinds."""
    return NODES[type_name] if type_name in NODES else EDGES[type_name][2]


# ---- expressions


@dataclass(frozen=True)
class Prop:
    """A property of a variable."""

    variable: str
    name: str
    kind: str


@dataclass(frozen=True)
class Value:
    """A value that is given: written down, or as the parameter with this name."""

    value: Any
    kind: str
    parameter: str | None = None
    listed: bool = False


@dataclass(frozen=True)
class Compare:
    left: Prop | Value
    op: str
    right: Prop | Value


@dataclass(frozen=True)
class IsNull:
    prop: Prop
    negated: bool


@dataclass(frozen=True)
class In:
    prop: Prop
    choices: Value
    turned: bool = False
    """Whether it is written as `[..] contains $x.p`."""


@dataclass(frozen=True)
class Not:
    part: "Condition"


@dataclass(frozen=True)
class Both:
    word: str
    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class Named:
    """A value that a stage left, by its name."""

    name: str
    kind: str


@dataclass(frozen=True)
class Calc:
    """A computed value: how both languages write it, with places for the values it is made of."""

    kind: str
    gq: str
    sql: str
    parts: tuple["Prop | Value | Named | Calc | Asked", ...]


@dataclass(frozen=True)
class Asked:
    """What a block comes to: whether it has a match, or an aggregate of its matches."""

    kind: str
    function: str
    argument: "Prop | str | None"
    clauses: tuple["Clause", ...]


Expr = Prop | Value | Named | Calc | Asked
Condition = Compare | IsNull | In | Not | Both | Calc


# ---- clauses


@dataclass(frozen=True)
class Bind:
    variable: str
    type_name: str
    matches: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Hop:
    """A walk from `source` to `target` as the edge is declared; `turned` writes a walk between types backwards."""

    edge: str
    source: str
    target: str
    undirected: bool = False
    bounds: tuple[int, int] | None = None
    edge_variable: str | None = None
    turned: bool = False


@dataclass(frozen=True)
class Block:
    word: str
    clauses: tuple["Clause", ...]


Clause = Bind | Hop | Condition | Block


@dataclass(frozen=True)
class Tally:
    function: str
    argument: Expr | str
    """A value, or the variable whose rows are counted."""
    distinct: bool = False


@dataclass(frozen=True)
class Item:
    expr: Expr | str | Tally
    name: str


@dataclass(frozen=True, kw_only=True)
class Read:
    clauses: tuple[Clause, ...]
    items: tuple[Item, ...]
    order: tuple[tuple[Prop | str, bool], ...] = ()
    """Properties or names of items, and whether they descend."""
    limit: int | None = None
    offset: int | None = None
    params: tuple[Value, ...] = ()

    @property
    def is_grouped(self) -> bool:
        return any(isinstance(item.expr, Tally) for item in self.items)

    @property
    def is_ordered(self) -> bool:
        return bool(self.order) or self.is_grouped

    @property
    def arguments(self) -> dict[str, Any]:
        return {str(one.parameter): _argument(one.value) for one in self.params}


def _argument(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_argument(one) for one in value]
    return _instant(value) if isinstance(value, datetime) else value


def _instant(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds") + "Z"


# ---- in the query language


def gq(read: Read) -> str:
    """Write a read in the query language."""
    params = ", ".join(f"${one.parameter}: {_declared(one)}?" for one in read.params)
    match = ",\n    ".join(write_clause(clause) for clause in read.clauses)
    items = ", ".join(f"{write_item(item.expr)} as {item.name}" for item in read.items)
    keys = ", ".join(
        f"{write_item(key) if isinstance(key, Prop) else key} {'desc' if down else 'asc'}"
        for key, down in read.order
    )
    rest = f" order {{ {keys} }}" if keys else ""
    rest += f" limit {read.limit}" if read.limit is not None else ""
    rest += f" offset {read.offset}" if read.offset is not None else ""
    return (
        f"use extensions\nquery q({params}) {{\n  match {{\n    {match}\n  }}\n"
        f"  return {{ {items} }}{rest}\n}}"
    )


def _declared(param: Value) -> str:
    return f"[{TYPES[param.kind]}]" if param.listed else TYPES[param.kind]


def write_clause(clause: Clause) -> str:
    """Write a clause in the query language."""
    match clause:
        case Bind(variable=variable, type_name=type_name, matches=matches):
            tests = ", ".join(f"{name}: {written(value)}" for name, value in matches)
            return f"${variable}: {type_name}" + (f" {{ {tests} }}" if tests else "")
        case Hop():
            return _hop(clause)
        case Block(word=word, clauses=clauses):
            return f"{word} {{ {',  '.join(write_clause(one) for one in clauses)} }}"
        case _:
            return condition(clause)


def _hop(hop: Hop) -> str:
    word = hop.edge[0].lower() + hop.edge[1:]
    word = f"<{word}>" if hop.undirected else word
    word = f"${hop.edge_variable}:{word}" if hop.edge_variable else word
    bounds = f"{{{hop.bounds[0]},{hop.bounds[1]}}}" if hop.bounds else ""
    left, right = (hop.target, hop.source) if hop.turned else (hop.source, hop.target)
    return f"{_end(left)} {word}{bounds} {_end(right)}"


def _end(variable: str) -> str:
    return "$_" if variable.startswith("_") else f"${variable}"


def condition(test: Condition) -> str:
    """Write a condition in the query language."""
    match test:
        case Compare(left=left, op=op, right=right):
            return f"{written(left)} {op} {written(right)}"
        case IsNull(prop=prop, negated=negated):
            return f"{written(prop)} is {'not null' if negated else 'null'}"
        case In(prop=prop, choices=choices, turned=True):
            return f"{written(choices)} contains {written(prop)}"
        case In(prop=prop, choices=choices):
            return f"{written(prop)} in {written(choices)}"
        case Not(part=part):
            return f"not ({condition(part)})"
        case Both(word=word, parts=parts):
            return "(" + f" {word} ".join(condition(part) for part in parts) + ")"
        case Calc():
            return f"({written(test)})"


def written(expr: Expr) -> str:
    """Write a value in the query language."""
    match expr:
        case Prop(variable=variable, name=name):
            return f"${variable}.{name}"
        case Named(name=name):
            return name
        case Calc(gq=form, parts=parts):
            return form.format(*map(written, parts))
        case Asked(function=function, argument=argument, clauses=clauses):
            head = function if argument is None else f"{function}({write_item(argument)})"
            return f"{head} {{ {',  '.join(write_clause(one) for one in clauses)} }}"
        case Value(parameter=parameter, value=value):
            return f"${parameter}" if parameter else literal(value)


def literal(value: Any) -> str:
    """Write a value in the query language."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case datetime():
            return f'datetime("{_instant(value)}")'
        case date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return f"[{', '.join(literal(one) for one in value)}]"
        case _:
            return repr(value)


def write_item(expr: Expr | str | Tally) -> str:
    """Write an item in the query language."""
    match expr:
        case str():
            return f"${expr}"
        case Tally(function=function, argument=argument, distinct=distinct):
            more = ", 0.25" if function == "percentile" else ""
            return f"{function}({'distinct ' if distinct else ''}{write_item(argument)}{more})"
        case _:
            return written(expr)


# ---- in SQL


@dataclass
class Scope:
    """Where the columns of each variable are, and its type."""

    types: dict[str, str]
    places: dict[str, str]
    names: Iterator[int] = field(default_factory=count)

    def inner(self) -> "Scope":
        return Scope(dict(self.types), dict(self.places), self.names)

    def column(self, variable: str, name: str) -> str:
        return f"{self.places[variable]}{name}"


def sql(read: Read) -> str:
    """Write a read in SQL."""
    scope = Scope({}, {})
    source, shown = source_of(read.clauses, scope)
    items = ", ".join(f"{write_sql_item(item.expr, scope)} AS {item.name}" for item in read.items)
    text = f"SELECT {items} {source}"
    if read.is_grouped:
        by = ", ".join(write_sql_item(item.expr, scope) for item in _group_keys(read))
        text = f"SELECT * FROM ({text}{f' GROUP BY {by}' if by else ''})"
        order = [sorted_by(name, down) for name, down in _group_order(read)]
    else:
        keys = (
            (key if isinstance(key, str) else _column(key, scope), down) for key, down in read.order
        )
        ties = [sorted_by(scope.column(one, "id"), False) for one in shown]
        order = [*(sorted_by(*key) for key in keys), *ties] if read.order else []
    text += f" ORDER BY {', '.join(order)}" if order else ""
    text += f" LIMIT {read.limit}" if read.limit is not None else ""
    return text + (f" OFFSET {read.offset}" if read.offset is not None else "")


def unlimited(read: Read) -> Read:
    """The same read with all of its rows."""
    return replace(read, limit=None, offset=None)


def sorted_by(column: str, down: bool) -> str:
    """Write a key of an order in SQL; NULL is below every value."""
    return f"{column} {'DESC NULLS LAST' if down else 'ASC NULLS FIRST'}"


def _group_keys(read: Read) -> list[Item]:
    return [item for item in read.items if not isinstance(item.expr, Tally)]


def _group_order(read: Read) -> list[tuple[str, bool]]:
    """The columns that groups are ordered by: those asked for, then the other keys ascending."""
    asked = {str(name): down for name, down in read.order}
    return [*asked.items(), *((i.name, False) for i in _group_keys(read) if i.name not in asked)]


def write_sql_item(expr: Expr | str | Tally, scope: Scope) -> str:
    """Write an item in SQL."""
    match expr:
        case str():
            return scope.column(expr, "id")
        case Tally(function="count", argument=argument, distinct=distinct):
            return f"count({'DISTINCT ' if distinct else ''}{write_sql_item(argument, scope)})"
        case Tally(function=function, argument=argument):
            assert not isinstance(argument, str)
            return _sql_tally(function, sql_value_of(argument, scope), argument.kind)
        case _:
            return sql_value_of(expr, scope)


def _sql_tally(function: str, inner: str, kind: str) -> str:
    if function == "sum" and kind not in FLOATS:
        # The sums of larger integers have no room in an I64, which is an error.
        return f"CAST(sum({inner}) AS BIGINT)"
    if function == "percentile":
        return f"quantile_cont(CAST({inner} AS DOUBLE), 0.25)"
    if function in ("sum", "avg", "stddev"):
        inner = f"CAST({inner} AS DOUBLE)"
    return f"{'stddev_samp' if function == 'stddev' else function}({inner})"


def sql_value_of(expr: Expr, scope: Scope) -> str:
    """Write a value in SQL."""
    match expr:
        case Prop():
            return _column(expr, scope)
        case Named(name=name):
            return scope.column(f"#{name}", name)
        case Value(value=value, kind=kind):
            return _sql_value(value, kind)
        case Calc(sql=form, parts=parts):
            return "(" + form.format(*(sql_value_of(one, scope) for one in parts)) + ")"
        case Asked(function=function, argument=argument, clauses=clauses):
            inner = scope.inner()
            source, _ = source_of(clauses, inner)
            if function in ("exists", "not"):
                return f"({'NOT ' if function == 'not' else ''}EXISTS (SELECT 1 {source}))"
            if argument is None:
                return f"(SELECT count(*) {source})"
            found = write_sql_item(Tally(function, argument), inner)
            return f"(SELECT {found} {source})"


def _column(prop: Prop, scope: Scope) -> str:
    return scope.column(prop.variable, prop.name)


def source_of(clauses: Sequence[Clause], scope: Scope) -> tuple[str, list[str]]:
    """The FROM and WHERE of a block, and the variables its rows assign, those of optional blocks included."""
    tables: list[str] = []
    joins: list[str] = []
    tests: list[str] = []
    own: list[str] = []
    ends = {}
    for clause in clauses:
        match clause:
            case Bind(variable=variable, type_name=type_name):
                ends[variable] = type_name
            case Hop(edge=edge, source=source, target=target):
                ends.setdefault(source, EDGES[edge][0])
                ends.setdefault(target, EDGES[edge][1])
                if clause.edge_variable:
                    ends[clause.edge_variable] = edge
            case _:
                pass
    outer = set(scope.places)
    for variable, type_name in ends.items():
        if variable not in outer:
            own.append(variable)
            scope.types[variable], scope.places[variable] = type_name, f"{variable}."
            tables.append(f"{type_name} AS {variable}")
    nested: list[str] = []
    for clause in clauses:
        match clause:
            case Bind(variable=variable, matches=matches):
                if variable in outer:
                    tests.append(f"{scope.column(variable, 'id')} IS NOT NULL")
                tests += [_match(variable, name, value, scope) for name, value in matches]
            case Hop():
                tests.append(_walk(clause, scope))
            case Block(word="optional", clauses=inside):
                join, more = _lateral(inside, scope)
                joins.append(join)
                nested += more
            case Block():
                pass
            case _:
                tests.append(_sql_condition(clause, scope))
    for clause in clauses:
        if isinstance(clause, Block) and clause.word == "not":
            inner, _ = source_of(clause.clauses, scope.inner())
            tests.append(f"NOT EXISTS (SELECT 1 {inner})")
    base = " CROSS JOIN ".join(tables) or "(SELECT 1) AS one"
    where = f" WHERE {' AND '.join(f'({test})' for test in tests)}" if tests else ""
    named = sorted(one for one in (*own, *nested) if not one.startswith("_"))
    return f"FROM {base} {' '.join(joins)}{where}", named


def _lateral(clauses: Sequence[Clause], scope: Scope) -> tuple[str, list[str]]:
    inner = scope.inner()
    source, shown = source_of(clauses, inner)
    alias = f"o{next(scope.names)}"
    columns = ["1 AS one"]
    for variable in shown:
        type_name = inner.types[variable]
        for name in ("id", *properties(type_name)):
            columns.append(f"{inner.column(variable, name)} AS {variable}_{name}")
        scope.types[variable], scope.places[variable] = type_name, f"{alias}.{variable}_"
    return f"LEFT JOIN LATERAL (SELECT {', '.join(columns)} {source}) AS {alias} ON TRUE", shown


def _match(variable: str, name: str, value: Value, scope: Scope) -> str:
    kind = properties(scope.types[variable])[name]
    column = scope.column(variable, name)
    if kind in ITEMS:
        return f"list_contains({column}, {_sql_value(value.value, ITEMS[kind])})"
    return f"{column} = {_sql_value(value.value, kind)}"


def _walk(hop: Hop, scope: Scope) -> str:
    near, far = scope.column(hop.source, "id"), scope.column(hop.target, "id")
    source, target, _ = EDGES[hop.edge]
    low, high = hop.bounds or (1, 1)
    if hop.edge_variable:
        edge = scope.places[hop.edge_variable]
        return _ends(f"{edge}src", f"{edge}dst", near, far, hop.undirected)
    if source != target and low > 1:
        return "FALSE"
    if high == 1 or source != target:
        ends = _ends("h.src", "h.dst", near, far, hop.undirected)
        return f"EXISTS (SELECT 1 FROM {hop.edge} AS h WHERE {ends})"
    table = f"{hop.edge}_{'both' if hop.undirected else 'out'}"
    return (
        f"EXISTS (SELECT 1 FROM {table} AS h WHERE h.src = {near} AND h.dst = {far}"
        f" AND h.hops BETWEEN {low} AND {high})"
    )


def _ends(src: str, dst: str, near: str, far: str, undirected: bool) -> str:
    there = f"({src} = {near} AND {dst} = {far})"
    return f"({there} OR ({dst} = {near} AND {src} = {far}))" if undirected else there


def _sql_condition(test: Condition, scope: Scope) -> str:
    match test:
        case Compare():
            return _sql_compare(test, scope)
        case IsNull(prop=prop, negated=negated):
            return f"{_column(prop, scope)} IS {'NOT ' if negated else ''}NULL"
        case In(prop=prop, choices=Value(value=None)):
            return "CAST(NULL AS BOOLEAN)"
        case In(prop=prop, choices=Value(value=())):
            return f"{_column(prop, scope)} IN (SELECT CAST(NULL AS {SQL_TYPES[prop.kind]}) WHERE FALSE)"
        case In(prop=prop, choices=choices):
            among = ", ".join(_sql_value(one, prop.kind) for one in choices.value)
            return f"{_column(prop, scope)} IN ({among})"
        case Not(part=part):
            return f"NOT ({_sql_condition(part, scope)})"
        case Calc():
            return sql_value_of(test, scope)
        case Both(word=word, parts=parts):
            return f" {word.upper()} ".join(f"({_sql_condition(part, scope)})" for part in parts)


def _sql_compare(test: Compare, scope: Scope) -> str:
    other = {id(test.left): test.right, id(test.right): test.left}

    def operand(expr: Prop | Value) -> str:
        facing = other[id(expr)]
        if isinstance(expr, Value):
            kind = facing.kind if isinstance(facing, Prop) else expr.kind
            return _sql_value(expr.value, ITEMS.get(kind, kind))
        column = _column(expr, scope)
        if isinstance(facing, Prop) and expr.kind in NUMBERS and expr.kind != facing.kind:
            wide = "DOUBLE" if {expr.kind, facing.kind} & set(FLOATS) else "HUGEINT"
            return f"CAST({column} AS {wide})"
        return column

    left, right = operand(test.left), operand(test.right)
    match test.op:
        case "contains" if test.left.kind in ITEMS:
            return f"list_contains({left}, {right})"
        case "contains" | "starts_with":
            return f"{test.op}({left}, {right})"
        case op:
            return f"{left} {op} {right}"


def _sql_value(value: Any, kind: str) -> str:
    """A value as it is compared with a column: numbers at the precision of floats, else as they are."""
    match value:
        case None:
            return f"CAST(NULL AS {SQL_TYPES[kind]})"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='milliseconds')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case tuple():
            items = ", ".join(_sql_value(one, ITEMS[kind]) for one in value)
            return f"CAST([{items}] AS {SQL_TYPES[kind]})"
        case float():
            return f"CAST({value!r} AS {'FLOAT' if kind == 'f32' else 'DOUBLE'})"
        case _:
            return f"CAST({value!r} AS {SQL_TYPES[kind] if kind in FLOATS else 'HUGEINT'})"
