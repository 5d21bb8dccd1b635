"""Declarations read back from the JSON of a stored schema; anything odd is refused with its place."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from typing import Any

from omnigraphdb.catalog.ir.encode import canonical
from omnigraphdb.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Columns,
    EdgeType,
    Embed,
    Interface,
    Level,
    NodeType,
    Property,
    Range,
)
from omnigraphdb.catalog.names import StoredTable
from omnigraphdb.catalog.resolve.annotations import annotation_order
from omnigraphdb.catalog.resolve.constraints import normal_groups, range_order, with_key
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import SchemaContractError, shorten
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass

StoredTables = dict[TableKey, StoredTable]


def make_contract_error(where: str, why: str) -> SchemaContractError:
    """Build the error of a stored schema file that cannot be used."""
    return SchemaContractError(
        f"the stored schema cannot be used: {where} {why}; nothing was changed",
        details={"schema_contract": {"where": where, "reason": why}},
        hint="restore the three schema files of the graph together from a backup",
    )


def load_object(text: str, where: str) -> "JsonObject":
    """Parse the text of a stored file, which is one JSON object without doubled keys."""
    try:
        document = json.loads(text, object_pairs_hook=_unique)
        # Values without a canonical form are refused: NaN, half a pair.
        canonical(document).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise make_contract_error(where, f"is not JSON ({shorten(str(error))})") from error
    return JsonObject(where, _as_dict(document, where))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an object has a doubled key")
    return entries


def _as_dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise make_contract_error(where, "is not an object")
    return value


@dataclass(slots=True)
class JsonObject:
    """A JSON object under inspection: each key is asked for by type, and no key may be left over."""

    where: str
    values: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)

    def _find(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """Return the value of a key, None when it is absent."""
        self.asked.add(key)
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise make_contract_error(self.where, f"has a '{key}' that is not {what}")
        return value

    def _demand(self, key: str, kind: type, what: str) -> Any:
        value = self._find(key, kind, what)
        if value is None:
            raise make_contract_error(self.where, f"lacks '{key}'")
        return value

    def text(self, key: str) -> str:
        """Read a text that must be present."""
        return str(self._demand(key, str, "a text"))

    def maybe_text(self, key: str) -> str | None:
        """Read a text that may be absent."""
        text: str | None = self._find(key, str, "a text")
        return text

    def whole(self, key: str) -> int:
        """Read a whole number that must be present."""
        return int(self._demand(key, int, "a whole number"))

    def maybe_whole(self, key: str) -> int | None:
        """Read a whole number that may be absent."""
        number: int | None = self._find(key, int, "a whole number")
        return number

    def maybe_number(self, key: str) -> int | float | None:
        """Read a number that may be absent."""
        number: int | float | None = self._find(key, (int, float), "a number")
        return number

    def flag(self, key: str) -> bool:
        """Read a truth value that is absent when false."""
        return bool(self._find(key, bool, "true"))

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of texts, sorted and each once; absent when empty."""
        texts = self._find(key, list, "a list") or []
        if not all(isinstance(text, str) for text in texts):
            raise make_contract_error(self.where, f"has a '{key}' that is not a list of texts")
        if any(text >= other for text, other in pairwise(texts)):
            raise make_contract_error(self.where, f"has '{key}' that are not sorted, each once")
        return tuple(texts)

    def object(self, key: str) -> "JsonObject | None":
        """Read an object that may be absent."""
        values = self._find(key, dict, "an object")
        return None if values is None else JsonObject(f"{self.where}, '{key}'", values)

    def required_object(self, key: str) -> "JsonObject":
        """Read an object that must be present."""
        return JsonObject(f"{self.where}, '{key}'", self._demand(key, dict, "an object"))

    def objects(self, key: str) -> list["JsonObject"]:
        """Read a list of objects; absent when empty."""
        items = self._find(key, list, "a list") or []
        return [
            JsonObject(f"{self.where}, '{key}' {index}", _as_dict(item, f"{self.where}, '{key}'"))
            for index, item in enumerate(items)
        ]

    def named(self, key: str, noun: str) -> Iterator["JsonObject"]:
        """Read a list of objects sorted by name, each name once."""
        before = ""
        for entry in self.objects(key):
            name = entry.text("name")
            if name <= before:
                raise make_contract_error(
                    self.where, f"has '{key}' not sorted by name, each once, at '{name}'"
                )
            before = name
            yield JsonObject(f"{self.where}, {noun} '{name}'", entry.values)

    def done(self) -> None:
        """Refuse unknown keys: their meaning is unknown."""
        extra = sorted(self.values.keys() - self.asked)
        if extra:
            raise make_contract_error(self.where, f"has the unknown key '{shorten(extra[0])}'")


def read_catalog(document: JsonObject, stored_tables: StoredTables) -> Catalog:
    """Read all declarations with their identities; the tables on disk are added to `stored_tables`."""
    return Catalog(
        interfaces={
            interface.name: interface
            for interface in map(_interface, document.named("interfaces", "interface"))
        },
        nodes={
            node.name: node
            for node in (_node(entry, stored_tables) for entry in document.named("nodes", "node"))
        },
        edges={
            edge.name: edge
            for edge in (_edge(entry, stored_tables) for entry in document.named("edges", "edge"))
        },
    )


def _interface(entry: JsonObject) -> Interface:
    rules = _read_constraints(entry)
    interface = Interface(
        name=entry.text("name"),
        properties=_properties(entry),
        key=rules.key,
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, rules.key),
        type_id=entry.whole("type_id"),
    )
    entry.done()
    return interface


