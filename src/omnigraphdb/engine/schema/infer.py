"""A schema proposed from data: types, keys, enums and edges according to a sample, with the evidence for each choice."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import UserInputError
from omnigraphdb.pipeline.input.samples import Sample
from omnigraphdb.values import dataclass

ENUM_VALUES_MAX = 12
ENUM_ROWS_MIN = 20
VECTOR_DIMENSION_MIN = 8
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DATE = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_FLOAT_DIGITS = 15
"""Every number of so many digits has a float of its own."""
_KEY_NAMES = ("id", "key", "code", "uuid", "slug", "uri", "url", "email", "name")
_FROM, _TO = ("from", "src", "source"), ("to", "dst", "target")
_ENDS = {"from", "to", "src", "dst"}
_RESERVED = {
    "id",
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The proposal for one property or type, its evidence, and the risk that rows beyond the sample refute it."""

    type_name: str
    property_name: str | None
    chosen: str
    evidence: str
    risk: str | None = None

    @property
    def place(self) -> str:
        """`Person`, or `Person.age`."""
        return (
            self.type_name
            if self.property_name is None
            else f"{self.type_name}.{self.property_name}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProposal:
    """A schema for review: its text, the evidence, and the columns that a load must rename first."""

    source: str
    choices: tuple[Choice, ...]
    renames: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows_read: Mapping[str, int] = field(default_factory=dict)

    @property
    def risks(self) -> tuple[Choice, ...]:
        """The choices that rows beyond the sample could refute."""
        return tuple(choice for choice in self.choices if choice.risk is not None)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form."""
        return {
            "schema_source": self.source,
            "choices": [
                {
                    "place": choice.place,
                    "chosen": choice.chosen,
                    "evidence": choice.evidence,
                    "risk": choice.risk,
                }
                for choice in self.choices
            ],
            "renames": {name: dict(new_names) for name, new_names in self.renames.items()},
            "rows_read": dict(self.rows_read),
        }

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One column of a sample and the type that was chosen for it."""

    name: str
    values: pa.Array
    type: str
    evidence: str
    is_unique: bool
    nullable: bool
    risk: str | None
    loss: str | None = None
    """The values that storing them as the type would change, or the reason why a load refuses them."""

    @property
    def can_be_key(self) -> bool:
        return (
            self.is_unique
            and not self.nullable
            and self.type in ("String", "I64", "I32", "U32", "U64")
        )


@dataclass(frozen=True, kw_only=True)
class _Type:
    """One type of the proposal: a node with a key, or an edge with two ends."""

    name: str
    columns: tuple[_Column, ...]
    key: _Column | None
    ends: tuple[tuple[str, str], tuple[str, str]] | None = None
    """For an edge (column, node type) of both ends."""

    def holds_ids(self, column: _Column) -> bool:
        """Whether a column is the `id` of rows: the `id` of a node is its key, the `id` of an edge must be unique."""
        return column.name == "id" and (
            column is self.key or (self.ends is not None and column.can_be_key)
        )

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """The columns whose names no property may have, each with a free name."""
        used_names = {column.name for column in self.columns}
        new_names: dict[str, str] = {}
        for column in self.columns:
            if column.name in _RESERVED and not self.holds_ids(column):
                preferred = f"{self.name.lower()}_{column.name.strip('_')}"
                new_names[column.name] = _find_free_name(preferred, used_names)
                used_names.add(new_names[column.name])
        return new_names

    def list_properties(self) -> Iterator[tuple[str, _Column]]:
        """List the columns that become properties, each with its name in the schema."""
        ends = {name for name, _ in self.ends or ()}
        for column in self.columns:
            if column.name not in ends and not self.holds_ids(column):
                yield self.renamed.get(column.name, column.name), column


def _find_free_name(preferred: str, used_names: Set[str]) -> str:
    return next(
        name for i in count(1) if (name := f"{preferred}{i if i > 1 else ''}") not in used_names
    )


def infer_schema(
    samples: Mapping[str, Sample], ids: Mapping[str, pa.Array] | None = None
) -> SchemaProposal:
    """Propose a schema that loads these samples; edges may also end at nodes of a graph, whose `ids` are passed by type."""
    if not samples:
        raise UserInputError("there is nothing to infer a schema from; name a file or a frame")
    read_types = {name: _read_type(name, sample) for name, sample in samples.items()}
    existing_types = {
        name: _describe_existing(name, type_ids) for name, type_ids in (ids or {}).items()
    }
    candidates = existing_types | {
        name: type_ for name, type_ in read_types.items() if not _names_ends(type_)
    }
    # A table of edges may have a column of different values too; other edges cannot end at edges.
    node_types = existing_types | {
        type_.name: type_
        for type_ in read_types.values()
        if _find_ends(type_, candidates).ends is None
    }
    types = [_find_ends(type_, node_types) for type_ in read_types.values()]
    nodes = [type_ for type_ in types if type_.ends is None]
    edges = [type_ for type_ in types if type_.ends is not None]
    if not nodes and not existing_types:
        raise UserInputError(
            "every frame looks like edges, and none has the nodes they end at; nothing was proposed"
        )
    return SchemaProposal(
        source="\n".join([*map(_write_node, nodes), *map(_write_edge, edges)]),
        choices=tuple(choice for type_ in types for choice in _list_choices(type_, node_types)),
        renames={type_.name: new_names for type_ in types if (new_names := _list_renames(type_))},
        rows_read={name: sample.rows.num_rows for name, sample in samples.items()},
    )


def extend_schema(source: str, proposal: SchemaProposal) -> SchemaProposal:
    """Put a proposal after the schema of a graph."""
    return replace(proposal, source=f"{source.rstrip()}\n{proposal.source}")


def _describe_existing(name: str, ids: pa.Array) -> _Type:
    """Describe a type of the graph, whose nodes are named by their ids."""
    key = _Column(
        name="id",
        values=ids,
        type="String",
        evidence="a type of the graph",
        is_unique=True,
        nullable=False,
        risk=None,
    )
    return _Type(name=name, columns=(), key=key)


# ---- columns


def _read_type(name: str, sample: Sample) -> _Type:
    if not _NAME.fullmatch(name):
        raise UserInputError(
            f"'{name}' is not a name of a type; nothing was proposed",
            hint="name frames like Person",
        )
    columns = tuple(_read_column(name, field, sample) for field in sample.rows.schema.names)
    candidates = [column for column in columns if column.can_be_key]
    return _Type(name=name, columns=columns, key=_choose_key(name, candidates))


def _read_column(type_name: str, name: str, sample: Sample) -> _Column:
    if not _NAME.fullmatch(name):
        raise UserInputError(
            f"the column '{name}' of {type_name} is not a name of a property; nothing was proposed",
            hint="rename it to letters, digits and _",
        )
    values = sample.rows[name].combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string_view(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    if sample.texts_only:
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    kind, evidence = _choose_kind(values, sample)
    nullable = values.null_count > 0 or not len(values)
    risk = None
    if not sample.is_whole:
        # A row beyond the sample may have no value; a key may not be NULL and is judged apart.
        risk = None if nullable else "a later row may have no value"
    return _Column(
        name=name,
        values=values,
        type=kind,
        evidence=f"{evidence}; {values.null_count} of {len(values)} NULL",
        is_unique=_is_unique(values),
        nullable=nullable,
        risk=risk,
        loss=_spell_kinds(sample.kinds.get(name)) or _find_loss(values),
    )


def _spell_kinds(kinds: Sequence[str] | None) -> str | None:
    """Describe the problem of a column whose JSON values are of several kinds; None without one."""
    if not kinds:
        return None
    kind_names = ", ".join(kinds)
    return (
        f"JSON has {kind_names} here, and a load takes only texts; turn the column into texts first"
    )


def _find_loss(values: pa.Array) -> str | None:
    """Describe the loss of storing values as the selected type; None without loss."""
    data_type = values.type
    if pa.types.is_timestamp(data_type) and data_type.unit in ("us", "ns"):
        truncated = values.cast(pa.timestamp("ms", data_type.tz), safe=False).cast(data_type)
        return _count_changed(values, truncated, "a DateTime has milliseconds")
    if pa.types.is_decimal(data_type):
        # The cast back takes as many digits as the widest decimal has.
        floats = values.cast(pa.float64())
        is_exact = pc.equal(floats.cast(pa.string()), _trim_zeros(values.cast(pa.string())))
        changed = len(values) - values.null_count - (pc.sum(is_exact).as_py() or 0)
        return _spell_changed(changed, len(values), "an F64 has some 15 digits")
    refused_kinds = (pa.types.is_struct, pa.types.is_map, pa.types.is_time, pa.types.is_duration)
    items = getattr(data_type, "value_type", data_type)
    if any(test(data_type) for test in refused_kinds) or pa.types.is_nested(items):
        return f"a load refuses {data_type}; turn the column into texts first"
    return None


def _trim_zeros(texts: pa.Array) -> pa.Array:
    """Render numbers as the shortest texts: without zeros at the end of a fraction."""
    fraction = pc.match_substring(texts, ".")
    short = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    return pc.if_else(fraction, short, texts)


def _count_changed(values: pa.Array, converted: pa.Array, reason: str) -> str | None:
    return _spell_changed(pc.sum(pc.not_equal(values, converted)).as_py() or 0, len(values), reason)


def _spell_changed(changed: int, total: int, reason: str) -> str | None:
    return f"{reason}, which {changed} of {total} values exceed" if changed else None


def _is_unique(values: pa.Array) -> bool:
    if not len(values) or pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return False
    present = values.drop_null()
    return len(present) > 0 and pc.count_distinct(present).as_py() == len(present)


def _choose_kind(values: pa.Array, sample: Sample) -> tuple[str, str]:
    """Choose the type of a column, and give the evidence for it."""
    data_type = values.type
    if pa.types.is_string(data_type):
        return _choose_text(values.drop_null(), sample)
    if pa.types.is_fixed_size_list(data_type):
        return (
            f"Vector({data_type.list_size})",
            f"every value is a list of {data_type.list_size} numbers",
        )
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return _choose_list(values, sample)
    if pa.types.is_struct(data_type) or pa.types.is_map(data_type):
        return "String", "a nested value; load it as JSON text"
    return _name_type(data_type), f"the column is {data_type}"


def _name_type(data_type: pa.DataType) -> str:
    exact = {
        pa.bool_(): "Bool",
        pa.uint64(): "U64",
        pa.uint32(): "U32",
        pa.float32(): "F32",
        pa.float16(): "F32",
        pa.int32(): "I32",
        pa.int16(): "I32",
        pa.int8(): "I32",
        pa.uint8(): "I32",
        pa.uint16(): "I32",
    }
    if data_type in exact:
        return exact[data_type]
    if pa.types.is_date32(data_type):
        return "Date"
    if pa.types.is_timestamp(data_type) or pa.types.is_date64(data_type):
        return "DateTime"
    if pa.types.is_integer(data_type):
        return "I64"
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "F64"
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return "Blob"
    return "String"


def _choose_text(texts: pa.Array, sample: Sample) -> tuple[str, str]:
    if not len(texts):
        return "String", "there is no value to judge by"
    if _all_match(texts, _DATE):
        return "Date", f"all {len(texts)} texts are days like {texts[0]}"
    if _all_match(texts, _MOMENT):
        return "DateTime", f"all {len(texts)} texts are moments like {texts[0]}"
    if sample.texts_only:
        if set(pc.unique(texts).to_pylist()) <= {"true", "false"}:
            return "Bool", "every text is true or false"
        if _all_match(texts, _NUMBER):
            return _choose_number(texts)
    return _choose_enum(texts, sample)


def _choose_number(texts: pa.Array) -> tuple[str, str]:
    """Choose the type that keeps every digit of numbers; choose texts where no number type does."""
    if _all_match(texts, _INTEGER):
        for kind, data_type in (("I64", pa.int64()), ("U64", pa.uint64())):
            with suppress(pa.ArrowInvalid):
                texts.cast(data_type)
                return kind, f"all {len(texts)} texts are whole numbers like {texts[0]}"
        return "String", f"whole numbers like {texts[0]}, some of which no number type holds"
    if not _keeps_digits(texts):
        return "String", f"numbers like {texts[0]}, some of which have more digits than an F64"
    return "F64", f"all {len(texts)} texts are numbers like {texts[0]}"


def _keeps_digits(texts: pa.Array) -> bool:
    """Whether floats keep the numbers: they have few digits, or the floats are spelled like them."""
    floats = texts.cast(pa.float64())
    digits = pc.replace_substring_regex(texts, "[eE].*$", "")
    digits = pc.ascii_ltrim(pc.replace_substring_regex(digits, "[^0-9]", ""), "0")
    is_short = pc.less_equal(pc.binary_length(digits), _FLOAT_DIGITS)
    is_exact = pc.equal(floats.cast(pa.string()), _trim_zeros(texts))
    return bool(pc.all(pc.and_(pc.is_finite(floats), pc.or_(is_short, is_exact))).as_py())


def _choose_enum(texts: pa.Array, sample: Sample) -> tuple[str, str]:
    distinct = pc.unique(texts).to_pylist()
    has_few_texts = len(distinct) <= min(ENUM_VALUES_MAX, len(texts) // 4)
    are_words = all(_ENUM_VALUE.fullmatch(text) for text in distinct) if has_few_texts else False
    if sample.is_whole and are_words and len(texts) >= ENUM_ROWS_MIN:
        return (
            f"enum({', '.join(sorted(distinct))})",
            f"{len(distinct)} different words in {len(texts)} rows",
        )
    return "String", f"{len(distinct)} different texts"


def _choose_list(values: pa.Array, sample: Sample) -> tuple[str, str]:
    items = values.flatten()
    lengths = set(pc.unique(pc.list_value_length(values.drop_null())).to_pylist())
    is_vector = (
        pa.types.is_floating(items.type)
        and len(lengths) == 1
        and min(lengths) >= VECTOR_DIMENSION_MIN
        and sample.is_whole
        and not items.null_count
    )
    if is_vector:
        return f"Vector({min(lengths)})", f"every value is a list of {min(lengths)} numbers"
    if pa.types.is_nested(items.type):
        return "String", "a nested list; load it as JSON text"
    kind, evidence = _choose_kind(items, Sample(rows=sample.rows, is_whole=False))
    kind = "String" if kind == "Blob" else kind
    return f"[{kind}]", f"lists of {kind}: {evidence}"


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


# ---- keys and ends


def _choose_key(name: str, candidates: Sequence[_Column]) -> _Column | None:
    """Choose the column that identifies a row: first by its name, else the first unique column of texts."""
    by_name = {column.name.lower(): column for column in reversed(candidates)}
    named_key = next(
        (by_name[key_name] for key_name in _key_names(name) if key_name in by_name), None
    )
    return named_key or next((column for column in candidates if column.type == "String"), None)


def _key_names(name: str) -> tuple[str, ...]:
    """List the column names that suggest a key of a type, the best first."""
    type_name = name.lower()
    return (
        f"{type_name}_id",
        f"{type_name}id",
        f"{type_name}_key",
        f"{type_name}_code",
        *_KEY_NAMES,
    )


def _is_named_key(type_name: str, column_name: str) -> bool:
    return column_name.lower() in _key_names(type_name)


def _find_ends(type_: _Type, types: Mapping[str, _Type]) -> _Type:
    """Make an edge of a type if two of its columns hold keys of nodes, and its names or its lack of a key suggest it."""
    references = [
        (column, target)
        for column in type_.columns
        if (target := _find_target(column, type_, types))
    ]
    named_references = [
        next(((c, t) for c, t in references if c.name.lower() in names), None)
        for names in (_FROM, _TO)
    ]
    pair = [reference for reference in named_references if reference is not None]
    if len(pair) < 2:
        may_be_edge = type_.key is None or not _is_named_key(type_.name, type_.key.name)
        pair = references if len(references) == 2 and may_be_edge else []
    if len(pair) != 2:
        return type_
    ends = ((pair[0][0].name, pair[0][1]), (pair[1][0].name, pair[1][1]))
    return _Type(name=type_.name, columns=type_.columns, key=None, ends=ends)


def _names_ends(type_: _Type) -> bool:
    """Whether columns are named like both ends of an edge; other edges cannot end at such a type."""
    names = {column.name.lower() for column in type_.columns}
    return not names.isdisjoint(_FROM) and not names.isdisjoint(_TO)


def _find_target(column: _Column, own_type: _Type, types: Mapping[str, _Type]) -> str | None:
    """Find the node type whose keys a column holds; of several types, the type that the column is named after."""
    if column.nullable or column.type not in ("String", "I64", "I32", "U32", "U64"):
        return None
    targets = [
        other.name
        for other in types.values()
        if other is not own_type and other.key is not None and _holds_keys(column, other.key)
    ]
    column_name = column.name.lower()
    return next(
        (target for target in targets if target.lower() in column_name),
        targets[0] if targets else None,
    )


def _holds_keys(column: _Column, key: _Column) -> bool:
    texts, keys = column.values.cast(pa.string()), key.values.cast(pa.string())
    return bool(pc.all(pc.is_in(texts, keys)).as_py()) and len(texts) > 0


# ---- the text


def _write_node(type_: _Type) -> str:
    lines = [
        f"  {name}: {_spell_type(column, is_key=column is type_.key)}"
        for name, column in type_.list_properties()
    ]
    return "\n".join([f"node {type_.name} {{", *lines, "}"])


def _write_edge(type_: _Type) -> str:
    assert type_.ends is not None
    (_, from_type), (_, to_type) = type_.ends
    lines = [
        f"  {name}: {_spell_type(column, is_key=False)}" for name, column in type_.list_properties()
    ]
    head = f"edge {type_.name}: {from_type} -> {to_type}"
    return "\n".join([f"{head} {{", *lines, "}"]) if lines else head


def _spell_type(column: _Column, *, is_key: bool) -> str:
    if is_key:
        return f"{column.type} @key"
    return f"{column.type}{'?' if column.nullable or column.risk else ''}"


def _list_choices(type_: _Type, types: Mapping[str, _Type]) -> Iterator[Choice]:
    key_risk = "a later row may repeat a key"
    if type_.ends is not None:
        (source, from_type), (target, to_type) = type_.ends
        yield Choice(
            type_name=type_.name,
            property_name=None,
            chosen=f"edge {from_type} -> {to_type}",
            evidence=f"every '{source}' is a key of {from_type}, every '{target}' a key of {to_type}",
        )
    for column in type_.columns:
        is_key = column is type_.key
        yield Choice(
            type_name=type_.name,
            property_name=column.name,
            chosen=_spell_choice(type_, column),
            evidence=column.evidence + ("; every value is different" if is_key else ""),
            risk=column.loss or (key_risk if is_key and column.risk else None),
        )
        target_name = (
            _find_target(column, type_, types) if type_.ends is None and not is_key else None
        )
        if target_name is not None:
            yield Choice(
                type_name=type_.name,
                property_name=column.name,
                chosen="a property",
                evidence=f"every value is a key of {target_name}: an edge {type_.name} -> {target_name} may say it better",
            )


def _spell_choice(type_: _Type, column: _Column) -> str:
    if type_.holds_ids(column):
        return "the id"
    type_text = _spell_type(column, is_key=column is type_.key)
    renamed = type_.renamed.get(column.name)
    if renamed is None:
        return type_text
    return f"{type_text} as {renamed}, since no property may be called '{column.name}'"


def _list_renames(type_: _Type) -> dict[str, str]:
    """List the columns that a load accepts as ends, or as properties, only under another name."""
    ends = dict(zip((name for name, _ in type_.ends or ()), ("from", "to"), strict=False))
    return {name: end for name, end in ends.items() if name.lower() not in _ENDS} | dict(
        type_.renamed
    )
