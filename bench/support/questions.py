"""Questions about the social graph, each in the dialect of every arm, with what we want of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question in every dialect; those about one person take `$id`."""

    name: str
    ours: str
    ladybug: str
    duckdb: str
    personal: bool = False
    goals: Mapping[str, float] = field(default_factory=lambda: {"ladybug": 1.0, "duckdb": 1.0})
    """What the ratio to a rival should not exceed, warm."""


CASES = (
    Case(
        name="Q1 point",
        goals={"ladybug": 0.8, "duckdb": 2.0},
        ours="match { $p: Person { key: $id } } return { $p.first_name, $p.age, $p.city }",
        ladybug="MATCH (p:Person {id: $id}) RETURN p.first_name, p.age, p.city",
        duckdb="SELECT first_name, age, city FROM Person WHERE id = $id",
        personal=True,
    ),
    Case(
        name="Q2 one hop",
        goals={"ladybug": 0.8, "duckdb": 1.0},
        ours="match { $p: Person { key: $id }  $p knows $f } return { $f.key, $f.first_name }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows]->(f:Person) RETURN f.id, f.first_name",
        duckdb="SELECT f.id, f.first_name FROM Knows k JOIN Person f ON f.id = k.dst WHERE k.src = $id",
        personal=True,
    ),
    Case(
        name="Q3 within two hops",
        goals={"ladybug": 0.7, "duckdb": 1.0},
        ours="match { $p: Person { key: $id }  $p knows{1,2} $f } return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows*1..2]->(f:Person) WHERE f.id <> $id "
        "RETURN count(DISTINCT id(f))",
        duckdb="SELECT count(*) FROM (SELECT dst FROM Knows WHERE src = $id UNION SELECT b.dst FROM Knows a "
        "JOIN Knows b ON a.dst = b.src WHERE a.src = $id) WHERE dst <> $id",
        personal=True,
    ),
    Case(
        name="Q4 within three hops",
        goals={"ladybug": 0.5, "duckdb": 1.0},
        ours="match { $p: Person { key: $id }  $p knows{1,3} $f } return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows*1..3]->(f:Person) WHERE f.id <> $id "
        "RETURN count(DISTINCT id(f))",
        duckdb="SELECT count(*) FROM (SELECT dst FROM Knows WHERE src = $id UNION SELECT b.dst FROM Knows a "
        "JOIN Knows b ON a.dst = b.src WHERE a.src = $id UNION SELECT c.dst FROM Knows a JOIN Knows b "
        "ON a.dst = b.src JOIN Knows c ON b.dst = c.src WHERE a.src = $id) WHERE dst <> $id",
        personal=True,
    ),
    Case(
        name="paths of two hops",
        goals={"ladybug": 0.5, "duckdb": 1.0},
        ours="match { $p: Person { key: $id }  $p knows $m  $m knows $f } return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows]->(:Person)-[:Knows]->(:Person) RETURN count(*)",
        duckdb="SELECT count(*) FROM Knows a JOIN Knows b ON a.dst = b.src WHERE a.src = $id",
        personal=True,
    ),
    Case(
        name="paths of three hops",
        goals={"ladybug": 0.5, "duckdb": 1.0},
        ours="match { $p: Person { key: $id }  $p knows $m  $m knows $n  $n knows $f } "
        "return { count($f) as n }",
        ladybug="MATCH (p:Person {id: $id})-[:Knows]->(:Person)-[:Knows]->(:Person)-[:Knows]->(:Person) "
        "RETURN count(*)",
        duckdb="SELECT count(*) FROM Knows a JOIN Knows b ON a.dst = b.src JOIN Knows c ON b.dst = c.src "
        "WHERE a.src = $id",
        personal=True,
    ),
    Case(
        name="Q5 filtered two hops",
        goals={"ladybug": 0.15, "duckdb": 1.0},
        ours='match { $p: Person { city: "city003" }  $p knows $m  $m knows $f  $f.age > 60 } '
        "return { count($f) as n }",
        ladybug="MATCH (p:Person {city: 'city003'})-[:Knows]->(m:Person)-[:Knows]->(f:Person) "
        "WHERE f.age > 60 RETURN count(*)",
        duckdb="SELECT count(*) FROM Person p JOIN Knows a ON a.src = p.id JOIN Knows b ON b.src = a.dst "
        "JOIN Person f ON f.id = b.dst WHERE p.city = 'city003' AND f.age > 60",
    ),
    Case(
        name="all two-paths",
        ours="match { $p: Person  $p knows $m  $m knows $f } return { count($f) as n }",
        ladybug="MATCH (:Person)-[:Knows]->(:Person)-[:Knows]->(:Person) RETURN count(*)",
        duckdb="SELECT count(*) FROM Knows a JOIN Knows b ON a.dst = b.src",
    ),
    Case(
        name="Q6 top ten by degree",
        goals={"ladybug": 0.08, "duckdb": 0.3},
        ours="match { $p: Person  $p knows $f } return { $p.key, count($f) as n } order { n desc } limit 10",
        ladybug="MATCH (p:Person)-[:Knows]->(f:Person) WITH p.id AS key, count(id(f)) AS n "
        "RETURN key, n ORDER BY n DESC, key LIMIT 10",
        duckdb="SELECT src, count(*) AS n FROM Knows GROUP BY src ORDER BY n DESC, src LIMIT 10",
    ),
    Case(
        name="Q7 whose posts a city likes",
        goals={"ladybug": 0.2, "duckdb": 1.0},
        ours='match { $p: Person { city: "city003" }  $p likes $t  $t hasCreator $a } '
        "return { $a.key, count($t) as n } order { n desc } limit 10",
        ladybug="MATCH (p:Person {city: 'city003'})-[:Likes]->(t:Post)-[:HasCreator]->(a:Person) "
        "WITH a.id AS key, count(*) AS n RETURN key, n ORDER BY n DESC, key LIMIT 10",
        duckdb="SELECT c.dst, count(*) AS n FROM Person p JOIN Likes l ON l.src = p.id "
        "JOIN HasCreator c ON c.src = l.dst WHERE p.city = 'city003' GROUP BY c.dst "
        "ORDER BY n DESC, c.dst LIMIT 10",
    ),
    Case(
        name="scan and filter",
        goals={"ladybug": 2.0, "duckdb": 2.0},
        ours="match { $p: Person  $p.age > 80 } return { count($p) as n }",
        ladybug="MATCH (p:Person) WHERE p.age > 80 RETURN count(*)",
        duckdb="SELECT count(*) FROM Person WHERE age > 80",
    ),
)
