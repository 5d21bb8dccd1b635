"""The codes of query text that cannot be read: a code never changes its meaning."""

from enum import StrEnum


class QueryCode(StrEnum):
    """Reasons why a text is not a query file; Q016 and Q019 refused syntax that is part of the language now."""

    FILE = "Q000"
    UNEXPECTED = "Q001"
    PARAMETER_LIST = "Q002"
    STILL_OPEN = "Q003"
    OUTSIDE = "Q004"
    VARIABLE_CASE = "Q005"
    NAME_CASE = "Q006"
    TYPE_CASE = "Q007"
    KEYWORD_CASE = "Q008"
    PARAMETER_TYPE = "Q009"
    ANNOTATION = "Q010"
    OPEN_STRING = "Q011"
    ESCAPE = "Q012"
    OPEN_COMMENT = "Q013"
    CHARACTER = "Q014"
    NUMBER = "Q015"
    HEADER = "Q017"
    NEAREST_DIRECTION = "Q018"
    WHERE = "Q020"
    EMPTY_BLOCK = "Q021"
    CLAUSE_ORDER = "Q022"
    BODY = "Q023"
    FUNCTION = "Q024"
    HOPS = "Q025"
    NESTING = "Q026"
    TOO_LARGE = "Q027"


MEANINGS: dict[QueryCode, str] = {
    QueryCode.FILE: "the file does not parse (lint reports the whole file as this one finding)",
    QueryCode.UNEXPECTED: "unexpected text",
    QueryCode.PARAMETER_LIST: "a query name without its parameter list",
    QueryCode.STILL_OPEN: "the text, or the query, ends inside something still open",
    QueryCode.OUTSIDE: "text outside of a query declaration, often another language",
    QueryCode.VARIABLE_CASE: "a variable that starts with an upper-case letter",
    QueryCode.NAME_CASE: "an edge word, property, alias or query name that starts upper-case",
    QueryCode.TYPE_CASE: "a type name that starts lower-case",
    QueryCode.KEYWORD_CASE: "a keyword in upper case",
    QueryCode.PARAMETER_TYPE: "an unknown parameter type",
    QueryCode.ANNOTATION: "an unknown or repeated annotation of a query",
    QueryCode.OPEN_STRING: "a string that is not closed",
    QueryCode.ESCAPE: "an unknown escape in a string",
    QueryCode.OPEN_COMMENT: "a comment that is not closed",
    QueryCode.CHARACTER: "a character or sign that is not part of the language",
    QueryCode.NUMBER: "a malformed number, or one out of range",
    QueryCode.HEADER: "a header that is unknown or not at the beginning",
    QueryCode.NEAREST_DIRECTION: "`nearest(…)` with a direction",
    QueryCode.WHERE: "a `where` that is missing or without a condition",
    QueryCode.EMPTY_BLOCK: "a block that must hold something is empty",
    QueryCode.CLAUSE_ORDER: "match, return, having, order, offset and limit missing, repeated or misplaced",
    QueryCode.BODY: "a query body that is empty, or both reads and writes",
    QueryCode.FUNCTION: "an unknown function, or a wrong argument list",
    QueryCode.HOPS: "hop bounds that are not `{min,max}`",
    QueryCode.NESTING: "blocks nested too deeply",
    QueryCode.TOO_LARGE: "the text is larger than the limit",
}
