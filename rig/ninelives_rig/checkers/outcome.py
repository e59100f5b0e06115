"""Whether everything that was promised is there: starts, ends, acknowledged rows, and no effect from
nowhere.
"""

from __future__ import annotations

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems, unless_progressing
from ninelives_rig.checkers.facts import ATTEMPT_KEY, STEP_KEY, TERMINAL, Facts, show
from ninelives_rig.verdict import Finding, Status

# What the server had acknowledged to the process that died at the boundary.
_ROW_BOUNDARY = "journal.committed"
_FINISH_BOUNDARY = "finish.committed"
_NEXT_BODY_BOUNDARY = "body.entered"
_START_BOUNDARY = "start.committed"
_INTENT_BOUNDARY = "intent.committed"


def check_lost(facts: Facts) -> list[Finding]:
    """Find instances that have a row and never became terminal."""
    problems = Problems("lost")
    lines = [
        f"instance_id={instance_id} state={state}"
        for instance_id, state in sorted(facts.states.items())
        if state not in TERMINAL
    ]
    status = unless_progressing(facts)
    problems.add("unfinished", status, "{n} instances never became terminal.", lines)
    return problems.found


def check_never_opened(facts: Facts) -> list[Finding]:
    """Find instances that somebody began to start or claimed, and that have no row at the end."""
    problems = Problems("never_opened")
    begun = set(facts.events("start.invoke", "start.ok", "start.info", "claimed")["instance_id"].dropna())
    lines = [f"instance_id={one}" for one in sorted((facts.registered & begun) - facts.states.keys())]
    problems.add(
        "no_row",
        unless_progressing(facts),
        "{n} instances were begun and have no row.",
        lines,
        from_absence=True,
    )
    return problems.found


def check_orphan_effects(facts: Facts) -> list[Finding]:
    """Find effects of instances that have no row."""
    problems = Problems("orphan_effects")
    orphans = facts.effects[~facts.effects["instance_id"].isin(facts.states.keys())]
    problems.add_rows(
        "no_row",
        Status.FAIL,
        "{n} effects belong to instances without a row.",
        orphans,
        [*ATTEMPT_KEY, "token", "pid"],
        from_absence=True,
    )
    return problems.found


def check_durable_start(facts: Facts) -> list[Finding]:
    """Find starts that were acknowledged and have no row."""
    problems = Problems("durable_start")
    acknowledged = facts.events("start.ok")[["instance_id", "process"]].dropna()
    receipts = [
        (kill.instance_id, f"receipt {kill.kill_id}")
        for kill in facts.kills
        if kill.boundary == _START_BOUNDARY and kill.instance_id
    ]
    every = [*acknowledged.itertuples(index=False, name=None), *receipts]
    lines = [f"instance_id={one} acknowledged to {whom}" for one, whom in every if one not in facts.states]
    problems.add("no_row", Status.FAIL, "{n} acknowledged starts have no row.", sorted(lines), from_absence=True)
    return problems.found


def check_acknowledged(facts: Facts) -> list[Finding]:
    """Find acknowledged ends, rows and intents that are not in the tables."""
    problems = Problems("acknowledged")
    _check_ends(facts, problems)
    if facts.spec.journal:
        _check_rows(facts, problems)
    if facts.spec.journal and facts.spec.tokens and facts.spec.sequential:
        _check_order(facts, problems)
    return problems.found


def _check_ends(facts: Facts, problems: Problems) -> None:
    ended = facts.finishes["instance_id"].dropna().tolist()
    ended += [kill.instance_id for kill in facts.kills if kill.boundary == _FINISH_BOUNDARY and kill.instance_id]
    gone = [one for one in sorted(set(ended)) if one not in facts.states]
    undone = [one for one in sorted(set(ended)) if one in facts.states and facts.states[one] not in TERMINAL]
    sentence = "{n} acknowledged ends are not there."
    shown = [f"instance_id={one} state={facts.states[one]}" for one in undone]
    problems.add("end_missing", Status.FAIL, sentence, shown)
    absent = [f"instance_id={one} state=no row" for one in gone]
    problems.add("end_missing", Status.FAIL, sentence, absent, from_absence=True)


def _check_rows(facts: Facts, problems: Problems) -> None:
    """Compare receipts with rows: who died behind an acknowledged commit had its row committed, under its
    token.
    """
    rows = {_key(row): int(row["token"]) for row in facts.rows[[*ATTEMPT_KEY, "token"]].to_dict("records")}
    intents = facts.arm.tables.get("intent")
    known = set() if intents is None else {_key(row) for row in intents[ATTEMPT_KEY].to_dict("records")}
    done = {tuple(row[:3]): int(row[3]) for row in facts.successes[[*STEP_KEY, "token"]].itertuples(index=False)}
    in_front = step_in_front(facts) if facts.spec.sequential else {}
    gone, unintended = [], []
    for kill in facts.kills:
        place = (kill.instance_id, kill.scope, kill.step_id, kill.attempt)
        line = f"kill_id={kill.kill_id} instance_id={kill.instance_id} step_id={kill.step_id} token={kill.token}"
        if kill.boundary == _ROW_BOUNDARY and rows.get(place) != kill.token and kill.step_id:
            gone.append(f"{line} row={rows.get(place, 'none')}")
        if kill.boundary == _NEXT_BODY_BOUNDARY and kill.step_id in in_front:
            token = done.get((kill.instance_id, kill.scope, in_front[kill.step_id]))
            if token is None or token > kill.token:
                gone.append(f"{line} row in front={token}")
        if kill.boundary == _INTENT_BOUNDARY and intents is not None and place not in known:
            unintended.append(line)
    problems.add("row_missing", Status.FAIL, "{n} acknowledged rows are gone or another's.", gone, from_absence=True)
    problems.add("intent_missing", Status.FAIL, "{n} acknowledged intents are gone.", unintended, from_absence=True)


