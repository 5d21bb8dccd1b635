"""A branch is strictly serialisable: so say a checker that follows its commits, and `adya`, which knows nothing of them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from omnigraphdb.api.results import Commit
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.runtime import datetime_of
from tests.simulation.appends import Transaction, check_appends
from tests.simulation.children import simulate
from tests.simulation.orders import NEVER
from tests.simulation.universe import Fate

ADYA = shutil.which("adya")
STALE = "--mutant publish_expects_nothing --mutant no_last_look"
"""Nobody compares what a write read with what is there when it commits."""
BLIND = "--mutant conditions_ignored"
"""The store lets every conditional put succeed."""


# ---- the checker


def transaction(
    name: str,
    began: float,
    ended: float,
    *,
    read: list[int] | None = None,
    appends: int | None = None,
    commit: str | None = None,
    fate: Fate = Fate.ACKNOWLEDGED,
) -> Transaction:
    """A transaction on list `x` of main; a write is the commit of its own name."""
    is_write = appends is not None
    return Transaction(
        name=name,
        thread=name,
        branch="main",
        began=began,
        ended=ended,
        fate=fate,
        reads_before={} if read is None else {"x": read},
        appends={"x": appends} if appends is not None else {},
        reads_after={},
        commit=name if commit is None and is_write else commit,
    )


def check(transactions: list[Transaction], *commits: str) -> list[str]:
    """Check a history against the commits of main, oldest first."""
    order = [
        Commit(
            id=name,
            parent=None,
            merged_parent=None,
            branch="main",
            actor=None,
            created_at=datetime_of(place),
            manifest_version=place,
            kind=CommitKind.MUTATION,
            message=name,
        )
        for place, name in enumerate(("first", *commits))
    ]
    return list(check_appends(transactions, {"main": order}))


def test_a_history_in_the_order_of_its_commits_is_sound() -> None:
    history = [
        transaction("a", 1, 4, appends=1),
        transaction("b", 2, 5, appends=2),
        transaction("r", 3, 6, read=[1], commit="a"),
        transaction("s", 7, 8, read=[1, 2], commit="b"),
        transaction("lost", 9, NEVER, appends=3, fate=Fate.UNKNOWN, commit=""),
        transaction("no", 9, 10, appends=4, fate=Fate.REFUSED, commit=""),
    ]
    assert check(history, "a", "b") == []
    assert check(history, "a", "b", "lost") == []


@pytest.mark.parametrize(
    ("history", "commits", "complaint"),
    [
        ([transaction("a", 1, 2, appends=1)], "", "is gone"),
        (
            [transaction("a", 1, 2, appends=1, fate=Fate.REFUSED)],
            "a",
            "was refused, and is commit a",
        ),
        (
            [transaction("a", 1, 2, appends=1), transaction("r", 3, 4, read=[], commit="first")],
            "a",
            "r began after a at commit 1 had ended, and read commit 0",
        ),
        (
            [transaction("a", 3, 4, appends=1), transaction("b", 1, 2, appends=2)],
            "ab",
            "a began after b at commit 2 had ended, and is commit 1",
        ),
        (
            [transaction("r", 1, 2, read=[1], commit="a"), transaction("a", 3, 4, appends=1)],
            "a",
            "a began after r at commit 1 had ended, and is commit 1",
        ),
        (
            [transaction("a", 1, 9, appends=1), transaction("b", 2, 8, appends=2, read=[])],
            "ab",
            "b read x as [], at commit 1 it is [1]",
        ),
    ],
    ids=["lost", "refused and visible", "stale", "reversed", "early", "write skew"],
)
def test_a_history_that_is_not_serialisable_is_complained_of(
    history: list[Transaction], commits: str, complaint: str
) -> None:
    assert complaint in "\n".join(check(history, *commits))


# ---- the engine


@pytest.mark.parametrize(
    ("mutant", "seeds"), [(STALE, "3:10"), (BLIND, "17:24")], ids=["stale", "blind"]
)
def test_a_branch_without_a_guard_is_missed_by_the_checker(mutant: str, seeds: str) -> None:
    verdict = simulate(f"--level engine --work appends --seeds {seeds} --stop {mutant}")
    assert not verdict.is_silent, verdict.printed


# ---- adya


def check_by_adya(folder: Path) -> str:
    """Let `adya` check every history of a folder; its report."""
    assert ADYA is not None
    histories = sorted(map(str, folder.glob("*.jsonl")))
    return subprocess.run(
        [ADYA, "check", "-m", "list-append", "-c", "strict-serializable", *histories],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.soak
@pytest.mark.skipif(ADYA is None, reason="cargo install adya --version 0.1.0")
@pytest.mark.parametrize("part", range(4))
def test_adya_finds_no_anomaly(tmp_path: Path, part: int) -> None:
    first = 2000 + 100 * part
    arguments = f"--level engine --work appends --seeds {first}:{first + 100}"
    verdict = simulate(f"{arguments} --history {tmp_path}")
    assert verdict.is_silent, verdict.printed
    report = check_by_adya(tmp_path)
    assert "\ttrue" in report
    assert "Not strict-serializable" not in report
    assert "\tfalse" not in report, report


@pytest.mark.soak
@pytest.mark.skipif(ADYA is None, reason="cargo install adya --version 0.1.0")
@pytest.mark.parametrize(
    ("mutant", "seeds", "anomaly"),
    [(STALE, "0:30", "G2-item"), (BLIND, "8:40", "G-single-item-realtime")],
    ids=["stale", "blind"],
)
def test_adya_names_the_anomaly_of_a_branch_without_a_guard(
    tmp_path: Path, mutant: str, seeds: str, anomaly: str
) -> None:
    arguments = f"--level engine --work appends --seeds {seeds} --history {tmp_path}"
    verdict = simulate(f"{arguments} {mutant}")
    assert not verdict.is_silent, verdict.printed
    assert anomaly in check_by_adya(tmp_path)
