"""Findings about schema text that does not fit the grammar: the expected text, the actual text, and a fix."""

import re
from collections.abc import Callable

from omnigraphdb.errors import did_you_mean, shorten, suggestion
from omnigraphdb.language.diagnostics import Diagnostic, first_finding, join_alternatives
from omnigraphdb.language.schema.build import mark_word
from omnigraphdb.language.schema.fault import KEYWORDS, Fault
from omnigraphdb.values import replace

SCALARS = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
TYPE_FORMS = (*SCALARS, "enum", "Vector")

_OTHER_NAMES = {
    "text": "String", "str": "String", "varchar": "String", "char": "String", "uuid": "String",
    "int": "I64", "integer": "I64", "long": "I64", "bigint": "I64", "int64": "I64", "int32": "I32",
    "uint": "U64", "uint32": "U32", "uint64": "U64", "float": "F64", "double": "F64",
    "number": "F64", "decimal": "F64", "float32": "F32", "float64": "F64", "boolean": "Bool",
    "timestamp": "DateTime", "time": "DateTime", "bytes": "Blob", "binary": "Blob",
}  # fmt: skip

_USAGE = {
    "key": "@key(property, …)",
    "unique": "@unique(property, …)",
    "index": "@index(property, …)",
    "range": "@range(property, low..high), @range(property, low..) or @range(property, ..high)",
    "check": '@check(property, "pattern")',
    "card": "@card(low..high) or @card(low..)",
}

_CLOSING = {"LBRACE": "}", "LPAR": ")", "LSQB": "]"}

_PUNCTUATION = {
    "LBRACE": "'{'", "RBRACE": "'}'", "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'",
    "COLON": "':'", "COMMA": "','", "EQUALS": "'='", "ARROW": "'->'", "DOTDOT": "'..'",
}  # fmt: skip


Rule = Callable[[Fault], Diagnostic | None]


def explain(fault: Fault) -> Diagnostic:
    """Turn a fault into the finding that people read; the first rule that knows the fault speaks."""
    expected = describe_expected(fault)
    diagnostic = first_finding(_RULES, fault)
    diagnostic = diagnostic or fault.refuse(f"expected {expected}, found {_render_fault(fault)}")
    return replace(diagnostic, expected=expected, fix=diagnostic.fix or _usage(fault))


def describe_expected(fault: Fault) -> str:
    """Describe the text that the grammar would have allowed, in words."""
    accepts = set(fault.accepts)
    words: list[str] = []
    for names, word in _list_phrases(fault):
        if names <= accepts:
            words.append(word)
            accepts -= names
    words += [sign for name, sign in _PUNCTUATION.items() if name in accepts]
    words += ["'?'"] if "MARK" in accepts and not words else []
    words += ["the end of the text"] if "$END" in accepts else []
    return join_alternatives(words) or "nothing more"


def _list_phrases(fault: Fault) -> list[tuple[frozenset[str], str]]:
    """List the sets of terminals that one phrase stands for, the larger ones first."""
    name = "a property" if fault.in_body else "a name that starts in lower case"
    table = [
        ("INTERFACE NODE EDGE", "a declaration (interface, node or edge)"),
        ("SCALAR ENUM VECTOR LSQB", "a type"),
        ("SCALAR", "a scalar type"),
        ("STRING FLOAT INT BOOL IDENT", "a value or a name"),
        ("STRING FLOAT INT BOOL", "a value"),
        ("STRING FLOAT INT IDENT", "a property name"),
        ("IDENT", name),
        ("GROUP RANGE CHECK", "a constraint"),
        ("AT", "an annotation"),
        ("CARD", "'@card'"),
        ("LABEL", "the name of an annotation"),
        ("TYPE_NAME", "a type name"),
        ("IMPLEMENTS", "'implements'"),
        ("ENUM_VALUE", "an enum value (letters, digits, '_' and '-')"),
        ("STRING", "a quoted text"),
        ("SIGNED", "a number"),
        ("INT", "a whole number"),
    ]
    return [(frozenset(terminals.split()), words) for terminals, words in table]


