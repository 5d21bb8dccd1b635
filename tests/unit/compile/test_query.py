"""One query out of a text, through the right door."""

import pytest

from omnigraphdb.compile.check import check_mutation, check_read
from omnigraphdb.errors import NotFound, QueryError
from omnigraphdb.language.source import Source
from tests.support.compiling import harbour

TWO = Source(
    "query ports() { match { $p: Port } return { $p } }\n"
    'query drop_it() { delete Company where name = "x" }\n',
    name="harbour.gq",
)


def test_a_name_picks_the_query() -> None:
    assert check_read(TWO, harbour(), "ports").name == "ports"
    assert check_mutation(TWO, harbour(), "drop_it").name == "drop_it"


def test_an_only_query_needs_no_name() -> None:
    source = Source("query ports() { match { $p: Port } return { $p } }")
    assert check_read(source, harbour()).name == "ports"


def test_a_name_that_is_not_there_offers_those_that_are() -> None:
    with pytest.raises(NotFound, match="did you mean 'ports'") as caught:
        check_read(TWO, harbour(), "port")
    assert "drop_it" in str(caught.value.to_dict())


def test_several_queries_without_a_name_are_listed() -> None:
    with pytest.raises(QueryError, match="ports, drop_it"):
        check_read(TWO, harbour())


def test_an_empty_text_holds_no_query() -> None:
    with pytest.raises(QueryError, match="no query"):
        check_read(Source(""), harbour())


def test_a_mutation_given_to_query_is_sent_to_mutate() -> None:
    with pytest.raises(QueryError, match="mutate"):
        check_read(TWO, harbour(), "drop_it")


def test_a_read_given_to_mutate_is_sent_to_query() -> None:
    with pytest.raises(QueryError, match="run it with query"):
        check_mutation(TWO, harbour(), "ports")


def test_a_broken_neighbour_does_not_stop_a_query() -> None:
    source = Source(TWO.text + "query bad() { match { $p: Prt } return { $p } }")
    assert check_read(source, harbour(), "ports").name == "ports"


def test_a_repeated_name_stops_every_query_of_the_text() -> None:
    source = Source(TWO.text + "query ports() { match { $v: Vessel } return { $v } }")
    with pytest.raises(QueryError) as caught:
        check_mutation(source, harbour(), "drop_it")
    assert caught.value.code == "T30"
