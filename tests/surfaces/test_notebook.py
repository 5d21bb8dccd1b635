"""`graph.show()`: a thread serves the page to this machine, and a frame of a notebook may hold it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import omnigraphdb
from tests.support.served import ADD, make_graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraphdb.Graph]:
    with omnigraphdb.open(make_graph(tmp_path_factory.mktemp("shown") / "people.omni")) as graph:
        yield graph


def test_a_graph_is_shown_read_only_until_the_page_is_closed(graph: omnigraphdb.Graph) -> None:
    page = graph.show()
    assert graph.show() is page
    assert f'src="{page.url}"' in page._repr_html_()
    sent = httpx.get(page.url)
    assert sent.status_code == 200
    assert "http://localhost:*" in sent.headers["content-security-policy"]
    root = page.url.partition("/ui/")[0]
    types = httpx.get(f"{root}/schema/graph").json()["types"]
    assert [one["rows"] for one in types if one["name"] == "Person"] == [2]
    refused = httpx.post(f"{root}/mutate", json={"query": ADD, "params": {"n": "Cy"}})
    assert refused.status_code == 403
    page.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.url)
    assert "closed" in repr(page)
    assert graph.snapshot().tables()["node:Person"] == 2


def test_a_page_that_may_write_writes(graph: omnigraphdb.Graph) -> None:
    page = graph.show(write=True, height=300)
    root = page.url.partition("/ui/")[0]
    done = httpx.post(f"{root}/mutate", json={"query": ADD, "params": {"n": "Di"}})
    assert done.status_code == 200
    page.close()
    assert graph.snapshot().tables()["node:Person"] == 3


def test_without_the_server_it_says_what_to_install(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "people.omni")
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "import omnigraphdb\n"
        f"with omnigraphdb.open({str(place)!r}) as graph:\n"
        "    try: graph.show()\n"
        "    except omnigraphdb.ConfigError as error: print(error, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "uvicorn" in done.stdout
    assert "pip install 'omnigraphdb[server]'" in done.stdout
