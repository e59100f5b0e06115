"""Whether the journal took rows of the current holder only, in a dense order, under tokens that rise."""

from __future__ import annotations

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import ATTEMPT_KEY, STEP_KEY, Facts
from ninelives_rig.checkers.outcome import step_in_front
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

_ROW = [*ATTEMPT_KEY, "sequence", "token"]


def check_fencing(facts: Facts) -> list[Finding]:
    """Find rows, effects and ends that were accepted under a token after a greater one was issued."""
    problems = Problems("fencing")
    rows = facts.rows
    highest = rows.groupby("instance_id")["token"].cummax()
    stale = rows.assign(after=highest)[rows["token"] < highest]
    problems.add_rows(
        "stale_row",
        Status.FAIL,
        "{n} rows were accepted under a stale token.",
        stale,
        [*_ROW, "after"],
    )
    table = facts.classified
    late = table[table["overlap"].astype(bool) & ~table["zombie"].astype(bool)]
    columns = [*ATTEMPT_KEY, "token", "pid"]
    problems.add_rows("stale_effect", Status.FAIL, "{n} effects happened under a stale token.", late, columns)
    zombies = table[table["zombie"].astype(bool)]
    steps = zombies.groupby(["pid", "instance_id", "scope"])["step_id"].transform("nunique")
    passed = _passed_a_refusal(facts, zombies)
    problems.add_rows(
        "zombie_went_on",
        Status.FAIL,
        "{n} effects are of nodes that went on after a refusal.",
        zombies[(steps > 1) | passed],
        columns,
    )
    _check_ends(facts, problems)
    return problems.found


def _passed_a_refusal(facts: Facts, zombies: pd.DataFrame) -> pd.Series[bool]:
    """Mark effects of a zombie whose step in front was committed by a later holder: its own commit was refused."""
    in_front = step_in_front(facts) if facts.spec.sequential else {}
    tokens = facts.successes.set_index(STEP_KEY)["token"].groupby(level=STEP_KEY).max()
    before = zombies["step_id"].map(lambda step_id: in_front.get(step_id, 0))
    keys = zip(zombies["instance_id"], zombies["scope"], before, strict=True)
    marks = [tokens.get(key, 0) > token for key, token in zip(keys, zombies["token"], strict=True)]
    return pd.Series(marks, index=zombies.index, dtype="bool")


def _check_ends(facts: Facts, problems: Problems) -> None:
    """Compare each acknowledged end with the greatest token that was issued for its instance before it."""
    ends = facts.finishes.dropna(subset=["instance_id"])
    ends = ends[ends["token"] > 0]
    joined = ends[["instance_id", "token", "t", "process"]].merge(
        facts.issues, on="instance_id", suffixes=("", "_issued")
    )
    newer = joined[(joined["token_issued"] > joined["token"]) & (joined["t_issued"] < joined["t"])]
    fences = facts.arm.tables["instance"][["instance_id", "fence"]]
    beyond = ends.merge(fences, on="instance_id")
    beyond = beyond[beyond["fence"] != beyond["token"]]
    late = pd.concat([newer, beyond]).drop_duplicates(["instance_id", "token"])
    columns = ["instance_id", "token", "process"]
    problems.add_rows("stale_finish", Status.FAIL, "{n} ends were accepted under a stale token.", late, columns)
    twice = ends[ends["instance_id"].isin(ends[ends.duplicated("instance_id")]["instance_id"])]
    twice = twice[twice.groupby("instance_id")["token"].transform("nunique") > 1]
    problems.add_rows("two_ends", Status.FAIL, "{n} ends share an instance.", twice, columns)


def check_tokens(facts: Facts) -> list[Finding]:
    """Find tokens that did not rise, leases that are gone or behind, and fences that differ from their
    lease.
    """
    problems = Problems("tokens")
    claims = facts.claims
    before = claims.groupby("instance_id")["token"].shift(1)
    # A node that is stopped between a claim and its event tells of it when others have claimed since.
    told_late = facts.after_freeze(claims) & (claims["token"] < before)
    fallen = claims.assign(before=before)[(claims["token"] <= before.fillna(-1)) & ~told_late]
    columns = ["instance_id", "token", "before", "process"]
    problems.add_rows("not_rising", Status.FAIL, "{n} claims got no greater token.", fallen, columns)
    lease = facts.arm.tables["lease"][["instance_id", "token"]]
    used = pd.concat([frame[["instance_id", "token"]] for frame in (facts.rows, claims, facts.effects)])
    highest = used.groupby("instance_id")["token"].max().rename("used").reset_index()
    highest = highest[(highest["used"] > 0) & highest["instance_id"].isin(facts.states.keys())]
    joined = highest.merge(lease, on="instance_id", how="left")
    gone = joined[joined["token"].isna()]
    problems.add_rows(
        "lease_missing",
        Status.FAIL,
        "{n} instances that were held have no lease row.",
        gone,
        ["instance_id", "used"],
        from_absence=True,
    )
    behind = joined[joined["token"] < joined["used"]]
    columns = ["instance_id", "token", "used"]
    problems.add_rows("lease_behind", Status.FAIL, "{n} leases are below a token that was used.", behind, columns)
    fences = facts.arm.tables["instance"][["instance_id", "fence"]].merge(lease, on="instance_id")
    apart = fences[fences["fence"] != fences["token"]]
    columns = ["instance_id", "fence", "token"]
    problems.add_rows("fence_differs", Status.FAIL, "{n} fences differ from their lease.", apart, columns)
    _check_claims_seen(facts, problems)
    return problems.found


