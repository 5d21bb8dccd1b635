"""Search: text tests, scores and rankings over the rows of a query."""

from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraphdb.compile.checked import Bm25, Const, Nearest, ParamRef, PropertyRef, Rrf, TextMatch
from omnigraphdb.compile.plan.operators import Rank, Window
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, Mask, RowIds, count_up
from omnigraphdb.engine.read.operators.row_order import bounds, id_order, select_first, sort_rows
from omnigraphdb.engine.read.reader import Reader, Scored
from omnigraphdb.engine.read.text.search import Texts, positions_in
from omnigraphdb.engine.read.vectors import Matrix, Vectors
from omnigraphdb.errors import EmbeddingError

FUZZY_DISTANCE = 2

Floats = npt.NDArray[np.float64]


# ---- text tests


def text_mask(test: TextMatch, rows: Bindings, reader: Reader) -> Mask:
    """Mark the rows whose text matches."""
    return np.isin(rows.columns[test.field.variable], matching(test, reader))


def text_truth(test: TextMatch, rows: Bindings, reader: Reader) -> pa.Array:
    """Test the text of each row; NULL where there is no text."""
    matched = text_mask(test, rows, reader)
    present = matched.copy()
    others = np.flatnonzero(~matched)
    row_ids = rows.columns[test.field.variable][others]
    present[others] = _texts(test.field, reader).is_present(row_ids)
    return pa.array(matched, mask=~present)


def matching(test: TextMatch, reader: Reader) -> RowIds:
    """Find the entities whose text matches, each once."""
    texts, query = _texts(test.field, reader), _query_text(test.query, reader)
    match test.function:
        case "search" | "match_text":
            return texts.matching(query)
        case "fuzzy":
            distance = _distance(test.distance, reader)
            return texts.near(query, distance) if distance else texts.matching(query)
        case _:
            assert_never(test.function)


def _texts(field: PropertyRef, reader: Reader) -> Texts:
    return Texts(reader.nodes(field.variable), field.property, reader.note)


def _query_text(fixed: Const | ParamRef, reader: Reader) -> str:
    value = reader.value(fixed)
    assert isinstance(value, str), "binding refuses a missing query text"
    return value


def _distance(fixed: Const | ParamRef | None, reader: Reader) -> int:
    distance = FUZZY_DISTANCE if fixed is None else reader.integer(fixed)
    assert distance is not None, "binding refuses a missing distance"
    return distance


# ---- scores of rows


def scores(ranking: Nearest | Bm25 | Rrf, rows: Bindings, reader: Reader) -> pa.Array:
    """Compute the score of every row; NULL for a row without a vector, a text or a rank."""
    scored = reader.scored.get(ranking)
    match ranking:
        case Nearest(field=field):
            query = _query_vector(ranking, reader)
            return _vectors(field, reader).distances(rows.columns[field.variable], query)
        case Bm25(field=field):
            return _score_texts(ranking, rows.columns[field.variable], reader)
        case Rrf(first=first):
            row_ids = rows.columns[first.field.variable]
            if scored is None:
                scored = _fuse_ranks(ranking, _distinct_entities(row_ids), None, reader)
            order = np.argsort(scored.row_ids)
            positions = positions_in(row_ids, scored.row_ids[order])
            return scored.scores.take(pa.array(order[positions], mask=positions == ABSENT))


def _score_texts(ranking: Bm25, row_ids: RowIds, reader: Reader) -> pa.Array:
    texts = _texts(ranking.field, reader)
    scored_ids, values = texts.relevance(_query_text(ranking.query, reader))
    order = np.argsort(scored_ids)
    positions = positions_in(row_ids, scored_ids[order])
    hit = positions != ABSENT
    score_values = np.zeros(len(row_ids), dtype=np.float64)
    score_values[hit] = values[order[positions[hit]]]
    present = hit.copy()
    present[~hit] = texts.is_present(row_ids[~hit])
    return pa.array(score_values, mask=~present)


def _vectors(field: PropertyRef, reader: Reader) -> Vectors:
    return Vectors(reader.nodes(field.variable), field.property, reader.note)


def _query_vector(ranking: Nearest, reader: Reader) -> Matrix:
    """Convert the query to a vector; a text is embedded by the model that the property names."""
    value = reader.value(ranking.query)
    if isinstance(value, str):
        _require_space(ranking, reader)
        value = reader.embedder.embed(value, ranking.field.type.dimension or 0)
    return np.array(value, dtype=np.float32)


def _require_space(ranking: Nearest, reader: Reader) -> None:
    if ranking.model is None or ranking.model == reader.embedder.model:
        return
    raise EmbeddingError(
        f"property '{ranking.field.property}' holds vectors of model '{ranking.model}', the query would be "
        f"embedded by '{reader.embedder.model}'; distances between two spaces mean nothing; nothing was read",
        details={"embedding": {"expected": ranking.model, "model": reader.embedder.model}},
        hint=f"set OMNIGRAPH_EMBED_MODEL to '{ranking.model}', or give a vector",
    )


