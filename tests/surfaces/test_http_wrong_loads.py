"""Loads in which every line is wrong: the answer counts the problems, and the server keeps few of them."""

import json
from pathlib import Path

import pytest

from tests.support.served import make_graph, serving
from tests.surfaces.test_http_exports import memory

LINES = 300_000
GROWTH_MAX = 150 * 1024 * 1024
ANSWER_BYTES_MAX = 1_000_000
WRONG = {
    "no type": b"{}",
    "no key": b'{"type": "Person", "data": {}}',
    "unknown type": b'{"type": "Nobody", "data": {"name": "a"}}',
}
CASES = [
    pytest.param(path, name, marks=[] if name == "no type" else [pytest.mark.soak])
    for path in ("/load", "/load/ndjson")
    for name in WRONG
]


@pytest.mark.parametrize(("path", "case"), CASES)
def test_a_large_load_of_wrong_lines_is_refused_with_their_count_in_bounded_memory(
    tmp_path: Path, path: str, case: str
) -> None:
    words = (str(make_graph(tmp_path / "g")), "--unauthenticated")
    with serving(*words, log=tmp_path / "log") as server, server.client() as http:
        for count in (1, LINES):
            before = memory(server)
            body, media = spell_load(path, b"%s\n" % WRONG[case] * count)
            answer = http.post(path, content=body, headers={"content-type": media})
            assert answer.status_code == 400
            assert len(answer.content) < ANSWER_BYTES_MAX
        assert answer.json()["error"].startswith(f"{LINES} problems; no changes were made")
        assert memory(server, "VmHWM") - before < GROWTH_MAX
        assert http.get("/snapshot").status_code == 200


def spell_load(path: str, lines: bytes) -> tuple[bytes, str]:
    """The body of a load that holds these lines, and its media type."""
    if path == "/load":
        return json.dumps({"data": lines.decode(), "mode": "append"}).encode(), "application/json"
    return lines, "application/x-ndjson"