def _node(entry: JsonObject, stored_tables: StoredTables) -> NodeType:
    rules = _read_constraints(entry)
    node = NodeType(
        name=entry.text("name"),
        properties=_properties(entry),
        implements=entry.texts("implements"),
        key=rules.key,
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, rules.key),
        ranges=tuple(sorted(rules.ranges, key=range_order)),
        checks=tuple(sorted(rules.checks, key=lambda c: (c.property, c.pattern))),
        description=entry.maybe_text("description"),
        instruction=entry.maybe_text("instruction"),
        annotations=_annotations(entry),
        type_id=entry.whole("type_id"),
        incarnation_id=entry.whole("incarnation_id"),
    )
    stored_tables[node.table_key] = _read_stored_table(entry)
    entry.done()
    return node


def _edge(entry: JsonObject, stored_tables: StoredTables) -> EdgeType:
    rules = _read_constraints(entry)
    card = entry.required_object("card")
    edge = EdgeType(
        name=entry.text("name"),
        source=entry.text("from"),
        target=entry.text("to"),
        properties=_properties(entry),
        cardinality=Cardinality(low=card.whole("low"), high=card.maybe_whole("high")),
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, None),
        description=entry.maybe_text("description"),
        instruction=entry.maybe_text("instruction"),
        annotations=_annotations(entry),
        type_id=entry.whole("type_id"),
        incarnation_id=entry.whole("incarnation_id"),
    )
    if rules.key or rules.ranges or rules.checks:
        raise make_contract_error(entry.where, "has a constraint that only nodes have")
    stored_tables[edge.table_key] = _read_stored_table(entry)
    card.done()
    entry.done()
    return edge


def _read_stored_table(entry: JsonObject) -> StoredTable:
    return StoredTable(entry.text("path"), entry.whole("incarnation"))


def _properties(owner: JsonObject) -> dict[str, Property]:
    return {
        property_.name: property_
        for property_ in map(_property, owner.named("properties", "property"))
    }


def _property(entry: JsonObject) -> Property:
    embed = entry.object("embed")
    satisfies = entry.texts("satisfies")
    inherited = entry.flag("inherited")
    if inherited and not satisfies:
        raise make_contract_error(entry.where, "is inherited from no interface")
    property_ = Property(
        name=entry.text("name"),
        type=_type(entry.required_object("type")),
        description=entry.maybe_text("description"),
        embed=_embed(embed) if embed else None,
        annotations=_annotations(entry),
        inherited_from=satisfies if inherited else (),
        property_id=entry.whole("property_id"),
    )
    entry.done()
    return property_


def _type(entry: JsonObject) -> PropertyType:
    scalar = entry.text("scalar")
    if scalar not in {str(member) for member in Scalar}:
        raise make_contract_error(entry.where, f"has the unknown scalar '{shorten(scalar)}'")
    type_ = PropertyType(
        scalar=Scalar(scalar),
        nullable=entry.flag("nullable"),
        is_list=entry.flag("list"),
        enum_values=entry.texts("values"),
        dimension=entry.maybe_whole("dimension"),
    )
    forms = [type_.is_list, type_.is_enum, type_.is_vector]
    if sum(forms) > 1 or (type_.is_list and type_.is_blob):
        raise make_contract_error(entry.where, "is not a type of the language")
    if type_.is_vector and (scalar != Scalar.F32 or not 1 <= (type_.dimension or 0) < 2**31):
        raise make_contract_error(entry.where, "is not a vector of the language")
    if type_.is_enum and scalar != Scalar.STRING:
        raise make_contract_error(entry.where, "is not an enum of the language")
    entry.done()
    return type_


def _embed(entry: JsonObject) -> Embed:
    embed = Embed(source=entry.text("source"), model=entry.maybe_text("model"))
    entry.done()
    return embed


def _annotations(owner: JsonObject) -> tuple[Annotation, ...]:
    return tuple(sorted(map(_annotation, owner.objects("annotations")), key=annotation_order))


def _annotation(entry: JsonObject) -> Annotation:
    keywords = entry.object("keywords")
    words = {key: keywords.text(key) for key in keywords.values} if keywords else {}
    annotation = Annotation(
        name=entry.text("name"),
        value=entry.maybe_text("value"),
        keywords=tuple(sorted(words.items())),
    )
    entry.done()
    return annotation


@dataclass(slots=True)
class _Constraints:
    key: Columns | None = None
    unique: list[Columns] = field(default_factory=list)
    indices: list[Columns] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def _read_constraints(owner: JsonObject) -> _Constraints:
    rules = _Constraints()
    for entry in owner.objects("constraints"):
        _read_constraint(entry, rules)
        entry.done()
    return rules


def _read_constraint(entry: JsonObject, rules: _Constraints) -> None:
    kind = entry.text("kind")
    match kind:
        case "key":
            if rules.key is not None:
                raise make_contract_error(entry.where, "is a second key")
            rules.key = _group(entry)
        case "unique":
            rules.unique.append(_group(entry))
        case "index":
            rules.indices.append(_group(entry))
        case "range":
            low, high = entry.maybe_number("low"), entry.maybe_number("high")
            rules.ranges.append(Range(property=entry.text("property"), low=low, high=high))
        case "check":
            pattern = entry.text("pattern")
            rules.checks.append(Check(property=entry.text("property"), pattern=pattern))
        case _:
            raise make_contract_error(entry.where, f"is of the unknown kind '{shorten(kind)}'")


def _group(entry: JsonObject) -> Columns:
    columns, level = entry.texts("columns"), entry.text("level")
    if not columns or level not in {str(member) for member in Level}:
        raise make_contract_error(entry.where, "is not a group of columns")
    return Columns(columns, Level(level))