# ---- rankings


def rank(operator: Rank, rows: Bindings, reader: Reader) -> Bindings:
    """Order rows by the rank of their entity, then by the ids of the ties; rows without a rank are dropped."""
    rows = rows.unweighted()
    row_ids = rows.columns[operator.variable]
    _, end = bounds(operator.window, reader)
    entities = _distinct_entities(row_ids)
    best = _rank_entities(operator, entities, end, reader)
    reader.scored[operator.ranking] = best
    if entities is row_ids:
        # Rows and entities correspond one to one.
        return rows.take(np.searchsorted(row_ids, best.row_ids[:end]))
    order = np.argsort(best.row_ids)
    positions = positions_in(row_ids, best.row_ids[order])
    rows = rows.keep(positions != ABSENT)
    ranks = order[positions[positions != ABSENT]]
    return _order_rows(rows, ranks, operator.ties, end, reader)


def _order_rows(
    rows: Bindings, ranks: Integers, ties: tuple[str, ...], end: int | None, reader: Reader
) -> Bindings:
    first = None if end is None else select_first(pa.array(ranks), False, end)
    if first is not None:
        rows, ranks = rows.take(first), ranks[first]
    columns = [(pa.array(ranks), False), *((id_order(name, rows, reader), False) for name in ties)]
    return rows.take(sort_rows(columns, rows.rows)[:end])


def _distinct_entities(row_ids: RowIds) -> RowIds:
    """Select each entity once, ascending."""
    if bool((row_ids[1:] > row_ids[:-1]).all()) and not (len(row_ids) and row_ids[0] == ABSENT):
        return row_ids
    unique_ids = np.unique(row_ids)
    return np.asarray(unique_ids[unique_ids != ABSENT])


def _rank_entities(operator: Rank, row_ids: RowIds, end: int | None, reader: Reader) -> Scored:
    match operator.ranking:
        case Nearest() | Bm25() as arm:
            return _rank_arm(arm, row_ids, end, reader)
        case Rrf() as fusion:
            return _fuse_ranks(fusion, row_ids, operator.depth, reader)


def _rank_arm(arm: Nearest | Bm25, row_ids: RowIds, end: int | None, reader: Reader) -> Scored:
    """Rank entities by one ranking, best first."""
    match arm:
        case Nearest(field=field):
            query = _query_vector(arm, reader)
            count = len(row_ids) if end is None else min(end, len(row_ids))
            nearest_ids, distances = _vectors(field, reader).closest(row_ids, query, count)
            return Scored(nearest_ids, pa.array(distances))
        case Bm25(field=field):
            matches, values = _texts(field, reader).relevance(_query_text(arm.query, reader))
            mask = positions_in(matches, row_ids) != ABSENT
            return _order_by_score(matches[mask], values[mask], arm.field.variable, end, reader)


def _order_by_score(
    row_ids: RowIds, values: Floats, variable: str, end: int | None, reader: Reader
) -> Scored:
    if end is not None:
        first = select_first(pa.array(values), True, end)
        if first is not None:
            row_ids, values = row_ids[first], values[first]
    order = np.lexsort((reader.entities(variable).id_ranks(row_ids), -values))
    return Scored(row_ids[order], pa.array(values[order]))


def _fuse_ranks(ranking: Rrf, row_ids: RowIds, depth: Window | None, reader: Reader) -> Scored:
    """Fuse two rankings by reciprocal ranks; ties keep the order of the first arm, then of the second."""
    k = reader.integer(ranking.k)
    assert k is not None, "binding refuses a missing constant"
    _, top = bounds(depth, reader)
    arms = [
        _rank_arm(arm, row_ids, top if isinstance(arm, Nearest) else None, reader).row_ids
        for arm in (ranking.first, ranking.second)
    ]
    candidates = np.unique(np.concatenate(arms))
    positions = [_rank_positions(candidates, arm) for arm in arms]
    total = sum(
        np.where(at == len(candidates), 0.0, 1.0 / (k + at.astype(np.float64) + 1))
        for at in positions
    )
    order = np.lexsort((positions[1], positions[0], -np.asarray(total)))
    return Scored(candidates[order], pa.array(np.asarray(total)[order]))


def _rank_positions(candidates: RowIds, arm: RowIds) -> Integers:
    """Find the rank of each entity in an arm; past the end for entities that the arm does not have."""
    positions = np.full(len(candidates), len(candidates), dtype=np.int64)
    positions[np.searchsorted(candidates, arm)] = count_up(len(arm))
    return positions
