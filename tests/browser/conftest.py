"""A real browser, a real server, a real graph."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraphdb
from tests.support.served import ServerProcess, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]

SCHEMA = """
node Port { code: String @key  name: String  lat: F64? }
node Vessel { imo: String @key  name: String  kind: enum(bulk, tanker, roro)  dwt: I64? }
edge CallsAt: Vessel -> Port { berth: String? }
edge Feeds: Port -> Port { weight: I32? }
"""
SCRIPT = "<script>document.title = 'broken'</script>"


def make_ports(place: Path) -> Path:
    """Ports and vessels on main, and a branch that changed some of them."""
    ports = {"rtm": "Rotterdam", "ham": "Hamburg", "ant": "Antwerp", "osl": SCRIPT}
    with omnigraphdb.init(place, SCHEMA) as graph:
        records: list[dict[str, object]] = [
            {"type": "Port", "data": {"code": code, "name": name}} for code, name in ports.items()
        ]
        records += [
            {
                "type": "Vessel",
                "data": {
                    "imo": f"91{n:05}",
                    "name": f"Vessel {n}",
                    "kind": "bulk",
                    "dwt": 2**60 + n,
                },
            }
            for n in range(70)
        ]
        records += [
            {
                "edge": "CallsAt",
                "from": f"91{n:05}",
                "to": ["rtm", "rtm", "ham", "ant"][n % 4],
                "data": {},
            }
            for n in range(70)
        ]
        records.append({"edge": "Feeds", "from": "rtm", "to": "ham", "data": {"weight": 3}})
        graph.load(records, mode="append", actor="import", message="the first fleet")
        graph.branch_create("review")
        graph.mutate(
            'query q() { update Port set { name: "Rotterdam Maasvlakte" } where code = "rtm" }',
            branch="review",
            actor="ana",
            message="the new name",
        )
        graph.mutate(
            'query q() { delete Vessel where imo = "9100003" }', branch="review", actor="ana"
        )
        graph.mutate(
            'query q() { insert Port { code: "got", name: "Gothenburg" } insert Feeds { from: "ham", to: "got" } }',
            branch="review",
            actor="ana",
        )
        graph.branch_create("clash")
        graph.mutate(
            'query q() { update Port set { lat: 51.9 } where code = "ant" }',
            branch="clash",
            actor="bo",
        )
        graph.mutate('query q() { update Port set { lat: 51.2 } where code = "ant" }', actor="cy")
    return place


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    """One browser for all stories; its event loop must not stay for the tests of other packages."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as engine:
        found = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The graph of ports, served to everyone on this machine."""
    here = tmp_path_factory.mktemp("browser")
    place = make_ports(here / "ports.omni")
    with serving(str(place), "--unauthenticated", log=here / "serve.log") as server:
        yield server
