"""What searching means over plain texts and vectors: every row is looked at."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from omnigraphdb.storage.lance.search import tokens

Texts = Mapping[str, str | None]
Vectors = Mapping[str, Sequence[float] | None]


def matching(texts: Texts, query: str, distance: int = 0) -> set[str]:
    """The ids whose text has a term within a distance of one of the query."""
    wanted = set(tokens(query))
    return {
        identity
        for identity, text in texts.items()
        if text is not None
        and any(edits(term, one) <= distance for term in tokens(text) for one in wanted)
    }


def edits(a: str, b: str) -> int:
    """Letters to replace, put in or leave out."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def relevance(texts: Texts, query: str) -> dict[str, float]:
    """The BM25 score of every id that has a term; statistics are those of all texts."""
    counted = {one: Counter(tokens(text)) for one, text in texts.items() if text is not None}
    average = sum(terms.total() for terms in counted.values()) / max(len(counted), 1)
    scores: dict[str, float] = {}
    for term in sorted(set(tokens(query))):
        having = [one for one, terms in counted.items() if term in terms]
        rarity = math.log(1 + (len(counted) - len(having) + 0.5) / (len(having) + 0.5))
        for one in having:
            times, length = counted[one][term], counted[one].total()
            share = 1 - 0.75 + 0.75 * length / average
            scores[one] = scores.get(one, 0.0) + rarity * times * 2.2 / (times + 1.2 * share)
    return scores


def by_relevance(texts: Texts, query: str, among: set[str]) -> list[str]:
    """Ids by score, the best first, equal scores by id."""
    found = relevance(texts, query)
    return sorted(among & found.keys(), key=lambda one: (-round(found[one], 9), one))


def by_distance(vectors: Vectors, query: Sequence[float], among: set[str]) -> list[str]:
    """Ids by squared distance, the closest first, equal distances by id."""
    measured = {
        one: sum((a - b) ** 2 for a, b in zip(vector, query, strict=True))
        for one, vector in vectors.items()
        if vector is not None and one in among
    }
    return sorted(measured, key=lambda one: (measured[one], one))


def fused(first: list[str], second: list[str], k: int = 60) -> list[str]:
    """Reciprocal rank fusion; ties keep the order of the first ranking, then of the second."""
    places = [{one: at for at, one in enumerate(arm)} for arm in (first, second)]
    scores = {
        one: sum(1 / (k + arm[one] + 1) for arm in places if one in arm)
        for one in dict.fromkeys([*first, *second])
    }
    last = len(scores)
    return sorted(scores, key=lambda one: (-scores[one], *(arm.get(one, last) for arm in places)))
