"""The steps inside one type that stays: its properties and its constraints."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from omnigraphdb.catalog.diff.codes import Code
from omnigraphdb.catalog.diff.constraints import Rule, RuleChanges, RuleKind, compare_rules
from omnigraphdb.catalog.diff.matching import DeclaredType, Matched
from omnigraphdb.catalog.diff.steps import DropMode, Step, StepKind, Subject, TypeKind
from omnigraphdb.catalog.model import Annotation, Embed, Level, Property
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.values import dataclass

_CLASSIFIED = frozenset(
    {
        *("name", "type", "description", "embed", "annotations"),
        *("rename_from", "inherited_from", "property_id"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A type before and after, with its property names paired.

    `asked_before` and `asked_after` name the interfaces that ask for a property, among the interfaces that the
    type implements both before and after.
    """

    about: Subject
    old: DeclaredType
    new: DeclaredType
    matched: Matched
    mode: DropMode
    asked_before: Mapping[str, frozenset[str]]
    asked_after: Mapping[str, frozenset[str]]


def plan_properties(owner: Owner) -> Iterator[Step]:
    """Walk the present properties by name, then the dropped ones, then the constraints of the body."""
    rules = compare_rules(owner.old, owner.new, owner.matched.becomes)
    for name in sorted(owner.new.properties):
        if name in owner.matched.continues:
            yield from _plan_kept_property(owner, name, rules)
        else:
            yield _plan_added_property(owner, name)
            yield from _plan_rules(owner, rules.of_property(name))
    for name in owner.matched.dropped:
        yield _plan_dropped_property(owner, owner.old.properties[name])
        yield from _plan_rules(owner, rules.of_property(name))
    yield from _plan_rules(owner, rules.of_body())


def _plan_added_property(owner: Owner, name: str) -> Step:
    """Plan the step for a property that continues no earlier one."""
    subject, type_ = owner.about, owner.new.properties[name].type
    if name in owner.matched.refused:
        return subject.refuse(Code.UNUSABLE_HINT, owner.matched.refused[name], name)
    if not type_.nullable:
        why = f"is new and required ({type_}), and there is no value to give to what is stored"
        return subject.refuse(Code.REQUIRED_PROPERTY, why, name)
    return subject.step(StepKind.ADD_PROPERTY, name)


def _plan_dropped_property(owner: Owner, old: Property) -> Step:
    """Plan the drop of a property with its risk; an interface stores nothing, so that its drop has none."""
    if owner.about.kind is TypeKind.INTERFACE:
        return owner.about.step(StepKind.DROP_PROPERTY, old.name, mode=owner.mode)
    code = Code.DROP_VECTOR if old.type.is_vector else Code.DROP_PROPERTY
    return owner.about.step(
        StepKind.DROP_PROPERTY, old.name, mode=owner.mode, code=code, tier=owner.mode.tier
    )


def _plan_kept_property(owner: Owner, name: str, rules: RuleChanges) -> Iterator[Step]:
    """Yield the steps of one property that stays, perhaps under another name."""
    subject, new = owner.about, owner.new.properties[name]
    old = owner.old.properties[owner.matched.continues[name]]
    if old.name != name:
        yield subject.step(StepKind.RENAME_PROPERTY, name, from_=old.name, to=name)
    yield from _plan_origin(owner, old, new)
    yield from _plan_type(subject, name, old.type, new.type)
    yield from _plan_embed(owner, old, new)
    yield from _plan_rules(owner, rules.of_property(name))
    if old.description != new.description:
        yield subject.step(StepKind.UPDATE_PROPERTY_METADATA, name)
    yield from plan_annotations(subject, old.annotations, new.annotations, name)
    yield from refuse_unclassified(subject, old, new, _CLASSIFIED, name)


def _plan_origin(owner: Owner, old: Property, new: Property) -> Iterator[Step]:
    """Refuse that a property is declared elsewhere or answers to other interfaces than before."""
    before = owner.asked_before.get(old.name, frozenset())
    after = owner.asked_after.get(new.name, frozenset())
    if before != after:
        why = f"was asked for by {_names(before)} and would be by {_names(after)}"
        yield owner.about.refuse(Code.IMPLEMENTS_CHANGED, why, new.name)
    elif before and bool(old.inherited_from) != bool(new.inherited_from):
        origins = ("inherited", "declared by the type itself")
        was, would_be = origins if old.inherited_from else reversed(origins)
        why = f"was {was} and would be {would_be}; it answers to {_names(before)}"
        yield owner.about.refuse(Code.IMPLEMENTS_CHANGED, why, new.name)


def _names(interfaces: frozenset[str]) -> str:
    if not interfaces:
        return "no interface"
    return " and ".join(f"interface '{name}'" for name in sorted(interfaces))


