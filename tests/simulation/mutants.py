"""The code without one guard: each mutant must be found by the run that is named beside it.

A model, an enumeration or a judge that cannot fail proves nothing. A mutant patches the modules of its process for good.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from omnigraphdb.commit import forks, group, guard, protocol
from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.sidecar_json import encode
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.engine import attempt, branching, joint_commit, keyed
from omnigraphdb.engine.maintenance.retention import PinnedStates
from omnigraphdb.errors import HeadMoved
from omnigraphdb.ids import BranchName, CommitId
from omnigraphdb.limits import MANIFEST_FRAGMENTS_MAX
from omnigraphdb.manifest import ancestry, branches, change, publish
from omnigraphdb.manifest.ancestry import DivergedCommits
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.recovery import classify, gather, roll_back
from omnigraphdb.recovery.classify import Finding, Observed
from omnigraphdb.recovery.gather import GatheredOperation
from omnigraphdb.storage.layout import MANIFEST, sidecar_path
from omnigraphdb.storage.locks.stored_lease import Lease
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import Landed, TableAt
from tests.simulation import rows as simulated_rows
from tests.simulation.lines import Change, Commit, Lines
from tests.simulation.objects import Store
from tests.simulation.requested import Verb
from tests.simulation.tables import SimulatedTables


@dataclass(frozen=True)
class Mutant:
    """One guard that goes, and the run that finds it."""

    name: str
    what: str
    checker: str
    """As `python -m tests.simulation` takes it; empty for a guard that no run of this level misses."""
    apply: Callable[[], None]
    unseen: str = ""
    """Why no run misses it, where none does."""
    universes: int = 0
    """How many universes its checker took to find it."""


def _set(owner: Any, name: str, value: Any) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more: the guard has another place now"
    setattr(owner, name, value)


def _nothing(*_: object, **__: object) -> None:
    return None


# ---- guards of the writer


def _forget_withdrawal_locks() -> None:
    def withdraw(committer: Any, sidecar: Any, _: HeldLocks) -> None:
        committer.sidecars.disarm(sidecar.operation_id)

    _set(protocol, "_withdraw", withdraw)


def _arm_blindly() -> None:
    def arm(sidecars: Sidecars, sidecar: Any) -> None:
        sidecars.objects.put(sidecar_path(sidecar.operation_id), encode(sidecar, sidecars.root))

    _set(Sidecars, "arm", arm)


def _swap_blindly() -> None:
    create = Lines.create_version

    def put(lines: Lines, path: str, branch: str | None, version: int, made: Commit) -> bool:
        if path != MANIFEST:
            return create(lines, path, branch, version, made)
        key = f"{path if branch is None else f'{path}/tree/{branch}'}/_versions/{version:06d}"
        put = lines.asker.store.put
        lines.ask(Verb.WRITE, StoreAction.WRITE, key, lambda: put(key, made))
        return True

    _set(Lines, "create_version", put)


def _believe_drafts() -> None:
    def believe(lines: Lines, path: str, branch: str | None, version: int, made: Commit) -> None:
        lines.create_version(path, branch, version, made)

    _set(Lines, "try_create", believe)


def _write_to_any_incarnation() -> None:
    for module in (attempt, change, group, guard, joint_commit):
        _set(module, "require_incarnation", _nothing)


def _record_keys_first() -> None:
    carry_out = keyed.run_branch_operation_once

    def record_and_decide(engine: Any, request: Any, decide: Any, effect: Any) -> Any:
        known = keyed.find_replay(engine, request)
        if known is None:
            known = keyed._record_decision(engine, request, {})
        if known.operation.is_pending and not known.receipt:
            keyed._decide_again(engine, request, known, decide())
        return carry_out(engine, request, decide, effect)

    _set(branching, "run_branch_operation_once", record_and_decide)


def _delete_without_locks() -> None:
    delete = branches.delete_branch

    def late(*given: Any, is_locked: Any, **named: Any) -> None:
        delete(*given, **named)

    _set(branching, "delete_branch", late)


def _forget_made(pinned: PinnedStates) -> None:
    """Read merge bases and tags once, and no branch again."""
    if pinned._bases is None:
        look = _LOOK_AGAIN
        look(pinned)
    pinned._marks = pinned._engine.manifest.rows.branch_marks()


_LOOK_AGAIN: Final = PinnedStates.look_again


def _date_by_own_clock() -> None:
    def make(made: Any, draft: Any, state: Any, parent: Any, _: int) -> Any:
        return commit_of(made, draft, state, parent, _now[0])

    def note(made: Any, state: Any, created_at: int) -> Any:
        _now[0] = created_at
        return records_of(made, state, created_at)

    _now = [0]
    commit_of, records_of = change._commit, change._records_of
    _set(change, "_commit", make)
    _set(change, "_records_of", note)


def _take_drafts_for_landed() -> None:
    """Believe that every version of a group was created, whatever the store answered."""
    land = SimulatedTables._land

    def send(tables: SimulatedTables, draft: Any) -> None:
        land(tables, draft)

    _set(SimulatedTables, "_land", send)


def _look_before_locking() -> None:
    """Ask whether a branch is merged before its writers are kept out."""
    delete, look = branching.delete, branching._require_merged

    def look_and_delete(
        engine: Any, name: str, *given: Any, merged_into: BranchName | None = None, **named: Any
    ) -> None:
        if merged_into is not None:
            look(engine, BranchName(name), merged_into)
        delete(engine, name, *given, **named)

    _set(branching, "delete", look_and_delete)


def _go_on_from_before_the_fold() -> None:
    """Take what was known before a fold for what is there after it, whoever published between."""

    def fold(manifest: Manifest, state: BranchState) -> None:
        if state.fragments > MANIFEST_FRAGMENTS_MAX and manifest.fold(state.branch):
            image = manifest.rows.load(lance_branch(state.branch))
            manifest.heads.keep(state.moved_to(image, manifest.rows.fragment_count(image)))
            manifest.note_head(state.branch)

    _set(publish, "_fold", fold)


def _forget_merged_parents() -> None:
    """Take the point where the source left the target for the base, whatever was merged since."""

    def find(parted: DivergedCommits, source: CommitId, _: CommitId) -> tuple[CommitId, ...] | None:
        at = ancestry._left_at(parted.own, source)
        return None if at is None else (at,)

    _set(DivergedCommits, "find_plain", find)


def _ignore_conditions() -> None:
    put = Store.put

    def replace_always(store: Store, key: str, value: object, **_: Any) -> str | None:
        return put(store, key, value)

    _set(Store, "put", replace_always)


def _list_late() -> None:
    """A store that forgets the newest of each directory in every third listing."""
    listed, count = Store.list, [0]

    def forget(store: Store, directory: str, *, below: bool = False) -> list[str]:
        count[0] += 1
        keys = listed(store, directory, below=below)
        return keys[:-1] if count[0] % 3 == 0 and directory.endswith("_versions") else keys

    _set(Store, "list", forget)


# ---- guards of recovery


def _restore_over_anything() -> None:
    def restore(
        tables: SimulatedTables, path: str, branch: str | None, version: Any, **named: Any
    ) -> Any:
        head = tables.head(path, branch)
        lines, expected = tables._lines, named["expected_head"]
        if head != expected:
            raise HeadMoved(path, expected, head)
        base = lines.read(path, branch, expected)
        made = replace(
            lines.read(path, branch, version),
            uuid=tables._client.new_id(),
            change=Change.RESTORE,
            read_version=expected,
            fragments_made=base.fragments_made,
            restored=version,
            operation_id=named["operation_id"],
        )
        at = TableAt(path=path, branch=branch, version=lines.commit(path, branch, base, made))
        return Landed(at=at, row_count=len(made.rows), uuid=made.uuid)

    def take_for_own(reader: Any, one: Any) -> bool:
        return bool(one.operation == Change.RESTORE and reader._is_ours(one))

    _set(SimulatedTables, "restore", restore)
    # Two guards stand before that: either keeps it from harm.
    _set(gather._PinReader, "_restores_visible", take_for_own)


def _take_forks_without_a_look() -> None:
    _set(protocol, "require_locks_of", _nothing)
    _set(forks, "_require_orphan", _nothing)
    _set(forks, "is_at_fork_point", lambda *_: False)


def _forget_conditions() -> None:
    """Write sidecars that say nothing of the head that their write must follow."""
    describe = protocol.sidecar_of

    def forget(*given: Any) -> Any:
        return replace(describe(*given), if_commit=None)

    for module in (protocol, group):
        _set(module, "sidecar_of", forget)


def _is_any_alive(committer: Any, sidecar: Any) -> bool:
    """Whether a branch of the name exists, whichever it is."""
    names = committer.manifest.rows.branch_names()
    return sidecar.branch is None or sidecar.branch in names


def _complete_groups_in_part() -> None:
    """Complete a group whose tables moved, however far."""

    def judge(seen: Observed) -> Finding:
        is_known = seen.pin.confirmed is not None and seen.pin.expected == seen.visible
        return Finding.ROLLED_PAST_EXPECTED if is_known else Finding.UNEXPECTED_MULTISTEP

    _set(classify, "_classify_confirmed", judge)


def _leave_versions_to_late_puts() -> None:
    def none(_: GatheredOperation) -> Iterator[Any]:
        return iter(())

    _set(roll_back, "_list_still_movable", none)


MUTANTS: Final = {
    one.name: one
    for one in (
        Mutant(
            "late_put_blocks",
            "a roll-back leaves the versions free that a late PUT could create",
            "--plan orphans --line main --step 9",
            _leave_versions_to_late_puts,
            universes=46,
        ),
        Mutant(
            "blind_swap",
            "the manifest is replaced without a condition",
            "--plan weather --seeds 0:5000",
            _swap_blindly,
        ),
        Mutant(
            "no_sidecar",
            "the intent is not written down",
            "--plan weather --seeds 0:5000",
            lambda: _set(Sidecars, "arm", _nothing),
        ),
        Mutant(
            "blind_arming",
            "a second arming PUT replaces a decided sidecar",
            "--plan pairs --line fork --step 5",
            _arm_blindly,
        ),
        Mutant(
            "locks_never_looked_at",
            "nobody asks whether a lock was lost",
            "--plan pairs --line fork --step 7",
            lambda: _set(HeldLocks, "lost", _nothing),
        ),
        Mutant(
            "lease_ignored",
            "a lock is taken whoever has it",
            "--plan weather --seeds 0:5000",
            lambda: _set(Lease, "seconds_free", lambda *_: 1e9),
        ),
        Mutant(
            "no_last_look",
            "a commit does not compare its base with pins and HEADs",
            "--plan weather --seeds 0:5000",
            lambda: _set(protocol, "require_base", _nothing),
        ),
        Mutant(
            "publish_expects_nothing",
            "a publish does not compare pins",
            "--plan reading --line main",
            lambda: _set(change, "_require_pins", _nothing),
            universes=37,
        ),
        Mutant(
            "own_swap_unknown",
            "a publish whose answer was lost does not recognise its own commit",
            "",
            lambda: _set(publish, "_find_own_commit", _nothing),
            unseen="a swap finds its own version again below: the 49 places of a lost answer on a branch, and pairs and trios of all lines at every fifth and second place, are silent",
        ),
        Mutant(
            "draft_believed",
            "a version that somebody else created is taken for ours",
            "--plan weather --seeds 0:5000",
            _believe_drafts,
        ),
        Mutant(
            "same_id_again",
            "a write that is prepared again keeps its id, which recovery may have settled",
            "--plan trios --line own",
            lambda: _set(attempt, "mint_again", lambda _, plan: plan),
            universes=77,
        ),
        Mutant(
            "withdrawn_without_locks",
            "A: a writer removes its sidecar under the hands of a recoverer",
            "--plan traces --traces sleepers-CAREFUL",
            _forget_withdrawal_locks,
        ),
        Mutant(
            "forks_of_others_dropped",
            "B: whoever meets a fork drops it, whoever took it over",
            "--plan pairs --line fork --step 7",
            _take_forks_without_a_look,
        ),
        Mutant(
            "restore_over_anything",
            "C: Lance lets a Restore land over commits that came since the look",
            "--plan trios --line main",
            _restore_over_anything,
        ),
        Mutant(
            "recoverer_without_locks",
            "a recoverer does not ask whether it still has the locks",
            "",
            lambda: _set(GatheredOperation, "require_locks", _nothing),
            unseen="each effect of a recoverer has a condition of its own: 139 places of two recoverers are silent",
        ),
        Mutant(
            "decision_not_recorded",
            "recovery restores tables without noting that it rolls back",
            "--plan trios --line main",
            lambda: _set(
                roll_back, "_record_restored", lambda operation, noted: (operation, noted)
            ),
        ),
        Mutant(
            "rivals_of_pointers_unseen",
            "a merge that moves pins alone asks for no interrupted write of its tables",
            "--plan adopted --line fork",
            lambda: _set(guard, "_require_no_rivals", _nothing),
            universes=5,
        ),
        Mutant(
            "any_incarnation_written",
            "a write that was prepared on a branch lands on the next one of its name",
            "--plan remade --line own --step 5",
            _write_to_any_incarnation,
            universes=100,
        ),
        Mutant(
            "key_before_refusal",
            "the key of a branch operation is recorded before it may be refused",
            "--plan weather --work keys --seeds 0:3000",
            _record_keys_first,
            universes=1,
        ),
        Mutant(
            "late_delete",
            "whoever lost its locks goes on to delete a branch",
            "",
            _delete_without_locks,
            unseen="of a deletion only requests of Lance are left after the question, and no place of those is tried: 246 places are silent",
        ),
        Mutant(
            "group_versions_left_free",
            "a roll-back leaves the later versions of a group free for its late PUTs",
            "--plan grouped --line main --step 18",
            lambda: _set(roll_back, "_last_late", lambda _, seen: seen.head),
            universes=54,
        ),
        Mutant(
            "group_believed",
            "a version of a group that was not created is taken for landed",
            "--plan grouped --line main --step 18",
            _take_drafts_for_landed,
            universes=1,
        ),
        Mutant(
            "group_completed_in_part",
            "recovery completes a group of which a part landed",
            "--plan grouped --line main --step 18",
            _complete_groups_in_part,
            universes=1,
        ),
        Mutant(
            "group_key_twice",
            "recovery completes a write whose key another operation has published",
            "--plan same-key --line main",
            lambda: _set(gather, "_is_key_free", lambda *_: True),
            universes=68,
        ),
        Mutant(
            "stale_reading_completed",
            "recovery completes a write though what it read has moved",
            "--plan reading --line main",
            lambda: _set(gather, "_is_read_set_unmoved", lambda *_: True),
            universes=32,
        ),
        Mutant(
            "head_not_asked_again",
            "recovery completes a write whose condition on the head does not hold any more",
            "--plan expecting --line main",
            _forget_conditions,
            universes=17,
        ),
        Mutant(
            "commits_of_others_taken",
            "recovery takes every commit past a pin for one of its operation",
            "--plan pairs --line main --step 5",
            lambda: _set(gather._PinReader, "_is_ours", lambda *_: True),
            universes=30,
        ),
        Mutant(
            "any_incarnation_recovered",
            "recovery of a write goes on on the next branch of the name",
            "--plan orphans-again --line own --step 13",
            lambda: _set(gather, "_is_alive", _is_any_alive),
            universes=42,
        ),
        Mutant(
            "untimely_swap",
            "a swap is believed that may have been passed by a cleanup",
            "--plan passed --line main",
            lambda: _set(publish, "_require_timely", _nothing),
            universes=27,
        ),
        Mutant(
            "dated_before_parent",
            "a commit has the time of its writer's clock, whatever its parent has",
            "--plan weather --seeds 0:3000",
            _date_by_own_clock,
            universes=1,
        ),
        Mutant(
            "recovered_again",
            "a completed operation is not recognised by its recovery commit",
            "",
            lambda: _set(gather, "_is_completed", lambda *_: False),
            unseen="`test_crash_states` finds it in what moves no table",
        ),
        Mutant(
            "cleanup_asks_no_branch",
            "cleanup removes what branches and forks stand on",
            "--plan cleaned --line fork",
            lambda: _set(PinnedStates, "keeps", lambda *_: lambda _: False),
            universes=1,
        ),
        Mutant(
            "cleanup_looks_once",
            "cleanup does not look for branches that were made since it began",
            "--plan reclaiming --line main --step 5",
            lambda: _set(PinnedStates, "look_again", _forget_made),
            universes=45,
        ),
        Mutant(
            "swap_from_before_fold",
            "after its fold of the manifest a handle goes on from what it knew before, whoever published between",
            "--plan folding --line main",
            _go_on_from_before_the_fold,
            universes=7,
        ),
        Mutant(
            "merged_looked_at_early",
            "a merged branch is deleted though it moved on since somebody looked",
            "--plan dropping --line fork",
            _look_before_locking,
            universes=6,
        ),
        Mutant(
            "wrong_base",
            "M1: the base of a merge is the fork point, whatever was merged since, and deletions are lost",
            "--level engine --plan histories",
            _forget_merged_parents,
            universes=1,
        ),
        Mutant(
            "foreign_versions_read",
            "a version that descends from an earlier branch of the name is taken for its own",
            "--plan orphans-again --line own --step 9",
            lambda: _set(simulated_rows, "is_foreign", lambda *_: False),
            universes=158,
        ),
        Mutant(
            "conditions_ignored",
            "a broken world: the store replaces what exists",
            "--plan weather --seeds 0:2000",
            _ignore_conditions,
            universes=1,
        ),
        Mutant(
            "listings_late",
            "a broken world: a listing lacks the newest object",
            "--plan weather --seeds 0:2000",
            _list_late,
            universes=1,
        ),
    )
}
