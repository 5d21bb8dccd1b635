"""Digests of column values: 64 bits per value, equal where `equality.same` finds values equal.

Tasks that never see the rows of the other version compare digests instead of values. A seed that is new for every
comparison keeps anyone from choosing two values with one digest; by chance two values share one once in 2^64.
"""

import hashlib
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.storage.blobs import is_blob

Digests: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_TEXT_BYTES: Final = 1 << 24
"""Bytes of values that are digested at once: each takes some ten bytes of memory meanwhile."""
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0x6A09E667F3BCC909)


def make_seed(text: str) -> int:
    """Make the seed of a comparison from its id."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def can_digest(kind: pa.DataType) -> bool:
    """Whether values of a type have digests: all but blobs, whose bytes lie in files of their own."""
    if is_blob(kind):
        return False
    if _is_list(kind):
        return can_digest(kind.value_type)
    if pa.types.is_struct(kind):
        return all(can_digest(field.type) for field in kind)
    return _is_number(kind) or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def digest_column(values: pa.Array, seed: int) -> Digests:
    """Digest every value of a column; NULL has a digest of its own."""
    with np.errstate(over="ignore"):
        return _digest(values, _mix(np.array([seed], np.uint64))[0])


def digest_nulls(rows: int, seed: int) -> Digests:
    """Return the digests of a column that does not exist: all NULL."""
    return digest_column(pa.nulls(rows), seed)


def _digest(values: pa.Array, seed: np.uint64) -> Digests:
    kind = values.type
    if pa.types.is_null(kind):
        digests = np.zeros(len(values), np.uint64)
    elif pa.types.is_fixed_size_list(kind):
        digests = _digest_vectors(values, seed)
    elif _is_list(kind):
        digests = _digest_lists(values, seed)
    elif pa.types.is_struct(kind):
        digests = _digest_structs(values, seed)
    elif _is_text(kind):
        digests = _digest_texts(values, seed)
    else:
        digests = _mix(_mix(_to_bits(values) ^ seed) + _STEP)
    if values.null_count:
        digests[values.is_null().to_numpy(zero_copy_only=False)] = _mix(seed ^ _NULL)
    return digests


def _mix(values: Any) -> Any:
    """Spread the bits of every number; different numbers stay different."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _finish(sums: Digests) -> Digests:
    digests: Digests = _mix(sums)
    return digests


def _spread(count: int, seed: np.uint64) -> Digests:
    """Give `count` numbers that look random and depend on the seed alone."""
    digests: Digests = _mix(np.arange(1, count + 1, dtype=np.uint64) * _STEP + seed)
    return digests


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or types.is_binary(kind) or types.is_large_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind))


# ---- one kind of values each


