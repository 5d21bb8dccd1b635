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
    """The error of a stored schema file that cannot be used."""
    return SchemaContractError(
        f"the stored schema cannot be used: {where} {why}; nothing was changed",
        details={"schema_contract": {"where": where, "reason": why}},
        hint="restore the three schema files of the graph together from a backup",
    )


def load_object(text: str, where: str) -> "JsonObject":
    """Parse the text of a stored file, which is one JSON object without doubled keys."""
    try:
        found = json.loads(text, object_pairs_hook=_unique)
        canonical(found).encode("utf-8")  # Refuses what has no canonical form: NaN, half a pair.
    except (ValueError, RecursionError) as error:
        raise make_contract_error(where, f"is not JSON ({shorten(str(error))})") from error
    return JsonObject(where, _as_dict(found, where))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a doubled key")
    return found


def _as_dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise make_contract_error(where, "is not an object")
    return value


@dataclass(slots=True)
class JsonObject:
    """A JSON object under inspection: each key is asked for by type, and none may be left over."""

    where: str
    values: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)

    def _find(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """The value of a key, None when it is absent."""
        self.asked.add(key)
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise make_contract_error(self.where, f"has a '{key}' that is not {what}")
        return value

    def _demand(self, key: str, kind: type, what: str) -> Any:
        found = self._find(key, kind, what)
        if found is None:
            raise make_contract_error(self.where, f"lacks '{key}'")
        return found

    def text(self, key: str) -> str:
        """A text that must be there."""
        return str(self._demand(key, str, "a text"))

    def maybe_text(self, key: str) -> str | None:
        """A text that may be absent."""
        found: str | None = self._find(key, str, "a text")
        return found

    def whole(self, key: str) -> int:
        """A whole number that must be there."""
        return int(self._demand(key, int, "a whole number"))

    def maybe_whole(self, key: str) -> int | None:
        """A whole number that may be absent."""
        found: int | None = self._find(key, int, "a whole number")
        return found

    def maybe_number(self, key: str) -> int | float | None:
        """A number that may be absent."""
        found: int | float | None = self._find(key, (int, float), "a number")
        return found

    def flag(self, key: str) -> bool:
        """A truth that is absent when false."""
        return bool(self._find(key, bool, "true"))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, sorted and each once; absent when empty."""
        found = self._find(key, list, "a list") or []
        if not all(isinstance(one, str) for one in found):
            raise make_contract_error(self.where, f"has a '{key}' that is not a list of texts")
        if any(one >= other for one, other in pairwise(found)):
            raise make_contract_error(self.where, f"has '{key}' that are not sorted, each once")
        return tuple(found)

    def object(self, key: str) -> "JsonObject | None":
        """An object that may be absent."""
        found = self._find(key, dict, "an object")
        return None if found is None else JsonObject(f"{self.where}, '{key}'", found)

    def required_object(self, key: str) -> "JsonObject":
        """An object that must be there."""
        return JsonObject(f"{self.where}, '{key}'", self._demand(key, dict, "an object"))

    def objects(self, key: str) -> list["JsonObject"]:
        """A list of objects; absent when empty."""
        found = self._find(key, list, "a list") or []
        return [
            JsonObject(f"{self.where}, '{key}' {index}", _as_dict(one, f"{self.where}, '{key}'"))
            for index, one in enumerate(found)
        ]

    def named(self, key: str, noun: str) -> Iterator["JsonObject"]:
        """A list of objects sorted by name, each name once."""
        before = ""
        for found in self.objects(key):
            name = found.text("name")
            if name <= before:
                raise make_contract_error(
                    self.where, f"has '{key}' not sorted by name, each once, at '{name}'"
                )
            before = name
            yield JsonObject(f"{self.where}, {noun} '{name}'", found.values)

    def done(self) -> None:
        """Refuse unknown keys: their meaning is unknown."""
        extra = sorted(self.values.keys() - self.asked)
        if extra:
            raise make_contract_error(self.where, f"has the unknown key '{shorten(extra[0])}'")


def read_catalog(document: JsonObject, stored_tables: StoredTables) -> Catalog:
    """Read all declarations with their identities; the tables on disk are added to `stored_tables`."""
    return Catalog(
        interfaces={
            found.name: found
            for found in map(_interface, document.named("interfaces", "interface"))
        },
        nodes={
            node.name: node
            for node in (_node(one, stored_tables) for one in document.named("nodes", "node"))
        },
        edges={
            edge.name: edge
            for edge in (_edge(one, stored_tables) for one in document.named("edges", "edge"))
        },
    )


def _interface(found: JsonObject) -> Interface:
    rules = _read_constraints(found)
    interface = Interface(
        name=found.text("name"),
        properties=_properties(found),
        key=rules.key,
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, rules.key),
        type_id=found.whole("type_id"),
    )
    found.done()
    return interface


def _node(found: JsonObject, stored_tables: StoredTables) -> NodeType:
    rules = _read_constraints(found)
    node = NodeType(
        name=found.text("name"),
        properties=_properties(found),
        implements=found.texts("implements"),
        key=rules.key,
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, rules.key),
        ranges=tuple(sorted(rules.ranges, key=range_order)),
        checks=tuple(sorted(rules.checks, key=lambda c: (c.property, c.pattern))),
        description=found.maybe_text("description"),
        instruction=found.maybe_text("instruction"),
        annotations=_annotations(found),
        type_id=found.whole("type_id"),
        incarnation_id=found.whole("incarnation_id"),
    )
    stored_tables[node.table_key] = _read_stored_table(found)
    found.done()
    return node


def _edge(found: JsonObject, stored_tables: StoredTables) -> EdgeType:
    rules = _read_constraints(found)
    card = found.required_object("card")
    edge = EdgeType(
        name=found.text("name"),
        source=found.text("from"),
        target=found.text("to"),
        properties=_properties(found),
        cardinality=Cardinality(low=card.whole("low"), high=card.maybe_whole("high")),
        unique=normal_groups(rules.unique),
        indices=with_key(rules.indices, None),
        description=found.maybe_text("description"),
        instruction=found.maybe_text("instruction"),
        annotations=_annotations(found),
        type_id=found.whole("type_id"),
        incarnation_id=found.whole("incarnation_id"),
    )
    if rules.key or rules.ranges or rules.checks:
        raise make_contract_error(found.where, "has a constraint that only nodes have")
    stored_tables[edge.table_key] = _read_stored_table(found)
    card.done()
    found.done()
    return edge


def _read_stored_table(found: JsonObject) -> StoredTable:
    return StoredTable(found.text("path"), found.whole("incarnation"))


def _properties(owner: JsonObject) -> dict[str, Property]:
    return {one.name: one for one in map(_property, owner.named("properties", "property"))}


def _property(found: JsonObject) -> Property:
    embed = found.object("embed")
    satisfies = found.texts("satisfies")
    inherited = found.flag("inherited")
    if inherited and not satisfies:
        raise make_contract_error(found.where, "is inherited from no interface")
    one = Property(
        name=found.text("name"),
        type=_type(found.required_object("type")),
        description=found.maybe_text("description"),
        embed=_embed(embed) if embed else None,
        annotations=_annotations(found),
        inherited_from=satisfies if inherited else (),
        property_id=found.whole("property_id"),
    )
    found.done()
    return one


def _type(found: JsonObject) -> PropertyType:
    scalar = found.text("scalar")
    if scalar not in {str(one) for one in Scalar}:
        raise make_contract_error(found.where, f"has the unknown scalar '{shorten(scalar)}'")
    type_ = PropertyType(
        scalar=Scalar(scalar),
        nullable=found.flag("nullable"),
        is_list=found.flag("list"),
        enum_values=found.texts("values"),
        dimension=found.maybe_whole("dimension"),
    )
    forms = [type_.is_list, type_.is_enum, type_.is_vector]
    if sum(forms) > 1 or (type_.is_list and type_.is_blob):
        raise make_contract_error(found.where, "is no type of the language")
    if type_.is_vector and (scalar != Scalar.F32 or not 1 <= (type_.dimension or 0) < 2**31):
        raise make_contract_error(found.where, "is no vector of the language")
    if type_.is_enum and scalar != Scalar.STRING:
        raise make_contract_error(found.where, "is no enum of the language")
    found.done()
    return type_


def _embed(found: JsonObject) -> Embed:
    embed = Embed(source=found.text("source"), model=found.maybe_text("model"))
    found.done()
    return embed


def _annotations(owner: JsonObject) -> tuple[Annotation, ...]:
    return tuple(sorted(map(_annotation, owner.objects("annotations")), key=annotation_order))


def _annotation(found: JsonObject) -> Annotation:
    keywords = found.object("keywords")
    words = {key: keywords.text(key) for key in keywords.values} if keywords else {}
    annotation = Annotation(
        name=found.text("name"),
        value=found.maybe_text("value"),
        keywords=tuple(sorted(words.items())),
    )
    found.done()
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
    for found in owner.objects("constraints"):
        _read_constraint(found, rules)
        found.done()
    return rules


def _read_constraint(found: JsonObject, rules: _Constraints) -> None:
    kind = found.text("kind")
    match kind:
        case "key":
            if rules.key is not None:
                raise make_contract_error(found.where, "is a second key")
            rules.key = _group(found)
        case "unique":
            rules.unique.append(_group(found))
        case "index":
            rules.indices.append(_group(found))
        case "range":
            low, high = found.maybe_number("low"), found.maybe_number("high")
            rules.ranges.append(Range(property=found.text("property"), low=low, high=high))
        case "check":
            pattern = found.text("pattern")
            rules.checks.append(Check(property=found.text("property"), pattern=pattern))
        case _:
            raise make_contract_error(found.where, f"is of the unknown kind '{shorten(kind)}'")


def _group(found: JsonObject) -> Columns:
    columns, level = found.texts("columns"), found.text("level")
    if not columns or level not in {str(one) for one in Level}:
        raise make_contract_error(found.where, "is no group of columns")
    return Columns(columns, Level(level))
