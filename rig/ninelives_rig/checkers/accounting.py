"""Which effect belongs to which committed row, and what each further effect is.

Classes of an effect:

``accounted``             the one effect of a completed step
``retried``               the effect of an attempt that was recorded as failed; a retry is not a duplicate
``uncommitted``           nothing of its step is committed, and nothing later was applied
``documented_window``     applied, and no commit of the step existed when a later holder applied it again
``against_guarantee``     applied although its step or attempt was committed; or again under the same token;
or any duplicate where the effect promises none
``between_live_workers``  applied under a token after a greater one was issued, by a process that still lived
``zombie``                the same, by a process that had been stopped meanwhile: no fence can hold back an outside
                          effect, so it is counted by itself and bounded

Tokens decide. An engine without tokens is judged by the witness alone: effect k seen again after effect k+1
is against the guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ninelives_rig.evidence.spec import ArmSpec

STEP = ["instance_id", "scope", "step_id"]
ATTEMPT = [*STEP, "attempt"]
DUPLICATES = ("against_guarantee", "documented_window", "between_live_workers")
OTHERS = ("retried", "uncommitted", "zombie")
CLASSES = ("accounted", *OTHERS, *DUPLICATES)
_NONE = -1


def classify(
    spec: ArmSpec,
    effects: pd.DataFrame,
    rows: pd.DataFrame,
    issues: pd.DataFrame,
    death_t: Mapping[int, int],
) -> pd.DataFrame:
    """Return ``effects`` with the columns ``class``, ``overlap`` and ``zombie``.

    ``effects`` are sorted by time; their column ``thawed`` says that the process had been stopped before.
    """
    if effects.empty:
        flags = {"overlap": pd.Series(dtype="bool"), "zombie": pd.Series(dtype="bool")}
        return effects.assign(**{"class": pd.Series(dtype="object")}, **flags)
    if spec.tokens:
        return _by_tokens(spec, effects, rows, issues)
    return _by_witness(spec, effects, rows, death_t)


def mark_overlap(effects: pd.DataFrame, issues: pd.DataFrame) -> pd.Series:
    """Say of each effect whether a greater token of its instance had been issued when it was applied."""
    later = issues.sort_values(["instance_id", "token"], ascending=[True, False])
    earliest = later.groupby("instance_id")["t"].cummin()
    later = later.assign(next_t=earliest.groupby(later["instance_id"]).shift(1))
    joined = effects[["instance_id", "token", "t"]].merge(
        later[["instance_id", "token", "next_t"]], on=["instance_id", "token"], how="left"
    )
    return (joined["t"] > joined["next_t"].fillna(np.inf)).set_axis(effects.index)


def _by_tokens(spec: ArmSpec, effects: pd.DataFrame, rows: pd.DataFrame, issues: pd.DataFrame) -> pd.DataFrame:
    table = effects.assign(overlap=mark_overlap(effects, issues))
    table["zombie"] = table["overlap"] & table["thawed"]
    own = rows[[*ATTEMPT, "token", "outcome"]].rename(columns={"token": "own_token", "outcome": "own_outcome"})
    table = table.merge(own.drop_duplicates(ATTEMPT), on=ATTEMPT, how="left")
    done = rows[rows["outcome"] == "Success"].groupby(STEP)["token"].max().rename("done_token").reset_index()
    table = table.merge(done, on=STEP, how="left")
    table[["own_token", "done_token"]] = table[["own_token", "done_token"]].fillna(_NONE)
    first = ~table.duplicated([*ATTEMPT, "token"])
    mine = first & (table["own_token"] == table["token"])
    accounted = mine & (table["own_outcome"] == "Success")
    if spec.effect == "at_most_once":
        accounted |= _reconciled(table, accounted)
    retried = mine & (table["own_outcome"] == "Failure")
    table["class"] = np.select(
        [accounted, retried, table["zombie"], table["overlap"], _is_against(table, first), _is_open(table)],
        ["accounted", "retried", "zombie", "between_live_workers", "against_guarantee", "uncommitted"],
        default="documented_window",
    )
    return _without_pardon(spec, table)


def _reconciled(table: pd.DataFrame, accounted: pd.Series) -> pd.Series:
    """Mark the effect that a successor's commit stands for: it proved the effect and did not repeat it."""
    settled = accounted.groupby([table[name] for name in STEP]).transform("any")
    fits = (
        ~settled
        & (table["own_outcome"] == "Success")
        & (table["own_token"] == table["done_token"])
        & (table["token"] < table["own_token"])
    )
    return fits & ~table[fits].duplicated(STEP, keep="last").reindex(table.index, fill_value=True)


def _is_against(table: pd.DataFrame, first: pd.Series) -> pd.Series:
    """Mark effects of recorded work, and second effects under one token with no failure between them."""
    done = (table["done_token"] != _NONE) & (table["token"] >= table["done_token"])
    recorded = (table["own_token"] != _NONE) & (table["token"] > table["own_token"])
    groups = table.groupby([*STEP, "token"])
    previous_failed = table["own_outcome"].eq("Failure").groupby([table[name] for name in [*STEP, "token"]]).shift(1)
    again = (groups.cumcount() > 0) & ~previous_failed.fillna(False).astype(bool)
    return done | recorded | again | ~first


def _is_open(table: pd.DataFrame) -> pd.Series:
    """Mark the newest effect of a step that nothing was committed for."""
    return (table["done_token"] == _NONE) & ~table.duplicated(STEP, keep="last")


def _without_pardon(spec: ArmSpec, table: pd.DataFrame) -> pd.DataFrame:
    """Where the effect promises no repeat, every duplicate is against the guarantee."""
    if spec.effect != "idempotent":
        table.loc[table["class"].isin([*DUPLICATES, "zombie"]), "class"] = "against_guarantee"
    return table[["t", "pid", *ATTEMPT, "token", "overlap", "zombie", "class"]]


def _by_witness(spec: ArmSpec, effects: pd.DataFrame, rows: pd.DataFrame, death_t: Mapping[int, int]) -> pd.DataFrame:
    """Classify without tokens: the last effect of a step is its own, unless a later step's came before it."""
    place = {step_id: at for at, step_id in enumerate(spec.step_ids)}
    table = effects.assign(overlap=False, zombie=False, place=effects["step_id"].map(place).fillna(0))
    reached = table.groupby(["instance_id", "scope"])["place"].cummax()
    after_next = table["place"] < reached
    first = ~table.duplicated(STEP)
    steps = table.groupby(STEP)
    previous_pid = steps["pid"].shift(1)
    previous_attempt = steps["attempt"].shift(1)
    same_process = previous_pid == table["pid"]
    dead_since = previous_pid.map(lambda pid: death_t.get(pid, np.inf) if pd.notna(pid) else -np.inf)
    overlapped = ~first & ~same_process & (table["t"] < dead_since)
    table["class"] = np.select(
        [
            first,
            after_next,
            same_process & (previous_attempt != table["attempt"]),
            same_process,
            overlapped,
        ],
        ["accounted", "against_guarantee", "retried", "against_guarantee", "between_live_workers"],
        default="documented_window",
    )
    return _without_pardon(spec, table)
