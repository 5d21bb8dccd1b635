"""A server that cannot be started, or should not be, says why in words of its operator, and repeats no token."""

import logging
import socket
from pathlib import Path

import pytest

from omnigraphdb.errors import ConfigError
from omnigraphdb.surfaces.http.boot import boot
from omnigraphdb.surfaces.http.options import Options, read_bind
from omnigraphdb.surfaces.http.serving import listen
from omnigraphdb.surfaces.http.tokens import read_tokens
from tests.support.served import make_graph

FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:99999", ":80", "[::1]", "x:-1"])
def test_a_bad_address_is_refused_with_a_good_one(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_bind(text)
    assert "127.0.0.1:8080" in str(caught.value.hint)


def test_an_address_that_is_taken_is_told_in_plain_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="in use; the server was not started") as caught:
            listen("127.0.0.1", port)
    assert "while attempting" not in str(caught.value)


def test_a_token_file_that_cannot_be_read_is_told_in_plain_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b'{"ada": "a-secret\xff"}')
    for path, reason in (
        (tmp_path / "nowhere", "No such file"),
        (tmp_path, "directory"),
        (broken, "no UTF-8"),
    ):
        with pytest.raises(ConfigError, match=reason) as caught:
            read_tokens({FILE: str(path)})
        assert "not started" in str(caught.value)
        assert "Errno" not in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_server_that_everyone_elsewhere_may_ask_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, warned: bool
) -> None:
    place = str(make_graph(tmp_path / "g"))
    options = Options(graphs={"default": place}, single=True, host=host, unauthenticated=True)
    with caplog.at_level(logging.WARNING):
        served = boot(options, {})
    for one in served.graphs.values():
        one.graph.close()
    assert ("server.open_to_all" in caplog.text) == warned