def _check_claims_seen(facts: Facts, problems: Problems) -> None:
    """Find rows under a token that no history tells of: a claim was lost from it. A node's own start is a
    claim.
    """
    claimed = facts.claims[["instance_id", "token"]].drop_duplicates()
    rows = facts.rows[~facts.rows["instance_id"].isin(facts.node_starts["instance_id"])]
    joined = rows.merge(claimed, on=["instance_id", "token"], how="left", indicator=True)
    unseen = joined[joined["_merge"] == "left_only"]
    problems.add_rows("claim_unseen", Status.INCONCLUSIVE, "{n} rows have a token that nobody claimed.", unseen, _ROW)
    effects, ends = facts.effects, facts.finishes.dropna(subset=["instance_id"])
    lines = [
        f"instance_id={key[0]} token={key[1]} pid={key[2]} {what}"
        for what, frame in (("effect", effects), ("end", ends))
        for key in zip(frame["instance_id"], frame["token"], frame["pid"], strict=True)
        if key not in facts.holds
    ]
    problems.add("unheld", Status.INCONCLUSIVE, "{n} effects or ends are of nodes that never held the instance.", lines)
    claims = facts.claims
    odd = claims[claims["takeover"].notna() & (claims["takeover"] != (claims["token"] > 1))]
    columns = ["instance_id", "token", "takeover"]
    problems.add_rows("takeover", Status.INCONCLUSIVE, "{n} claims say wrongly who held before.", odd, columns)


def check_sequences(facts: Facts) -> list[Finding]:
    """Find journals that are not numbered 1, 2, 3 ..., steps that are recorded twice, and counters that
    differ.
    """
    problems = Problems("sequences")
    rows = facts.rows
    number = rows.groupby("instance_id").cumcount() + 1
    wrong = rows.assign(expected=number)[rows["sequence"] != number]
    problems.add_rows(
        "not_dense",
        Status.FAIL,
        "{n} rows are not numbered densely.",
        wrong,
        [*_ROW, "expected"],
        from_absence=True,
    )
    twice = rows[rows.duplicated(ATTEMPT_KEY, keep=False)]
    problems.add_rows("row_twice", Status.FAIL, "{n} rows share their key.", twice, _ROW)
    done = facts.successes
    again = done[done.duplicated(["instance_id", "scope", "step_id"], keep=False)]
    problems.add_rows("step_twice", Status.FAIL, "{n} rows complete a step that another did.", again, _ROW)
    table = facts.arm.tables["instance"]
    counts = table["instance_id"].map(rows.groupby("instance_id").size()).fillna(0).astype("int64")
    off = table.assign(rows=counts)[table["next_sequence"] != counts + 1]
    columns = ["instance_id", "next_sequence", "rows"]
    problems.add_rows(
        "counter", Status.FAIL, "{n} instances count other rows than they have.", off, columns, from_absence=True
    )
    return problems.found


def _has_tokens(spec: ArmSpec) -> bool:
    return spec.journal and spec.tokens


CHECKERS = (
    Checker(
        "fencing",
        "Nothing was accepted under a stale token.",
        ("stale_row", "stale_effect", "stale_finish", "two_ends", "zombie_went_on"),
        check_fencing,
        _has_tokens,
    ),
    Checker(
        "tokens",
        "Tokens rose with every claim, and lease and fence agree.",
        ("not_rising", "lease_missing", "lease_behind", "fence_differs", "claim_unseen", "unheld", "takeover"),
        check_tokens,
        _has_tokens,
    ),
    Checker(
        "sequences",
        "Every journal is numbered densely and holds each step once.",
        ("not_dense", "row_twice", "step_twice", "counter"),
        check_sequences,
        _has_tokens,
    ),
)
