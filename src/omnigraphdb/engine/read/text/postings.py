"""Postings: for every term of a fragment its rows, its occurrences, and the lengths of the texts; and vocabularies."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.engine.read.columns.row_ids import (
    Integers,
    NarrowIntegers,
    RowIds,
    count_up,
    lay_out_runs,
    narrow,
    no_row_ids,
    stable_order,
)
from omnigraphdb.storage.lance.search import tokens_of_each
from omnigraphdb.values import dataclass

_BREAKS = r"[\x00-\x2F\x3A-\x40\x5B-\x60\x7B-\x7F]+"
"""The characters that end a word in any alphabet; the analyser breaks there too, so that pieces have the terms of the whole."""


class Vocabulary:
    """Terms by number; a vocabulary only grows. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._letters: dict[int, tuple[Integers, npt.NDArray[Any]]] = {}
        self._arranged = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, term: str) -> int | None:
        """Return the number of a term, if any text has it."""
        return self._numbers.get(term)

    def add(self, terms: Iterable[str]) -> Integers:
        """Find the numbers of terms; new terms are added."""
        numbers = self._numbers
        with self._lock:
            return np.fromiter(
                (numbers.setdefault(term, len(numbers)) for term in terms), dtype=np.int64
            )

    def near(self, term: str, distance: int) -> Integers:
        """Find the numbers of all terms within an edit distance; an edit replaces, inserts or deletes a letter."""
        with self._lock:
            self._arrange_letters()
            letters = [
                part for size, part in self._letters.items() if abs(size - len(term)) <= distance
            ]
        letters_of_term = np.array([ord(letter) for letter in term], dtype=np.uint32)
        parts = [
            numbers[_edit_distances(letters_of_term, matrix) <= distance]
            for numbers, matrix in letters
        ]
        return np.concatenate(parts) if parts else count_up(0)

    def _arrange_letters(self) -> None:
        """Arrange the terms by length, as matrices with one letter per column."""
        if self._arranged == len(self._numbers):
            return
        terms = np.array(list(self._numbers), dtype=object)
        lengths = np.array([len(term) for term in terms], dtype=np.int64)
        for size in np.unique(lengths).tolist():
            numbers = np.flatnonzero(lengths == size).astype(np.int64)
            texts = terms[numbers].astype(f"U{size}")
            self._letters[size] = numbers, texts.view(np.uint32).reshape(-1, size)
        self._arranged = len(terms)


def _edit_distances(word: npt.NDArray[Any], matrix: npt.NDArray[Any]) -> Integers:
    """Compute the edit distances of one word to many words of the same length at once."""
    count, size = matrix.shape
    before = np.tile(np.arange(size + 1, dtype=np.int64), (count, 1))
    for position, letter in enumerate(word, start=1):
        row = np.empty_like(before)
        row[:, 0] = position
        replaced = before[:, :-1] + (matrix != letter)
        left_out = before[:, 1:] + 1
        best = np.minimum(replaced, left_out)
        for column in range(size):
            row[:, column + 1] = np.minimum(best[:, column], row[:, column] + 1)
        before = row
    return np.asarray(before[:, -1])


def terms_of(texts: pa.Array, vocabulary: Vocabulary) -> tuple[Integers, Integers]:
    """Cut texts into terms: for every occurrence the offset of its text, ascending, and the number of the term.

    Every distinct piece between blanks is cut once, however often it occurs.
    """
    lists = pc.ascii_split_whitespace(texts)
    offsets = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    pieces = pc.list_flatten(lists).dictionary_encode()
    starts, counts, terms = _cut_pieces(pieces.dictionary, vocabulary)
    codes = pieces.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    occurrences, at = lay_out_runs(starts[codes], counts[codes])
    return offsets[occurrences], terms[at]


def _cut_pieces(pieces: pa.Array, vocabulary: Vocabulary) -> tuple[Integers, Integers, Integers]:
    """Cut pieces into terms: the start of the terms of each piece in the last array, their number, and the terms."""
    lists = pc.split_pattern_regex(pieces, pattern=_BREAKS)
    words = pc.list_flatten(lists).dictionary_encode()
    word_terms = list(tokens_of_each(words.dictionary.to_pylist()))
    sizes = np.array([len(terms) for terms in word_terms], dtype=np.int64)
    numbers = vocabulary.add(term for terms in word_terms for term in terms)
    starts = np.cumsum(sizes) - sizes
    codes = words.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    of_word, at = lay_out_runs(starts[codes], sizes[codes])
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(parents[of_word], minlength=len(pieces)).astype(np.int64)
    return np.cumsum(counts) - counts, counts, numbers[at]


def distinct_terms(terms: Sequence[str]) -> tuple[str, ...]:
    """List the distinct terms of a query, in a fixed order."""
    return tuple(sorted(set(terms)))


_TERM_BYTES = 120
"""The approximate size of a term in a vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """The terms of one fragment's texts: term `terms[i]` is in `rows[offsets[i]:offsets[i + 1]]`."""

    vocabulary: Vocabulary
    terms: NarrowIntegers
    offsets: NarrowIntegers
    rows: NarrowIntegers
    counts: NarrowIntegers
    lengths: NarrowIntegers
    """The number of terms of each row; 0 also without a text."""
    texts: int = 0
    """The number of rows with a text."""
    added: int = 0
    """The number of terms that it added to the vocabulary."""

    @property
    def nbytes(self) -> int:
        """The size in memory, with its share of the vocabulary."""
        parts = (self.terms, self.offsets, self.rows, self.counts, self.lengths)
        return 200 + _TERM_BYTES * self.added + sum(part.nbytes for part in parts)

    def of(self, term: int) -> tuple[NarrowIntegers, NarrowIntegers]:
        """Find the rows that have a term, ascending, and how often."""
        at = int(np.searchsorted(self.terms, term))
        if at == len(self.terms) or self.terms[at] != term:
            return self.rows[:0], self.counts[:0]
        start, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return self.rows[start:end], self.counts[start:end]


