"""The TypeScript client: made from the description of the server, checked by the compiler, and it tells the story."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.reference import OPENAPI
from tests.support.served import SCHEMA, serving

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
SOURCES, TOOLS = CLIENT / "src", CLIENT / "node_modules" / ".bin"
NODE_MIN = (22, 18)


def find_node() -> str:
    """A node that runs TypeScript as it is: the one that `make typescript` installed, or that of the machine."""
    for found in (TOOLS / "node", shutil.which("node")):
        if found is None or not Path(found).exists():
            continue
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        major, minor, *_ = told.stdout.strip().removeprefix("v").split(".")
        if (int(major), int(minor)) >= NODE_MIN:
            return str(found)
    pytest.skip("node 22.18 or later is not there; `make typescript` installs it")


def run(*words: str, **more: str) -> None:
    """Run a program in the client's folder, with more variables."""
    done = subprocess.run(
        words, cwd=CLIENT, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_client_tells_the_story(tmp_path: Path) -> None:
    node = find_node()
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    with serving(str(tmp_path / "g"), "--unauthenticated", log=tmp_path / "log") as server:
        run(node, "story.ts", server.url)


def test_the_client_has_every_operation_and_every_field_of_the_description() -> None:
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    calls = set(re.findall(r"export const (\w+) =", (SOURCES / "sdk.gen.ts").read_text()))
    described = {
        operation["operationId"]
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if path.startswith("/graphs") and not operation.get("deprecated")
    }
    assert calls == described | {"health", "ready"}
    text = (SOURCES / "types.gen.ts").read_text()
    bodies = dict(re.findall(r"export type (\w+) = \{\n(.*?)\n\};", text, re.DOTALL))
    schemas = document["components"]["schemas"]
    assert {"CommitOutput", "ErrorOutput", "QueryInput"} <= schemas.keys() & bodies.keys()
    for name in schemas.keys() & bodies.keys():
        fields = set(re.findall(r"^    (\w+)\??:", bodies[name], re.MULTILINE))
        assert fields == schemas[name]["properties"].keys(), name


def require_generator() -> None:
    if not (TOOLS / "openapi-ts").exists():
        pytest.skip("the generator is not installed; `make typescript` installs it")


def test_the_committed_client_is_what_the_description_gives(tmp_path: Path) -> None:
    require_generator()
    run(find_node(), str(TOOLS / "openapi-ts"), CLIENT_OUT=str(tmp_path / "src"))
    made = {one.relative_to(tmp_path): one.read_text() for one in tmp_path.rglob("*.ts")}
    committed = {one.relative_to(CLIENT): one.read_text() for one in SOURCES.rglob("*.ts")}
    assert made == committed


@pytest.mark.soak
def test_the_client_and_the_story_compile() -> None:
    require_generator()
    run(find_node(), str(TOOLS / "tsc"))
