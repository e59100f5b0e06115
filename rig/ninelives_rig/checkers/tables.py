"""Whether the engine's tables can be what the engine left: keys, labels, times, columns that depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import ATTEMPT_KEY, TERMINAL, Facts
from ninelives_rig.verdict import Finding, Status

UNSURE = Status.INCONCLUSIVE
_KEYS = {
    "instance": ["instance_id"],
    "lease": ["instance_id"],
    "wake": ["instance_id"],
    "session": ["session_id"],
    "signal": ["instance_id", "signal_id"],
    "intent": ATTEMPT_KEY,
}
_TIMES = {
    "instance": ("created_at", "updated_at", "finished_at"),
    "step": ("committed_at", "retry_at"),
    "intent": ("created_at", "settled_at"),
    "signal": ("received_at",),
    "session": ("opened_at", "dead_at"),
}
_FILLED = {
    "instance": ("created_at", "updated_at", "flow_id", "plan_id", "input"),
    "step": ("committed_at", "capability_id", "duration_ms"),
    "intent": ("created_at", "idempotency_key"),
    "signal": ("received_at", "payload"),
    "session": ("opened_at", "node_name"),
}
# The server may be another machine, with a clock that is set while the arm runs.
_CLOCK_SLACK = pd.Timedelta(seconds=60)
_MS = 1_000_000


def check_tables(facts: Facts) -> list[Finding]:
    """Find rows that share a key, rows of nobody, and cells that cannot be beside the others."""
    problems = Problems("tables")
    problems.add("row_twice", UNSURE, "{n} rows share the key of another.", _twice(facts))
    problems.add("stranger", UNSURE, "{n} rows are of an instance or a process that is not there.", _strangers(facts))
    problems.add("half_ended", UNSURE, "{n} rows are half at their end.", _half_ended(facts))
    problems.add("mislabelled", UNSURE, "{n} rows are labelled as another's.", _mislabelled(facts))
    problems.add("out_of_time", UNSURE, "{n} times of the server cannot be.", _out_of_time(facts))
    return problems.found


def _twice(facts: Facts) -> Iterator[str]:
    for name, key in _KEYS.items():
        if name in facts.arm.tables:
            table = facts.arm.tables[name]
            for row in table[table.duplicated(key)][key].itertuples(index=False, name=None):
                yield f"tables/{name}: {' '.join(map(str, row))}"


def _strangers(facts: Facts) -> Iterator[str]:
    for name in ("step", "lease", "wake", "intent"):
        if name in facts.arm.tables:
            table = facts.arm.tables[name]
            yield from (f"tables/{name}: {one}" for one in sorted(set(table["instance_id"]) - facts.states.keys()))
    if "session" not in facts.arm.tables:
        return
    session = facts.arm.tables["session"]
    children = set(facts.starts["child"])
    names = dict(zip(session["session_id"], session["node_name"], strict=True))
    yield from (f"session {one} of {name}" for one, name in names.items() if name and name not in children)
    opened = facts.events("node.opened").dropna(subset=["session_id"])
    for process, session_id in zip(opened["process"], opened["session_id"], strict=True):
        if names.get(str(session_id)) != process:
            yield f"process {process} opened session {session_id}, which is of {names.get(str(session_id))}"


def _half_ended(facts: Facts) -> Iterator[str]:
    """An end sets the state, its time, and takes the holder away, in one transaction."""
    if not facts.spec.tokens:
        return
    table = facts.arm.tables["instance"]
    odd = table[table["state"].isin(TERMINAL) != table["finished_at"].notna()]
    odd = pd.concat([odd, table[table["state"].isin(TERMINAL) & table["paused"]]])
    yield from (f"instance_id={one} state={state}" for one, state in zip(odd["instance_id"], odd["state"], strict=True))
    odd = table[(table["snapshot_sequence"].fillna(0) > 0) != table["frontier"].notna()]
    odd = pd.concat([odd, table[table["snapshot_sequence"].fillna(0) >= table["next_sequence"]]])
    yield from (f"instance_id={one} has half a snapshot" for one in odd["instance_id"])
    lease = facts.arm.tables["lease"]
    held = lease[lease["instance_id"].map(facts.states).isin(TERMINAL) & lease["holder"].notna()]
    yield from (f"instance_id={one} has ended and is held" for one in held["instance_id"])
    rows = facts.arm.tables["step"]
    odd = rows[(rows["outcome"] == "Success") & rows["retry_at"].notna()]
    yield from (f"instance_id={one} succeeded and is tried again" for one in odd["instance_id"])
    unknown = rows[~rows["outcome"].isin(["Success", "Failure"])]
    yield from (f"instance_id={one} has an outcome {word}" for one, word in
                zip(unknown["instance_id"], unknown["outcome"], strict=True))  # fmt: skip
    if "intent" in facts.arm.tables:
        intent = facts.arm.tables["intent"]
        odd = intent[intent["outcome"].notna() & ~intent["outcome"].isin(["committed", "done", "voided"])]
        yield from (f"intent of {one} came out as {word}" for one, word in
                    zip(odd["instance_id"], odd["outcome"], strict=True))  # fmt: skip


def _mislabelled(facts: Facts) -> Iterator[str]:
    """A step's rows name its capability, and an effect's key begins with its instance, scope and step."""
    names = dict(facts.spec.steps)
    yield from _partly(facts)
    rows = facts.rows if "capability_id" in facts.rows else facts.rows.assign(capability_id=None)
    rows = rows[~rows["step_id"].isin(facts.spec.waits) & rows["capability_id"].notna()]
    for step_id, capability in sorted(set(zip(rows["step_id"], rows["capability_id"], strict=True))):
        if step_id not in names or capability.rpartition(".")[2] != names[step_id]:
            yield f"step_id={step_id} is named {names.get(step_id)} and was done by {capability}"
    frames = [facts.arm.witness, facts.arm.sink]
    frames += [facts.arm.tables[name].rename(columns={"idempotency_key": "key"})
               for name in ("intent",) if name in facts.arm.tables]  # fmt: skip
    for frame in frames:
        columns = ["key", "instance_id", "scope", "step_id"]
        for key, instance_id, scope, step_id in frame[columns].dropna().itertuples(index=False, name=None):
            place = f"{instance_id}/{scope}/{step_id}"
            if key != place and not key.startswith(f"{place}/"):
                yield f"key {key} of {place}"
    for table in (facts.arm.tables.get("signal"),):
        known = {step_id: name for step_id, name in facts.spec.steps if step_id in facts.spec.waits}
        consumed = None if table is None else table[table["consumed_step_id"].notna()]
        if consumed is not None:
            for step_id, name in sorted(set(zip(consumed["consumed_step_id"], consumed["name"], strict=True))):
                if known.get(step_id) != name:
                    yield f"the wait {known.get(step_id)} took the signal {name}"


def _partly(facts: Facts) -> Iterator[str]:
    """What one row has, each row has; and the rows of one version of the flow are of one flow and one plan."""
    for name, columns in _FILLED.items():
        for column in columns:
            filled = facts.arm.tables[name][column].notna() if name in facts.arm.tables else pd.Series([True])
            if filled.any() and not filled.all():
                yield f"tables/{name}.{column} is empty in {int((~filled).sum())} rows"
    table = facts.arm.tables["instance"]
    kinds = table[["flow_id", "flow_version", "plan_id"]].drop_duplicates()
    if kinds["flow_id"].nunique() > 1 or kinds["flow_version"].nunique(dropna=False) < len(kinds):
        yield f"instances of {len(kinds)} flows and plans"


def _out_of_time(facts: Facts) -> Iterator[str]:
    """The server's times lie in the arm, counted from the first instance that was created."""
    spec = facts.spec
    if not spec.ended_t:
        return
    length = pd.Timedelta(nanoseconds=max(spec.ended_t - spec.started_t, 0))
    if "step" in facts.arm.tables:
        rows = facts.arm.tables["step"]
        long = rows[rows["duration_ms"].fillna(0) * _MS > length.value]
        yield from (f"instance_id={one} took {ms} ms" for one, ms in
                    zip(long["instance_id"], long["duration_ms"], strict=True))  # fmt: skip
    cells: list[tuple[str, str]] = []
    for name, columns in _TIMES.items():
        for column in columns:
            if name in facts.arm.tables and column in facts.arm.tables[name]:
                cells += [(f"tables/{name}.{column}", str(cell)) for cell in facts.arm.tables[name][column].dropna()]
    if not cells:
        return
    times = pd.to_datetime(pd.Series([cell for _, cell in cells]), format="ISO8601", utc=True, errors="coerce")
    created = times[[where == "tables/instance.created_at" for where, _ in cells]]
    first = times.min() if created.isna().all() else created.min()
    allowed = (times >= first - _CLOCK_SLACK) & (times <= first + length + _CLOCK_SLACK)
    yield from (f"{where} is {cell}" for (where, cell), good in zip(cells, allowed, strict=True) if not good)


CHECKERS = (
    Checker(
        "tables",
        "Every table is whole, and its columns agree.",
        ("row_twice", "stranger", "half_ended", "mislabelled", "out_of_time"),
        check_tables,
    ),
)
