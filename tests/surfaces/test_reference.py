"""The reference pages say what the code says: nothing is missing, nothing is made up."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb import errors
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.catalog.diff.codes import Code, Family
from omnigraphdb.catalog.diff.steps import StepKind
from omnigraphdb.engine.session.settings import DEPRECATED, Settings
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.parse import parse_findings
from omnigraphdb.language.query.tokens import END, FUNCTIONS, HEADER, KEYWORDS, STRAY, scan
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.records import ObjectType
from omnigraphdb.storage import layout
from tests.support.query_grammar import Sentences, read_grammar
from tests.support.reference import (
    REFERENCE,
    advise,
    commands,
    error_classes,
    limit_reasons,
    public_members,
    renewed,
    result_classes,
)

SOURCE = Path(omnigraphdb.__file__).parent
PAGES = sorted(REFERENCE.glob("*.md"))
RENEW = "run `python -m tests.support.reference` and read what changed"

CODE = re.compile(r"\b(?:S\d{3}|Q\d{3}|T\d{1,2}|[PJW]\d{2}|L\d{3}|OG-[A-Z]{2}-\d{3})\b")
VARIABLE = re.compile(r"\bOMNIGRAPH_[A-Z_]*[A-Z]\b")


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tables_made_from_the_code_are_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert renewed(text) == text, RENEW


def test_every_error_class_is_listed_once() -> None:
    listed = re.findall(r"^\| `(\w+)` \| `\w+` \| \d+ \|", page("errors"), re.M)
    groups = [one for one in errors.OmniError.__subclasses__() if one in vars(errors).values()]
    known = [one.__name__ for group in groups for one in error_classes(group)]
    assert sorted(listed) == sorted(known)


@pytest.mark.parametrize("error", error_classes(errors.OmniError), ids=lambda one: one.__name__)
def test_every_error_class_says_what_to_do(error: type[errors.OmniError]) -> None:
    assert error is errors.OmniError or advise(error)


def test_every_code_the_code_raises_is_explained() -> None:
    used = set(re.findall(rf'"({CODE.pattern})"', sources()))
    assert used - set(CODE.findall(page("errors"))) == set()


def test_every_code_that_is_explained_exists() -> None:
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", page("errors"), re.M)
    explained = {code for row in rows for code in CODE.findall(row)}
    assert explained
    assert explained - set(CODE.findall(sources())) == set()


def test_every_setting_is_described_with_its_variable() -> None:
    text = page("settings")
    for name in (field.name for field in fields(Settings)):
        assert f"| `{name}` | `OMNIGRAPH_{name.upper()}` |" in text


def test_every_variable_that_is_read_is_described() -> None:
    text = sources()
    embedding = (SOURCE / "embedding" / "config.py").read_text(encoding="utf-8")
    pieces = re.findall(r'\{PREFIX\}([A-Z_]+)|_number\(\w+, "([A-Z_]+)"', embedding)
    read = set(VARIABLE.findall(text)) | {f"OMNIGRAPH_EMBED_{a or b}" for a, b in pieces}
    described = set(VARIABLE.findall(page("settings")))
    assert read - described == set()
    settings = {*(field.name for field in fields(Settings)), *DEPRECATED}
    assert described - read - {f"OMNIGRAPH_{name.upper()}" for name in settings} == set()


def test_every_limit_is_listed_with_its_reason() -> None:
    names = [name for name, value in vars(omnigraphdb.limits).items() if name.isupper() and value]
    assert set(limit_reasons()) == set(names)
    for name in names:
        assert f"| `{name}` |" in page("settings")


def test_every_command_is_described() -> None:
    text = page("cli")
    assert commands()
    for words in commands():
        assert f"### omnigraphdb {words}\n" in text


@pytest.mark.parametrize("holder", [Graph, Snapshot], ids=lambda holder: holder.__name__)
def test_every_public_member_of_a_handle_is_described(holder: type) -> None:
    section = re.search(rf"^## {holder.__name__}\n(.*?)(?=^## )", page("python"), re.M | re.S)
    assert section is not None
    missing = [n for n in public_members(holder) if not re.search(rf"`{n}[(`]", section[1])]
    assert missing == []


def test_every_exported_name_is_in_the_reference() -> None:
    text = page("python") + page("errors") + page("schema")
    exported = [name for name in omnigraphdb.__all__ if name != "errors"]
    assert [name for name in exported if not re.search(rf"\b{name}\b", text)] == []


def test_every_value_that_calls_return_is_listed() -> None:
    text = page("python")
    assert [one for one in result_classes() if f"| `{one.__name__}` |" not in text] == []


def test_every_migration_step_and_family_is_described() -> None:
    text = page("schema") + page("errors")
    assert [kind for kind in StepKind if f"`{kind}`" not in text] == []
    used = {Family(code.split("-")[1]) for code in Code}
    assert [family for family in used if f"OG-{family}-" not in text] == []


def test_every_kind_of_manifest_row_and_every_name_at_the_root_is_described() -> None:
    text = page("disk")
    assert [kind for kind in ObjectType if f"`{kind}`" not in text] == []
    names = (*layout.SCHEMA_FILES, layout.MANIFEST, layout.RECOVERY, layout.LOCKS, layout.AUDIT)
    assert [name for name in names if name not in text] == []


def test_every_annotation_of_the_schema_language_is_described() -> None:
    from omnigraphdb.catalog.resolve.annotations import _ALLOWED

    assert [name for name in (*_ALLOWED, "card") if f"`@{name}" not in page("schema")] == []


def test_every_word_of_the_query_language_is_described() -> None:
    text = page("queries")
    assert HEADER in text
    assert [word for word in (*KEYWORDS, *FUNCTIONS) if word not in text] == []


def test_every_page_is_linked_from_another() -> None:
    root = REFERENCE.parents[1]
    pages = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    links = {
        (one.parent / target).resolve()
        for one in pages
        if one.exists()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", one.read_text(encoding="utf-8"))
    }
    parents = {link for link in links if link.is_dir()}
    lost = [p for p in pages[2:] if p not in links and p.parent not in parents]
    assert [str(p.relative_to(root)) for p in lost] == []


def test_error_groups_say_what_to_do() -> None:
    for group in errors.OmniError.__subclasses__():
        if group.__module__ == errors.__name__:
            assert inspect.getdoc(group)
            assert f": `{group.__name__}`\n" in page("errors")


def shown_grammar() -> dict[str, list[str]]:
    found = re.search(
        r"made from the code: query grammar -->\n```\n(.*?)\n```", page("queries"), re.S
    )
    assert found is not None
    return read_grammar(found[1])


def test_every_word_and_sign_of_the_shown_grammar_is_one_token() -> None:
    parts = {part for rule in shown_grammar().values() for part in rule}
    literals = {part.strip('"') for part in parts if part.startswith('"')} - {"--", "$"}
    assert literals > {"match", "union", "unnest", "best", "between", "coalesce", "@mcp", "<="}
    for literal in literals:
        kinds = [token.type for token in scan(literal)]
        assert kinds[0] != STRAY
        assert kinds[1:] == [END]


def test_sentences_of_the_shown_grammar_are_queries() -> None:
    sentences = Sentences(shown_grammar(), 1)
    read = 0
    for _ in range(60):
        text = " ".join(sentences.make("query"))
        found = parse_findings(Source(text))[1]
        # The page says these two in words.
        assert {one.code for one in found} <= {QueryCode.ANNOTATION, QueryCode.NEAREST_DIRECTION}, (
            text
        )
        read += not found
    assert read > 30


def test_a_sentence_of_another_grammar_is_none() -> None:
    changed = shown_grammar() | {"single": ['"match"', "items", "final"], "statement": ["single"]}
    assert parse_findings(Source(" ".join(Sentences(changed, 1).make("query"))))[1]