def postings_of(
    texts: pa.Array, sizes: Sequence[int], vocabulary: Vocabulary
) -> Iterator[Postings]:
    """Analyse the texts of several fragments, which are concatenated with these sizes."""
    terms_before = len(vocabulary)
    offsets, terms = terms_of(texts, vocabulary)
    added = len(vocabulary) - terms_before
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    cuts = np.searchsorted(offsets, ends)
    start = cut = 0
    for end, stop in zip(ends.tolist(), cuts.tolist(), strict=True):
        part = texts.slice(start, end - start)
        postings = _postings(offsets[cut:stop] - start, terms[cut:stop], len(part), vocabulary)
        yield replace(postings, texts=len(part) - part.null_count, added=added)
        start, cut, added = end, stop, 0


def _postings(rows: Integers, terms: RowIds, size: int, vocabulary: Vocabulary) -> Postings:
    order = stable_order(terms, len(vocabulary))
    ordered, in_rows = terms[order], rows[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]) | (in_rows[1:] != in_rows[:-1])
    firsts = np.flatnonzero(fresh)
    counts = np.diff(np.concatenate([firsts, [len(order)]]))
    term_numbers, starts = np.unique(ordered[firsts], return_index=True)
    return Postings(
        vocabulary=vocabulary,
        terms=narrow(term_numbers),
        offsets=narrow(np.concatenate([starts, [len(firsts)]])),
        rows=narrow(in_rows[firsts]),
        counts=narrow(counts),
        lengths=narrow(np.bincount(rows, minlength=size)),
    )


# ---- finding


@dataclass(frozen=True, slots=True)
class TermRows:
    """The rows that have one term: their offsets, its occurrences in each row, and the lengths of their texts."""

    offsets: Integers
    counts: Integers
    lengths: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class TermHits:
    """The hits of some terms in all fragments, and number and total length of all texts."""

    hits: tuple[TermRows, ...]
    texts: int
    length: int

    @property
    def offsets(self) -> RowIds:
        """The rows that have one of the terms, ascending."""
        parts = [hits.offsets for hits in self.hits]
        return np.unique(np.concatenate(parts)) if parts else no_row_ids()


def find_terms(parts: Iterable[tuple[int, Postings]], terms: Sequence[str]) -> TermHits:
    """Find all terms in every fragment, given with the offset of its first row."""
    hits: list[list[TermRows]] = [[] for _ in terms]
    texts = length = 0
    for start, postings in parts:
        texts += postings.texts
        length += int(postings.lengths.sum())
        for number, term in enumerate(terms):
            term_number = postings.vocabulary.number(term)
            if term_number is None:
                continue
            rows, counts = postings.of(term_number)
            if len(rows):
                at = rows.astype(np.int64)
                lengths = postings.lengths[at].astype(np.int64)
                hits[number].append(TermRows(at + start, counts.astype(np.int64), lengths))
    return TermHits(
        hits=tuple(_join_hits(term_hits) for term_hits in hits), texts=texts, length=length
    )


def _join_hits(parts: Sequence[TermRows]) -> TermRows:
    if not parts:
        return TermRows(no_row_ids(), no_row_ids(), no_row_ids())
    return TermRows(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )


def find_near(parts: Iterable[tuple[int, Postings]], terms: Sequence[str], distance: int) -> RowIds:
    """Find the rows that have a term within an edit distance of one of these, ascending."""
    rows: list[RowIds] = []
    near: dict[tuple[Vocabulary, int], list[int]] = {}
    for start, postings in parts:
        # A vocabulary grows while fragments are read: its close terms are valid for one size only.
        vocabulary = postings.vocabulary
        key = vocabulary, len(vocabulary)
        if key not in near:
            close = [vocabulary.near(term, distance) for term in terms]
            near[key] = np.unique(np.concatenate(close)).tolist() if close else []
        rows += [postings.of(number)[0].astype(np.int64) + start for number in near[key]]
    return np.unique(np.concatenate(rows)) if rows else no_row_ids()


SATURATION = 1.2
LENGTH_SHARE = 0.75


def bm25(term_hits: TermHits) -> tuple[RowIds, npt.NDArray[np.float64]]:
    """Score every row that has one of the terms, by offset, with the statistics of all texts."""
    offsets = term_hits.offsets
    scores = np.zeros(len(offsets), dtype=np.float64)
    average = term_hits.length / term_hits.texts if term_hits.texts else 1.0
    for hits in term_hits.hits:
        rarity = np.log(1 + (term_hits.texts - len(hits.offsets) + 0.5) / (len(hits.offsets) + 0.5))
        share = 1 - LENGTH_SHARE + LENGTH_SHARE * hits.lengths / max(average, 1e-9)
        weight = hits.counts * (SATURATION + 1) / (hits.counts + SATURATION * share)
        scores[np.searchsorted(offsets, hits.offsets)] += rarity * weight
    return offsets, scores
