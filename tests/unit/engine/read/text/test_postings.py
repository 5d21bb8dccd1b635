"""Postings answer for every fragment, also for those read after the asking began."""

from collections.abc import Iterator

import pyarrow as pa

from omnigraphdb.engine.read.text.postings import Postings, Vocabulary, find_near, postings_of


def test_close_terms_are_found_though_the_vocabulary_grows_while_fragments_are_read() -> None:
    vocabulary = Vocabulary()

    def read() -> Iterator[tuple[int, Postings]]:
        for start, text in enumerate(["plank", "rope", "ropes"]):
            (made,) = postings_of(pa.array([text]), [1], vocabulary)
            yield start, made

    assert find_near(read(), ["rope"], 1).tolist() == [1, 2]
