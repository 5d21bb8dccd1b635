"""The measures of the sources refuse growth."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HOUSE: Final = ROOT / "tools" / "house.py"
MAXIMA: Final = ROOT / "tools" / "house_maxima.json"


def check(maxima: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HOUSE, "--check", maxima], cwd=ROOT, capture_output=True, text=True
    )


def test_a_measure_above_its_maximum_is_refused(tmp_path: Path) -> None:
    maxima = json.loads(MAXIMA.read_text())
    lower = tmp_path / "maxima.json"
    lower.write_text(json.dumps(maxima | {"file_max": 10}))
    refused = check(lower)
    assert refused.returncode == 1
    assert refused.stdout.startswith("file_max is ")


def test_every_maximum_is_of_a_measure(tmp_path: Path) -> None:
    stored = tmp_path / "now.json"
    subprocess.run(
        [sys.executable, HOUSE, "--json", stored, "--worst", "0"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    measures = json.loads(stored.read_text()).keys()
    assert json.loads(MAXIMA.read_text()).keys() <= measures
    assert measures - json.loads(MAXIMA.read_text()).keys() == {
        "modules",
        "lines",
        "one_importer",
        "passed_through",
    }