def _render_fault(fault: Fault) -> str:
    if fault.word.startswith('"'):
        return f"the text {shorten(fault.word)}".replace('\\"', '"')
    if fault.word.isprintable():
        return f"'{shorten(fault.word)}'"
    return f"the character U+{ord(fault.word[0]):04X}"


def _usage(fault: Fault) -> str | None:
    mark = fault.progress.mark
    if mark is None or fault.in_body:
        return None
    return f"write {_USAGE[mark_word(mark)]}"


# ---- the rules, most telling first


def _explain_end_of_text(fault: Fault) -> Diagnostic | None:
    if not fault.at_end:
        return None
    if fault.bracket is None:
        after = f" after '{shorten(fault.last)}'" if fault.last else ""
        return fault.refuse(f"the text ends{after}; expected {describe_expected(fault)}")
    closing = _CLOSING[fault.bracket.type]
    return fault.refuse(
        f"the text ends inside {fault.owner}: the '{fault.bracket}' of line "
        f"{fault.bracket.line} is not closed",
        label=f"expected {describe_expected(fault)}",
        fix=f"add '{closing}'",
    )


def _explain_unclosed(fault: Fault) -> Diagnostic | None:
    if fault.word.startswith('"') and _never_closed(fault):
        return fault.refuse("this text is not closed", fix="add the closing '\"'")
    if fault.word == "/*":
        return fault.refuse("this block comment is not closed", fix="add '*/'")
    if fault.word == "*/":
        return fault.refuse("this '*/' closes nothing: block comments do not nest", fix="remove it")
    return None


def _never_closed(fault: Fault) -> bool:
    return re.compile(r'"(?:[^"\\]++|\\[\s\S])*+"').match(fault.text, fault.span.start) is None


def _explain_hash_comment(fault: Fault) -> Diagnostic | None:
    if fault.word != "#":
        return None
    return fault.refuse("'#' does not start a comment; '//' does", fix="write // instead of #")


def _explain_separator(fault: Fault) -> Diagnostic | None:
    if fault.word not in (",", ";") or not fault.accepts & {"RBRACE", "NODE"}:
        return None
    return fault.refuse(
        f"'{fault.word}' cannot stand here: white space alone separates members",
        fix=f"remove the '{fault.word}'",
    )


def _explain_missing_brace(fault: Fault) -> Diagnostic | None:
    keyword = fault.swallowed
    if keyword is None:
        return None
    return fault.refuse(
        f"{fault.owner} is not closed before '{keyword} {shorten(fault.word)}'",
        fix=f"add '}}' before '{keyword}'",
    )


def _explain_type_name(fault: Fault) -> Diagnostic | None:
    if fault.accepts != {"TYPE_NAME"} or not re.match(r"[a-z_]", fault.word):
        return None
    upper = fault.word.lstrip("_")[:1].upper() + fault.word.lstrip("_")[1:]
    return fault.refuse(
        f"a type name starts with an upper-case letter, '{shorten(fault.word)}' does not",
        fix=f"write {shorten(upper)}" if upper else None,
    )


def _explain_property_name(fault: Fault) -> Diagnostic | None:
    if not fault.in_body or "IDENT" not in fault.accepts or not re.match(r"[A-Z]", fault.word):
        return None
    return fault.refuse(
        f"a property name starts with a lower-case letter or '_', '{shorten(fault.word)}' does not",
        fix=f"write {shorten(fault.word[0].lower() + fault.word[1:])}",
    )


def _explain_unknown_type(fault: Fault) -> Diagnostic | None:
    if not {"SCALAR", "VECTOR"} <= fault.accepts or not re.match(r"\w", fault.word):
        return None
    type_name = _OTHER_NAMES.get(fault.word.lower())
    near = [type_name] if type_name else did_you_mean(fault.word[:40], TYPE_FORMS)
    return fault.refuse(
        f"'{shorten(fault.word)}' is not a type{suggestion(near)}",
        label=f"types are {', '.join(SCALARS)}, enum(…), Vector(n) and lists such as [String]",
        fix=f"write {near[0]}" if near else None,
    )


