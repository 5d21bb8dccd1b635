"""The annotations of a schema: where each is allowed, and its value."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from omnigraphdb.catalog.model import Annotation, Embed
from omnigraphdb.errors import shorten
from omnigraphdb.language.diagnostics import Findings
from omnigraphdb.language.schema import tree
from omnigraphdb.language.source import NOWHERE, Span
from omnigraphdb.values import dataclass


class AnnotationTarget(StrEnum):
    """The position of an annotation."""

    NODE_HEAD = "node type"
    EDGE_HEAD = "edge type"
    NODE_PROPERTY = "node property"
    EDGE_PROPERTY = "edge property"
    INTERFACE_PROPERTY = "interface property"


_HEADS = frozenset({AnnotationTarget.NODE_HEAD, AnnotationTarget.EDGE_HEAD})
_PROPERTIES = frozenset(
    {
        AnnotationTarget.NODE_PROPERTY,
        AnnotationTarget.EDGE_PROPERTY,
        AnnotationTarget.INTERFACE_PROPERTY,
    }
)
_OF_NODES = frozenset({AnnotationTarget.NODE_PROPERTY, AnnotationTarget.INTERFACE_PROPERTY})

_ALLOWED: dict[str, frozenset[AnnotationTarget]] = {
    "key": _OF_NODES,
    "unique": _PROPERTIES,
    "index": _PROPERTIES,
    "embed": _OF_NODES,
    "rename_from": _HEADS | _PROPERTIES,
    "description": _HEADS | _PROPERTIES,
    "instruction": _HEADS,
    "range": frozenset(),
    "check": frozenset(),
}
"""The annotations that mean something; every other name is kept as it is, anywhere."""

_INSTEAD = {
    "key": "mark a property of the node, or write @key(property, …) in its body",
    "unique": "mark a property, or write @unique(property, …) in the body",
    "index": "mark a property, or write @index(property, …) in the body",
    "embed": "only a Vector property of a node type or interface takes it",
    "instruction": "only node and edge types take it; a property takes @description",
    "range": "write @range(property, low..high) in the body of the node",
    "check": 'write @check(property, "pattern") in the body of the node',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedMark:
    """An `@embed` and the position of its source, for later findings."""

    embed: Embed
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The meaning of the annotations of one property or type; `flags` are key, unique and index."""

    flags: frozenset[str] = frozenset()
    flag_span: Span = NOWHERE
    embed: EmbedMark | None = None
    description: str | None = None
    instruction: str | None = None
    rename_from: str | None = None
    annotations: tuple[Annotation, ...] = ()

    def agrees_with(self, other: "Marks") -> bool:
        """Whether both say the same about a property; rename hints do not count."""
        return (
            self.flags == other.flags
            and self.description == other.description
            and self.annotations == other.annotations
            and (self.embed and self.embed.embed) == (other.embed and other.embed.embed)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An annotated property or type: the findings to report to, and its name in messages."""

    findings: Findings
    target: AnnotationTarget
    shown: str
    owner: str
    property_name: str | None = None

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        fix: str,
        earlier: Span | None = None,
        later: bool = False,
    ) -> None:
        """Add an error about this property or type."""
        self.findings.report(
            code,
            span,
            message,
            type_name=self.owner,
            property_name=self.property_name,
            fix=fix,
            earlier=earlier,
            later=later,
        )


def read_marks(subject: Subject, annotations: Sequence[tree.Annotation]) -> Marks:
    """Read the annotations of one property or type, reporting the wrong ones."""
    allowed = _list_allowed(subject, annotations)
    once = {annotation.name: annotation for annotation in _first_of_each(subject, allowed)}
    flags = [once[name] for name in ("key", "unique", "index") if name in once]
    return Marks(
        flags=frozenset(flag.name for flag in flags),
        flag_span=flags[0].span if flags else NOWHERE,
        embed=_embed(subject, once.get("embed")),
        description=_words(subject, once.get("description")),
        instruction=_words(subject, once.get("instruction")),
        rename_from=_rename_from(subject, once.get("rename_from")),
        annotations=_opaque(subject, annotations),
    )


def _list_allowed(
    subject: Subject, annotations: Iterable[tree.Annotation]
) -> Iterator[tree.Annotation]:
    """List the annotations that are allowed here; report the others."""
    for annotation in annotations:
        targets = _ALLOWED.get(annotation.name)
        if targets is None:
            continue
        if subject.target in targets:
            yield annotation
        else:
            subject.report(
                "S040",
                annotation.span,
                f"'@{annotation.name}' cannot stand on {subject.shown}, {_article(subject.target)}",
                fix=_INSTEAD[annotation.name],
            )


def _article(target: AnnotationTarget) -> str:
    return f"an {target}" if target.startswith(("e", "i")) else f"a {target}"


def _first_of_each(
    subject: Subject, annotations: Iterable[tree.Annotation]
) -> Iterator[tree.Annotation]:
    """Yield each annotation once; a second one of a name is reported."""
    first: dict[str, tree.Annotation] = {}
    for annotation in annotations:
        before = first.setdefault(annotation.name, annotation)
        if before is annotation:
            yield annotation
            continue
        hint = annotation.name == "rename_from"
        subject.report(
            "S045" if hint else "S042",
            annotation.span,
            f"'@{annotation.name}' is repeated on {subject.shown}",
            fix="keep one of them",
            earlier=before.span,
            later=hint,
        )


def _words(subject: Subject, annotation: tree.Annotation | None) -> str | None:
    """Return the text of a description or instruction."""
    if annotation is None:
        return None
    usage = f'write @{annotation.name}("…")'
    if annotation.value is None or not annotation.value.text.strip():
        state = "has no value" if annotation.value is None else "has a blank value"
        message = f"'@{annotation.name}' on {subject.shown} {state}"
        subject.report("S041", annotation.span, message, fix=usage)
        return None
    if annotation.keywords:
        message = f"'@{annotation.name}' on {subject.shown} takes one text and no keywords"
        subject.report("S057", annotation.span, message, fix=usage, later=True)
    return annotation.value.text


def _rename_from(subject: Subject, annotation: tree.Annotation | None) -> str | None:
    if annotation is None:
        return None
    value = annotation.value
    names_one = value is not None and value.form not in ("int", "float") and value.text.strip()
    if not names_one or annotation.extra or annotation.keywords:
        subject.report(
            "S045",
            annotation.span,
            f"'@rename_from' on {subject.shown} must give exactly one former name",
            fix='write @rename_from("old_name")',
            later=True,
        )
        return None
    return value.text if value else None


def _embed(subject: Subject, annotation: tree.Annotation | None) -> EmbedMark | None:
    if annotation is None:
        return None
    model = _embed_model(subject, annotation)
    value = annotation.value
    if value is None or value.form in ("int", "float") or not value.text.strip():
        subject.report(
            "S061",
            annotation.span,
            f"'@embed' on {subject.shown} does not name the property it embeds",
            fix='write @embed("source", model="…")',
        )
        return None
    return EmbedMark(embed=Embed(source=value.text, model=model), span=value.span)


def _embed_model(subject: Subject, annotation: tree.Annotation) -> str | None:
    keywords = _keywords(subject, annotation)
    for name, _ in annotation.keywords:
        if name.text != "model":
            subject.report(
                "S044",
                name.span,
                f"'@embed' on {subject.shown} has no keyword '{shorten(name.text)}'; "
                "the only one is 'model'",
                fix="remove it",
            )
    model = keywords.get("model")
    if model is not None and not model.strip():
        message = f"the 'model' of '@embed' on {subject.shown} is blank"
        subject.report("S041", annotation.span, message, fix="name a model")
    return model


def _keywords(subject: Subject, annotation: tree.Annotation) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in annotation.keywords:
        if name.text in values:
            message = (
                f"the keyword '{shorten(name.text)}' of '@{shorten(annotation.name)}' "
                f"on {subject.shown} is repeated"
            )
            subject.report("S042", name.span, message, fix="keep one", later=True)
        values.setdefault(name.text, value.text)
    return values


def _opaque(subject: Subject, annotations: Iterable[tree.Annotation]) -> tuple[Annotation, ...]:
    """Return the annotations without a meaning here, sorted, each once."""
    distinct = {
        Annotation(
            name=annotation.name,
            value=annotation.value.text if annotation.value else None,
            keywords=tuple(sorted(_keywords(subject, annotation).items())),
        )
        for annotation in annotations
        if annotation.name not in _ALLOWED
    }
    return tuple(sorted(distinct, key=annotation_order))


def annotation_order(annotation: Annotation) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    """Make the sort key of opaque annotations: name, no value before any, value, keywords."""
    has_value = "" if annotation.value is None else "value"
    return (annotation.name, has_value, annotation.value or "", annotation.keywords)
