"""Vocabularies: every distinct term of a text column with its number, and the terms that are close to a word."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.columns.row_ids import Integers, count_up, lay_out_runs
from omnigraph.storage.lance.text import tokens_of_each

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
        """The number of a term, if any text has it."""
        return self._numbers.get(term)

    def add(self, terms: Iterable[str]) -> Integers:
        """Find the numbers of terms; new terms are added."""
        known = self._numbers
        with self._lock:
            return np.fromiter(
                (known.setdefault(term, len(known)) for term in terms), dtype=np.int64
            )

    def near(self, term: str, distance: int) -> Integers:
        """Find the numbers of all terms within an edit distance; an edit replaces, inserts or deletes a letter."""
        with self._lock:
            self._arrange_letters()
            letters = [
                part for size, part in self._letters.items() if abs(size - len(term)) <= distance
            ]
        sought = np.array([ord(letter) for letter in term], dtype=np.uint32)
        parts = [
            numbers[_edit_distances(sought, matrix) <= distance] for numbers, matrix in letters
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


def _edit_distances(sought: npt.NDArray[Any], matrix: npt.NDArray[Any]) -> Integers:
    """Compute the edit distances of one word to many words of the same length at once."""
    count, size = matrix.shape
    before = np.tile(np.arange(size + 1, dtype=np.int64), (count, 1))
    for position, letter in enumerate(sought, start=1):
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
    found = list(tokens_of_each(words.dictionary.to_pylist()))
    sizes = np.array([len(terms) for terms in found], dtype=np.int64)
    numbers = vocabulary.add(term for terms in found for term in terms)
    starts = np.cumsum(sizes) - sizes
    codes = words.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    of_word, at = lay_out_runs(starts[codes], sizes[codes])
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(parents[of_word], minlength=len(pieces)).astype(np.int64)
    return np.cumsum(counts) - counts, counts, numbers[at]


def distinct_terms(found: Sequence[str]) -> tuple[str, ...]:
    """The distinct terms of a query, in a fixed order."""
    return tuple(sorted(set(found)))
