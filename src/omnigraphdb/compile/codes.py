"""The codes of queries that do not fit the schema: the meaning of each, and the correct form."""

from typing import NamedTuple


class CheckCode(NamedTuple):
    """The meaning of a code, and the expectation of a finding that has no closer fix."""

    meaning: str
    expected: str


CHECK_CODES: dict[str, CheckCode] = {
    "T1": CheckCode(
        "a binding whose type is not a node type",
        "the name of a node type or of an interface of the schema",
    ),
    "T2": CheckCode(
        "a property match on a property that does not exist",
        "a property of the type",
    ),
    "T3": CheckCode(
        "a literal that does not fit the property",
        "a value of the type of the property",
    ),
    "T4": CheckCode(
        "an unknown edge",
        "an edge of the schema, with a lower-case first letter",
    ),
    "T5": CheckCode(
        "an edge that does not connect the type of its endpoint",
        "ends of the types that the edge connects",
    ),
    "T6": CheckCode(
        "a property of an unbound variable, or one the type does not have",
        "a variable that a clause above binds, and a property of its type",
    ),
    "T7": CheckCode(
        "operands that cannot be compared, or a parameter of the wrong type",
        "two values of one type, or two numbers",
    ),
    "T8": CheckCode(
        "an aggregate over a type it cannot take",
        "a number; min and max also take a text or a date",
    ),
    "T9": CheckCode(
        "a `not` that mentions nothing from outside; an item beside an aggregate that is not a group key",
        "a variable from outside inside the block; beside an aggregate only items that name its group",
    ),
    "T10": CheckCode(
        "a write to a type that does not exist",
        "a node or edge type of the schema",
    ),
    "T11": CheckCode(
        "a write to, or a `where` on, a property that does not exist or is a Blob",
        "a property of the type, and no Blob in a condition",
    ),
    "T12": CheckCode(
        "an insert that leaves out a required property",
        "a value for every required property",
    ),
    "T13": CheckCode(
        "a property assigned twice",
        "one value for each property",
    ),
    "T14": CheckCode(
        "a variable that is not a parameter",
        "a parameter that the query declares",
    ),
    "T15": CheckCode(
        "bad hop bounds; a `nearest` that does not fit its vector",
        "bounds such as {1,3}; for nearest a Vector property, and a vector of its length or a text",
    ),
    "T16": CheckCode(
        "an update of an end of an edge",
        "two queries: one deletes the edge, one inserts another",
    ),
    "T17": CheckCode(
        "`nearest` without `limit`",
        "a limit behind the order",
    ),
    "T18": CheckCode(
        "`nearest` together with ordering by an alias",
        "nearest(…) as the only key of the order",
    ),
    "T19": CheckCode(
        "wrong arguments of `search` and `fuzzy`",
        "a String property of a node, then a text or a parameter",
    ),
    "T20": CheckCode(
        "wrong arguments of `match_text` and `bm25`",
        "a String property of a node, then a text or a parameter",
    ),
    "T21": CheckCode(
        "wrong arms or constant of `rrf`, or no `limit`",
        "rrf(nearest(…), bm25(…), 60), and a limit behind the order",
    ),
    "T22": CheckCode(
        "an undirected walk over an edge with two different ends",
        "the edge without < and >",
    ),
    "T23": CheckCode(
        "an edge variable where it cannot be used",
        "a name of its own, used with a property: $e.weight",
    ),
    "T24": CheckCode(
        "a Blob as a value of a query",
        "a property that is no Blob",
    ),
    "T25": CheckCode(
        "a variable that is not bound",
        "a variable that a clause above binds, or a parameter of the query",
    ),
    "T26": CheckCode(
        "a variable bound to two types",
        "a variable of its own for each of the two",
    ),
    "T27": CheckCode(
        "a list literal that mixes types or nests",
        "literals of one type",
    ),
    "T28": CheckCode(
        "a parameter that cannot be declared so",
        "a name without '__' at its beginning, and a type such as String, [I64] or Vector(3)",
    ),
    "T29": CheckCode(
        "inserts or updates together with deletes",
        "two queries: one inserts and updates, one deletes",
    ),
    "T30": CheckCode(
        "two queries of one name",
        "another name for one of them",
    ),
    "T31": CheckCode(
        "two parameters of one name",
        "another name for one of them",
    ),
    "T32": CheckCode(
        "a parameter and a variable of one name",
        "another name for one of them",
    ),
    "T33": CheckCode(
        "a property match with a variable that is not a parameter",
        "a parameter, or a filter behind the binding: $a.x = $b.y",
    ),
    "T34": CheckCode(
        "two columns of one name",
        "another name for one of them: as n",
    ),
    "T35": CheckCode(
        "an unknown alias",
        "the name that an item above has with 'as'",
    ),
    "T36": CheckCode(
        "an expression that may not stand here",
        "a property such as $v.name, a parameter, a literal, or the name that an item has with 'as'",
    ),
    "T37": CheckCode(
        "a malformed date or instant",
        'a text such as date("2026-02-14") or datetime("2026-02-14T08:00:00Z")',
    ),
    "T38": CheckCode(
        "a search or ranking where it cannot run",
        "a search as a clause of the match, a ranking as the first key of the order",
    ),
    "T50": CheckCode(
        "a condition that is not a Bool",
        "a comparison, or a value that is a Bool",
    ),
    "T51": CheckCode(
        "operands that an arithmetic operator does not take",
        "numbers; a Date or DateTime goes with + or - and a duration",
    ),
    "T52": CheckCode(
        "arguments that a function does not take",
        "arguments of the types that the function takes",
    ),
    "T53": CheckCode(
        "values of `case` or `coalesce` without a common type",
        "values of one type, or numbers",
    ),
    "T54": CheckCode(
        "a malformed regular expression, or one that differs between rows",
        "a regular expression in the syntax of RE2, as a text or a parameter",
    ),
    "T55": CheckCode(
        "a malformed duration, or one that is not added to a date",
        '$v.built + duration("P1D") with a Date or a DateTime',
    ),
    "T56": CheckCode(
        "too many operators in a row",
        "several filters, or parts in brackets",
    ),
    "T59": CheckCode(
        "a list with other items than literals where only `in` takes one",
        "a list of literals, or a list parameter",
    ),
    "T60": CheckCode(
        "`distinct` or a fraction that an aggregate does not take",
        "one argument; percentile takes two: percentile($v.dwt, 0.5)",
    ),
    "T61": CheckCode(
        "`$v.*` where it is not an item of its own",
        "$v.* as an item by itself, without 'as'",
    ),
    "T62": CheckCode(
        "reads of a union with different columns, or with an order of their own",
        "reads with the same columns, and order and limit behind the last one",
    ),
    "T63": CheckCode(
        "an item of `with` that later clauses cannot name, or a `per` that is not an item",
        "a name for every value: count($v) as n; behind per an item of the stage",
    ),
    "T64": CheckCode(
        "an option of `@mcp` that is unknown, repeated or of the wrong kind",
        "expose: true or false, and tool_name: a text",
    ),
    "T65": CheckCode(
        "any edge (`--`) with bounds, or between types that no edge connects",
        "$x -- $y without bounds, between types that an edge connects",
    ),
    "T66": CheckCode(
        "a search on a variable of several types",
        "a variable of one node type",
    ),
    "T67": CheckCode(
        "a walk over several edge types that do not connect the same types",
        "edges that connect the same types of nodes",
    ),
    "T68": CheckCode(
        "`by`, `best`, `all` or `where` of a walk that means nothing there, or a path without a maximum of hops",
        "a variable on the walk, a maximum of hops, and a property of its edges",
    ),
    "T69": CheckCode(
        "a path where an entity or a value is expected",
        "hops($w), nodes($w), edges($w), or an aggregate such as sum($w.weight)",
    ),
    "T70": CheckCode(
        "`update $v` or `delete $v` without a match of `$v`, or a type with `where` behind a match",
        "match { $v: Type … } update $v …, or update Type set { … } where … without a match",
    ),
    "T71": CheckCode(
        "a block, an aggregate or a search in a statement without a match",
        "a match before the statement",
    ),
    "T72": CheckCode(
        "an `unnest` of a value that is not a list, of an unknown field, or before an update or a delete",
        "unnest $rows as $r before an insert or an upsert, with $rows a list parameter",
    ),
    "T73": CheckCode(
        "`upsert` or `if absent` of a type without a key, or an `upsert` whose first braces are not the key, or `$.` inside a block behind a match",
        "upsert Type { key: … } set { … } of a node type with a key",
    ),
    "T74": CheckCode(
        "a `returning` that cannot be returned, or other columns than an earlier statement returns",
        "id, properties of the written row and values of them, the same columns behind every statement",
    ),
    "T75": CheckCode(
        "a match of a type that an earlier statement of the mutation writes",
        "two mutations, or a match of another type",
    ),
}
