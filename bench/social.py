"""A social graph that is the same every time: people, posts and forums, with degrees as uneven as in life.

Friends, likes and memberships follow power laws; the words of a post follow Zipf's. Scales: `xs` 10 thousand
nodes and 100 thousand edges, `s` ten times that, `m` a million nodes and five million edges.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = """
node Person {
  key: String @key
  first_name: String
  age: I32 @index
  city: enum({cities}) @index
  created: Date
}
node Post { key: String @key  content: String @index  length: I32  created: Date }
node Forum { key: String @key  title: String }
edge Knows: Person -> Person { since: Date }
edge Likes: Person -> Post
edge HasCreator: Post -> Person
edge ContainerOf: Forum -> Post
edge HasMember: Forum -> Person
"""

CITIES = tuple(f"city{number:03d}" for number in range(200))
FIRST_NAMES = tuple(f"name{number:03d}" for number in range(500))
VOCABULARY = 20_000
WORDS_PER_POST = 12
DAY_ZERO = np.datetime64("2010-01-01")
DAYS = 4_000

Numbers = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many of everything."""

    people: int
    posts: int
    forums: int
    knows: int
    likes: int
    members: int


SCALES: Mapping[str, Scale] = {
    "xs": Scale(
        people=2_000, posts=7_000, forums=1_000, knows=40_000, likes=30_000, members=16_000
    ),
    "s": Scale(
        people=20_000, posts=70_000, forums=10_000, knows=400_000, likes=300_000, members=160_000
    ),
    "m": Scale(
        people=200_000,
        posts=700_000,
        forums=100_000,
        knows=2_200_000,
        likes=1_200_000,
        members=200_000,
    ),
}

NODES = ("Person", "Post", "Forum")
EDGES = {
    "Knows": ("Person", "Person"),
    "Likes": ("Person", "Post"),
    "HasCreator": ("Post", "Person"),
    "ContainerOf": ("Forum", "Post"),
    "HasMember": ("Forum", "Person"),
}


def schema() -> str:
    """The schema of the graph."""
    return SCHEMA.replace("{cities}", ", ".join(CITIES))


def social_graph(scale: str, seed: int = 42) -> dict[str, pa.Table]:
    """Make every table: nodes with `id`, edges with `id`, `src` and `dst`, and the properties of each."""
    sizes, chance = SCALES[scale], np.random.default_rng(seed)
    people, posts = ids("p", sizes.people), ids("t", sizes.posts)
    forums = ids("f", sizes.forums)
    tables = {
        "Person": _people(people, chance),
        "Post": _posts(posts, chance),
        "Forum": pa.table({"id": forums, "title": [f"forum {n}" for n in range(sizes.forums)]}),
    }
    busy, liked = _shares(chance, sizes.people), _shares(chance, sizes.people)
    knows = _pairs(chance, busy, liked, sizes.knows, loops=False)
    tables["Knows"] = _edges("k", people, people, *knows, since=_days(chance, sizes.knows))
    likes = _pairs(chance, busy, _shares(chance, sizes.posts), sizes.likes, loops=True)
    tables["Likes"] = _edges("l", people, posts, *likes)
    every = np.arange(sizes.posts)
    creators = chance.choice(sizes.people, sizes.posts, p=busy)
    tables["HasCreator"] = _edges("c", posts, people, every, creators)
    homes = chance.choice(sizes.forums, sizes.posts, p=_shares(chance, sizes.forums))
    tables["ContainerOf"] = _edges("q", forums, posts, homes, every)
    members = _pairs(chance, _shares(chance, sizes.forums), busy, sizes.members, loops=True)
    tables["HasMember"] = _edges("m", forums, people, *members)
    return tables


def ids(prefix: str, count: int) -> pa.Array:
    """Keys of one width, so that they sort as they count."""
    return pa.array(np.char.add(prefix, np.char.zfill(np.arange(count).astype("U"), 8)))


def _people(keys: pa.Array, chance: np.random.Generator) -> pa.Table:
    count = len(keys)
    cities = chance.choice(len(CITIES), count, p=_shares(chance, len(CITIES)))
    return pa.table(
        {
            "id": keys,
            "first_name": pa.array(FIRST_NAMES).take(
                pa.array(chance.integers(0, len(FIRST_NAMES), count))
            ),
            "age": pa.array(chance.integers(16, 90, count).astype(np.int32)),
            "city": pa.array(CITIES).take(pa.array(cities)),
            "created": _days(chance, count),
        }
    )


def _posts(keys: pa.Array, chance: np.random.Generator) -> pa.Table:
    ranks = chance.zipf(1.25, size=(len(keys), WORDS_PER_POST)) - 1
    words = np.minimum(ranks, VOCABULARY - 1).astype(np.int64)
    spelled = pa.array([f"w{number:05d}" for number in range(VOCABULARY)])
    columns = [spelled.take(pa.array(words[:, place])) for place in range(WORDS_PER_POST)]
    content = pc.binary_join_element_wise(*columns, " ")
    return pa.table(
        {
            "id": keys,
            "content": content,
            "length": pc.utf8_length(content).cast(pa.int32()),
            "created": _days(chance, len(keys)),
        }
    )


def _days(chance: np.random.Generator, count: int) -> pa.Array:
    return pa.array((DAY_ZERO + chance.integers(0, DAYS, count)).astype("datetime64[D]"))


def _shares(chance: np.random.Generator, count: int) -> Shares:
    """How likely each one is to be chosen: a few very, most hardly."""
    weights = chance.pareto(1.6, count) + 0.05
    return np.asarray(weights / weights.sum())


def _pairs(
    chance: np.random.Generator, near: Shares, far: Shares, count: int, *, loops: bool
) -> tuple[Numbers, Numbers]:
    """Choose so many different pairs."""
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        tries = int((count - len(found)) * 1.3) + 100
        sources = chance.choice(len(near), size=tries, p=near)
        targets = chance.choice(len(far), size=tries, p=far)
        wanted = np.ones(tries, dtype=bool) if loops else sources != targets
        keys = sources[wanted].astype(np.int64) * len(far) + targets[wanted]
        found = np.unique(np.concatenate([found, keys]))
    found = chance.permutation(found)[:count]
    return found // len(far), found % len(far)


def _edges(
    prefix: str,
    near: pa.Array,
    far: pa.Array,
    sources: Numbers,
    targets: Numbers,
    **properties: pa.Array,
) -> pa.Table:
    return pa.table(
        {
            "id": ids(f"{prefix}e", len(sources)),
            "src": near.take(pa.array(sources)),
            "dst": far.take(pa.array(targets)),
            **properties,
        }
    )
