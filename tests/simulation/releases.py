"""Two releases at once: each crash state that one release leaves is opened, judged and written by the other.

`python -m tests.simulation.releases record FILE KIND ...` runs with the sources of one release, `judge FILE` with those
of the other one; the tests are those at hand. A release is a revision of this repository.
"""

import argparse
import io
import json
import logging
import os
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tools.rename_package import rename_tree

from omnigraphdb.errors import FormatVersion, SidecarUnreadable
from tests.simulation.bucket import Stored
from tests.simulation.crash_judge import make_judge
from tests.simulation.crash_states import explore
from tests.simulation.recordings import Recording, open_theatre
from tests.simulation.writer_kinds import KINDS, Client

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src"
FIRST_RELEASE: Final = "4559cd51"
"""What is compared where nothing is tagged."""
SECONDS_MAX: Final = 7000.0

Tape = Mapping[str, Any]
"""A recording as it is pickled: without its client, and with its kind by name."""


@dataclass(slots=True)
class Meeting:
    """What one release made of the crash states of another; a refusal by number changes nothing and is no fault."""

    states: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)


# ---- a release


def name_release() -> str:
    """Name the release to compare with: that of the environment, the newest tag, or the first one."""
    asked = os.environ.get("SIMULATION_RELEASE")
    if asked:
        return asked
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return tag.stdout.strip() or FIRST_RELEASE


def unpack_release(revision: str, folder: Path) -> Path:
    """Unpack the sources of a release; the directory to import them from."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    # A release from before the package was renamed is imported under its present name.
    rename_tree(folder)
    keyed = folder / "src" / "omnigraphdb" / "engine" / "keyed.py"
    source = keyed.read_text()
    if "class RequestKind" not in source:
        # These tests call the class by its present name.
        keyed.write_text(f"{source}\n\nRequestKind = Verb\n")
    return folder / "src"


def run_release(sources: Path, *words: str) -> str:
    """Run this module in a process of its own, with the sources of a release; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.releases", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def meet(writer: Path, reader: Path, tape: Path, kinds: Sequence[str]) -> Meeting:
    """Let one release write, and another one come after each death."""
    run_release(writer, "record", str(tape), *kinds)
    return Meeting(**json.loads(run_release(reader, "judge", str(tape))))


# ---- in the process of a release


def record_kinds(kinds: Sequence[str]) -> list[Tape]:
    """Let writers of this release run once."""
    with open_theatre() as theatre:
        return [_pack(theatre.record(KINDS[name])) for name in kinds]


def judge_tapes(tapes: Sequence[Tape]) -> Meeting:
    """Come after each death of the writers of another release."""
    meeting = Meeting()
    with open_theatre() as theatre:
        for tape in tapes:
            client = Client(theatre.served, "later")
            _judge_tape(Recording(**{**tape, "kind": KINDS[tape["kind"]]}, client=client), meeting)
    return meeting


def _judge_tape(recording: Recording, meeting: Meeting) -> None:
    meeting.states += len(recording.writes)
    read = [w for w in recording.writes if not _is_refused(recording.client, w.after)]
    meeting.refused += len(recording.writes) - len(read)
    if _is_refused(recording.client, recording.start):
        return
    tally = explore(make_judge(replace(recording, writes=read)), levels=1)
    meeting.broken += tally.broken


def _is_refused(client: Client, objects: Stored) -> bool:
    """Whether this release refuses a state by its number, and leaves it as it is."""
    bucket = client.served.bucket
    bucket.restore(objects)
    with bucket.recording() as writes:
        try:
            client.open().close()
        except (FormatVersion, SidecarUnreadable):
            assert [write.key for write in writes] == [], "a release writes what it refuses"
            return True
    return False


def _pack(recording: Recording) -> Tape:
    values = {f.name: getattr(recording, f.name) for f in fields(recording) if f.name != "client"}
    return values | {"kind": recording.kind.id}


def main() -> None:
    """Record, or judge what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["record", "judge"])
    parser.add_argument("tape", type=Path)
    parser.add_argument("kinds", nargs="*")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.work == "record":
        arguments.tape.write_bytes(pickle.dumps(record_kinds(arguments.kinds)))
    else:
        print(json.dumps(asdict(judge_tapes(pickle.loads(arguments.tape.read_bytes())))))


if __name__ == "__main__":
    main()