def _to_bits(values: pa.Array) -> Digests:
    """Convert numbers, dates and moments to 64 bits that are equal where the values are; NULL is any bits."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if pa.types.is_floating(kind):
        # Adding zero makes one zero of two; every NaN gets the same bits.
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        bits: Digests = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
        return bits
    integer_type = pa.uint64() if pa.types.is_uint64(kind) else pa.int64()
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    plain = pc.fill_null(values.cast(integer_type), pa.scalar(0, integer_type))
    integers: Digests = plain.to_numpy(zero_copy_only=False).view(np.uint64)
    return integers


def _digest_texts(values: pa.Array, seed: np.uint64) -> Digests:
    """Sum a number for every eight bytes, made of the bytes and their position."""
    wide = pc.fill_null(values.cast(pa.large_binary()), b"")
    _, offsets, text = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    parts = [np.empty(0, np.uint64)]
    start = 0
    while start < len(wide):
        end = int(np.searchsorted(ends, ends[start] + _TEXT_BYTES, side="right")) - 1
        end = min(max(end, start + 1), len(wide))
        parts.append(_sum_words(text, ends[start : end + 1], seed))
        start = end
    digests: Digests = np.concatenate(parts)
    return digests


def _sum_words(text: Any, ends: Any, seed: np.uint64) -> Digests:
    lengths = np.diff(ends)
    raw = np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]]
    padded = np.concatenate([raw, np.zeros(8, np.uint8)])
    # A word begins at every byte, so that each text can be read from its own start.
    words = np.ndarray((len(raw) + 1,), np.dtype("<u8"), padded, strides=(1,))
    counts = -(-lengths // 8)
    firsts = np.cumsum(counts) - counts
    positions = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(firsts, counts)
    text_words = words[np.repeat(ends[:-1] - ends[0], counts) + 8 * positions]
    _clear_rest(text_words, firsts, lengths, counts)
    text_words = _mix(text_words ^ _mix(positions.astype(np.uint64) * _STEP + seed))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(text_words)])
    total = sums[firsts + counts] - sums[firsts]
    digests: Digests = _mix(total + _mix(lengths.astype(np.uint64) + seed))
    return digests


def _clear_rest(words: Digests, firsts: Any, lengths: Any, counts: Any) -> None:
    """Clear the bytes of the last word of every text that belong to the next text."""
    open_ends = (lengths % 8) != 0
    lasts = (firsts + counts - 1)[open_ends]
    used = (8 * (lengths[open_ends] % 8)).astype(np.uint64)
    words[lasts] &= (np.uint64(1) << used) - np.uint64(1)


def _digest_lists(values: pa.Array, seed: np.uint64) -> Digests:
    """Sum the digests of the items, each changed by its position."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    lengths = lengths.astype(np.int64)
    items = _digest(pc.list_flatten(values), _mix(seed + _STEP))
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(items), dtype=np.int64) - np.repeat(starts, lengths)
    numbers = _mix(items + _mix(positions.astype(np.uint64) * _STEP + seed))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers)])
    total = sums[starts + lengths] - sums[starts]
    digests: Digests = _mix(total + _mix(lengths.astype(np.uint64) + seed))
    return digests


def _digest_vectors(values: pa.Array, seed: np.uint64) -> Digests:
    """Digest the bits of every vector; a vector with a NULL is digested like a list."""
    size = values.type.list_size
    items = values.values.slice(values.offset * size, len(values) * size)
    if items.null_count:
        holes = items.is_null().to_numpy(zero_copy_only=False).reshape(len(values), size)
        rows = pa.array(holes.any(axis=1))
        digests = _digest_vectors(_without_nulls(values, items), seed)
        listed = values.filter(rows).cast(pa.list_(values.type.value_type))
        digests[rows.to_numpy(zero_copy_only=False)] = _digest_lists(listed, seed)
        return digests
    digests = np.full(len(values), seed, np.uint64)
    if not size or not len(values):
        return _finish(digests)
    width = items.to_numpy(zero_copy_only=False).view(np.uint8).reshape(len(values), -1)
    words = -(-width.shape[1] // 8)
    weights = _spread(words, seed)
    for start in range(0, len(values), step := max(1, _TEXT_BYTES // (8 * words))):
        part = width[start : start + step]
        padded = np.zeros((len(part), 8 * words), np.uint8)
        padded[:, : part.shape[1]] = part
        digests[start : start + step] += _mix(padded.view(np.uint64) ^ weights).sum(
            axis=1, dtype=np.uint64
        )
    return _finish(digests)


def _without_nulls(values: pa.Array, items: pa.Array) -> pa.Array:
    filled = pc.fill_null(items, pa.scalar(0).cast(items.type))
    return pa.FixedSizeListArray.from_arrays(filled, values.type.list_size)


def _digest_structs(values: pa.Array, seed: np.uint64) -> Digests:
    digests = np.full(len(values), seed, np.uint64)
    for number, field in enumerate(values.type):
        own = _mix(seed + np.uint64(number + 1) * _STEP)
        digests += _mix(_digest(pc.struct_field(values, field.name), own) ^ own)
    return _finish(digests)