def _key(row: dict[object, object] | dict[str, object]) -> tuple[object, ...]:
    fields: dict[object, object] = dict(row.items())
    return tuple(fields[name] for name in ATTEMPT_KEY)


def step_in_front(facts: Facts) -> dict[int, int]:
    """Return, for each step of a sequence but the first, the step in front of it."""
    order = facts.spec.step_ids
    return dict(zip(order[1:], order[:-1], strict=True))


def _check_order(facts: Facts, problems: Problems) -> None:
    """Find effects that were begun before the step in front was committed: its row carries a later token,
    or none.
    """
    before = step_in_front(facts)
    effects = facts.effects[facts.effects["step_id"].isin(before)]
    effects = effects.assign(before=effects["step_id"].map(before).astype("int64"))
    done = facts.successes[["instance_id", "scope", "step_id", "token"]].rename(
        columns={"step_id": "before", "token": "row_token"}
    )
    joined = effects.merge(done, on=["instance_id", "scope", "before"], how="left")
    early = joined[joined["row_token"].isna() | (joined["row_token"] > joined["token"])]
    early = early[early["instance_id"].isin(facts.states.keys())]
    lines = [
        f"{show(row, *ATTEMPT_KEY, 'token')}; step {row['before']} has "
        + ("no row" if pd.isna(row["row_token"]) else f"its row under token {int(row['row_token'])}")
        for row in early.to_dict("records")
    ]
    problems.add(
        "effect_before_commit",
        Status.FAIL,
        "{n} effects happened before the step in front of them was committed.",
        lines,
        from_absence=True,
    )


def check_terminal(facts: Facts) -> list[Finding]:
    """Find unexpected ends, ends that history and table tell differently, and wakes that do not fit the
    state.
    """
    problems = Problems("terminal")
    _check_states(facts, problems)
    if "wake" in facts.arm.tables:
        _check_wakes(facts, problems)
    return problems.found


def _check_states(facts: Facts, problems: Problems) -> None:
    expected = set(facts.spec.states)
    states = sorted(facts.states.items())
    wrong = [f"instance_id={one} state={state}" for one, state in states if state in TERMINAL - expected]
    problems.add("unexpected", Status.FAIL, "{n} instances ended in a state that nobody asked for.", wrong)
    # The end as a node saw it acknowledged, where the engine tells how, and as its client was told.
    told = facts.events("finished", "ended").dropna(subset=["instance_id", "state"])
    told = told.assign(table=told["instance_id"].map(lambda one: facts.states.get(one)))
    other = told[told["table"].isin(TERMINAL) & (told["table"] != told["state"])]
    columns = ["instance_id", "state", "table"]
    problems.add_rows("disagree", Status.FAIL, "{n} ends were told as another state.", other, columns)
    unseen = {one for one, state in states if state in TERMINAL} - set(facts.finishes["instance_id"])
    holders = facts.last_holder
    lines = [f"instance_id={one}" for one in sorted(unseen) if not facts.was_killed(holders.get(one))]
    problems.add(
        "unseen",
        Status.INCONCLUSIVE,
        "{n} instances are terminal, and no living node told of it.",
        lines if facts.spec.journal else (),
    )


def _check_wakes(facts: Facts, problems: Problems) -> None:
    instance, wake = facts.arm.tables["instance"], facts.arm.tables["wake"]
    live = instance[~instance["state"].isin(TERMINAL)]
    columns = ["instance_id", "state"]
    ghost = instance[instance["state"].isin(TERMINAL) & instance["instance_id"].isin(wake["instance_id"])]
    problems.add_rows("wake_left", Status.FAIL, "{n} terminal instances have a wake [I11].", ghost, columns)
    asleep = live[~live["instance_id"].isin(wake["instance_id"])]
    problems.add_rows(
        "wake_missing", Status.FAIL, "{n} live instances have no wake [I11].", asleep, columns, from_absence=True
    )
    rest = wake.merge(live, on="instance_id")
    rest = rest[rest["holder"].isna() & rest["run_at"].isna() & ~rest["paused"]]
    deaf = rest[(rest["state"] != "Suspended") | (rest["seq"] != rest["seen_seq"])]
    columns = ["instance_id", "state", "seq", "seen_seq"]
    problems.add_rows("unwakeable", Status.FAIL, "{n} instances wait for nothing [I13].", deaf, columns)


CHECKERS = (
    Checker("lost", "Every instance became terminal.", ("unfinished",), check_lost),
    Checker("never_opened", "Every start that was begun has a row.", ("no_row",), check_never_opened),
    Checker("orphan_effects", "Every effect belongs to an instance.", ("no_row",), check_orphan_effects),
    Checker("durable_start", "Every acknowledged start has a row.", ("no_row",), check_durable_start),
    Checker(
        "acknowledged",
        "Whatever was acknowledged to a node is in the tables.",
        ("end_missing", "row_missing", "intent_missing", "effect_before_commit"),
        check_acknowledged,
    ),
    Checker(
        "terminal",
        "Instances ended as asked, as told, and without a wake.",
        ("unexpected", "disagree", "unseen", "wake_left", "wake_missing", "unwakeable"),
        check_terminal,
    ),
)
