"""What a node type takes over from the interfaces it implements."""

from collections.abc import Mapping, Sequence

from omnigraph.catalog.resolve.draft import Draft, Drafts, Owner, type_shown
from omnigraph.errors import shorten
from omnigraph.language.diagnostics import Findings
from omnigraph.language.schema import tree

Interfaces = Mapping[str, Drafts]
"""The properties of each interface, by its name."""


def resolve_interfaces(
    findings: Findings, owner: Owner, written: Sequence[tree.Name], interfaces: Interfaces
) -> tuple[str, ...]:
    """The interfaces of a node type, sorted, each once; unknown ones are reported."""
    for name in written:
        if name.text not in interfaces:
            findings.report(
                "S030",
                name.span,
                f"{owner.shown} implements '{shorten(name.text)}', and there is no such interface",
                type_name=owner.name.text,
                near=(name.text, interfaces),
            )
    return tuple(sorted({name.text for name in written} & interfaces.keys()))


def effective(
    findings: Findings, owner: Owner, own: Drafts, implements: Sequence[str], interfaces: Interfaces
) -> Drafts:
    """The own and the inherited properties of a node type, in name order."""
    contributed: dict[str, dict[str, Draft]] = {}
    for interface in implements:
        for name, draft in interfaces[interface].items():
            contributed.setdefault(name, {})[interface] = draft
    found = dict(own)
    for name, contributors in contributed.items():
        if name in own:
            _same_type(findings, owner, own[name], contributors)
        else:
            found[name] = _merge_contributions(findings, owner, contributors)
    return {name: found[name] for name in sorted(found)}


def _same_type(
    findings: Findings, owner: Owner, own: Draft, contributors: Mapping[str, Draft]
) -> None:
    """A property that the node declares itself has exactly the type each interface asks for."""
    for interface, asked in contributors.items():
        if own.type is None or asked.type is None or own.type == asked.type:
            continue
        findings.report(
            "S031",
            own.written.type.span,
            f"'{owner.of(own.name)}' is {type_shown(own.type)}, interface '{shorten(interface)}' asks for "
            f"{type_shown(asked.type)}; both must be the same, with nullability and enum values",
            type_name=owner.name.text,
            property_name=own.name,
            earlier=asked.written.type.span,
            fix=f"write {type_shown(asked.type)}, or remove the property to inherit it",
        )


def _merge_contributions(
    findings: Findings, owner: Owner, contributors: Mapping[str, Draft]
) -> Draft:
    """The one property that several interfaces contribute; they must agree on all it says."""
    first_name, first = next(iter(contributors.items()))
    for interface, other in contributors.items():
        differs = _difference(first, other)
        if differs is None:
            continue
        findings.report(
            "S032",
            owner.name.span,
            f"{owner.shown} inherits '{shorten(first.name)}' from '{shorten(first_name)}' and "
            f"'{shorten(interface)}', whose {differs} differ",
            type_name=owner.name.text,
            property_name=first.name,
            fix="make the interfaces agree, or declare the property in the node",
            later=first.type == other.type,
        )
    return first.inherited(contributors)


def _difference(first: Draft, other: Draft) -> str | None:
    if first.type is None or other.type is None:
        return None
    if first.type != other.type:
        return f"types ({type_shown(first.type)} and {type_shown(other.type)})"
    return None if first.marks.agrees_with(other.marks) else "annotations"
