"""Whether what clients asked of running instances was done: signals consumed once, pauses obeyed."""

from __future__ import annotations

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import ATTEMPT_KEY, Facts
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

_SIGNAL = ["instance_id", "signal_id"]


def check_signals(facts: Facts) -> list[Finding]:
    """Find acknowledged signals that are gone, signals that nobody sent, and waits without exactly one signal."""
    problems = Problems("signals")
    table = facts.arm.tables["signal"]
    acknowledged = facts.events("signal.ok")[_SIGNAL].dropna().drop_duplicates()
    gone = _without(acknowledged, table, _SIGNAL)
    problems.add_rows(
        "gone", Status.FAIL, "{n} acknowledged signals have no row [I4].", gone, _SIGNAL, from_absence=True
    )
    sent = facts.events("signal.invoke")[_SIGNAL].dropna().drop_duplicates()
    strangers = _without(table, sent, _SIGNAL)
    problems.add_rows(
        "stranger", Status.FAIL, "{n} signals have an id that nobody sent [I4].", strangers, _SIGNAL, from_absence=True
    )
    consumed = table.dropna(subset=["consumed_step_id"]).astype({"consumed_step_id": "int64"})
    place = ["instance_id", "consumed_step_id"]
    twice = consumed[consumed.duplicated(place, keep=False)]
    problems.add_rows("two_in_one", Status.FAIL, "{n} signals share their wait [I4].", twice, [*_SIGNAL, *place[1:]])
    waits = facts.successes[facts.successes["step_id"].isin(facts.spec.waits)].assign(scope="")
    bare = _without(waits.rename(columns={"step_id": "consumed_step_id"}), consumed, place)
    problems.add_rows(
        "row_without_signal", Status.FAIL, "{n} waits ended without a signal [I4].", bare, place, from_absence=True
    )
    return problems.found


def _without(frame: pd.DataFrame, others: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    joined = frame.merge(others[key].drop_duplicates(), on=key, how="left", indicator=True)
    return joined[joined["_merge"] == "left_only"]


def check_paused(facts: Facts) -> list[Finding]:
    """Find steps that were begun after a pause was observed.

    The effect of a step that was in flight may still come, and so may that of one whose commit was answered just
    before the pause. A second effect of the same holder was begun after a commit that told it of the pause.
    """
    problems = Problems("paused")
    pauses = facts.events("pause.ok")[["instance_id", "t"]].dropna()
    if pauses.empty:
        problems.add("none", Status.INCONCLUSIVE, "Nothing was paused.", ["no pause was acknowledged"])
        return problems.found
    resumes = facts.events("resume.invoke").groupby("instance_id")["t"].min().rename("resume_t")
    paused = pauses.rename(columns={"t": "pause_t"}).merge(resumes, on="instance_id", how="left")
    joined = facts.effects.merge(paused, on="instance_id")
    during = joined[(joined["t"] > joined["pause_t"]) & (joined["t"] < joined["resume_t"].fillna(float("inf")))]
    late = during[during.groupby(["instance_id", "token"]).cumcount() > 0]
    columns = [*ATTEMPT_KEY, "token", "pid"]
    problems.add_rows("started", Status.FAIL, "{n} steps were begun after a pause was observed [I9].", late, columns)
    return problems.found


def _has_waits(spec: ArmSpec) -> bool:
    return spec.journal and bool(spec.waits)


def _has_pauses(spec: ArmSpec) -> bool:
    return spec.pauses


CHECKERS = (
    Checker(
        "signals",
        "Every signal is there once, and every wait consumed one.",
        ("gone", "stranger", "two_in_one", "row_without_signal"),
        check_signals,
        _has_waits,
    ),
    Checker("paused", "Nothing was begun after a pause was observed.", ("none", "started"), check_paused, _has_pauses),
)
