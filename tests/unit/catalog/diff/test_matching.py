"""Names paired with names: what continues, what is new, what is gone, what is refused."""

from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.diff.matching import Matched, match_names

NAMES = st.sampled_from("abcde")


def match(accepted: str, **hints: str | None) -> Matched:
    return match_names("property", set(accepted), hints, lambda _: None)


def test_a_name_that_exists_continues_itself_whatever_its_hint_says() -> None:
    found = match("ab", a="b", b="a")
    assert found.continues == {"a": "a", "b": "b"}
    assert found.stale == {"a": "b", "b": "a"}


def test_a_free_name_is_continued_by_the_hint_that_names_it() -> None:
    found = match("ab", c="a", b=None, d=None)
    assert found.continues == {"b": "b", "c": "a"}
    assert found.becomes == {"b": "b", "a": "c"}
    assert (found.added, found.dropped, found.refused) == (("d",), (), {})


def test_a_hint_may_not_take_a_name_that_stays() -> None:
    found = match("a", a=None, b="a")
    assert found.continues == {"a": "a"}
    assert "still declares 'a'" in found.refused["b"]


def test_the_first_of_two_claims_wins_and_the_other_is_refused() -> None:
    found = match("a", c="a", b="a")
    assert found.continues == {"b": "a"}
    assert "'b' is renamed from it already" in found.refused["c"]


def test_a_hint_that_names_nothing_says_what_was_probably_meant() -> None:
    found = match_names("node type", ["Animal"], {"Beast": "animal"}, lambda _: None)
    assert "no such node type is accepted; did you mean 'Animal'?" in found.refused["Beast"]
    assert found.dropped == ("Animal",)


def test_a_hint_that_names_something_elsewhere_says_where_that_is() -> None:
    found = match_names("node type", [], {"A": "Feeds"}, {"Feeds": "an edge type"}.get)
    assert found.refused["A"].endswith("an edge type")


@given(st.sets(NAMES), st.dictionaries(NAMES, st.none() | NAMES))
def test_every_name_has_exactly_one_fate(accepted: set[str], hints: dict[str, str | None]) -> None:
    found = match_names("property", accepted, hints, lambda _: None)
    fates = [*found.continues, *found.added, *found.refused]
    assert sorted(fates) == sorted(hints)
    assert sorted([*found.becomes, *found.dropped]) == sorted(accepted)
    assert len(found.becomes) == len(found.continues)


@given(st.sets(NAMES))
def test_a_namespace_against_itself_only_continues(names: set[str]) -> None:
    found = match_names("property", names, dict.fromkeys(names), lambda _: None)
    assert found.continues == {name: name for name in names}
    assert (found.added, found.dropped, found.refused, found.stale) == ((), (), {}, {})
