"""The mutants that are races: each has to be found by exploring the cases that are named with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ninelives_rig.explore.states import Case, parse_case
from ninelives_rig.refusal import Refused
from ninelives_rig.sabotage.planting import CodeEdit, Edit, SqlEdit, edits_of
from ninelives_rig.sabotage.sql_mutants import SIGNAL_BUMP, SIGNAL_LOOK


@dataclass(frozen=True)
class RaceMutant:
    """One deliberate defect that shows in some order of statements only.

    ``removes`` says which guard is gone. It is found when a schedule of one of the cases violates ``invariant``;
    another violation is not it. ``edits`` is empty for a mutant of `make sabotage`.
    """

    name: str
    removes: str
    protocol: str
    invariant: str
    cases: tuple[Case, ...]
    edits: tuple[Edit, ...] = ()

    def planted(self) -> tuple[Edit, ...]:
        """Return what has to be edited."""
        return self.edits or edits_of(self.name)


def _mutant(name: str, removes: str, protocol: str, cases: str, *edits: Edit) -> RaceMutant:
    return RaceMutant(name, removes, protocol, protocol.split()[0], tuple(map(parse_case, cases.split())), edits)


_MAY_RUN = "not i.paused and i.finished_at is null"

RACE_MUTANTS: tuple[RaceMutant, ...] = (
    # Those that `make sabotage` plants too.
    _mutant("commit-unfenced", "a commit does not compare its token with the fence", "I1 M12", "commit+claim@dead"),
    _mutant("token-kept-on-takeover", "a takeover mints no new token", "I8 M09 M31", "commit+claim@dead"),
    _mutant("park-without-token", "a park does not ask who holds the lease", "R3 M20", "stale-park+claim@again"),
    _mutant("park-without-seq", "a park does not ask what came in since the claim", "L1 M03", "park+signal@held"),
    _mutant("waker-skips-pending", "a waker does nothing while a wake is pending", "L1 M01 M07", "park+signal@held"),
    _mutant(
        "wake-before-signal", "a signal wakes in one transaction and comes in another", "L1 M07b", "turn+signal@parked"
    ),
    _mutant("early-signal-without-lock", "an early signal takes no start lock", "L1 M15", "born+signal@unborn"),
    _mutant("signal-without-dedupe", "a repeated signal is a new one", "I4 M28", "signal+signal@held"),
    _mutant("pause-ignored", "claims and commits do not look at the pause", "I9 M17", "claim+pause@pending"),
    _mutant("resume-without-wake", "the end of a pause wakes nobody", "I13 M18", "claim+resume@paused-due"),
    _mutant("finish-leaves-wake", "the end does not delete the wake", "I11 M33", "commit-end+signal@held"),
    _mutant("session-revives", "the heartbeat of a dead session is accepted", "S1", "renew+die@held"),
    # Those that are met by chance once in many thousand runs, and so are planted here alone.
    _mutant(
        "claim-judges-its-snapshot",
        "a claim reads from its snapshot, not from the locked row, whether the instance may run",
        "I13",
        "claim+resume@paused-due",
        SqlEdit("claim", f"{_MAY_RUN} as may_run", "true as may_run"),
        SqlEdit(
            "claim", "i.instance_id = k.instance_id and k.may_run", f"i.instance_id = k.instance_id and {_MAY_RUN}"
        ),
        SqlEdit(
            "claim", "and not k.may_run", "and not exists (select from raised r where r.instance_id = k.instance_id)"
        ),
    ),
    _mutant(
        "intent-while-paused",
        "an intent is accepted although the instance is paused",
        "I9 M27",
        "intend+pause@held",
        SqlEdit("intend", "i.finished_at is null and not i.paused", "i.finished_at is null"),
    ),
    _mutant(
        "instance-before-wake",
        "a resume locks the instance before the wake",
        "L2 M24",
        "park+resume@paused-held",
        CodeEdit(
            "ninelives.store.control:Control.resume",
            '[(b"wake", (instance_id,)), (b"resume", (instance_id,)), ',
            '[(b"resume", (instance_id,)), (b"wake", (instance_id,)), ',
        ),
        CodeEdit("ninelives.store.control:Control.resume", "_text(results[1], 0, 0) if", "_text(results[0], 0, 0) if"),
    ),
    _mutant(
        "signal-behind-end",
        "a signal is accepted by an instance that has ended",
        "I4",
        "commit-end+signal@held",
        SqlEdit("signal", "clock_timestamp() from w\n", "clock_timestamp()\n"),
    ),
    _mutant(
        "signal-inserted-without-bump",
        "a signal that woke nothing is inserted when the instance is there by then",
        "L1 M43",
        "born+signal@unborn",
        SqlEdit("signal", SIGNAL_BUMP, SIGNAL_LOOK),
        CodeEdit(
            "ninelives.store.control:Control.signal",
            """    results = await self._ask([(b"signal", values), notify])
    outcome = _text(results[0], 0, 0)
""",
            """    results = await self._ask([(b"wake", (instance_id,)), (b"signal", values), notify])
    outcome = _text(results[1], 0, 0)
""",
        ),
    ),
    _mutant(
        "release-without-token",
        "a release does not ask under which token the lease is held",
        "R3",
        "stale-release+claim@again",
        SqlEdit("release", "and i.fence = b.token and l.token = b.token", ""),
    ),
    _mutant(
        "settle-under-holder",
        "an operator settles a doubt while a node holds the instance",
        "I3",
        "settle+void@doubt-held",
        SqlEdit("settle", " and w.holder is null", ""),
    ),
    _mutant(
        "finish-while-paused",
        "the end does not look at the pause",
        "I9 M17",
        "finish+pause@held",
        SqlEdit("finish", " and not i.paused", ""),
    ),
)


def mutant(name: str) -> RaceMutant:
    """Return a mutant by name; raises ``Refused`` for what is not known."""
    known: Mapping[str, RaceMutant] = {one.name: one for one in RACE_MUTANTS}
    if name not in known:
        raise Refused(f"no race mutant {name!r}; choose of {', '.join(known)}")
    return known[name]
