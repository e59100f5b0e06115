"""Whether each step had its effect as often as its engine promises."""

from __future__ import annotations

import pandas as pd

from ninelives_rig.checkers.accounting import DUPLICATES, OTHERS
from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import ATTEMPT_KEY, STEP_KEY, Facts
from ninelives_rig.checkers.metrics import count_steps_completed
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

_SHOWN = [*ATTEMPT_KEY, "token", "pid"]


def check_duplicates(facts: Facts) -> list[Finding]:
    """Find duplicates that no guarantee allows. The documented window is counted, and allowed."""
    problems = Problems("duplicates")
    table = facts.classified
    against = table[table["class"] == "against_guarantee"]
    problems.add_rows(
        "against_guarantee", Status.FAIL, "{n} effects were repeated against the guarantee.", against, _SHOWN
    )
    between = table[table["class"] == "between_live_workers"]
    problems.add_rows(
        "between_live_workers", Status.FAIL, "{n} effects were repeated by two live workers.", between, _SHOWN
    )
    return problems.found


def check_arithmetic(facts: Facts) -> list[Finding]:
    """Find completed steps without an effect, completed instances without a step, and sums that do not
    close.
    """
    problems = Problems("arithmetic")
    table = facts.classified
    accounted = table[table["class"] == "accounted"]
    if facts.spec.journal:
        missing = _without(facts.effective, accounted)
        problems.add_rows(
            "no_effect",
            Status.FAIL,
            "{n} completed steps have no effect.",
            missing,
            [*ATTEMPT_KEY, "token"],
            from_absence=True,
        )
    done = facts.successes if facts.spec.journal else accounted
    skipped = _skipped(facts, set(zip(done["instance_id"], done["step_id"], strict=True)))
    problems.add(
        "step_missing",
        Status.FAIL,
        "{n} steps of completed instances were never done.",
        skipped,
        from_absence=True,
    )
    if facts.spec.journal:
        settled = {tuple(key) for name in ("step", "intent") if name in facts.arm.tables
                   for key in facts.arm.tables[name][ATTEMPT_KEY].itertuples(index=False, name=None)}  # fmt: skip
        later = facts.effects[facts.effects["attempt"] > 1]
        keys = zip(*(later[name] for name in STEP_KEY), later["attempt"] - 1, strict=True)
        skipping = later[[key not in settled for key in keys]]
        problems.add_rows(
            "attempt_skipped",
            Status.FAIL,
            "{n} effects are of an attempt whose predecessor is not recorded.",
            skipping,
            _SHOWN,
            from_absence=True,
        )
    classes = table["class"].value_counts()
    others = {name: int(classes.get(name, 0)) for name in (*OTHERS, *DUPLICATES)}
    steps, effects = count_steps_completed(facts), len(table)
    if not facts.spec.journal:
        unfinished = ~accounted["instance_id"].map(facts.states).eq("Completed")
        others["of unfinished instances"] = int(unfinished.sum())
    if steps + sum(others.values()) != effects:
        sums = " + ".join(f"{n} {name}" for name, n in others.items() if n)
        line = f"{steps} steps{' + ' if sums else ''}{sums} is not {effects} effects"
        problems.add("open", Status.FAIL, "The sum does not close.", [line], from_absence=True)
    return problems.found


def _without(successes: pd.DataFrame, accounted: pd.DataFrame) -> pd.DataFrame:
    joined = successes.merge(accounted[STEP_KEY].drop_duplicates(), on=STEP_KEY, how="left", indicator=True)
    return joined[joined["_merge"] == "left_only"]


def _skipped(facts: Facts, done: set[tuple[str, int]]) -> list[str]:
    completed = sorted(one for one, state in facts.states.items() if state == "Completed")
    return [
        f"instance_id={one} step_id={step_id}"
        for one in completed
        for step_id in facts.spec.step_ids
        if (one, step_id) not in done
    ]


def check_in_doubt(facts: Facts) -> list[Finding]:
    """Find effects and rows without an intent of their own, and doubts that nobody settled."""
    problems = Problems("in_doubt")
    intent = facts.arm.tables["intent"].assign(token=lambda rows: rows["token"].fillna(0).astype("int64"))
    effects, rows = facts.effects, facts.rows
    mine = [*ATTEMPT_KEY, "token"]
    joined = effects.merge(intent[[*mine, "outcome"]], on=mine, how="left", indicator=True)
    problems.add_rows(
        "no_intent",
        Status.FAIL,
        "{n} effects had no intent under their own token.",
        joined[joined["_merge"] == "left_only"],
        _SHOWN,
        from_absence=True,
    )
    voided = joined[joined["outcome"] == "voided"]
    problems.add_rows("voided_effect", Status.FAIL, "{n} voided intents had an effect.", voided, _SHOWN)
    settled = intent[intent["outcome"].isin(["committed", "done"])]
    bare = settled.merge(rows[ATTEMPT_KEY], on=ATTEMPT_KEY, how="left", indicator=True)
    bare = bare[bare["_merge"] == "left_only"]
    columns = [*ATTEMPT_KEY, "token", "outcome"]
    problems.add_rows("no_row", Status.FAIL, "{n} settled intents have no row.", bare, columns, from_absence=True)
    doubted = intent[intent["doubted_token"].notna()]
    claimed = set(zip(facts.claims["instance_id"], facts.claims["token"], strict=True))
    keys = zip(doubted["instance_id"], doubted["doubted_token"], strict=True)
    stray = doubted[[key not in claimed for key in keys]]
    sentence = "{n} doubts are of a holder that nobody saw."
    problems.add_rows("doubted_by_nobody", Status.INCONCLUSIVE, sentence, stray, [*ATTEMPT_KEY, "doubted_token"])
    status = Status.INCONCLUSIVE if facts.still_progressing else Status.FAIL
    still_open = intent[intent["outcome"].isna()]
    problems.add_rows("open", status, "{n} intents were left without an outcome.", still_open, columns)
    return problems.found


def _has_intents(spec: ArmSpec) -> bool:
    return spec.journal and spec.intents and spec.effect == "at_most_once"


CHECKERS = (
    Checker(
        "duplicates",
        "No effect was repeated but in the documented window.",
        ("against_guarantee", "between_live_workers"),
        check_duplicates,
    ),
    Checker(
        "arithmetic",
        "Completed steps and classified duplicates add up to the effects.",
        ("no_effect", "step_missing", "attempt_skipped", "open"),
        check_arithmetic,
    ),
    Checker(
        "in_doubt",
        "Every effect had its intent first, and every doubt was settled.",
        ("no_intent", "voided_effect", "no_row", "doubted_by_nobody", "open"),
        check_in_doubt,
        _has_intents,
    ),
)