def _plan_type(subject: Subject, name: str, old: PropertyType, new: PropertyType) -> Iterator[Step]:
    lost_values = set(old.enum_values) - set(new.enum_values)
    added_values = tuple(sorted(set(new.enum_values) - set(old.enum_values)))
    same_otherwise = replace(old, enum_values=()) == replace(new, enum_values=())
    if same_otherwise and not lost_values and (old.is_enum or not added_values):
        if added_values:
            yield subject.step(StepKind.EXTEND_ENUM, name, added_values=added_values)
        return
    why = f"changes its type from {old} to {new}"
    if lost_values and new.is_enum:
        why += f" and loses {', '.join(repr(value) for value in sorted(lost_values))}"
    yield subject.refuse(Code.TYPE_CHANGE, why, name)


def _plan_embed(owner: Owner, old: Property, new: Property) -> Iterator[Step]:
    """Refuse another embedding binding; a new name for its source is the same binding."""
    before = old.embed
    if before is not None:
        source = owner.matched.becomes.get(before.source, before.source)
        before = replace(before, source=source)
    if before != new.embed:
        why = f"changes {_embed(before)} to {_embed(new.embed)}, but its vectors were made for the first"
        yield owner.about.refuse(Code.EMBED_CHANGED, why, new.name)


def _embed(embed: Embed | None) -> str:
    if embed is None:
        return "an unbound vector"
    model = "" if embed.model is None else f', model="{embed.model}"'
    return f'@embed("{embed.source}"{model})'


# ---- constraints


def _plan_rules(owner: Owner, changes: RuleChanges) -> Iterator[Step]:
    """Removed, moved and added constraints; of these only a new index can be done."""
    yield from (_plan_removed_rule(owner, rule) for rule in changes.removed)
    yield from (_plan_moved_rule(owner, rule) for rule in changes.moved)
    yield from (_plan_added_rule(owner, rule) for rule in changes.added)


def _plan_removed_rule(owner: Owner, rule: Rule) -> Step:
    dropped_columns = [name for name in rule.columns if name in owner.matched.dropped]
    cause = (
        f", because {' and '.join(repr(name) for name in dropped_columns)} is dropped"
        if dropped_columns
        else ""
    )
    return owner.about.refuse(
        Code.CONSTRAINT_REMOVED, f"loses {rule}{cause}", rule.column, constraint=str(rule)
    )


def _plan_moved_rule(owner: Owner, rule: Rule) -> Step:
    levels = ("the type body", "the property")
    was, would_be = levels if rule.level is Level.PROPERTY else reversed(levels)
    why = f"has {rule} at {was} and would have it at {would_be}"
    return owner.about.refuse(Code.CONSTRAINT_MOVED, why, rule.column, constraint=str(rule))


def _plan_added_rule(owner: Owner, rule: Rule) -> Step:
    if rule.kind is RuleKind.INDEX:
        return owner.about.step(StepKind.ADD_CONSTRAINT, rule.column, constraint=str(rule))
    why = f"gains {rule}, and what is stored was never checked against it"
    return owner.about.refuse(Code.NEW_CONSTRAINT, why, rule.column, constraint=str(rule))


# ---- parts that types and properties have in common


def plan_annotations(
    subject: Subject,
    old: tuple[Annotation, ...],
    new: tuple[Annotation, ...],
    property_name: str | None = None,
) -> Iterator[Step]:
    """Refuse a change of opaque annotations; their order and repetition mean nothing."""
    lost_annotations, added_annotations = set(old) - set(new), set(new) - set(old)
    if lost_annotations or added_annotations:
        parts = [f"loses {_render_annotations(lost_annotations)}"] if lost_annotations else []
        parts += [f"gains {_render_annotations(added_annotations)}"] if added_annotations else []
        yield subject.refuse(Code.ANNOTATION_CHANGED, " and ".join(parts), property_name)


def _render_annotations(annotations: set[Annotation]) -> str:
    return ", ".join(sorted(map(_annotation, annotations)))


def _annotation(annotation: Annotation) -> str:
    value = [] if annotation.value is None else [f'"{annotation.value}"']
    arguments = value + [f'{key}="{text}"' for key, text in annotation.keywords]
    return f"@{annotation.name}" + (f"({', '.join(arguments)})" if arguments else "")


def refuse_unclassified(
    subject: Subject,
    old: DeclaredType | Property,
    new: DeclaredType | Property,
    classified: frozenset[str],
    property_name: str | None = None,
) -> Iterator[Step]:
    """Refuse a difference in any part of the model that no other function here compares.

    A part that the model gains later is refused until the meaning of its change is decided.
    """
    unknown = sorted(field.name for field in fields(new) if field.name not in classified)
    differing = [name for name in unknown if getattr(old, name, None) != getattr(new, name)]
    if differing:
        why = f"changes {', '.join(differing)}, which has no known way to change"
        yield subject.refuse(Code.UNCLASSIFIED, why, property_name)
