"""The instances of the models: who is there, which guards are taken away; and how Quint runs them.

`model.qnt` has a constant for each guard of the code, and no instances: they are spelled here.
"""

import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
QUINT: Final = HERE / "quint"
SAMPLES: Final = 10_000
_TABLES: Final = "AB"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A module of `model.qnt`: its guards, and what must hold while all of them stand."""

    name: str
    guards: tuple[str, ...]
    invariants: tuple[str, ...]


COMMIT = Model(
    name="commit",
    guards=(
        "CONDITIONAL",
        "SWAP",
        "ARMS",
        "LOOKS",
        "OCCUPIES",
        "RECORDS",
        "CAREFUL",
        "BRINGS",
        "PLACED",
        "CURRENT",
    ),
    invariants=("atomic", "kept", "honest", "free"),
)
FORKS = Model(name="forks", guards=("LEAVES",), invariants=("kept",))
NAMES = Model(name="names", guards=("CARRIES", "RETRIES"), invariants=("kept", "own_rows", "free"))


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A model with who is there, and the guards that are taken away."""

    model: Model
    name: str
    people: Mapping[str, str]
    without: tuple[str, ...] = ()
    steps: int = 45
    tables: Mapping[str, str] = field(default_factory=dict)
    """The tables of each writer."""
    left: tuple[str, ...] = ()
    """Whose writers died before, armed and with nothing moved."""

    def lacking(self, *guards: str) -> "Instance":
        """The same without some guards."""
        return replace(self, without=guards)

    def for_traces(self) -> "Instance":
        """The same, as close to the code as places are; its behaviours are some of those of the instance."""
        return replace(self, people={**self.people, "CLOSE": "true"})

    def spell(self) -> str:
        """The module of this instance, in the language of the model."""
        guards = {name: "false" if name in self.without else "true" for name in self.model.guards}
        facts = ", ".join(f"{name} = {text}" for name, text in {**guards, **self.people}.items())
        return f"module instance {{ import {self.model.name}({facts}).* }}\n"

    def __str__(self) -> str:
        return " ".join((self.model.name, self.name, *(f"-{guard}" for guard in self.without)))


def _spell_set(names: Sequence[str]) -> str:
    return f"Set({', '.join(map(json.dumps, names))})"


def make_commits(
    name: str,
    tables: Mapping[str, str],
    recoverers: Sequence[str],
    *,
    left: Sequence[str] = (),
    deaths: int,
    sleeps: int,
) -> Instance:
    """An instance of the protocol; `left`: whose writers died before, armed and with nothing moved."""
    owned = (f'"{writer}" -> {_spell_set(letters)}' for writer, letters in tables.items())
    people = {
        "WRITERS": _spell_set(tuple(tables)),
        "RECOVERERS": _spell_set(recoverers),
        "LEFT": _spell_set(left),
        "DEATHS": str(deaths),
        "SLEEPS": str(sleeps),
        "TABLES_OF": f"Map({', '.join(owned)})",
        "CLOSE": "false",
    }
    return Instance(model=COMMIT, name=name, people=people, tables=tables, left=tuple(left))


SMALL = make_commits("small", {"w1": "AB"}, ["r1"], deaths=0, sleeps=1)
WRITERS = make_commits("writers", {"w1": "AB", "w2": "AB"}, ["r1"], deaths=0, sleeps=1)
APART = make_commits("apart", {"w1": "A", "w2": "B"}, ["r1"], deaths=0, sleeps=1)
DEATHS = make_commits("deaths", {"w1": "AB"}, ["r1", "r2"], deaths=2, sleeps=2)
LONE_TABLE = make_commits("lone table", {"w1": "A"}, ["r1", "r2"], deaths=1, sleeps=1)
SLEEPERS = make_commits("sleepers", {"w1": "A"}, ["r1"], deaths=0, sleeps=2)
TRIO = make_commits("trio", {"w1": "A", "w2": "A"}, ["r1", "r2"], left=["w1"], deaths=0, sleeps=1)
FORKED = Instance(
    model=FORKS, name="two", people={"WRITERS": 'Set("w1", "w2")', "SLEEPS": "1"}, steps=30
)
AGAIN = Instance(model=NAMES, name="again", people={}, steps=30)

WHOLE: Final = (SMALL, WRITERS, APART, DEATHS, LONE_TABLE, SLEEPERS, TRIO, FORKED, AGAIN)


def install_quint() -> Path | None:
    """Install the program that runs models, unless it is there, and give its path; None where there is no npm."""
    if shutil.which("npm") is None:
        return None
    lock, installed = QUINT / "package-lock.json", QUINT / "node_modules" / ".package-lock.json"
    with (QUINT / "package.json").open() as package:
        # Several processes of one test run come here at the same time, and npm begins with an empty folder.
        fcntl.flock(package, fcntl.LOCK_EX)
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            subprocess.run(["npm", "ci", "--loglevel", "error"], cwd=QUINT, check=True)
    return QUINT / "node_modules" / ".bin" / "quint"


def find_broken(
    quint: Path,
    folder: Path,
    instance: Instance,
    *invariants: str,
    samples: int = SAMPLES,
    seed: int = 0x5EED,
    traces: int = 0,
) -> list[str]:
    """Run random traces of an instance; list the invariants that one of them breaks.

    So many `traces` are written into the folder: that one, or the longest of all.
    """
    text = (HERE / "model.qnt").read_text() + instance.spell()
    (folder / "instance.qnt").write_text(text)
    words = ["run", "instance.qnt", "--main=instance", "--backend=typescript", f"--seed={seed:#x}"]
    words += [f"--max-samples={samples}", f"--max-steps={instance.steps}"]
    if traces:
        # With a place for the number it has one file for each trace, also of a single one.
        words += ["--mbt", f"--n-traces={traces}", "--out-itf=trace_{seq}.itf.json"]
    done = subprocess.run(
        [quint, *words, *(["--invariants", *invariants] if invariants else [])],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    if done.returncode == 0:
        assert "No violation found" in said, said
        return []
    assert "[violation]" in said, said
    # A single invariant is not named in the answer.
    return re.findall(r"❌ (\w+)", said) or list(invariants)