def _explain_top_level(fault: Fault) -> Diagnostic | None:
    if not {"INTERFACE", "NODE", "EDGE"} <= fault.accepts or not re.match(r"\w", fault.word):
        return None
    joined = re.match(r"(interface|node|edge)(\w+)", fault.word)
    if joined:
        fix = f"write {joined[1]} {shorten(joined[2])}"
        return fault.refuse(f"'{shorten(fault.word)}' is not a declaration", fix=fix)
    near = did_you_mean(fault.word[:40], KEYWORDS)
    return fault.refuse(
        f"'{shorten(fault.word)}' is not a declaration{suggestion(near)}",
        label="a schema consists of interface, node and edge declarations",
    )


def _explain_card(fault: Fault) -> Diagnostic | None:
    if fault.word != "card" or fault.last is None or fault.last.type != "AT":
        return None
    return fault.refuse(
        "'@card' stands directly after the target type of an edge, once",
        fix="write edge Name: From -> To @card(low..high), then other annotations",
    )


def _explain_interface_constraint(fault: Fault) -> Diagnostic | None:
    if fault.keyword != "interface" or fault.word != "@":
        return None
    if fault.in_body:
        return fault.refuse(
            f"{fault.owner} takes no body constraints",
            fix="mark the property (`code: String @key`) or constrain the node types",
        )
    return fault.refuse(f"{fault.owner} takes no annotations", fix="annotate its properties")


def _explain_annotation_after_implements(fault: Fault) -> Diagnostic | None:
    if fault.word != "@" or fault.keyword != "node" or fault.accepts != {"LBRACE", "COMMA"}:
        return None
    return fault.refuse(
        f"the annotations of {fault.owner} stand before 'implements'",
        fix="move the annotation to directly after the type name",
    )


def _explain_list_item(fault: Fault) -> Diagnostic | None:
    if fault.bracket is None or fault.bracket.type != "LSQB":
        return None
    if fault.word == "?":
        return fault.refuse(
            "'?' applies to the whole list, never to its items",
            fix=f"write [{fault.last}]?",
        )
    if fault.accepts == {"SCALAR"} and (fault.word in ("[", "enum", "Vector")):
        return fault.refuse(
            "the items of a list are plain scalars: no list, enum or vector inside",
            label=f"one of {', '.join(name for name in SCALARS if name != 'Blob')}",
        )
    return None


def _explain_quoted_enum(fault: Fault) -> Diagnostic | None:
    if "ENUM_VALUE" not in fault.accepts or not fault.word.startswith('"'):
        return None
    bare = fault.word.strip('"')
    fix = f"write {bare}" if re.fullmatch(r"[A-Za-z0-9_-]+", bare) else None
    return fault.refuse("enum values are written without quotes", fix=fix)


def _explain_odd_number(fault: Fault) -> Diagnostic | None:
    if re.fullmatch(r"[0-9]+[eE][0-9]*", fault.word):
        return fault.refuse(f"'{fault.word}' has an exponent; write the number in full")
    if re.match(r"-[0-9]", fault.word) and "INT" in fault.accepts:
        return fault.refuse(
            f"'{shorten(fault.word)}' has a sign; only the bounds of @range take one"
        )
    return None


def _explain_missing_colon(fault: Fault) -> Diagnostic | None:
    if fault.accepts != {"COLON"} or fault.last is None or not re.match(r"[\w\[]", fault.word):
        return None
    return fault.refuse(
        f"expected ':' after '{shorten(fault.last)}', found {_render_fault(fault)}",
        fix=f"write {shorten(fault.last)}: {shorten(fault.word)}",
    )


_RULES: tuple[Rule, ...] = (
    _explain_end_of_text,
    _explain_unclosed,
    _explain_hash_comment,
    _explain_separator,
    _explain_missing_brace,
    _explain_card,
    _explain_type_name,
    _explain_property_name,
    _explain_unknown_type,
    _explain_top_level,
    _explain_interface_constraint,
    _explain_annotation_after_implements,
    _explain_list_item,
    _explain_quoted_enum,
    _explain_odd_number,
    _explain_missing_colon,
)
